// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// short is how long a credential lasts; the API server remembers a good token for ten seconds.
	short = 15 * time.Second
	// rotation is how often a new one takes its place.
	rotation = 7 * time.Second
)

// bind binds the role to the subject, as kubectl has that, and to nobody else.
func (p *pair) bind(role, subject string) {
	p.t.Helper()
	p.binding("rolebinding", role, "--role="+role, subject)
}

func (p *pair) bindCluster(role, subject string) {
	p.t.Helper()
	p.binding("clusterrolebinding", role, "--clusterrole="+role, subject)
}

func (p *pair) binding(kind, role string, what ...string) {
	p.t.Helper()
	object := []string{"-n", harness.Namespace, kind, p.bindingName(role)}
	kubectl(p.t, p.control, append(append([]string{"create"}, object...), what...)...)
	p.t.Cleanup(func() {
		_, _ = p.control.Kubectl(bounded(p.t), append([]string{"delete", "--ignore-not-found"}, object...)...)
	})
}

// ungrouped gives the pair's host an identity in no group, so that its rights can be given and taken alone.
func (p *pair) ungrouped() (subject string) {
	p.t.Helper()
	must(p.t, p.control.PKI.Client(p.file("host"), harness.Identity{User: p.user("host")}))
	return "--user=" + p.user("host")
}

func (p *pair) bindingName(role string) string { return role + "-" + p.Node }

// mayCreate gives the pair's DPU the rights of rbac/dpu-create, and no other.
func (p *pair) mayCreate() {
	p.t.Helper()
	poll(p.t, soon, "the role", func() error { // another case may create it at the same moment
		return p.control.Apply(p.t.Context(), filepath.Join(rbacDir(), "dpu-create", "role.yaml"))
	})
	p.bind("dpu-agent-create", "--user="+p.user("dpu"))
	p.bindCluster("dpu-agent-create", "--user="+p.user("dpu"))
}

// token writes a token for the request to the DPU's token file, by rename.
func (p *pair) token(r harness.TokenRequest) {
	p.t.Helper()
	token, err := p.control.PKI.Token(r)
	must(p.t, err)
	must(p.t, harness.WriteFile(p.file("dpu.token"), token, 0o600))
}

// sees waits until the audit log shows such an answer to the side.
func (p *pair) sees(side, what string, since time.Time, match func(harness.AuditEvent) bool) {
	p.t.Helper()
	poll(p.t, soon, "the audit log shows "+what, func() error {
		if p.count(side, since, match) == 0 {
			return fmt.Errorf("it does not")
		}
		return nil
	})
}

func TestGivenTokensThatExpireWhenTheyRotateThenNothingIsNoticedAndWhenTheyDoNotThenItIs(t *testing.T) {
	p := newSharedPair(t)
	account, err := p.admin.CoreV1().ServiceAccounts(harness.Namespace).Create(t.Context(),
		&core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: "dpu-agent-" + p.Node}}, meta.CreateOptions{})
	must(t, err)
	p.bind("dpu-agent", "--serviceaccount="+harness.Namespace+":"+account.Name)
	request := harness.TokenRequest{Namespace: harness.Namespace, Name: account.Name, UID: string(account.UID), Lifetime: short}
	p.token(request)
	p.kubeconfig("dpu", harness.Credential{TokenFile: p.file("dpu.token")})
	p.startBoth()
	for range 5 { // more than twice a token's life
		p.token(request)
		p.StaysFor(rotation, "Ready")
	}
	// Now the token runs out: the DPU is refused, and as good as dead.
	p.Expect(short+10*time.Second+duration+soon, "NotReady", "LeaseExpired")
	request.Lifetime = 10 * time.Minute
	p.token(request)
	p.Expect(soon, "Ready", "LeaseRenewed")
}

func TestGivenClientCertificatesThatExpireWhenTheyRotateThenNothingIsNoticed(t *testing.T) {
	p := newSharedPair(t)
	p.certificate("host", short)
	p.certificate("dpu", short)
	p.startBoth()
	for range 5 {
		p.certificate("host", short)
		p.certificate("dpu", short)
		p.StaysFor(rotation, "Ready")
	}
}

// An open watch stays open when the right to it is taken: the confirming read is refused, which proves nothing.
func TestGivenAHostWhoseRightsAreTakenWhenTheDPUDiesThenItDoesNotKnowUntilTheyComeBack(t *testing.T) {
	p := newSharedPair(t)
	subject := p.ungrouped()
	p.bind("dpu-host-agent", subject)
	p.bindCluster("dpu-host-agent", subject)
	p.startBoth()
	start := time.Now()
	must(t, p.admin.RbacV1().RoleBindings(harness.Namespace).Delete(t.Context(), p.bindingName("dpu-host-agent"), meta.DeleteOptions{}))
	p.StaysFor(2*interval, "Ready")
	p.DPU.Kill()
	p.Expect(duration+soon, "Unknown", "ApiServerUnreachable")
	p.sees("host", "a 403", start, func(e harness.AuditEvent) bool { return e.Response.Code == 403 })
	p.bind("dpu-host-agent", subject)
	p.Expect(duration+soon, "NotReady", "LeaseExpired")
}

// Upstream's own Role has neither list nor watch: then the host polls.
func TestGivenAHostThatMayNotWatchWhenTheDPURenewsAndDiesThenItStillFollows(t *testing.T) {
	p := newSharedPair(t)
	subject := p.ungrouped()
	role, err := p.admin.RbacV1().Roles(harness.Namespace).Create(t.Context(), &rbac.Role{
		ObjectMeta: meta.ObjectMeta{Name: "upstream-" + p.Node},
		Rules: []rbac.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"get", "create", "update"}}}}, meta.CreateOptions{})
	must(t, err)
	p.bind(role.Name, subject)
	p.bindCluster("dpu-host-agent", subject)
	p.startBoth()
	p.StaysFor(duration, "Ready")
	p.killDPU()
}
