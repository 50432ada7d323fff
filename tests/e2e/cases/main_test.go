// SPDX-License-Identifier: Apache-2.0

// Package cases holds what is tested against a real Kubernetes. One cluster serves all cases that leave it whole; the
// others start a control plane of their own.
//
// Most cases use a Node object without a kubelet: what the agents do with leases needs no more. Cases with a real node
// have it in turn; those about DRA may take a second cluster's.
package cases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// minor is which Kubernetes the clusters are.
var minor int

// draWorld is started when the first case needs it. Before 1.36, it alone has what the agent's DRA needs.
var draWorld = sync.OnceValues(func() (*world, error) {
	var o harness.ControlPlaneOptions
	if minor < 36 { // those of device taints wait for the API of their rules
		o = harness.ControlPlaneOptions{Gates: draGates(true), APIArgs: []string{"--runtime-config=resource.k8s.io/v1alpha3=true"}}
	}
	return newWorld(shared.parts, "-dra", true, o)
})

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	parts := os.Getenv("DPU_E2E_PARTS")
	if parts == "" {
		fmt.Println("real-cluster tests: skipped: run them by tests/e2e/run.sh, which builds a cluster first")
		return 0
	}
	start := time.Now()
	var err error
	if shared, err = newWorld(parts, "", true, harness.ControlPlaneOptions{}); err != nil {
		fmt.Println("FAIL: the cluster did not come up:", err)
		return 1
	}
	version, err := shared.admin.Discovery().ServerVersion()
	if err == nil {
		minor, err = strconv.Atoi(strings.TrimRight(version.Minor, "+"))
	}
	if err != nil {
		fmt.Println("FAIL: the cluster does not say what it is:", err)
		return 1
	}
	fmt.Printf("the cluster is up after %.1f s\n", time.Since(start).Seconds())
	defer func() {
		for _, w := range worlds.all {
			w.stop()
		}
	}()
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

func (w *world) stop() {
	if w.node != nil {
		w.node.Stop()
	}
	w.control.Stop()
}

// newWorld starts a cluster, whose folders have names that end so.
func newWorld(parts, name string, hasNode bool, o harness.ControlPlaneOptions) (*world, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	w := &world{parts: parts}
	var err error
	o.Dir, o.Bin = logDir("control-plane"+name), parts
	w.control, err = harness.StartControlPlane(ctx, o)
	if err != nil {
		return nil, err
	}
	if err = w.control.PrepareNamespace(ctx, rbacDir()); err == nil {
		w.admin, err = w.control.Admin()
	}
	if err == nil && hasNode {
		w.node, err = startNode(ctx, w.control, realNode, logDir("node"+name))
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

// startNode starts a node with a kubelet, and our gate as its CNI plugin.
func startNode(ctx context.Context, control *harness.ControlPlane, name, dir string) (*harness.Node, error) {
	parts := os.Getenv("DPU_E2E_PARTS")
	return harness.StartNode(ctx, harness.NodeOptions{
		Name: name, Dir: dir, Bin: parts, ControlPlane: control,
		CNI: harness.CNI{Parts: parts, Gate: harness.FindOurs("dpu-gate")}.Install})
}

// logDir is a folder below $DPU_E2E_LOGS, or else a temporary one.
func logDir(name string) string {
	base := os.Getenv("DPU_E2E_LOGS")
	if base == "" {
		base = filepath.Join(os.TempDir(), fmt.Sprintf("dpu-e2e-%d", os.Getpid()))
	}
	return filepath.Join(base, name)
}

// rbacDir is the project's own manifests, under which the cases run.
func rbacDir() string { return "../../../rbac" }

// missing ends a case that lacks what it needs: where the tier is required, that is a failure, not a reason to skip.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("DPU_E2E") == "required" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// part returns the path of a program that only some cases need.
func part(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(shared.parts, name)
	if _, err := os.Stat(path); err != nil {
		missing(t, "%s could not be built; see what run.sh said", name)
	}
	return path
}

// ours returns the path of one of our programs.
func ours(t *testing.T, name string) string {
	t.Helper()
	path := harness.FindOurs(name)
	if path == "" {
		missing(t, "%s is not in $DPU_BIN_DIR (%s)", name, os.Getenv("DPU_BIN_DIR"))
	}
	return path
}
