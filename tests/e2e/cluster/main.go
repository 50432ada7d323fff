// SPDX-License-Identifier: Apache-2.0

// Command cluster brings up the tests' Kubernetes for people, and takes it down:
//
//	cluster up --dir DIR --parts DIR [--rbac DIR] [--bare] [--images DIR]
//	cluster status|kubeconfig|down --dir DIR
//	cluster exec --dir DIR COMMAND...
//
// "exec" runs a command on the node. --bare leaves out what an admin installs.
// "up" leaves a process behind that holds everything: when it ends, in order
// or not, the whole cluster ends. It is also the pid 1 of every test's node.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dpu-heartbeat.test/e2e/harness"
)

type settings struct {
	dir, parts, rbac, images string
	bare                     bool
	command                  []string
}

func (s settings) file(name string) string { return filepath.Join(s.dir, name) }

func main() {
	harness.RunNodeInit(os.Args)
	commands := map[string]func(settings) error{
		"up": up, "serve": serve, "down": down, "status": status, "kubeconfig": kubeconfig,
		"exec": execOnNode,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: cluster up|down|status|kubeconfig|exec --dir DIR")
		os.Exit(2)
	}
	var s settings
	flags := flag.NewFlagSet("cluster "+os.Args[1], flag.ExitOnError)
	flags.StringVar(&s.dir, "dir", "", "where the state and the logs are")
	flags.StringVar(&s.parts, "parts", "", "folder with the programs")
	flags.StringVar(&s.rbac, "rbac", "", "folder of manifests to apply")
	flags.BoolVar(&s.bare, "bare", false, "a node of ovn-kubernetes, and nothing of ours")
	flags.StringVar(&s.images, "images", "", "folder of our container images for the node")
	_ = flags.Parse(os.Args[2:])
	s.command = flags.Args()
	if s.dir == "" {
		fmt.Fprintln(os.Stderr, "cluster: --dir is missing")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](s); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// up starts "serve" in the background and waits until it says that it is ready.
func up(s settings) error {
	if pid, err := running(s); err == nil {
		fmt.Printf("already up (pid %d)\n", pid)
		return nil
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	log, err := os.Create(s.file("cluster.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", append([]string{"serve"}, os.Args[2:]...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = harness.Poll(context.Background(), 3*time.Minute, 100*time.Millisecond, "the cluster", func() error {
		select {
		case err := <-ended:
			return harness.Final(fmt.Errorf("it ended: %v\n%s", err, harness.TailFile(log.Name(), 60)))
		default:
		}
		_, err := os.Stat(s.file("ready"))
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("up: kubectl --kubeconfig %s get nodes\nkubectl is %s\nlogs are in %s\n",
		s.file("kubeconfig"), filepath.Join(s.parts, "kubectl"), s.dir)
	return nil
}

// serve is the cluster: it holds it until a signal asks it to end.
func serve(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := harness.WriteFile(s.file("pid"), strconv.Itoa(os.Getpid()), 0o644); err != nil {
		return err
	}
	defer os.Remove(s.file("pid"))
	control, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Dir: s.file("control-plane"), Bin: s.parts})
	if err != nil {
		return err
	}
	defer control.Stop()
	cni := harness.CNI{Parts: s.parts, Gate: harness.FindOurs("dpu-gate")}
	install := cni.Install
	if s.bare {
		s.rbac, install = "", cni.InstallAsOVN
	}
	if err := control.PrepareNamespace(ctx, s.rbac); err != nil {
		return err
	}
	images, err := ourImages(s.images)
	if err != nil {
		return err
	}
	node, err := harness.StartNode(ctx, harness.NodeOptions{
		Name: "worker-1", Dir: s.file("node"), Bin: s.parts, Self: "/proc/self/exe",
		ControlPlane: control, CNI: install, Images: images})
	if err != nil {
		return err
	}
	defer node.Stop()
	// Where kubeadm has it on nodes of the control plane.
	if err := control.AdminKubeconfigAt(node.Path("/etc/kubernetes/admin.conf"), node.APIServer()); err != nil {
		return err
	}
	settled := "--for=condition=Ready=false" // behind the gate, and nobody writes a record yet
	if s.bare {
		settled = "--for=condition=Ready"
	}
	err = harness.Poll(ctx, time.Minute, 100*time.Millisecond, "the Node", func() error {
		_, err := control.Kubectl(ctx, "wait", settled, "node/worker-1", "--timeout=1m")
		return err
	})
	if err != nil {
		return err
	}
	if err := harness.WriteFile(s.file("node.pid"), strconv.Itoa(node.Pid()), 0o644); err != nil {
		return err
	}
	if err := os.Symlink(control.AdminKubeconfig(), s.file("kubeconfig")); err != nil {
		return err
	}
	fmt.Printf("node worker-1 is pid %d: nsenter -a -t %d\n", node.Pid(), node.Pid())
	if err := harness.WriteFile(s.file("ready"), "", 0o644); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// ourImages finds the images of this architecture: their names on the node, and
// their files, which are called NAME-VERSION-ARCHITECTURE.tar and hold VERSION.
func ourImages(dir string) (map[string]string, error) {
	images := map[string]string{}
	if dir == "" {
		return images, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "dpu-heartbeat-*-"+runtime.GOARCH+".tar"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no images of %s in %s", runtime.GOARCH, dir)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-"+runtime.GOARCH+".tar")
		cut := strings.LastIndex(name, "-")
		images["dpu-heartbeat.test/"+name[:cut]] = file
	}
	return images, err
}

// execOnNode becomes a command on the node, where our programs and the
// cluster's are on the PATH.
func execOnNode(s settings) error {
	if _, err := running(s); err != nil {
		return err
	}
	if len(s.command) == 0 {
		return errors.New("exec what?")
	}
	pid, err := os.ReadFile(s.file("node.pid"))
	if err != nil {
		return err
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return err
	}
	ours := os.Getenv("DPU_BIN_DIR")
	path := strings.Join([]string{ours + "/bin", ours + "/sbin", s.parts, os.Getenv("PATH")}, ":")
	argv := append([]string{"nsenter", "-t", string(pid), "-m", "-n", "-p", "-i", "-u", "-C", "--",
		"env", "-u", "KUBECONFIG", "PATH=" + path}, s.command...)
	return syscall.Exec(nsenter, argv, os.Environ())
}

// running returns the pid of the process that holds the cluster.
func running(s settings) (int, error) {
	text, err := os.ReadFile(s.file("pid"))
	if err != nil {
		return 0, errors.New("not up")
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, err
	}
	// A pid may have been given to another program since.
	argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !strings.Contains(string(argv), "serve\x00") {
		return 0, errors.New("not up")
	}
	return pid, nil
}

func down(s settings) error {
	pid, err := running(s)
	if err != nil {
		fmt.Println("not up")
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return err
	}
	return harness.Poll(context.Background(), 30*time.Second, 50*time.Millisecond, "ending", func() error {
		if _, err := running(s); err == nil {
			return fmt.Errorf("pid %d still runs", pid)
		}
		return nil
	})
}

func status(s settings) error {
	pid, err := running(s)
	if err != nil {
		return err
	}
	if _, err := os.Stat(s.file("ready")); err != nil {
		return fmt.Errorf("pid %d is starting", pid)
	}
	fmt.Printf("up, pid %d\n%s", pid, harness.TailFile(s.file("cluster.log"), 5))
	return nil
}

func kubeconfig(s settings) error {
	if _, err := running(s); err != nil {
		return err
	}
	fmt.Println(s.file("kubeconfig"))
	return nil
}
