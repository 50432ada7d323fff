// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// crioNode is a node of OpenShift as far as Pod networks go: CRI-O as released, and the gate in front of the
// node's own configuration. It has no kubelet: the case asks CRI-O for sandboxes.
type crioNode struct {
	*pair
	client cri.RuntimeServiceClient
}

const (
	pollOn  = "CNI_STATUS_GRACE=2s"
	pollOff = "CNI_STATUS_GRACE=0s" // CRI-O's default
	// crioPoll is how often CRI-O asks STATUS.
	crioPoll = 5 * time.Second
)

// newCRIONode returns once CRI-O serves and the DPU is Ready.
func newCRIONode(t *testing.T, polling string) *crioNode {
	t.Helper()
	gate := ours(t, "dpu-gate")
	n := &crioNode{pair: newSharedPair(t)}
	part(t, "crio")
	must(t, os.MkdirAll(n.file("crio"), 0o755))
	var err error
	n.node, err = harness.StartNode(t.Context(), harness.NodeOptions{Name: n.Node, Dir: n.file("crio"), Bin: shared.parts,
		RuntimeOnly: true, RuntimeEnv: []string{polling},
		Runtime: filepath.Join(filepath.Dir(os.Getenv("DPU_E2E_RUNTIME")), "crio"),
		CNI:     harness.CNI{Parts: shared.parts}.InstallAsOVN})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(n.node.Diagnostics(40))
		}
		n.node.Stop()
	})
	connection, err := n.node.CRI()
	must(t, err)
	t.Cleanup(func() { connection.Close() })
	n.client = cri.NewRuntimeServiceClient(connection)
	n.networkReady(soon, true) // CRI-O watches the folder only after its first look, and serves after both
	n.inNode("install-cni", "--readiness-file", n.RecordFile(), "--gate-binary", gate)
	n.startBoth()
	n.networkReady(soon, true)
	return n
}

// networkReady waits until CRI-O tells a kubelet so.
func (n *crioNode) networkReady(limit time.Duration, want bool) {
	n.t.Helper()
	poll(n.t, limit, "CRI-O's NetworkReady", func() error {
		answer, err := n.client.Status(n.t.Context(), &cri.StatusRequest{})
		if err != nil {
			return err
		}
		for _, c := range answer.Status.Conditions {
			if c.Type != cri.NetworkReady {
				continue
			}
			if c.Status == want && (want || c.Reason == "NetworkPluginNotReady" && strings.Contains(c.Message, notReady)) {
				return nil
			}
			return fmt.Errorf("it is %v %s: %s", c.Status, c.Reason, c.Message)
		}
		return fmt.Errorf("there is no such condition")
	})
}

func (n *crioNode) sandbox(name string) (string, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), 2*soon)
	defer cancel()
	return askSandbox(ctx, n.client, name)
}

func (n *crioNode) runs(name string) string {
	n.t.Helper()
	id, err := n.sandbox(name)
	must(n.t, err)
	return id
}

// waits asks for a sandbox in the background, and fails if it does not wait for so long.
func (n *crioNode) waits(name string, span time.Duration) chan error {
	n.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := n.sandbox(name)
		done <- err
	}()
	select {
	case err := <-done:
		n.t.Fatalf("the sandbox %s did not wait: %v", name, err)
	case <-time.After(span):
	}
	return done
}

// refused asks for a sandbox and expects the gate's answer, at once.
func (n *crioNode) refused(name string) {
	n.t.Helper()
	start := time.Now()
	_, err := n.sandbox(name)
	refusedWith(n.t, `plugin type="dpu-gate" name="ovn-kubernetes" failed (add): `+notReady, "a sandbox with a dead DPU", err)
	if took := time.Since(start); took > crioPoll {
		n.t.Errorf("it was refused only after %s", took)
	}
}

func (n *crioNode) stop(id string) {
	n.t.Helper()
	must(n.t, removeSandbox(n.t.Context(), n.client, id))
}

// attached expects so many Pods to have an address of the node's own plugin.
func (n *crioNode) attached(when string, want int) {
	n.t.Helper()
	if got := n.attachments(); got != want {
		n.t.Errorf("%s: %d Pods are attached, want %d", when, got, want)
	}
}

func TestGivenCRIOThatPollsWhenTheDPUDiesThenTheNodeFollowsAndSandboxesWaitUntilItIsBack(t *testing.T) {
	n := newCRIONode(t, pollOn)
	pod := n.runs("first")
	n.attached("a DPU that is Ready", 1)

	n.killDPU()
	n.networkReady(soon, false)
	waiting := n.waits("second", crioPoll+time.Second)
	n.stop(pod)
	n.attached("DEL with a dead DPU", 0)

	n.StartDPU()
	n.networkReady(soon, true)
	must(t, <-waiting)
	n.attached("the sandbox that waited", 1)
}

// As OpenShift has it: the node stays Ready, and only the rejected ADD says why a Pod does not start.
func TestGivenCRIOThatDoesNotPollWhenTheDPUDiesThenAddAloneIsRefused(t *testing.T) {
	n := newCRIONode(t, pollOff)
	pod := n.runs("first")
	n.killDPU()
	n.refused("second")
	n.attached("a sandbox that was refused", 1)
	time.Sleep(crioPoll + time.Second)
	n.networkReady(0, true)

	// CRI-O calls DEL with the configuration of the ADD, also when the gate is no longer installed.
	n.inNode("uninstall-cni")
	n.stop(pod)
	n.attached("DEL without a conflist", 0)
	ungated := ""
	poll(t, soon, "CRI-O takes the node's own configuration", func() (err error) {
		ungated, err = n.sandbox("ungated")
		return err
	})
	n.inNode("install-cni", "--readiness-file", n.RecordFile(), "--gate-binary", ours(t, "dpu-gate"))
	poll(t, soon, "CRI-O takes the gate's configuration", func() error {
		if id, err := n.sandbox("gated"); err == nil {
			n.stop(id)
			return fmt.Errorf("it was not refused")
		}
		return nil
	})
	n.refused("third")
	n.stop(ungated)

	n.StartDPU()
	n.Expect(soon, "Ready", "LeaseRenewed")
	n.runs("fourth") // CRI-O needs to notice nothing first
	n.attached("a DPU that is back", 1)
}

func TestGivenCRIOThatStartsBesideADeadDPUWhenItReturnsThenItGoesOnAndKeepsWhatRuns(t *testing.T) {
	n := newCRIONode(t, pollOff)
	n.runs("stays")
	n.killDPU()
	must(t, n.node.RestartRuntime(t.Context(), pollOff))
	n.networkReady(soon, false)
	waiting := n.waits("waits", 2*time.Second)
	n.attached("a restart", 1)
	n.StartDPU()
	must(t, <-waiting)
	n.networkReady(soon, true)
	n.attached("a DPU that is back", 2)
}

// CRI-O under a kubelet: the Node itself follows. Such a node has a control plane of its own, because Pods of other
// cases could not run there: without the hugetlb controller CRI-O starts sandboxes, but no containers.
func TestGivenCRIOUnderAKubeletWhenTheDPUDiesAndReturnsThenTheNodeFollows(t *testing.T) {
	t.Parallel()
	part(t, "crio")
	gate := ours(t, "dpu-gate")
	w, err := newWorld(shared.parts, "-crio", false, harness.ControlPlaneOptions{})
	must(t, err)
	node, err := harness.StartNode(t.Context(), harness.NodeOptions{Name: "worker-crio", Dir: logDir("node-crio"), Bin: shared.parts,
		ControlPlane: w.control, RuntimeEnv: []string{pollOn},
		Runtime: filepath.Join(filepath.Dir(os.Getenv("DPU_E2E_RUNTIME")), "crio"),
		CNI:     harness.CNI{Parts: shared.parts, Gate: gate}.Install})
	must(t, err)
	t.Cleanup(node.Stop)
	p := w.pairOn(t, node)
	p.StartHost()
	p.nodeReady(2*soon, core.ConditionFalse, notReady)
	p.StartDPU()
	p.nodeReady(crioPoll+kubeletSync+soon, core.ConditionTrue, "")

	p.DPU.Kill()
	killed := time.Now()
	p.nodeReady(nodeDuration+crioPoll+kubeletSync+kubeletWrite+soon, core.ConditionFalse, notReady)
	t.Logf("the Node followed %s after the kill", time.Since(killed).Round(100*time.Millisecond))
	p.StartDPU()
	back := time.Now()
	p.nodeReady(crioPoll+kubeletSync+soon, core.ConditionTrue, "")
	t.Logf("and %s after the return", time.Since(back).Round(100*time.Millisecond))
}
