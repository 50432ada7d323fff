// SPDX-License-Identifier: Apache-2.0

// Package cases holds what is tested against a real Kubernetes. One cluster
// serves all cases that leave it whole; those that stop, restore or slow down
// parts of it start a control plane of their own.
//
// The names say given, when and then. Most cases use a Node object without a
// kubelet: what the agents do with leases needs no more. Only the cases in
// node_test.go use the one real node.
package cases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	"k8s.io/client-go/kubernetes"
)

// realNode is the name of the node with a kubelet.
const realNode = "worker-1"

// world is the shared cluster.
type world struct {
	parts   string
	control *harness.ControlPlane
	node    *harness.Node
	admin   *kubernetes.Clientset
}

var shared *world

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	parts := os.Getenv("DPU_E2E_PARTS")
	if parts == "" {
		fmt.Println("real-cluster tests: skipped: run them by tests/e2e/run.sh, which builds a cluster first")
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	w, err := newWorld(ctx, parts)
	if err != nil {
		fmt.Println("FAIL: the cluster did not come up:", err)
		return 1
	}
	shared = w
	status := m.Run()
	if status != 0 {
		fmt.Println(w.control.Diagnostics(4), w.node.Diagnostics(4))
	}
	w.node.Stop()
	w.control.Stop()
	return status
}

func newWorld(ctx context.Context, parts string) (*world, error) {
	start := time.Now()
	w := &world{parts: parts}
	var err error
	w.control, err = harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Dir: logDir("control-plane"), Bin: parts})
	if err != nil {
		return nil, err
	}
	if err = w.control.PrepareNamespace(ctx, rbacDir()); err == nil {
		w.admin, err = w.control.Admin()
	}
	if err == nil {
		w.node, err = harness.StartNode(ctx, harness.NodeOptions{
			Name: realNode, Dir: logDir("node"), Bin: parts, Self: filepath.Join(parts, "cluster"),
			ControlPlane: w.control,
			CNI:          harness.CNI{Parts: parts, Gate: harness.FindOurs("dpu-gate")}.Install})
	}
	if err != nil {
		w.control.Stop()
		return nil, err
	}
	fmt.Printf("the cluster is up after %.1f s\n", time.Since(start).Seconds())
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
