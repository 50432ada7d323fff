// SPDX-License-Identifier: Apache-2.0

// Command cluster is the tests' Kubernetes for people, as ./dev cluster starts it: it holds the cluster in DIR until
// a signal asks it to end. When it ends, in order or not, the whole cluster ends. DIR/node.pid is there once the
// cluster is up.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dpu-heartbeat.test/e2e/harness"
)

type settings struct {
	dir, parts, rbac string
	bare             bool
	images           map[string]string
}

func (s settings) file(name string) string { return filepath.Join(s.dir, name) }

func main() {
	s := settings{images: map[string]string{}}
	flag.StringVar(&s.dir, "dir", "", "where the state and the logs are")
	flag.StringVar(&s.parts, "parts", "", "folder with the programs")
	flag.StringVar(&s.rbac, "rbac", "", "folder of manifests to apply")
	flag.BoolVar(&s.bare, "bare", false, "a node of ovn-kubernetes, and nothing of ours")
	flag.Parse() // what follows is NAME=FILE for each further image of the node
	for _, image := range flag.Args() {
		name, file, _ := strings.Cut(image, "=")
		s.images[name] = file
	}
	if err := serve(s); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func serve(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	control, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Dir: s.file("control-plane"), Bin: s.parts})
	if err != nil {
		return err
	}
	defer control.Stop()
	cni := harness.CNI{Parts: s.parts, Gate: harness.FindOurs("dpu-gate")}
	// Behind the gate the node is not ready: nobody writes a record yet.
	install, settled := cni.Install, "--for=condition=Ready=false"
	if s.bare {
		s.rbac, install, settled = "", cni.InstallAsOVN, "--for=condition=Ready"
	}
	if err := control.PrepareNamespace(ctx, s.rbac); err != nil {
		return err
	}
	node, err := harness.StartNode(ctx, harness.NodeOptions{
		Name: "worker-1", Dir: s.file("node"), Bin: s.parts,
		ControlPlane: control, CNI: install, Images: s.images})
	if err != nil {
		return err
	}
	defer node.Stop()
	// Where kubeadm has it on nodes of the control plane.
	if err := control.AdminKubeconfigAt(node.Path("/etc/kubernetes/admin.conf"), node.APIServer()); err != nil {
		return err
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
	<-ctx.Done()
	return nil
}
