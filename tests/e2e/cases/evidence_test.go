// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"strings"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refuseLease is a policy that lets nobody write the pair's Lease, as a broken webhook does.
func (p *pair) refuseLease() (undo func()) {
	p.t.Helper()
	p.WaitLease(soon, "a mark: the host knows that it may write", func(lease *coordination.Lease) bool {
		return lease.Annotations["dpu.k8s.ovn.org/host-checked"] != ""
	})
	return p.apply("no-leases.yaml", fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-leases-%[1]s}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [coordination.k8s.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [leases]}
  validations:
  - expression: object.metadata.name != '%[2]s'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-leases-%[1]s}
spec: {policyName: no-leases-%[1]s, validationActions: [Deny]}
`, p.Node, p.LeaseName()))
}

// A DPU that lives renews past a mark; one that died has the host's mark on its lease.
func TestGivenADeadDPUWhenItIsNotReadyThenTheHostsMarkStandsOnTheLease(t *testing.T) {
	p := readyPair(t)
	p.DPU.Kill()
	p.Expect(duration+soon, "NotReady", "LeaseExpired")
	lease, err := in(shared.admin).Get(t.Context(), p.LeaseName(), meta.GetOptions{})
	must(t, err)
	if lease.Annotations["dpu.k8s.ovn.org/host-checked"] == "" {
		t.Errorf("the lease carries no mark: %v", lease.Annotations)
	}
	p.StartDPU()
	p.Expect(soon, "Ready", "LeaseRenewed")
}

func TestGivenALeaseThatNobodyMayWriteWhenItRunsOutThenTheHostHoldsForOneMoreDuration(t *testing.T) {
	p := readyPair(t)
	p.neverNotReady(func() {
		undo := p.refuseLease()
		held := p.Expect(duration+soon, "Unknown", "ApiServerNotWriting")
		if !held.Admit {
			t.Error("the node is not admitted while nothing is known against it")
		}
		undo()
		p.Expect(duration+soon, "Ready", "LeaseRenewed")
	})
	// A policy that stays may be about the host alone: then reads have to do.
	undo := p.refuseLease()
	defer undo()
	p.Expect(duration+soon, "Unknown", "ApiServerNotWriting")
	p.Expect(duration+soon, "NotReady", "LeaseExpired")
}

// What acts on the condition takes Unknown for a failure.
func TestGivenAFirmConditionWhenNobodyMayWriteTheLeaseThenItSaysThatPodsAreAdmitted(t *testing.T) {
	p := newSharedPair(t)
	p.lasts = nodeDuration
	p.StartHost("--node-condition", "--node-condition-firm")
	p.StartDPU()
	before := p.condition(soon, core.ConditionTrue, "LeaseRenewed")
	undo := p.refuseLease()
	defer undo()
	held := p.condition(nodeDuration+soon, core.ConditionTrue, "ApiServerNotWriting")
	if !held.LastTransitionTime.Equal(&before.LastTransitionTime) {
		t.Errorf("it has been True since %v, and not since %v", held.LastTransitionTime, before.LastTransitionTime)
	}
	p.condition(nodeDuration+soon, core.ConditionFalse, "LeaseExpired")
}

// Whatever somebody writes beside it, a renewal is seen and silence is noticed.
func TestGivenALeaseWithOddAnnotationsWhenTheDPURenewsAndDiesThenTheHostFollows(t *testing.T) {
	for name, text := range map[string]string{
		"NUL": "a\x00b", "large": strings.Repeat("<\x01", 100_000)} {
		t.Run(name, func(t *testing.T) {
			p := readyPair(t)
			p.EditLease(func(l *coordination.Lease) {
				l.Annotations = map[string]string{"example.com/note": text}
			})
			p.WaitRenewals(soon, 3)
			p.StaysFor(duration, "Ready")
			p.DPU.Kill()
			p.Expect(duration+soon, "NotReady", "LeaseExpired")
		})
	}
}
