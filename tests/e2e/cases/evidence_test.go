// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startKubelet renews the Lease of the pair's Node as its kubelet does, as far
// as the API server lets it.
func (p *pair) startKubelet(every time.Duration) {
	p.t.Helper()
	leases := p.admin.CoordinationV1().Leases("kube-node-lease")
	now, seconds := meta.NowMicro(), int32(40)
	lease, err := leases.Create(p.t.Context(), &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{Name: p.Node},
		Spec: coordination.LeaseSpec{
			HolderIdentity: &p.Node, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, meta.CreateOptions{})
	must(p.t, err)
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			now := meta.NowMicro()
			lease.Spec.RenewTime = &now
			if written, err := leases.Update(ctx, lease, meta.UpdateOptions{}); err == nil {
				lease = written
			}
			select {
			case <-ctx.Done():
			case <-time.After(every):
			}
		}
	}()
	p.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// refuseLeases is a policy that lets neither Lease of the pair's Node be written, as a dead webhook does with all.
func (p *pair) refuseLeases() (undo func()) {
	p.t.Helper()
	name := "no-leases-" + p.Node
	fail := admission.Fail
	policies := p.admin.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(p.t.Context(), &admission.ValidatingAdmissionPolicy{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: admission.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admission.MatchResources{ResourceRules: []admission.NamedRuleWithOperations{{
				RuleWithOperations: admission.RuleWithOperations{
					Operations: []admission.OperationType{admission.Create, admission.Update},
					Rule: admission.Rule{APIGroups: []string{"coordination.k8s.io"},
						APIVersions: []string{"*"}, Resources: []string{"leases"}},
				}}}},
			Validations: []admission.Validation{{
				Expression: fmt.Sprintf("!(object.metadata.name in ['%s', '%s'])", p.Node, p.LeaseName())}},
		}}, meta.CreateOptions{})
	must(p.t, err)
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(p.t.Context(), &admission.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: admission.ValidatingAdmissionPolicyBindingSpec{PolicyName: name,
			ValidationActions: []admission.ValidationAction{admission.Deny}},
	}, meta.CreateOptions{})
	must(p.t, err)
	return func() {
		must(p.t, policies.ValidatingAdmissionPolicyBindings().Delete(p.t.Context(), name, meta.DeleteOptions{}))
		must(p.t, policies.ValidatingAdmissionPolicies().Delete(p.t.Context(), name, meta.DeleteOptions{}))
	}
}

func TestGivenAnAPIServerThatTakesNoWritesWhenTheLeaseRunsOutThenTheHostHoldsUntilItDoes(t *testing.T) {
	p := newSharedPair(t)
	p.startKubelet(time.Second)
	p.StartHost()
	p.StartDPU()
	p.Expect(soon, "Ready", "LeaseRenewed")
	p.neverNotReady(func() {
		undo := p.refuseLeases()
		held := p.Expect(duration+soon, "Unknown", "ApiServerNotWriting")
		if !held.Admit {
			t.Error("the node is not admitted while nothing is known against it")
		}
		// Until a kubelet, which writes each 10 s, has plainly missed a write: less of a pause says nothing.
		time.Sleep(3 * duration)
		undo()
	})
	// Others are heard: then the silence of this DPU is its own.
	p.DPU.Kill()
	p.Expect(duration+soon, "NotReady", "LeaseExpired")
}

// Whatever somebody writes beside it, a renewal is seen and silence is noticed.
func TestGivenALeaseWithOddAnnotationsWhenTheDPURenewsAndDiesThenTheHostFollows(t *testing.T) {
	for name, text := range map[string]string{
		"NUL": "a\x00b", "large": strings.Repeat("<\x01", 100_000)} {
		t.Run(name, func(t *testing.T) {
			p := newSharedPair(t)
			p.StartHost()
			p.StartDPU()
			p.Expect(soon, "Ready", "LeaseRenewed")
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
