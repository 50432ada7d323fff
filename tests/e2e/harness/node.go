// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"context"
	_ "embed" // of the script
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeAddress is on a bridge in the node: the kubelet calls no node by a loopback address.
const NodeAddress = "10.87.0.1"

// Paths inside the node. What it writes to them is its own, in memory.
const (
	CNIConfDir     = "/etc/cni/net.d"
	CNIBinDir      = "/opt/cni/bin"
	PodImage       = "dpu-heartbeat.test/pod:1"
	nodeAPIAddress = "127.0.0.1:6443"
)

// Node is a kubelet and a container runtime in namespaces of their own. Kernel, users and most files are the machine's.
type Node struct {
	Name string
	Dir  string // on the machine: configuration, credentials, logs
	// Relay is the node's way to the API server.
	Relay *Relay

	opts    NodeOptions
	init    *Process
	cgroups *cgroupSet
	runtime *Process
	kubelet *Process
}

// NodeOptions say what the node is made of.
type NodeOptions struct {
	Name string
	Dir  string
	// Bin is the folder with kubelet, pod.tar and what the runtime's script starts.
	Bin          string
	ControlPlane *ControlPlane
	// Runtime is its container runtime's script, "" is $DPU_E2E_RUNTIME; RuntimeEnv is what it alone is told.
	Runtime    string
	RuntimeEnv []string
	// RuntimeOnly leaves out the kubelet, and the way to the API server with it.
	RuntimeOnly bool
	// CNI prepares the node's folders, given as seen from the machine, before the runtime starts.
	CNI func(binDir, confDir string) error
	// Images are archives of further images, by the name each gets in front of its tag.
	Images map[string]string
}

// StartNode returns once the kubelet has registered its Node. On failure nothing is left running.
func StartNode(ctx context.Context, o NodeOptions) (*Node, error) {
	n := &Node{Name: o.Name, Dir: o.Dir, opts: o}
	if err := n.start(ctx); err != nil {
		report := n.Diagnostics(25)
		n.Stop()
		return nil, fmt.Errorf("node %s: %w\n%s", o.Name, err, report)
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	for _, path := range []string{n.Dir, n.opts.Bin} {
		for _, hidden := range []string{"/run/", "/var/lib/", "/var/log/"} {
			if strings.HasPrefix(path, hidden) {
				return fmt.Errorf("the node has a %s of its own and could not see %s", hidden, path)
			}
		}
	}
	if err := os.MkdirAll(n.file("logs"), 0o755); err != nil {
		return err
	}
	if err := n.startInit(ctx); err != nil {
		return err
	}
	for _, dir := range []string{CNIConfDir, CNIBinDir, "/var/lib/kubelet"} {
		if err := os.MkdirAll(n.Path(dir), 0o755); err != nil {
			return err
		}
	}
	if err := n.opts.CNI(n.Path(CNIBinDir), n.Path(CNIConfDir)); err != nil {
		return err
	}
	if n.opts.RuntimeOnly {
		return n.startRuntime(ctx)
	}
	var err error
	target := strings.TrimPrefix(n.opts.ControlPlane.Server, "https://")
	if n.Relay, err = NewRelay(n.init.Pid, nodeAPIAddress, target); err != nil {
		return err
	}
	if err := n.startRuntime(ctx); err != nil {
		return err
	}
	if err := n.startKubelet(ctx); err != nil {
		return err
	}
	return n.awaitNode(ctx)
}

// awaitNode gives the kubelet the time that it takes where many clusters start together.
func (n *Node) awaitNode(ctx context.Context) error {
	admin, err := n.opts.ControlPlane.Admin()
	if err != nil {
		return err
	}
	return Poll(ctx, 2*time.Minute, 50*time.Millisecond, "the kubelet registers its Node", func() error {
		if !n.kubelet.Alive() {
			return Final(fmt.Errorf("it ended with status %d", n.kubelet.ExitCode()))
		}
		_, err := admin.CoreV1().Nodes().Get(ctx, n.Name, meta.GetOptions{})
		return err
	})
}

func (n *Node) file(name string) string { return filepath.Join(n.Dir, name) }

// Path turns a path inside the node into one that the machine can open.
func (n *Node) Path(inside string) string {
	return fmt.Sprintf("/proc/%d/root%s", n.init.Pid, inside)
}

// Pid is the node's pid 1, as the machine numbers it.
func (n *Node) Pid() int { return n.init.Pid }

func (n *Node) APIServer() string { return "https://" + nodeAPIAddress }

// nodeInit is the script of a node's pid 1.
//
//go:embed node-init.sh
var nodeInit string

// enterCgroups runs it in cgroups that it has entered before their namespace is made.
const enterCgroups = `for dir in "${@:4}"; do echo 0 >"$dir/cgroup.procs"; done; exec unshare --cgroup bash "$1" "$2" "$3"`

func (n *Node) startInit(ctx context.Context) error {
	var err error
	if n.cgroups, err = newCgroupSet(fmt.Sprintf("dpu-e2e-%d-%s-%s", os.Getpid(), filepath.Base(n.Dir), n.Name)); err != nil {
		return fmt.Errorf("cgroups: %w", err)
	}
	if err := WriteFile(n.file("node-init.sh"), nodeInit, 0o644); err != nil {
		return err
	}
	argv := []string{"unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--ipc", "--uts",
		"bash", "-ec", enterCgroups, "enter", n.file("node-init.sh"), n.Name, NodeAddress}
	if n.init, err = n.startBehind(ctx, "node-init", append(argv, n.cgroups.dirs...)); err != nil {
		return err
	}
	return Poll(ctx, time.Minute, 10*time.Millisecond, "node-init", func() error {
		if !n.init.Alive() {
			return Final(fmt.Errorf("it ended with status %d", n.init.ExitCode()))
		}
		_, err := os.Stat(n.Path("/run/node-ready"))
		return err
	})
}

// nsenter is the argv prefix that runs a program inside the node.
func (n *Node) nsenter() []string {
	return []string{"nsenter", "-t", fmt.Sprint(n.init.Pid), "-m", "-n", "-p", "-i", "-u", "-C", "--"}
}

// Run starts a program inside the node, its log on the machine.
func (n *Node) Run(ctx context.Context, name string, argv ...string) (*Process, error) {
	return n.startBehind(ctx, name, append(n.nsenter(), argv...))
}

// startBehind starts what is the one child of the program that is started.
func (n *Node) startBehind(ctx context.Context, name string, argv []string) (*Process, error) {
	p, err := StartProcess(name, n.file("logs"), nil, argv...)
	if err != nil {
		return nil, err
	}
	pid, err := onlyChild(ctx, p.Pid)
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s: %w\n%s", name, err, p.Tail(10))
	}
	p.Pid = pid
	return p, nil
}

// Output runs a program inside the node to its end and returns what it said.
func (n *Node) Output(ctx context.Context, argv ...string) (string, error) {
	full := append(n.nsenter(), argv...)
	out, err := exec.CommandContext(ctx, full[0], full[1:]...).CombinedOutput()
	return string(out), err
}

func (n *Node) runtimeScript() string { return cmp.Or(n.opts.Runtime, os.Getenv("DPU_E2E_RUNTIME")) }

// RuntimeSocket is where the node's runtime serves CRI, in the node: where it does by default.
func (n *Node) RuntimeSocket() string {
	name := filepath.Base(n.runtimeScript())
	return fmt.Sprintf("/run/%s/%s.sock", name, name)
}

func (n *Node) CRI() (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+n.Path(n.RuntimeSocket()), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func (n *Node) runtimeArgv(verb ...string) []string {
	argv := append([]string{"env", "PATH=" + n.opts.Bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"RUNTIME_SOCKET=" + n.RuntimeSocket(), "RUNTIME_DIR=" + n.Dir, "CNI_CONF_DIR=" + CNIConfDir,
		"CNI_BIN_DIR=" + CNIBinDir, "POD_IMAGE=" + PodImage}, n.opts.RuntimeEnv...)
	return append(append(argv, n.runtimeScript()), verb...)
}

// startRuntime starts the runtime by its script and gives it the images.
func (n *Node) startRuntime(ctx context.Context) error {
	if n.runtimeScript() == "" {
		return errors.New("DPU_E2E_RUNTIME is not set; tests/e2e/run.sh sets it")
	}
	var err error
	n.runtime, err = n.Run(ctx, "runtime", n.runtimeArgv("serve")...)
	if err != nil {
		return err
	}
	err = Poll(ctx, 60*time.Second, 100*time.Millisecond, "importing the pod image", func() error {
		if !n.runtime.Alive() {
			return Final(fmt.Errorf("the runtime ended with status %d", n.runtime.ExitCode()))
		}
		return n.importImage(ctx, filepath.Join(n.opts.Bin, "pod.tar"))
	})
	for name, file := range n.opts.Images {
		if err == nil {
			err = n.importImage(ctx, file, name)
		}
	}
	return err
}

// RestartRuntime ends the runtime and starts it again with env in place of its RuntimeEnv.
func (n *Node) RestartRuntime(ctx context.Context, env ...string) error {
	n.runtime.Stop()
	n.opts.RuntimeEnv = env
	return n.startRuntime(ctx)
}

func (n *Node) importImage(ctx context.Context, what ...string) error {
	out, err := n.Output(ctx, n.runtimeArgv(append([]string{"import"}, what...)...)...)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// kubeletConfig asks for nothing that a test's node cannot have, and looks at pods and writes the Node more often than
// by default (1 min, 10 s).
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  x509: {clientCAFile: %q}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://%s
enforceNodeAllocatable: []
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", imagefs.available: "0%%"}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
nodeStatusUpdateFrequency: 1s
nodeStatusReportFrequency: 5m
oomScoreAdj: 0
port: 10250
address: 127.0.0.1
readOnlyPort: 0
resolvConf: ""
syncFrequency: 10s
volumePluginDir: /var/lib/kubelet/volume-plugins
`

func (n *Node) startKubelet(ctx context.Context, more ...string) error {
	pki := n.opts.ControlPlane.PKI
	if err := pki.Client(n.file("kubelet"), Identity{User: "system:node:" + n.Name, Groups: []string{"system:nodes"}}); err != nil {
		return err
	}
	if err := pki.Kubeconfig(n.file("kubelet.kubeconfig"), n.APIServer(), Credential{CertBase: n.file("kubelet")}); err != nil {
		return err
	}
	config := fmt.Sprintf(kubeletConfig, pki.CAFile(), n.RuntimeSocket())
	if err := WriteFile(n.file("kubelet.yaml"), config, 0o644); err != nil {
		return err
	}
	var err error
	n.kubelet, err = n.Run(ctx, "kubelet", append([]string{filepath.Join(n.opts.Bin, "kubelet"),
		"--config=" + n.file("kubelet.yaml"), "--kubeconfig=" + n.file("kubelet.kubeconfig"),
		"--hostname-override=" + n.Name, "--node-ip=" + NodeAddress, "--v=2",
		"--feature-gates=" + n.opts.ControlPlane.opts.Gates}, more...)...)
	return err
}

// RestartKubelet ends the kubelet as a crash would and starts it again. The further flags hold until the next start.
func (n *Node) RestartKubelet(ctx context.Context, more ...string) error {
	n.kubelet.Kill()
	return n.startKubelet(ctx, more...)
}

// Stop ends everything on the node: processes, mounts and network go with its pid 1.
func (n *Node) Stop() {
	n.init.Kill()
	for _, p := range []*Process{n.kubelet, n.runtime} {
		p.Kill()
	}
	if n.Relay != nil {
		n.Relay.Close()
	}
	if n.cgroups != nil {
		_ = Poll(context.Background(), 5*time.Second, 20*time.Millisecond, "removing cgroups", n.cgroups.Remove)
	}
}

func (n *Node) Diagnostics(lines int) string { return Tails(lines, n.init, n.runtime, n.kubelet) }

// cgroup is where a process is in one hierarchy. The kernel names the hierarchies of v1 by their controllers: "cpu",
// "net_cls,net_prio", "name=systemd", which the kubelet wants too. That of v2 has no name.
type cgroup struct{ controllers, path string }

// ownCgroups are ours: of v2, or of v1, where that of v2 has no controllers.
func ownCgroups() ([]cgroup, error) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var fs unix.Statfs_t
	isUnified := unix.Statfs("/sys/fs/cgroup", &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
	var all []cgroup
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) == 3 && (fields[1] == "") == isUnified {
			all = append(all, cgroup{fields[1], fields[2]})
		}
	}
	return all, nil
}

// cgroupSet is one child cgroup for the node below our own in every hierarchy.
type cgroupSet struct{ dirs []string }

// newCgroupSet makes the cgroups; Remove takes them away again.
func newCgroupSet(name string) (*cgroupSet, error) {
	own, err := ownCgroups()
	if err != nil {
		return nil, err
	}
	s := &cgroupSet{}
	for _, c := range own {
		if err := s.add(c, name); err != nil {
			_ = s.Remove()
			return nil, err
		}
	}
	return s, nil
}

func (s *cgroupSet) add(c cgroup, name string) error {
	dir := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(c.controllers, "name="), c.path, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	s.dirs = append(s.dirs, dir)
	if c.controllers != "cpuset" {
		return nil
	}
	for _, f := range []string{"cpuset.cpus", "cpuset.mems"} { // an empty cpuset admits no process
		value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), f))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Remove takes the cgroups away, children first. They are empty soon after the node's pid 1 has died.
func (s *cgroupSet) Remove() error {
	var failed error
	for _, dir := range s.dirs {
		var all []string
		_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, path := range slices.Backward(all) {
			if err := unix.Rmdir(path); err != nil {
				failed = fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return failed
}
