// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
)

// pairOn is the pair of a node with a kubelet in a world of the case's own.
func (w *world) pairOn(t *testing.T, node *harness.Node) *pair {
	t.Helper()
	p := &pair{t: t, control: w.control, admin: w.admin, node: node, Node: node.Name, Dir: logDir("pairs/" + t.Name() + "-" + node.Name)}
	return p.onNode()
}

// tolerating makes a pod of the node stay for so long once that is not ready; negative: for ever.
func tolerating(node string, span time.Duration) func(*core.PodSpec) {
	return func(spec *core.PodSpec) {
		spec.NodeName = node
		toleration := core.Toleration{Key: core.TaintNodeNotReady, Operator: core.TolerationOpExists, Effect: core.TaintEffectNoExecute}
		if seconds := int64(span / time.Second); span >= 0 {
			toleration.TolerationSeconds = &seconds
		}
		spec.Tolerations = []core.Toleration{toleration}
	}
}

// stays fails at the first sign that somebody ends the pod within that time.
func (p *pair) stays(span time.Duration, name string) {
	p.t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if pod := p.thePod(name); pod.DeletionTimestamp != nil {
			p.t.Fatalf("pod %s is being deleted: %v", name, pod.Status.Conditions)
		}
	}
}

func (p *pair) isTainted(want bool) {
	p.t.Helper()
	await(p.t, soon, fmt.Sprintf("taint NoExecute: %v", want), p.getNode, func(node *core.Node) bool {
		return want == slices.ContainsFunc(node.Spec.Taints, func(taint core.Taint) bool {
			return taint.Key == core.TaintNodeNotReady && taint.Effect == core.TaintEffectNoExecute
		})
	})
}

// What becomes of running Pods, on a control plane that has these two nodes alone. One story, in order: with one
// of two nodes not ready Kubernetes evicts, with all of them it evicts nobody.
func TestGivenTwoNodesWhenOneOrBothDPUsDieThenPodsAreEvictedByTheirTolerationsUnlessAllAreDown(t *testing.T) {
	t.Parallel()
	ours(t, "dpu-gate")
	w, err := newWorld(shared.parts, "-evictions", true, harness.ControlPlaneOptions{})
	must(t, err)
	second, err := startNode(t.Context(), w.control, "worker-2", logDir("node-evictions-2"))
	must(t, err)
	t.Cleanup(second.Stop)
	one, two := w.pairOn(t, w.node), w.pairOn(t, second)
	for _, p := range []*pair{one, two} {
		p.StartHost()
		p.StartDPU()
	}
	for _, p := range []*pair{one, two} {
		p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	}
	const brief = 5 * time.Second
	one.podSpec("brief", tolerating(one.Node, brief))
	one.podSpec("patient", tolerating(one.Node, -time.Second))
	one.pod("usual", one.Node) // 300 s, which the API server adds
	two.podSpec("elsewhere", tolerating(two.Node, 0))
	for _, name := range []string{"brief", "patient", "usual", "elsewhere"} {
		one.podRuns(name)
	}

	// When one DPU dies, then a Pod goes once it has tolerated that for as long as it may.
	one.DPU.Kill()
	killed := time.Now()
	one.nodeReady(nodeDuration+kubeletSync+kubeletWrite+soon, core.ConditionFalse, notReady)
	one.isTainted(true)
	gone(t, brief+soon, "the pod", func() (*core.Pod, error) { return one.getPod("brief") })
	t.Logf("with one of two down, a Pod with a toleration of %s was gone %s after the kill", brief, time.Since(killed).Round(100*time.Millisecond))
	for _, name := range []string{"patient", "usual", "elsewhere"} {
		if pod := one.thePod(name); pod.DeletionTimestamp != nil || pod.Status.Phase != core.PodRunning {
			t.Errorf("pod %s: deleted %v, phase %s", name, pod.DeletionTimestamp, pod.Status.Phase)
		}
	}
	one.StartDPU()
	one.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	one.isTainted(false)

	// When both die, then nobody is evicted. Both nodes are not ready well before a toleration ends.
	const longer = 20 * time.Second
	one.podSpec("longer", tolerating(one.Node, longer))
	two.podSpec("longer-too", tolerating(two.Node, longer))
	one.podRuns("longer")
	one.podRuns("longer-too")
	one.DPU.Kill()
	two.DPU.Kill()
	for _, p := range []*pair{one, two} {
		p.nodeReady(nodeDuration+kubeletSync+kubeletWrite+soon, core.ConditionFalse, notReady)
	}
	one.stays(2*longer, "longer")
	for _, name := range []string{"longer", "longer-too", "patient", "usual"} {
		if _, err := one.getPod(name); errors.IsNotFound(err) || one.thePod(name).DeletionTimestamp != nil {
			t.Errorf("with all nodes down, pod %s was evicted (%v)", name, err)
		}
	}
}
