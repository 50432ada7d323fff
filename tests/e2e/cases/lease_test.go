// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	"dpu-heartbeat.test/e2e/upstream"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
)

// newSharedPair is a pair on the shared cluster, beside other cases.
func newSharedPair(t *testing.T) *pair {
	t.Helper()
	t.Parallel()
	return newPair(t, shared.control, shared.admin)
}

func readyPair(t *testing.T) *pair {
	t.Helper()
	p := newSharedPair(t)
	p.startBoth()
	return p
}

func TestGivenARenewedLeaseWhenItsNodeIsDeletedThenItIsCollectedAndStaysAway(t *testing.T) {
	p := newSharedPair(t)
	p.StartHost()
	p.StartDPU()
	p.WaitRenewals(soon, 2)
	p.Host.Kill()
	must(t, p.deleteNode(t.Context()))
	gone(t, 2*soon, "the lease", p.lease)
	// A PUT could create it: a DPU that has no right to create must not try to.
	for end := time.Now().Add(3 * interval); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if _, err := p.lease(); !errors.IsNotFound(err) {
			t.Fatalf("the DPU brought the lease back (%v)", err)
		}
	}
}

func TestGivenAWriterInBetweenWhenTheDPURenewsThenItReadsOnceAndKeepsWhatTheOtherWrote(t *testing.T) {
	p := readyPair(t)
	p.WaitRenewals(soon, 2)
	start := time.Now()
	p.EditLease(annotated("example.com/note", "kept"))
	p.WaitRenewals(soon, 3)
	if note := p.Lease().Annotations["example.com/note"]; note != "kept" {
		t.Errorf("the other writer's annotation is %q", note)
	}
	conflicts := p.count("dpu", start, isConflict)
	reads := p.count("dpu", start, func(e harness.AuditEvent) bool { return e.Verb == "get" })
	if conflicts != 1 || reads != 1 {
		t.Errorf("%d conflicts and %d reads, want one each", conflicts, reads)
	}
}

// The sign is what tells the DPU's renewals then.
func TestGivenARenewedLeaseWhenOthersWriteItThenTheAPIServerTracksNoWriterOfIt(t *testing.T) {
	p := readyPair(t)
	p.WaitRenewals(soon, 2)
	p.EditLease(annotated("example.com/note", "kept"))
	p.WaitRenewals(soon, 2)
	lease := p.Lease()
	if len(lease.ManagedFields) != 0 {
		t.Errorf("it tracks %v", lease.ManagedFields)
	}
	stamp := lease.Spec.RenewTime.UTC().Format(meta.RFC3339Micro)
	if sign := lease.Annotations["dpu.k8s.ovn.org/renew-time"]; sign != stamp {
		t.Errorf("the renewal of %s is signed %s", stamp, sign)
	}
	if note := lease.Annotations["example.com/note"]; note != "kept" {
		t.Errorf("the other writer's annotation is %q", note)
	}
}

func TestGivenBothSidesStartedWithAnotherDurationWhenTheHostWritesItThenTheDPUMeetsNoConflict(t *testing.T) {
	p := readyPair(t)
	start := time.Now()
	for range 3 {
		p.Host.Kill()
		p.DPU.Kill()
		p.lasts += time.Second
		p.StartDPU()
		p.WaitRenewals(soon, 2)
		p.StartHost()
		p.WaitRenewals(soon, 3)
	}
	conflicts, lasts := p.count("dpu", start, isConflict), *p.Lease().Spec.LeaseDurationSeconds
	if conflicts > 1 || lasts != int32(p.lasts.Seconds()) { // one may come between a read and its write
		t.Errorf("%d conflicts of three renewals, a duration of %d s", conflicts, lasts)
	}
}

func isConflict(e harness.AuditEvent) bool { return e.Verb == "update" && e.Response.Code == 409 }

// count says how many such requests the side has made since then.
func (p *pair) count(side string, since time.Time, is func(harness.AuditEvent) bool) int {
	p.t.Helper()
	events, err := p.control.Audit(p.user(side), since, time.Now())
	must(p.t, err)
	n := 0
	for _, e := range events {
		if is(e) {
			n++
		}
	}
	return n
}

// What the watch relies on in a quiet time, beside the bookmark that may end the first events.
func TestGivenALeaseThatNothingTouchesWhenItIsWatchedThenBookmarksCome(t *testing.T) {
	p := newSharedPair(t)
	p.createLease()
	config, err := clientcmd.BuildConfigFromFlags("", p.control.AdminKubeconfig())
	must(t, err)
	client, err := upstream.Client(config, "watcher") // without a time limit, which would end a watch
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	w, err := in(client).Watch(ctx, meta.ListOptions{FieldSelector: "metadata.name=" + p.LeaseName(), AllowWatchBookmarks: true})
	must(t, err)
	defer w.Stop()
	start := time.Now()
	for event := range w.ResultChan() {
		if age := time.Since(start); event.Type == watch.Bookmark && age > 3*time.Second {
			t.Logf("after %s", age.Round(time.Second))
			return
		}
	}
	t.Error("no bookmark in 90 s: the agents take a watch for dead after 90 s of silence")
}

// ---- evidence --------------------------------------------------------------

// refuseLease is a policy that lets nobody write the pair's Lease, as a broken webhook does.
func (p *pair) refuseLease() (undo func()) {
	p.t.Helper()
	poll(p.t, soon, "the host knows that it may write", func() error {
		r, err := readRecord(p.RecordFile())
		if err == nil && !r.Marked {
			return fmt.Errorf("the record does not say so")
		}
		return err
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

// ---- request budget ---------------------------------------------------------

// It is measured alone, and again if something disturbed it: a renewal that a busy machine delays by half an interval
// rightly costs a confirming read.
func TestGivenASteadyPairWhenFiftyIntervalsPassThenTheAuditLogShowsOneUpdateEachAndNoRead(t *testing.T) {
	p := newPair(t, shared.control, shared.admin)
	const count, every, tries = 50, 500 * time.Millisecond, 3
	p.every = every
	p.startBoth()
	p.WaitRenewals(soon, 3)
	p.event(soon, "LeaseRenewed") // the last thing that a start does
	for try := 1; ; try++ {
		start := time.Now()
		p.StaysFor(count*every, "Ready")
		faults := p.overBudget(start, time.Now(), count)
		if len(faults) == 0 {
			break
		}
		if try == tries {
			t.Fatalf("in each of %d windows of %d intervals something was over budget, in the last:\n%s",
				tries, count, strings.Join(faults, "\n"))
		}
		t.Logf("measured again, because of\n%s", strings.Join(faults, "\n"))
	}
	if n := p.count("host", time.Time{}, func(e harness.AuditEvent) bool { return e.Verb == "watch" }); n != 1 {
		t.Errorf("%d watches were opened, want one", n)
	}
}

// overBudget lists what the steady state does not need; each PUT must build on the version of an answer.
func (p *pair) overBudget(start, end time.Time, intervals int) []string {
	p.t.Helper()
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	dpu, err := p.control.Audit(p.user("dpu"), start, end)
	must(p.t, err)
	updates, version := 0, ""
	stamp := regexp.MustCompile(`"renewTime":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"`)
	for _, e := range dpu {
		if e.Verb != "update" || e.Response.Code != 200 {
			fault("the DPU's agent: %s %s answered %d", e.Verb, e.URI, e.Response.Code)
			continue
		}
		updates++
		var sent struct {
			Metadata struct{ ResourceVersion, UID string }
		}
		must(p.t, json.Unmarshal(e.Request, &sent))
		if sent.Metadata.UID == "" || sent.Metadata.ResourceVersion == "" || sent.Metadata.ResourceVersion == version {
			fault("a PUT with uid %q and version %q after %q", sent.Metadata.UID, sent.Metadata.ResourceVersion, version)
		}
		version = sent.Metadata.ResourceVersion
		if !stamp.Match(e.Request) {
			p.t.Errorf("renewTime has not six digits of fraction: %s", e.Request)
		}
	}
	if updates < intervals-2 || updates > intervals+1 {
		fault("%d updates in %d intervals", updates, intervals)
	}
	host, err := p.control.Audit(p.user("host"), start, end)
	must(p.t, err)
	for _, e := range host {
		fault("the host's agent: %s %s", e.Verb, e.URI)
	}
	p.t.Logf("%d updates by the DPU and %d requests by the host in %d intervals", updates, len(host), intervals)
	return faults
}

// As upstream has it: a timer of 0 turns the check off. Then neither side has a reason to ask the API server.
func TestGivenATimerOf0WhenBothSidesRunThenNeitherSendsARequestAndPodsAreAdmitted(t *testing.T) {
	for _, c := range []struct {
		name         string
		every, lasts time.Duration
	}{{"interval", 0, duration}, {"duration", interval, 0}, {"both", 0, 0}} {
		t.Run(c.name, func(t *testing.T) {
			p := newSharedPair(t)
			p.every, p.lasts = c.every, c.lasts
			start := time.Now()
			p.StartHost()
			p.StartDPU()
			r := p.Expect(soon, "Ready", "HealthCheckDisabled")
			if !r.Admit {
				t.Errorf("the record rejects Pods: %s", r.Message)
			}
			p.StaysFor(2*duration, "Ready")
			for _, process := range []*harness.Process{p.Host, p.DPU} {
				if !process.Alive() {
					t.Errorf("%s has ended: %s", process.Log, process.Tail(5))
				}
			}
			for _, side := range []string{"host", "dpu"} {
				if n := p.count(side, start, func(harness.AuditEvent) bool { return true }); n != 0 {
					t.Errorf("the %s side sent %d requests", side, n)
				}
			}
			if _, err := p.lease(); !errors.IsNotFound(err) {
				t.Errorf("there is a lease (%v)", err)
			}
		})
	}
}
