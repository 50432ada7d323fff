// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	pod := p.thePod(name)
	claim.Status = resource.ResourceClaimStatus{
		ReservedFor: []resource.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: pod.UID}},
		Allocation: &resource.AllocationResult{Devices: resource.DeviceAllocationResult{
			Results: []resource.DeviceRequestAllocationResult{
				{Request: "dpu", Driver: draDriver, Pool: realNode, Device: "dpu0"}}}}}
	_, err = claims.UpdateStatus(p.t.Context(), claim, meta.UpdateOptions{})
	must(p.t, err)
}

func TestGivenAPodThatHasTheDPUAndCrashesWhenItsClaimOrItsDPUIsInTroubleThenEventsOnPodsSaySo(t *testing.T) {
	p := draPair(t)
	p.claimObjects()
	p.startDRA()
	p.offered()

	// Given a pod in a crash loop, then its claim is prepared once, and its health shown as for any other.
	p.claimingPodThat("crashes", func(spec *core.PodSpec) {
		oneClaim(spec)
		spec.Containers[0].Args = []string{"fail"}
	})
	p.awaitPod(2*soon, "crashes", "is in a crash loop", func(pod *core.Pod) bool {
		return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c core.ContainerStatus) bool {
			return c.RestartCount > 0 && c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
		})
	})
	p.podHealth(2*soon, "crashes", core.ResourceHealthStatusHealthy, "")
	if n := strings.Count(p.Driver.Tail(10000), "DRAPlugin/NodePrepareResources"); n != 1 {
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

const draDeploy = deployDir + "/dra"

// applyFile makes what is in the file until the test ends, or undo is called.
func (p *pair) applyFile(path string) (undo func()) {
	p.t.Helper()
	must(p.t, p.control.Apply(p.t.Context(), path))
	undo = func() {
		_, _ = p.control.Kubectl(bounded(p.t), "delete", "--ignore-not-found", "--wait=false", "-f", path)
	}
	p.t.Cleanup(undo)
	return undo
}

// apply is applyFile for a file of this text in the pair's folder.
func (p *pair) apply(name, text string) (undo func()) {
	p.t.Helper()
	must(p.t, harness.WriteFile(p.file(name), text, 0o600))
	return p.applyFile(p.file(name))
}

func (p *pair) labelDefaultNamespace(patch string) error {
	_, err := p.admin.CoreV1().Namespaces().Patch(bounded(p.t), "default", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"dpu.k8s.ovn.org/claim":`+patch+`}}}`), meta.PatchOptions{})
	return err
}

// anyNode lets a pod be scheduled while its node is NotReady: only the claim counts.
func anyNode(spec *core.PodSpec) {
	spec.Tolerations = []core.Toleration{{Operator: core.TolerationOpExists}}
}

func TestGivenPodsThatKnowNoDRAWhenTheDPUDiesThenTheyAreShownItAndKeptAway(t *testing.T) {
	p := draPairAlone(t)
	if minor < 36 {
		t.Skip("this Kubernetes has neither mutating policies nor extended resources by DRA on by default")
	}
	p.applyFile(draDeploy + "/deviceclass.yaml")
	p.applyFile(draDeploy + "/claim-template.yaml")
	p.applyFile(draDeploy + "/claim-for-namespaces.yaml")
	p.startDRA()
	p.offered()

	// Given an extended resource in a namespace without the label, then it is served by the claim that
	// the scheduler makes of it.
	extended := func(spec *core.PodSpec) {
		anyNode(spec)
		spec.Containers[0].Resources.Limits = core.ResourceList{draDriver + "/dpu": quantity.MustParse("1")}
	}
	p.podSpec("counts", extended)
	p.podRuns("counts")
	pod := p.thePod("counts")
	if pod.Status.ExtendedResourceClaimStatus == nil || len(pod.Spec.ResourceClaims) != 0 {
		t.Fatalf("it has no claim, or one of the policy: %v", pod.Spec.ResourceClaims)
	}

	// Given the label, then a plain pod has a claim, a healthy DPU and runs; one on the host's network is left alone.
	must(t, p.labelDefaultNamespace(`"true"`))
	t.Cleanup(func() { _ = p.labelDefaultNamespace("null") })
	p.claimedByPolicy("plain")
	p.podRuns("plain")
	p.podHealth(2*soon, "plain", core.ResourceHealthStatusHealthy, "")
	p.podSpec("hosts", func(spec *core.PodSpec) { anyNode(spec); spec.HostNetwork = true })
	if claims := p.thePod("hosts").Spec.ResourceClaims; len(claims) != 0 {
		t.Errorf("a pod on the host's network has claims: %v", claims)
	}

	// When the DPU dies, then the one is shown it and no further one of either kind is placed.
	p.DPU.Kill()
	p.taints(nodeDuration+soon, "LeaseExpired/NoSchedule")
	p.podHealth(2*soon, "plain", core.ResourceHealthStatusUnhealthy, "LeaseExpired")
	p.podSpec("late", anyNode)
	p.podNotScheduled("late")
	must(t, p.labelDefaultNamespace("null"))
	p.podSpec("counts-late", extended)
	p.podNotScheduled("counts-late")
}

// claimedByPolicy makes plain pods until one gets a claim: policy and label take a moment to be seen.
func (p *pair) claimedByPolicy(name string) {
	p.t.Helper()
	poll(p.t, soon, "the policy adds a claim", func() error {
		p.podSpec(name, anyNode)
		pod, err := p.getPod(name)
		if err == nil && len(pod.Spec.ResourceClaims) == 0 {
			p.deletePod(name)
			err = fmt.Errorf("there is none")
		}
		return err
	})
}
