// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const dpuReady = core.NodeConditionType("DPUReady")

// event waits for an Event about the pair's Node.
func (p *pair) event(limit time.Duration, reason string) eventsv1.Event {
	p.t.Helper()
	about := func(e eventsv1.Event) bool {
		return e.Regarding.Name == p.Node && e.Reason == reason && e.ReportingController == "dpu-host-agent"
	}
	found := await(p.t, limit, "an Event "+reason, func() (*eventsv1.EventList, error) {
		return p.admin.EventsV1().Events("default").List(p.t.Context(), meta.ListOptions{})
	}, func(list *eventsv1.EventList) bool { return slices.ContainsFunc(list.Items, about) })
	return found.Items[slices.IndexFunc(found.Items, about)]
}

// condition waits until the Node's condition DPUReady has that status.
func (p *pair) condition(limit time.Duration, status core.ConditionStatus, reason string) core.NodeCondition {
	p.t.Helper()
	is := func(c core.NodeCondition) bool { return c.Type == dpuReady && c.Status == status && c.Reason == reason }
	node := await(p.t, limit, fmt.Sprintf("DPUReady is %s", status), p.getNode, func(node *core.Node) bool {
		return slices.ContainsFunc(node.Status.Conditions, is)
	})
	return node.Status.Conditions[slices.IndexFunc(node.Status.Conditions, is)]
}

func kubectl(t *testing.T, control *harness.ControlPlane, words ...string) string {
	t.Helper()
	out, err := control.Kubectl(t.Context(), words...)
	must(t, err)
	return out
}

func TestGivenADPUThatDiesWhenAnAdminDescribesTheNodeThenEventsAndConditionSayWhy(t *testing.T) {
	p := newSharedPair(t)
	p.startBoth("--node-condition")
	p.event(soon, "LeaseRenewed")
	before := p.condition(soon, core.ConditionTrue, "LeaseRenewed")
	p.DPU.Kill()
	seen := p.Expect(duration+soon, "NotReady", "LeaseExpired")
	if lease := p.Lease(); lease.Annotations["dpu.k8s.ovn.org/host-checked"] == "" {
		t.Errorf("the lease carries no mark of the host's: %v", lease.Annotations)
	}
	e := p.event(soon, "LeaseExpired")
	if e.Type != core.EventTypeWarning || !strings.HasPrefix(e.Note, seen.Message+". Next step: ") || e.Related == nil || e.Related.Name != p.LeaseName() {
		t.Fatalf("the Event is %+v", e)
	}
	after := p.condition(soon, core.ConditionFalse, "LeaseExpired")
	if !after.LastTransitionTime.After(before.LastTransitionTime.Time) {
		t.Fatalf("the transition went from %v to %v", before, after)
	}
	text := kubectl(t, shared.control, "describe", "node", p.Node)
	for _, want := range []string{"DPUReady", "LeaseExpired", "dpu-host-agent", "the DPU has not renewed lease"} {
		if !strings.Contains(text, want) {
			t.Fatalf("%q is not in\n%s", want, text)
		}
	}
	listed := kubectl(t, shared.control, "events", "--for", "node/"+p.Node)
	if !strings.Contains(listed, "LeaseExpired") {
		t.Fatalf("kubectl events shows\n%s", listed)
	}
}

func TestGivenARealNodeWhenTheKubeletWritesItsStatusThenTheConditionStays(t *testing.T) {
	p := realPair(t)
	p.certificate("host", 0)
	t.Cleanup(func() { p.removeCondition() })
	p.startBoth("--node-condition")
	p.nodeReady(soon, core.ConditionTrue, "")
	p.condition(soon, core.ConditionTrue, "LeaseRenewed")
	p.DPU.Kill()
	// Now the kubelet writes its own conditions, and ours is still there.
	p.nodeReady(nodeDuration+kubeletSync+soon, core.ConditionFalse, notReady)
	p.condition(soon, core.ConditionFalse, "LeaseExpired")
	p.StartDPU()
	p.nodeReady(soon, core.ConditionTrue, "")
	p.condition(soon, core.ConditionTrue, "LeaseRenewed")
	p.Host.Stop()
	p.removeCondition()
	await(t, soon, "the condition is gone", p.getNode, func(node *core.Node) bool {
		return !strings.Contains(fmt.Sprint(node.Status.Conditions), string(dpuReady))
	})
}

// removeCondition is the command of docs/monitoring.md.
func (p *pair) removeCondition() {
	_, err := p.control.Kubectl(bounded(p.t), "patch", "node", p.Node, "--subresource=status",
		"--type=strategic", "-p", `{"status":{"conditions":[{"type":"DPUReady","$patch":"delete"}]}}`)
	must(p.t, err)
}

func about(c *kubernetes.Clientset, node, controller string) func(context.Context) error {
	return event(c, controller, node, "LeaseExpired", core.ObjectReference{Kind: "Node", Name: node, UID: types.UID(node)})
}

func aboutPod(c *kubernetes.Clientset, instance, reason string) func(context.Context) error {
	return event(c, "dpu-host-agent", instance, reason, core.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"})
}

// event makes one and takes it away again as administrator.
func event(c *kubernetes.Clientset, controller, instance, reason string, about core.ObjectReference) func(context.Context) error {
	return func(ctx context.Context) error {
		made, err := c.EventsV1().Events("default").Create(ctx, &eventsv1.Event{
			ObjectMeta: meta.ObjectMeta{GenerateName: "rights-"}, EventTime: meta.NowMicro(),
			ReportingController: controller, ReportingInstance: instance, Action: "ReadinessChanged", Reason: reason,
			Type: core.EventTypeWarning, Regarding: about,
		}, meta.CreateOptions{})
		if err != nil {
			return err
		}
		return shared.admin.EventsV1().Events("default").Delete(ctx, made.Name, meta.DeleteOptions{})
	}
}

func nodeStatus(c *kubernetes.Clientset, node, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(patch), meta.PatchOptions{}, "status")
		return err
	}
}

func TestGivenAHostsRightsWhenItSpeaksOfAnotherNodeThenItIsRefused(t *testing.T) {
	r := newRights(t)
	host := r.hostA
	ours := `{"status":{"conditions":[{"type":"DPUReady","status":"True"}]}}`
	r.try(t, []attempt{
		{"writes_an_Event_about_its_node", about(host, r.a.Node, "dpu-host-agent"), ""},
		{"writes_an_Event_about_another_node", about(host, r.b.Node, "dpu-host-agent"), "its own Node"},
		{"writes_an_Event_in_another_name", about(host, r.a.Node, "kubelet"), "in its own name"},
		{"writes_an_Event_about_a_pods_network", aboutPod(host, r.a.Node, "PodNetworkLost"), ""},
		{"writes_an_Event_about_the_DPU_of_a_pod", aboutPod(host, r.a.Node, "DPUUnhealthy"), "about the network of pods"},
		{"writes_an_Event_about_a_pods_network_as_another_node", aboutPod(host, r.b.Node, "PodNetworkLost"), "in its name"},
		{"writes_another_Event_about_a_pod", aboutPod(host, r.a.Node, "Killing"), "about the network of pods"},
		{"reads_Events", lists(host.EventsV1().Events("default").List), "cannot list"},
		{"sets_the_condition_of_its_node", nodeStatus(host, r.a.Node, ours), ""},
		{"sets_the_condition_of_another_node", nodeStatus(host, r.b.Node, ours), "its own Node"},
		{"sets_another_condition", nodeStatus(host, r.a.Node, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`), "no condition but DPUReady"},
		{"removes_another_condition", func(ctx context.Context) error {
			if err := nodeStatus(shared.admin, r.a.Node, `{"status":{"conditions":[{"type":"Other","status":"True"}]}}`)(ctx); err != nil {
				return err
			}
			return nodeStatus(host, r.a.Node, `{"status":{"conditions":[{"type":"Other","$patch":"delete"}]}}`)(ctx)
		}, "no condition but DPUReady"},
		{"adds_capacity", nodeStatus(host, r.a.Node, `{"status":{"capacity":{"example.com/a":"1"}}}`), "nothing of its Node's status"},
		{"changes_an_address", nodeStatus(host, r.a.Node, `{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`), "nothing of its Node's status"},
		{"labels_its_node", nodeStatus(host, r.a.Node, `{"metadata":{"labels":{"a":"b"}}}`), "labels"},
		{"annotates_its_node", nodeStatus(host, r.a.Node, `{"metadata":{"annotations":{"a":"b"}}}`), "annotations"},
		{"taints_its_node", func(ctx context.Context) error {
			_, err := host.CoreV1().Nodes().Patch(ctx, r.a.Node, types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":true}}`), meta.PatchOptions{})
			return err
		}, "cannot patch"},
	})
}
