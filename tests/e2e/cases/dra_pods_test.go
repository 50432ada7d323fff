// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"testing"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

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

// anyNode lets a pod be scheduled while its node is NotReady, as it is with a dead DPU: here only the
// claim counts.
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
	p.startDRAHost()
	p.offered()

	// Given an extended resource in a namespace without the label, then it is served by the claim that
	// the scheduler makes of it.
	extended := func(spec *core.PodSpec) {
		anyNode(spec)
		spec.Containers[0].Resources.Limits = core.ResourceList{draDriver + "/dpu": resource.MustParse("1")}
	}
	p.podSpec("counts", extended)
	p.podRuns("counts")
	pod, err := p.admin.CoreV1().Pods("default").Get(t.Context(), "counts", meta.GetOptions{})
	must(t, err)
	if pod.Status.ExtendedResourceClaimStatus == nil || len(pod.Spec.ResourceClaims) != 0 {
		t.Fatalf("it has no claim, or one of the policy: %v", pod.Spec.ResourceClaims)
	}

	// Given the label, then a plain pod has a claim, a healthy DPU and runs; one on the host's network is
	// left alone.
	must(t, p.labelDefaultNamespace(`"true"`))
	t.Cleanup(func() { _ = p.labelDefaultNamespace("null") })
	p.claimedByPolicy("plain")
	p.podRuns("plain")
	p.podHealth(2*soon, "plain", core.ResourceHealthStatusHealthy, "")
	p.podSpec("hosts", func(spec *core.PodSpec) { anyNode(spec); spec.HostNetwork = true })
	pod, err = p.admin.CoreV1().Pods("default").Get(t.Context(), "hosts", meta.GetOptions{})
	must(t, err)
	if len(pod.Spec.ResourceClaims) != 0 {
		t.Errorf("a pod on the host's network has claims: %v", pod.Spec.ResourceClaims)
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

// claimedByPolicy makes plain pods of that name until one gets a claim: a policy, and a label, take a
// moment to be seen.
func (p *pair) claimedByPolicy(name string) {
	p.t.Helper()
	poll(p.t, soon, "the policy adds a claim", func() error {
		p.podSpec(name, anyNode)
		pod, err := p.admin.CoreV1().Pods("default").Get(p.t.Context(), name, meta.GetOptions{})
		if err == nil && len(pod.Spec.ResourceClaims) == 0 {
			now := int64(0)
			must(p.t, p.admin.CoreV1().Pods("default").Delete(p.t.Context(), name, meta.DeleteOptions{GracePeriodSeconds: &now}))
			p.podGone(soon, name)
			err = fmt.Errorf("there is none")
		}
		return err
	})
}
