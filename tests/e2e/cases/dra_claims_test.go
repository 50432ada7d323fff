// SPDX-License-Identifier: Apache-2.0

package cases

import (
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
	p.StartDPUEvery(interval, nodeDuration)
	p.podEvent("crashes", "LeaseRenewed: ")
	text, err := p.control.Kubectl(t.Context(), "describe", "pod", "crashes")
	must(t, err)
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
	api := p.admin.ResourceV1()
	must(t, nodeStatus(p.admin, p.Node, `{"status":{"capacity":{"pods":"9"},"allocatable":{"pods":"9"}}}`)(t.Context()))
	_, err := api.ResourceSlices().Create(t.Context(), &resource.ResourceSlice{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: resource.ResourceSliceSpec{Driver: driver, NodeName: &p.Node, Devices: []resource.Device{{Name: "vf0"}},
			Pool: resource.ResourcePool{Name: p.Node, Generation: 1, ResourceSliceCount: 1}}}, meta.CreateOptions{})
	must(t, err)
	_, err = api.DeviceClasses().Create(t.Context(), &resource.DeviceClass{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: resource.DeviceClassSpec{Selectors: []resource.DeviceSelector{{
			CEL: &resource.CELDeviceSelector{Expression: "device.driver == '" + driver + "'"}}}}}, meta.CreateOptions{})
	must(t, err)
	_, err = api.ResourceClaims("default").Create(t.Context(), &resource.ResourceClaim{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: resource.ResourceClaimSpec{Devices: resource.DeviceClaim{Requests: []resource.DeviceRequest{{
			Name: "vf", Exactly: &resource.ExactDeviceRequest{DeviceClassName: name}}}}}}, meta.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = api.ResourceClaims("default").Delete(bounded(t), name, meta.DeleteOptions{})
		_ = api.DeviceClasses().Delete(bounded(t), name, meta.DeleteOptions{})
		_ = api.ResourceSlices().Delete(bounded(t), name, meta.DeleteOptions{})
	})
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
