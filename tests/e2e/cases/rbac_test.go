// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	leases "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// rights are two nodes with a lease each, and a client per identity.
type rights struct {
	a, b              *pair
	dpuA, hostA, draA *kubernetes.Clientset
}

func newRights(t *testing.T) *rights {
	t.Parallel()
	r := &rights{a: newPair(t, shared.control, shared.admin), b: newPair(t, shared.control, shared.admin)}
	for _, p := range []*pair{r.a, r.b} {
		p.createLease()
	}
	r.dpuA = clientOf(t, r.a.file("dpu.kubeconfig"))
	r.hostA = clientOf(t, r.a.file("host.kubeconfig"))
	r.a.certificate("dra", 0)
	r.draA = clientOf(t, r.a.file("dra.kubeconfig"))
	return r
}

// leaseOf is the lease as a host makes it.
func leaseOf(p *pair) *coordination.Lease {
	holder, seconds, no, yes := "ovnkube-dpu-node", int32(40), false, true
	node, err := p.getNode()
	must(p.t, err)
	return &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{Name: p.LeaseName(), OwnerReferences: []meta.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: p.Node, UID: node.UID, Controller: &yes, BlockOwnerDeletion: &no}}},
		Spec: coordination.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	}
}

func in(c *kubernetes.Clientset) leases.LeaseInterface {
	return c.CoordinationV1().Leases(harness.Namespace)
}

// attempt is one request and, if it must be refused, words of the refusal.
type attempt struct {
	name    string
	do      func(context.Context) error
	refused string
}

func (r *rights) try(t *testing.T, attempts []attempt) {
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			var err error
			// A policy takes a moment to be enforced after it was made.
			poll(t, soon, "the answer", func() error {
				err = a.do(t.Context())
				if errors.IsConflict(err) || (err == nil && a.refused != "") {
					return fmt.Errorf("the request went through, or met a conflict: %v", err)
				}
				return nil
			})
			if a.refused == "" && err != nil {
				t.Fatalf("must be allowed: %v", err)
			}
			if a.refused != "" && (!(errors.IsForbidden(err) || errors.IsInvalid(err)) || !strings.Contains(err.Error(), a.refused)) {
				t.Fatalf("must be refused with %q: %v", a.refused, err)
			}
		})
	}
}

// edit updates the lease of p with the rights of c, after change.
func edit(c *kubernetes.Clientset, p *pair, change func(*coordination.Lease)) func(context.Context) error {
	return func(ctx context.Context) error {
		lease, err := in(p.admin).Get(ctx, p.LeaseName(), meta.GetOptions{})
		if err != nil {
			return err
		}
		change(lease)
		_, err = in(c).Update(ctx, lease, meta.UpdateOptions{})
		return err
	}
}

// reads and lists are such requests of any client.
func reads[T any](get func(context.Context, string, meta.GetOptions) (T, error), name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := get(ctx, name, meta.GetOptions{})
		return err
	}
}

func lists[T any](list func(context.Context, meta.ListOptions) (T, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := list(ctx, meta.ListOptions{})
		return err
	}
}

func remove(c *kubernetes.Clientset, p *pair) func(context.Context) error {
	return func(ctx context.Context) error { return in(c).Delete(ctx, p.LeaseName(), meta.DeleteOptions{}) }
}

// create makes the lease of p, or, after change, another one.
func create(c *kubernetes.Clientset, p *pair, change func(*coordination.Lease)) func(context.Context) error {
	return func(ctx context.Context) error {
		lease := leaseOf(p)
		change(lease)
		_, err := in(c).Create(ctx, lease, meta.CreateOptions{})
		return err
	}
}

// named and furtherLease give a lease another name.
func named(name string) func(*coordination.Lease) {
	return func(l *coordination.Lease) { l.Name = name }
}

func furtherLease(name string) func(*coordination.Lease) {
	return func(l *coordination.Lease) { l.Name += "--" + name }
}

func lasts(seconds int32) func(*coordination.Lease) {
	return func(l *coordination.Lease) { l.Spec.LeaseDurationSeconds = &seconds }
}

func renewed(l *coordination.Lease) {
	now := meta.NowMicro()
	l.Spec.RenewTime = &now
}

func annotated(key, value string) func(*coordination.Lease) {
	return func(l *coordination.Lease) {
		if l.Annotations == nil {
			l.Annotations = map[string]string{}
		}
		l.Annotations[key] = value
	}
}

// annotations are so many of our own, and no other.
func annotations(n int) func(*coordination.Lease) {
	return func(l *coordination.Lease) {
		l.Annotations = map[string]string{}
		for i := range n {
			l.Annotations[fmt.Sprintf("dpu.k8s.ovn.org/n%d", i)] = "x"
		}
	}
}

func TestGivenADPUsRightsWhenItDoesMoreThanRenewItsOwnLeaseThenItIsRefused(t *testing.T) {
	r := newRights(t)
	dpu := r.dpuA
	both := func(l *coordination.Lease) {
		renewed(l)
		l.Spec.AcquireTime = l.Spec.RenewTime
		holder := "ovnkube-dpu-node"
		l.Spec.HolderIdentity = &holder
	}
	mine := func(change func(*coordination.Lease)) func(context.Context) error { return edit(dpu, r.a, change) }
	r.try(t, []attempt{
		{"reads_its_lease", reads(in(dpu).Get, r.a.LeaseName()), ""},
		{"renews_its_lease", mine(both), ""},
		{"reports_its_health", mine(annotated("dpu.k8s.ovn.org/health", "unhealthy")), ""},
		{"renews_another_DPUs_lease", edit(dpu, r.b, renewed), "its own lease"},
		{"changes_the_duration", mine(lasts(3600)), "may change only renewTime"},
		{"removes_the_duration", mine(func(l *coordination.Lease) { l.Spec.LeaseDurationSeconds = nil }), "may change only renewTime"},
		{"changes_the_transitions", mine(func(l *coordination.Lease) { n := int32(7); l.Spec.LeaseTransitions = &n }), "may change only renewTime"},
		{"removes_the_owner_reference", mine(func(l *coordination.Lease) { l.OwnerReferences = nil }), "owner references"},
		{"adds_a_label", mine(func(l *coordination.Lease) { l.Labels = map[string]string{"a": "b"} }), "labels"},
		{"adds_a_finalizer", mine(func(l *coordination.Lease) { l.Finalizers = []string{"a.example/b"} }), "finalizers"},
		{"reports_with_as_many_words_as_there_may_be", mine(annotated("dpu.k8s.ovn.org/health-message", strings.Repeat("ä", 512))), ""},
		{"reports_with_a_word_too_many", mine(annotated("dpu.k8s.ovn.org/health-message", strings.Repeat("ä", 512)+"x")), "at most 1024 bytes"},
		{"writes_a_quarter_of_a_megabyte", mine(annotated("dpu.k8s.ovn.org/x", strings.Repeat("x", 200<<10))), "at most 1024 bytes"},
		{"writes_eight_annotations", mine(annotations(8)), ""},
		{"writes_nine_annotations", mine(annotations(9)), "at most 8 annotations"},
		{"writes_a_thousand_annotations", mine(annotations(1000)), "at most 8 annotations"},
		{"names_a_holder_too_long", mine(func(l *coordination.Lease) {
			holder := strings.Repeat("x", 256)
			l.Spec.HolderIdentity = &holder
		}), "at most 255 bytes"},
		{"annotates_beyond_its_prefix", mine(annotated("example.com/note", "x")), "annotations"},
		{"deletes_its_lease", remove(dpu, r.a), "cannot delete"},
		{"creates_a_lease", create(dpu, r.a, named("ovn-dpu-other")), "cannot create"},
		{"lists_leases", lists(in(dpu).List), "cannot list"},
		{"reads_a_lease_elsewhere", reads(dpu.CoordinationV1().Leases("kube-system").Get, realNode), "cannot get"},
		{"reads_a_secret", reads(dpu.CoreV1().Secrets(harness.Namespace).Get, "any"), "cannot get"},
		{"reads_its_node", reads(dpu.CoreV1().Nodes().Get, r.a.Node), "cannot get"},
	})
}

// mark writes the one annotation with which a host proves that a DPU is silent.
func mark(c *kubernetes.Clientset, at *pair) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := in(c).Patch(ctx, at.LeaseName(), types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"dpu.k8s.ovn.org/host-checked":"x"}}}`), meta.PatchOptions{})
		return err
	}
}

func TestGivenAHostsRightsWhenItTouchesAnotherNodesThingsThenItIsRefused(t *testing.T) {
	r := newRights(t)
	host := r.hostA
	r.try(t, []attempt{
		{"reads_its_node", reads(host.CoreV1().Nodes().Get, r.a.Node), ""},
		{"reads_a_lease_elsewhere", reads(host.CoordinationV1().Leases("kube-system").Get, r.a.Node), "cannot get"},
		{"marks_its_lease", mark(host, r.a), ""},
		{"marks_another_nodes_lease", mark(host, r.b), "its own lease"},
		{"repairs_its_lease", edit(host, r.a, lasts(50)), ""},
		{"repairs_another_nodes_lease", edit(host, r.b, lasts(50)), "its own lease"},
		{"renews_its_lease_in_the_DPUs_place", edit(host, r.a, renewed), "only the DPU"},
		{"creates_its_lease_with_a_renewal", create(host, r.a, renewed), "only the DPU"},
		{"creates_another_nodes_lease", create(host, r.b, named("ovn-dpu-other")), "its own lease"},
		{"creates_the_lease_of_a_further_DPU", create(host, r.a, furtherLease("dpu1")), ""},
		{"creates_a_lease_without_an_owner", create(host, r.a, func(l *coordination.Lease) {
			l.Name, l.OwnerReferences = l.Name+"--dpu2", nil
		}), "its own Node"},
		{"creates_a_lease_with_an_annotation", create(host, r.a, func(l *coordination.Lease) {
			l.Name, l.Annotations = l.Name+"--dpu2", map[string]string{"example.com/x": strings.Repeat("x", 200<<10)}
		}), "annotations of a lease"},
		{"repairs_the_lease_of_a_further_DPU", edit(host, r.a.further("dpu1"), lasts(50)), ""},
		{"annotates_its_lease", edit(host, r.a, annotated("dpu.k8s.ovn.org/health", "unhealthy")), "annotations of a lease"},
		{"notes_something_of_its_own", edit(host, r.a, annotated("dpu.k8s.ovn.org/host-x", "x")), ""},
		{"changes_what_it_noted", edit(host, r.a, annotated("dpu.k8s.ovn.org/host-x", strings.Repeat("x", 1024))), ""},
		{"notes_too_much", edit(host, r.a, annotated("dpu.k8s.ovn.org/host-x", strings.Repeat("x", 1025))), "annotations of a lease"},
		{"notes_too_many_things", edit(host, r.a, func(l *coordination.Lease) {
			annotated("dpu.k8s.ovn.org/host-y", "x")(l)
			annotated("dpu.k8s.ovn.org/host-z", "x")(l)
		}), "annotations of a lease"},
		{"labels_its_lease", edit(host, r.a, func(l *coordination.Lease) { l.Labels = map[string]string{"a": "b"} }), "labels or finalizers"},
		{"keeps_its_lease_from_being_deleted", edit(host, r.a, func(l *coordination.Lease) { l.Finalizers = []string{"a.example/b"} }), "labels or finalizers"},
		{"changes_the_transitions", edit(host, r.a, func(l *coordination.Lease) { n := int32(7); l.Spec.LeaseTransitions = &n }), "holder"},
		{"names_a_holder_too_long", edit(host, r.a, func(l *coordination.Lease) {
			holder := strings.Repeat("x", 256)
			l.Spec.HolderIdentity = &holder
		}), "holder"},
		{"gives_its_lease_to_another_node", edit(host, r.a, func(l *coordination.Lease) { l.OwnerReferences[0].Name = r.b.Node }), "its own Node"},
		{"deletes_its_lease", remove(host, r.a), "cannot delete"},
		{"lists_nodes", lists(host.CoreV1().Nodes().List), "cannot list"},
		{"reads_a_secret", reads(host.CoreV1().Secrets(harness.Namespace).Get, "any"), "cannot get"},
		{"publishes_a_slice", slice(host, r.a.Node, "dpu.k8s.ovn.org"), "cannot create"},
		{"reads_a_claim", reads(host.ResourceV1().ResourceClaims("default").Get, "any"), "cannot get"},
	})
}

func TestGivenADriversRightsWhenItWritesWhatIsNotItsOwnThenItIsRefused(t *testing.T) {
	r := newRights(t)
	driver := r.draA
	r.try(t, []attempt{
		{"publishes_a_slice_of_another_node", slice(driver, r.b.Node, "dpu.k8s.ovn.org"), "of its own node"},
		{"publishes_a_slice_of_another_driver", slice(driver, r.a.Node, "gpu.example.com"), "of the driver"},
		{"publishes_a_slice_of_a_driver_that_ends_alike", slice(driver, r.a.Node, "xdpu.k8s.ovn.org"), "of the driver"},
		{"publishes_a_slice_of_its_node", slice(driver, r.a.Node, "dpu.k8s.ovn.org"), ""},
		{"publishes_a_slice_of_a_further_DPU", slice(driver, r.a.Node, "dpu1.dpu.k8s.ovn.org"), ""},
		{"reads_its_lease", reads(in(driver).Get, r.a.LeaseName()), "cannot get"},
		{"lists_nodes", lists(driver.CoreV1().Nodes().List), "cannot list"},
		{"writes_an_Event_about_a_Node", eventOf(driver, "Node", "dpu-dra-driver", r.a), "only about the DPU of Pods"},
		{"writes_an_Event_in_the_agents_name", eventOf(driver, "Pod", "dpu-host-agent", r.a), "in its own name"},
		{"writes_an_Event_in_another_nodes_name", eventOf(driver, "Pod", "dpu-dra-driver", r.b), "only about the DPU of Pods"},
		{"writes_an_Event_about_a_Pod", eventOf(driver, "Pod", "dpu-dra-driver", r.a), ""},
	})
}

// eventOf writes an Event about the DPU of something, in the name of that program on the pair's node.
func eventOf(c *kubernetes.Clientset, kind, program string, p *pair) func(context.Context) error {
	return event(c, program, p.Node, "DPUHealthy", core.ObjectReference{Kind: kind, Namespace: "default", Name: p.Node})
}

// ofClaim edits the status of a claim with the rights of c.
func ofClaim(c *kubernetes.Clientset, name string, change func(*resource.ResourceClaimStatus)) func(context.Context) error {
	return func(ctx context.Context) error {
		claim, err := c.ResourceV1().ResourceClaims("default").Get(ctx, name, meta.GetOptions{})
		if err != nil {
			return err
		}
		change(&claim.Status)
		_, err = c.ResourceV1().ResourceClaims("default").UpdateStatus(ctx, claim, meta.UpdateOptions{})
		return err
	}
}

func TestGivenAClaimOfSeveralDriversWhenADriverWritesMoreThanItsOwnConditionThenItIsRefused(t *testing.T) {
	r := newRights(t)
	name := "rights-" + r.a.Node
	claims := shared.admin.ResourceV1().ResourceClaims("default")
	results := []resource.DeviceRequestAllocationResult{
		{Request: "dpu", Driver: draDriver, Pool: r.a.Node, Device: "dpu0"},
		{Request: "other", Driver: draDriver, Pool: r.b.Node, Device: "dpu0"},
		{Request: "gpu", Driver: "gpu.example.com", Pool: r.a.Node, Device: "gpu0"},
	}
	var requests []resource.DeviceRequest
	for _, result := range results {
		requests = append(requests, resource.DeviceRequest{Name: result.Request, Exactly: &resource.ExactDeviceRequest{DeviceClassName: name}})
	}
	_, err := claims.Create(t.Context(), &resource.ResourceClaim{ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: resource.ResourceClaimSpec{Devices: resource.DeviceClaim{Requests: requests}}}, meta.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = claims.Delete(bounded(t), name, meta.DeleteOptions{}) })
	must(t, ofClaim(shared.admin, name, func(s *resource.ResourceClaimStatus) {
		s.Allocation = &resource.AllocationResult{Devices: resource.DeviceAllocationResult{Results: results}}
	})(t.Context()))
	mine := func(i int, more func(*resource.ResourceClaimStatus)) func(context.Context) error {
		return ofClaim(r.draA, name, func(s *resource.ResourceClaimStatus) {
			d := results[i]
			s.Devices = []resource.AllocatedDeviceStatus{{Driver: d.Driver, Pool: d.Pool, Device: d.Device, Conditions: []meta.Condition{
				{Type: "Ready", Status: meta.ConditionFalse, Reason: "x", LastTransitionTime: meta.Now()}}}}
			more(s)
		})
	}
	nothing := func(*resource.ResourceClaimStatus) {}
	r.try(t, []attempt{
		{"of_another_node", mine(1, nothing), "of the DPU of its own node"},
		{"of_another_driver", mine(2, nothing), "status"}, // from 1.36 on in Kubernetes' own words
		{"and_a_user", mine(0, func(s *resource.ResourceClaimStatus) {
			s.ReservedFor = []resource.ResourceClaimConsumerReference{{Resource: "pods", Name: "x", UID: "x"}}
		}), "status"},
		{"its_own_condition", mine(0, nothing), ""},
	})
}

// further is a further DPU of the pair's Node, or a Node of such a name.
func (p *pair) further(name string) *pair {
	dir := p.Dir + "-" + name
	must(p.t, os.MkdirAll(dir, 0o755))
	return &pair{t: p.t, control: p.control, admin: p.admin, HostRelay: p.HostRelay, DPURelay: p.DPURelay,
		Dir: dir, Node: p.Node + "--" + name, every: p.every, lasts: p.lasts}
}

func TestGivenANodeThatIsNamedLikeAFurtherDPUWhenTheOtherHostWritesItsLeaseThenItIsRefused(t *testing.T) {
	r := newRights(t)
	p := r.a.further("b")
	p.createNode()
	t.Cleanup(func() {
		p.Host.Kill()
		_ = p.deleteNode(bounded(t))
	})
	p.certificate("host", 0)
	taken := leaseOf(r.a) // before that node's host has come
	taken.Name = p.LeaseName()
	_, err := in(r.hostA).Create(t.Context(), taken, meta.CreateOptions{})
	must(t, err)
	p.StartHost()
	p.WaitLease(soon, "the lease, owned by its own Node alone", func(l *coordination.Lease) bool {
		return len(l.OwnerReferences) == 1 && l.OwnerReferences[0].Name == p.Node
	})
	longer := func(l *coordination.Lease) {
		*l.Spec.LeaseDurationSeconds = 50
		l.OwnerReferences = nil
	}
	r.try(t, []attempt{
		{"the_policy_is_in_force", edit(r.hostA, r.b, longer), "its own lease"},
		{"the_other_host_writes_it", edit(r.hostA, p, longer), "named like a further DPU"},
	})
}

func slice(c *kubernetes.Clientset, node, driver string) func(context.Context) error {
	return func(ctx context.Context) error {
		made, err := c.ResourceV1().ResourceSlices().Create(ctx, &resource.ResourceSlice{
			ObjectMeta: meta.ObjectMeta{GenerateName: "rights-"},
			Spec: resource.ResourceSliceSpec{Driver: driver, NodeName: &node,
				Pool: resource.ResourcePool{Name: node, ResourceSliceCount: 1, Generation: 1}},
		}, meta.CreateOptions{})
		if err != nil {
			return err
		}
		if err := c.ResourceV1().ResourceSlices().Delete(ctx, made.Name, meta.DeleteOptions{}); !errors.IsForbidden(err) {
			return fmt.Errorf("a driver may delete slices: %v", err)
		}
		return shared.admin.ResourceV1().ResourceSlices().Delete(ctx, made.Name, meta.DeleteOptions{})
	}
}

// In a DaemonSet, all hosts have one service account: the node in its token tells one from another.
func TestGivenAHostsTokenBoundToItsNodeWhenItTouchesAnotherLeaseThenItIsRefused(t *testing.T) {
	r := newRights(t)
	client := func(nodeName, nodeUID string) *kubernetes.Clientset {
		account, err := shared.admin.CoreV1().ServiceAccounts(harness.Namespace).Get(t.Context(), "dpu-host-agent", meta.GetOptions{})
		must(t, err)
		token, err := shared.control.PKI.Token(harness.TokenRequest{Namespace: harness.Namespace, Name: account.Name,
			UID: string(account.UID), NodeName: nodeName, NodeUID: nodeUID, Lifetime: 10 * time.Minute})
		must(t, err)
		must(t, harness.WriteFile(r.a.file("token"), token, 0o600))
		path := r.a.file("token.kubeconfig")
		must(t, shared.control.PKI.Kubeconfig(path, shared.control.Server, harness.Credential{TokenFile: r.a.file("token")}))
		return clientOf(t, path)
	}
	node, err := r.a.getNode()
	must(t, err)
	longer := func(l *coordination.Lease) { *l.Spec.LeaseDurationSeconds++ }
	bound := client(node.Name, string(node.UID))
	r.try(t, []attempt{
		{"its_own_nodes_lease", edit(bound, r.a, longer), ""},
		{"another_nodes_lease", edit(bound, r.b, longer), "its own lease"},
	})
	loose := client("", "")
	r.try(t, []attempt{{"a_token_of_no_node", edit(loose, r.a, longer), "its own lease"}})
}

// What an administrator let stand there does not lock the DPU out.
func TestGivenAnnotationsBeyondTheBoundsWhenADPURenewsThenTheyAreNoObstacle(t *testing.T) {
	r := newRights(t)
	must(t, edit(shared.admin, r.a, func(l *coordination.Lease) {
		annotations(20)(l)
		l.Annotations["dpu.k8s.ovn.org/n0"] = strings.Repeat("x", 5000)
		for i := range 300 {
			l.Annotations[fmt.Sprintf("example.com/n%d", i)] = strings.Repeat("x", 500)
		}
	})(t.Context()))
	r.try(t, []attempt{
		{"renews_its_lease", edit(r.dpuA, r.a, renewed), ""},
		{"its_host_repairs_the_lease", edit(r.hostA, r.a, lasts(50)), ""},
		{"its_host_takes_an_annotation_away", edit(r.hostA, r.a, func(l *coordination.Lease) { delete(l.Annotations, "dpu.k8s.ovn.org/n1") }), "annotations of a lease"},
		{"removes_one_of_its_own", edit(r.dpuA, r.a, func(l *coordination.Lease) { delete(l.Annotations, "dpu.k8s.ovn.org/n0") }), ""},
		{"adds_one", edit(r.dpuA, r.a, func(l *coordination.Lease) {
			annotated("dpu.k8s.ovn.org/n98", "x")(l)
			annotated("dpu.k8s.ovn.org/n99", "x")(l)
		}), "at most 8 annotations"},
	})
}

// rbac/dpu-create, for this DPU alone: all others stay without it.
func TestGivenTheRightToMakeItsLeaseWhenADPUMakesAnythingElseThenItIsRefused(t *testing.T) {
	r := newRights(t)
	must(t, in(shared.admin).Delete(t.Context(), r.a.LeaseName(), meta.DeleteOptions{}))
	r.a.mayCreate()
	create := func(change func(*coordination.Lease)) func(context.Context) error {
		return create(r.dpuA, r.a, func(l *coordination.Lease) {
			renewed(l)
			l.Spec.AcquireTime = l.Spec.RenewTime
			change(l)
		})
	}
	number, text, yes := int32(1), "x", true
	strategy := coordination.CoordinatedLeaseStrategy("OldestEmulationVersion")
	poll(t, soon, "the server knows of the right to read its node", func() error {
		return reads(r.dpuA.CoreV1().Nodes().Get, r.a.Node)(t.Context())
	})
	r.try(t, []attempt{
		{"another_name", create(named("ovn-dpu-other")), "its own lease"},
		{"another_DPUs_lease", create(named(r.b.LeaseName())), "its own lease"},
		{"a_name_made_up", create(func(l *coordination.Lease) { l.Name, l.GenerateName = "", r.a.LeaseName() }), "its own lease"},
		{"another_holder", create(func(l *coordination.Lease) { l.Spec.HolderIdentity = &text }), "with holder"},
		{"no_duration", create(func(l *coordination.Lease) { l.Spec.LeaseDurationSeconds = nil }), "1 to 600 s"},
		{"a_long_duration", create(lasts(601)), "1 to 600 s"},
		{"transitions", create(func(l *coordination.Lease) { l.Spec.LeaseTransitions = &number }), "renewTime only"},
		{"a_strategy", create(func(l *coordination.Lease) { l.Spec.Strategy = &strategy }), "renewTime only"},
		{"no_owner", create(func(l *coordination.Lease) { l.OwnerReferences = nil }), "its Node's own"},
		{"another_node", create(func(l *coordination.Lease) { l.OwnerReferences[0].Name = r.b.Node }), "its Node's own"},
		{"a_pod_for_an_owner", create(func(l *coordination.Lease) { l.OwnerReferences[0].Kind = "Pod" }), "its Node's own"},
		{"an_owner_that_waits", create(func(l *coordination.Lease) { l.OwnerReferences[0].BlockOwnerDeletion = &yes }), "its Node's own"},
		{"a_finalizer", create(func(l *coordination.Lease) { l.Finalizers = []string{"a.example/b"} }), "without finalizers"},
		{"a_label", create(func(l *coordination.Lease) { l.Labels = map[string]string{"a": "b"} }), "without finalizers"},
		{"a_foreign_annotation", create(annotated("example.com/note", "x")), "annotations that begin with"},
		{"deletes_a_lease", remove(r.dpuA, r.a), "cannot delete"},
		{"its_lease", create(func(*coordination.Lease) {}), ""},
	})
}

// Its lease belongs to the Node; there is none of its own name.
func TestGivenAFurtherDPUThatMayMakeItsLeaseWhenThereIsNoneThenItMakesIt(t *testing.T) {
	r := newRights(t)
	p := r.a.further("dpu1")
	p.certificate("dpu", 0)
	p.mayCreate()
	t.Cleanup(func() { p.DPU.Kill() })
	p.DPU = p.run("dpu-agent", append(p.flags("dpu", nil), "--node-name", r.a.Node, "--lease-name", p.LeaseName()))
	p.WaitLease(duration+soon, "the lease, owned by the Node", func(l *coordination.Lease) bool {
		return l.Spec.RenewTime != nil && len(l.OwnerReferences) == 1 && l.OwnerReferences[0].Name == r.a.Node
	})
}
