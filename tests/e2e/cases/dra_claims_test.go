// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// allocatedByHand makes a claim of that name and, past the scheduler, gives the DPU to it and it to a pod
// of the same name. A claim that the scheduler makes has a share of the device where that is possible.
func (p *pair) allocatedByHand(name string) {
	p.t.Helper()
	claims := p.admin.ResourceV1().ResourceClaims("default")
	claim, err := p.makeClaim(name)
	must(p.t, err)
	p.podSpec(name, func(spec *core.PodSpec) {
		spec.NodeName = realNode
		spec.ResourceClaims = []core.PodResourceClaim{{Name: "dpu", ResourceClaimName: &name}}
		spec.Containers[0].Resources.Claims = []core.ResourceClaim{{Name: "dpu"}}
	})
	pod, err := p.getPod(name)
	must(p.t, err)
	claim.Status = resource.ResourceClaimStatus{
		ReservedFor: []resource.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}},
		Allocation: &resource.AllocationResult{Devices: resource.DeviceAllocationResult{
			Results: []resource.DeviceRequestAllocationResult{
				{Request: "dpu", Driver: draDriver, Pool: realNode, Device: "dpu0"}}}}}
	_, err = claims.UpdateStatus(p.t.Context(), claim, meta.UpdateOptions{})
	must(p.t, err)
}

// crashLoops waits until the kubelet has restarted the pod's container more than once.
func (p *pair) crashLoops(name string) {
	p.t.Helper()
	p.awaitPod(2*soon, name, "is in a crash loop", func(pod *core.Pod) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c core.ContainerStatus) bool {
			return c.RestartCount > 0 && c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
		})
	})
}

func TestGivenAPodThatHasTheDPUAndCrashesWhenItsClaimOrItsDPUIsInTroubleThenEventsOnPodsSaySo(t *testing.T) {
	p := draPair(t)
	p.claimObjects()
	p.startDRAHost("--log-level=debug")
	p.offered()

	// Given a pod in a crash loop, then its claim is prepared once, and its health shown as for any other.
	p.claimingPodThat("crashes", func(spec *core.PodSpec) {
		oneClaim(spec)
		spec.Containers[0].Args = []string{"fail"}
	})
	p.crashLoops("crashes")
	p.podHealth(2*soon, "crashes", core.ResourceHealthStatusHealthy, "")
	if n := strings.Count(p.Host.Tail(10000), "DRAPlugin/NodePrepareResources"); n != 1 {
		t.Errorf("the kubelet asked %d times to prepare it, want 1", n)
	}

	// When the DPU is allocated once more, to a claim that wants it alone, then the pod of that one is told
	// why it has to wait, and does not run.
	p.allocatedByHand("waits")
	p.podEvent("waits", "the device is prepared for claim 'default/dpu'")

	// When the DPU dies and returns, then the pod that has it is told by Events.
	p.DPU.Kill()
	p.podEvent("crashes", "LeaseExpired: ")
	p.podHealth(2*soon, "crashes", core.ResourceHealthStatusUnhealthy, "LeaseExpired")
	p.StartDPU()
	p.podEvent("crashes", "LeaseRenewed: ")
	text := kubectl(t, p.control, "describe", "pod", "crashes")
	if !strings.Contains(text, "DPUUnhealthy") || !strings.Contains(text, "DPUHealthy") {
		t.Errorf("kubectl describe pod shows\n%s", text)
	}

	// When that pod goes, then the other one runs.
	p.deletePod("crashes")
	p.podRuns("waits")
}

// The devices are on a Node without a kubelet: who schedules and evicts is what is asked for.
func TestGivenDevicesOfAnotherDriverWhenTheDPUIsNotReadyThenTheyAreKeptFromPodsAndTheirPodsEvicted(t *testing.T) {
	if minor < 37 {
		t.Skip("this Kubernetes serves no DeviceTaintRules by default")
	}
	p := newSharedPair(t)
	driver, name := "vf."+p.Node, "vf-"+p.Node
	must(t, nodeStatus(p.admin, p.Node, `{"status":{"capacity":{"pods":"9"},"allocatable":{"pods":"9"}}}`)(t.Context()))
	p.apply("devices.yaml", fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: %[1]s}
spec:
  driver: %[2]s
  nodeName: %[3]s
  pool: {name: %[3]s, generation: 1, resourceSliceCount: 1}
  devices: [{name: vf0}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: %[1]s}
spec: {selectors: [{cel: {expression: "device.driver == '%[2]s'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %[1]s}
spec: {devices: {requests: [{name: vf, exactly: {deviceClassName: %[1]s}}]}}
`, name, driver, p.Node))

	// Given a DPU that was never seen alive, then nobody gets such a device.
	p.StartHost("--taint-devices="+driver, "--dra-taint-effect=NoExecute")
	poll(t, soon, "the rule", func() error {
		return rules(p.admin.RESTClient().Get(), draDriver+"-"+p.Node).Do(t.Context()).Error()
	})
	p.podSpec(name, func(spec *core.PodSpec) {
		anyNode(spec)
		spec.ResourceClaims = []core.PodResourceClaim{{Name: "vf", ResourceClaimName: &name}}
		spec.Containers[0].Resources.Claims = []core.ResourceClaim{{Name: "vf"}}
	})
	p.podNotScheduled(name)

	// When it lives, then a Pod does; and when it dies, that Pod is evicted.
	p.StartDPU()
	p.awaitPod(2*soon, name, "has its device", func(pod *core.Pod) bool { return pod.Spec.NodeName == p.Node })
	p.DPU.Kill()
	p.awaitPod(2*soon, name, "is evicted", func(pod *core.Pod) bool { return pod.DeletionTimestamp != nil })
}
