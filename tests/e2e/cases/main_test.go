// SPDX-License-Identifier: Apache-2.0

// Package cases holds what is tested against a real Kubernetes. One cluster
// serves all cases that leave it whole; those that stop, restore or slow down
// parts of it start a control plane of their own.
//
// The names say given, when and then. Most cases use a Node object without a
// kubelet: what the agents do with leases needs no more. Cases with a real node
// have it in turn; those about DRA may take a second cluster's, so that two such
// cases run at a time.
package cases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	"k8s.io/client-go/kubernetes"
)

// realNode is the name of the node with a kubelet.
const realNode = "worker-1"

// world is a cluster, as a rule with one real node.
type world struct {
	parts   string
	control *harness.ControlPlane
	node    *harness.Node // nil: none
	admin   *kubernetes.Clientset

	nodeInUse sync.Mutex
	pairs     int // that had the node
}

var shared *world

// draWorld is started when the first case needs it.
var draWorld = sync.OnceValues(func() (*world, error) { return newWorld(shared.parts, "-dra", true) })

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	parts := os.Getenv("DPU_E2E_PARTS")
	if parts == "" {
		fmt.Println("real-cluster tests: skipped: run them by tests/e2e/run.sh, which builds a cluster first")
		return 0
	}
	start := time.Now()
	var err error
	if shared, err = newWorld(parts, "", true); err != nil {
		fmt.Println("FAIL: the cluster did not come up:", err)
		return 1
	}
	fmt.Printf("the cluster is up after %.1f s\n", time.Since(start).Seconds())
	defer stopWorlds()
	status := m.Run()
	if status != 0 {
		fmt.Println(shared.control.Diagnostics(4), shared.node.Diagnostics(4))
	}
	return status
}

// worlds are to be stopped in the end.
var worlds struct {
	sync.Mutex
	all []*world
}

func stopWorlds() {
	for _, w := range worlds.all {
		w.stop()
	}
}

func (w *world) stop() {
	if w.node != nil {
		w.node.Stop()
	}
	w.control.Stop()
}

// newWorld starts a cluster, whose folders have names that end so.
func newWorld(parts, name string, hasNode bool) (*world, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	w := &world{parts: parts}
	var err error
	w.control, err = harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Dir: logDir("control-plane" + name), Bin: parts})
	if err != nil {
		return nil, err
	}
	if err = w.control.PrepareNamespace(ctx, rbacDir()); err == nil {
		w.admin, err = w.control.Admin()
	}
	if err == nil && hasNode {
		w.node, err = harness.StartNode(ctx, harness.NodeOptions{
			Name: realNode, Dir: logDir("node" + name), Bin: parts, Self: filepath.Join(parts, "cluster"),
			ControlPlane: w.control,
			CNI:          harness.CNI{Parts: parts, Gate: harness.FindOurs("dpu-gate")}.Install})
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	worlds.Lock()
	defer worlds.Unlock()
	worlds.all = append(worlds.all, w)
	return w, nil
}

// logDir is a folder below $DPU_E2E_LOGS, or else a temporary one.
func logDir(name string) string {
	base := os.Getenv("DPU_E2E_LOGS")
	if base == "" {
		base = filepath.Join(os.TempDir(), fmt.Sprintf("dpu-e2e-%d", os.Getpid()))
	}
	return filepath.Join(base, name)
}

// rbacDir is the project's own manifests: the cases run under them. They are
// started in this folder.
func rbacDir() string { return "../../../rbac" }

// part returns the path of a program that only some cases need. Where the tier is required, that it could not be
// built is a failure, not a reason to skip.
func part(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(shared.parts, name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("DPU_E2E") == "required" {
			t.Fatal(err)
		}
		t.Skipf("%s could not be built; see what run.sh said", name)
	}
	return path
}

// ours returns the path of one of our programs. Where the tier is required, a
// program that was not built is a failure, not a reason to skip.
func ours(t *testing.T, name string) string {
	t.Helper()
	path := harness.FindOurs(name)
	if path == "" {
		if os.Getenv("DPU_E2E") == "required" {
			t.Fatalf("%s is not in $DPU_BIN_DIR (%s)", name, os.Getenv("DPU_BIN_DIR"))
		}
		t.Skipf("%s is not in $DPU_BIN_DIR (%s)", name, os.Getenv("DPU_BIN_DIR"))
	}
	return path
}
