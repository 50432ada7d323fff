// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	"dpu-heartbeat.test/e2e/picture"
	"github.com/containernetworking/cni/libcni"
	cnitypes "github.com/containernetworking/cni/pkg/types"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCompared holds both columns of the comparison in README.md and docs/upstream.md: upstream's scheme and ours
// meet the same fault on the same API server, and each does what the row of that name says.
func TestCompared(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]func(*testing.T){
		"clocks":        compareClocks,
		"outage":        compareOutage,
		"no_writes":     compareNoWrites,
		"start":         compareStart,
		"delays":        compareDelays,
		"death":         compareDeath,
		"node":          compareNode,
		"requests":      compareRequests,
		"half_open":     compareHalfOpen,
		"services":      compareServices,
		"host-probe":    compareHostProbe,
		"planned_stop":  comparePlannedStop,
		"refusals":      compareRefusals,
		"wedged_server": compareWedgedServer,
		"rights":        compareRights,
		"deleted_lease": compareDeletedLease,
		"new_node":      compareNewNode,
	} {
		t.Run(name, row)
	}
}

// bothHosts starts the host sides of both on one lease, and upstream's DPU side, and waits until both are ready.
func (p *pair) bothHosts() (dpu, host *theirs) {
	p.t.Helper()
	host = p.startTheirs("host")
	p.StartHost()
	dpu = p.startTheirs("dpu")
	p.Expect(soon, "Ready", "LeaseRenewed")
	answer(host.Ready).expect(p.t, soon, true, "")
	return dpu, host
}

// A DPU whose clock is an hour behind, and then as much ahead until it dies.
func compareClocks(t *testing.T) {
	p := newSharedPair(t)
	dpu, host := p.newTheirs("dpu"), p.startTheirs("host")
	var wrong atomic.Int64
	dpu.Clock = func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
	p.StartHost()
	dpu.run()
	p.Expect(soon, "Ready", "LeaseRenewed")
	wrong.Store(int64(-time.Hour))
	answer(host.Ready).expect(t, soon, false, "DPU node lease expired at")
	p.StaysFor(2*duration, "Ready")
	answer(host.Ready).expect(t, 0, false, "DPU node lease expired at")
	wrong.Store(int64(time.Hour))
	answer(host.Ready).expect(t, soon, true, "")
	p.StaysFor(2*interval, "Ready")
	dpu.stop()
	p.Expect(duration+soon, "NotReady", "LeaseExpired")
	answer(host.Ready).stays(t, duration, true)
}

// The host cannot read, beside a DPU that lives, and then dies.
func compareOutage(t *testing.T) {
	p := newSharedPair(t)
	dpu, host := p.bothHosts()
	p.HostRelay.Cut()
	start := time.Now()
	answer(host.Ready).expect(t, 2*interval+soon, false, "failed to read DPU node lease")
	t.Logf("upstream: not ready %s after the cut", time.Since(start))
	p.Expect(duration+soon, "Unknown", "ApiServerUnreachable")
	dpu.stop()
	answer(p.ourAnswer).stays(t, 2*duration, true)
	p.HostRelay.Mend()
	p.Expect(2*duration+soon, "NotReady", "LeaseExpired")
}

// Nobody can write the lease.
func compareNoWrites(t *testing.T) {
	p := newSharedPair(t)
	_, host := p.bothHosts()
	undo := p.refuseLease()
	p.Expect(duration+soon, "Unknown", "ApiServerNotWriting")
	answer(host.Ready).expect(t, soon, false, "DPU node lease expired at")
	answer(p.ourAnswer).stays(t, duration/4, true)
	undo()
	p.Expect(duration+soon, "Ready", "LeaseRenewed")
	answer(host.Ready).expect(t, soon, true, "")
}

// A host side starts beside a DPU that was never heard, and beside one that has died.
func compareStart(t *testing.T) {
	p := newSharedPair(t)
	other := newPair(t, shared.control, shared.admin)
	host := p.startTheirs("host")
	other.StartHost()
	answer(host.Ready).expect(t, 0, true, "")
	answer(other.ourAnswer).expect(t, soon, false, "Unknown/AwaitingFirstRenewal")

	answer(host.Ready).expect(t, duration+soon, false, "DPU node lease expired at")
	other.StartDPU()
	other.Expect(soon, "Ready", "LeaseRenewed")
	other.killDPU()
	host.stop()
	other.Host.Kill()
	dead := other.Lease().Spec.RenewTime

	start := time.Now()
	host = p.startTheirs("host")
	other.StartHost()
	other.Expect(soon, "NotReady", "LeaseExpired")
	if now := other.Lease().Spec.RenewTime; !now.Equal(dead) {
		t.Errorf("our host wrote renewTime %s over %s", now, dead)
	}
	answer(host.Ready).expect(t, 2*duration+soon, false, "DPU node lease expired at")
	lied := host.since(start, false)
	t.Logf("upstream: the dead DPU looked alive for %s", lied.at.Sub(start))
	if lied.at.Sub(start) < duration {
		t.Errorf("upstream's host knew the death %s after its start: it does not bump renewTime any more", lied.at.Sub(start))
	}
}

// How long after the expiry a death is noticed, and a return after its first renewal: by our host, and by hosts of
// upstream's whose polls are spread over one period.
func compareDelays(t *testing.T) {
	const every, lasts, count = 2 * time.Second, 8 * time.Second, 8
	p := newSharedPair(t)
	p.every, p.lasts = every, lasts
	var hosts []*theirs
	for range count {
		hosts = append(hosts, p.startTheirs("host"))
		time.Sleep(every / count)
	}
	p.StartHost()
	dpu := p.startTheirs("dpu")
	p.Expect(soon, "Ready", "LeaseRenewed")
	for _, host := range hosts {
		answer(host.Ready).expect(t, soon, true, "")
	}
	noticed := func(what string, from time.Time, ready bool) {
		t.Helper()
		state := map[bool]string{true: "Ready", false: "NotReady"}[ready]
		p.Expect(lasts+soon, state, "")
		ours := time.Since(from)
		var all []time.Duration
		for _, host := range hosts {
			answer(host.Ready).expect(t, lasts+soon, ready, "")
			heard := host.since(from.Add(-time.Millisecond), ready)
			all = append(all, heard.at.Sub(from))
		}
		slowest := slices.Max(all)
		t.Logf("%s: ours %s after it, upstream's hosts %s to %s", what, ours, slices.Min(all), slowest)
		if slowest < every/2 || ours > slowest {
			t.Errorf("%s: ours after %s, the slowest of upstream's after %s, of a poll of %s", what, ours, slowest, every)
		}
	}
	dpu.stop()
	noticed("the expiry", p.Lease().Spec.RenewTime.Add(lasts), false)
	start := time.Now()
	p.startTheirs("dpu")
	p.WaitLease(soon, "the first renewal", func(l *coordination.Lease) bool { return l.Spec.RenewTime.After(start) })
	noticed("the first renewal", start, true)
}

// timeLine is one death, each moment in seconds after the last renewal; several hosts have several of one.
type timeLine map[string][]float64

// follow kills a DPU, asks for networks until one is refused, and starts it again. heard returns when each host took to
// that answer after a moment.
func (n *ovnNode) follow(kill, start func(), heard func(after time.Time, ready bool) []time.Time) timeLine {
	n.t.Helper()
	before := n.Lease().Spec.RenewTime.Time
	n.WaitLease(soon, "a renewal", func(l *coordination.Lease) bool { return l.Spec.RenewTime.After(before) })
	time.Sleep(n.every / 4)
	kill()
	died := time.Now()
	last := n.Lease().Spec.RenewTime.Time
	line := timeLine{}
	note := func(row string, moments ...time.Time) {
		for _, at := range moments {
			line[row] = append(line[row], at.Sub(last).Seconds())
		}
	}
	note(picture.Dies, died)
	note(picture.Expires, last.Add(n.lasts))

	time.Sleep(time.Until(last.Add(n.lasts - n.every/4)))
	cni, list, pod := n.asksOnce()
	for limit := time.Now().Add(n.lasts + soon); ; time.Sleep(time.Millisecond) {
		_, err := cni.AddNetworkList(n.t.Context(), list, pod)
		if err != nil {
			note(picture.Refused, time.Now())
			refusedWith(n.t, "DPU Not Ready", "ADD", err)
			break
		}
		must(n.t, cni.DelNetworkList(n.t.Context(), list, pod))
		if time.Now().After(limit) {
			n.t.Fatal("ADD is admitted for ever")
		}
	}
	note(picture.NotReady, heard(died, false)...)

	time.Sleep(time.Until(last.Add(n.lasts + 2*n.every)))
	start()
	lease := n.WaitLease(soon, "the first renewal", func(l *coordination.Lease) bool { return l.Spec.RenewTime.After(died) })
	note(picture.Renews, lease.Spec.RenewTime.Time)
	note(picture.Ready, heard(lease.Spec.RenewTime.Time, true)...)
	return line
}

// heardBy watches our record from now on; the function it returns waits for an answer after a moment.
func (p *pair) heardBy() func(time.Time, bool) []time.Time {
	changes := make(chan word, 100)
	stop, ended := make(chan struct{}), make(chan struct{})
	p.t.Cleanup(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		was, _ := p.ourAnswer()
		for ; ; time.Sleep(200 * time.Microsecond) {
			select {
			case <-stop:
				return
			default:
			}
			if admits, _ := p.ourAnswer(); admits != was {
				was = admits
				changes <- word{at: time.Now(), ready: admits}
			}
		}
	}()
	return func(after time.Time, ready bool) []time.Time {
		p.t.Helper()
		limit := time.After(p.lasts + soon)
		for {
			select {
			case change := <-changes:
				if change.ready == ready && change.at.After(after) {
					return []time.Time{change.at}
				}
			case <-limit:
				p.t.Fatalf("the record's admission did not become %v", ready)
			}
		}
	}
}

// followTheirs has so many hosts, whose polls are spread over one period. The first of them answers CNI.
func (n *ovnNode) followTheirs(count int) timeLine {
	n.t.Helper()
	var hosts []*theirs
	for range count {
		hosts = append(hosts, n.startTheirs("host"))
		time.Sleep(n.every / time.Duration(count))
	}
	n.ovnkube.Store(hosts[0])
	dpu := n.startTheirs("dpu")
	for _, host := range hosts {
		answer(host.Ready).expect(n.t, soon, true, "")
	}
	return n.follow(dpu.stop, func() { n.startTheirs("dpu") }, func(after time.Time, ready bool) (all []time.Time) {
		for _, host := range hosts {
			answer(host.Ready).expect(n.t, n.lasts+soon, ready, "")
			all = append(all, host.since(after, ready).at)
		}
		return all
	})
}

// One death as a time line, ours beside upstream's: the numbers behind docs/performance/death.svg.
// DPU_E2E_WRITE=DOCS writes their table and the picture.
func compareDeath(t *testing.T) {
	const every, lasts, count = 2 * time.Second, 8 * time.Second, 8
	var ours, theirs timeLine
	t.Run("sides", func(t *testing.T) { // at once, and both have ended with it
		t.Run("ours", func(t *testing.T) {
			n := newOVNNode(t)
			n.every, n.lasts = every, lasts
			n.StartHost()
			n.StartDPU()
			n.Expect(soon, "Ready", "LeaseRenewed")
			n.gate("install-cni")
			ours = n.follow(n.DPU.Kill, func() { n.StartDPU() }, n.heardBy())
		})
		t.Run("upstream", func(t *testing.T) {
			n := newOVNNode(t)
			n.every, n.lasts = every, lasts
			theirs = n.followTheirs(count)
		})
	})
	if t.Failed() {
		return
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\n| %s; interval %g s, lease %g s | ours | upstream's check |\n|---|---|---|\n", picture.DeathTitle, every.Seconds(), lasts.Seconds())
	for _, row := range picture.DeathRows {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", row, seconds(ours[row]), seconds(theirs[row]))
	}
	t.Log(table.String())
	for name, line := range map[string]timeLine{"ours": ours, "upstream's": theirs} {
		expires := line[picture.Expires][0]
		if early := slices.Min(line[picture.NotReady]); early < expires {
			t.Errorf("%s was NotReady %.3f s after the last renewal, before the expiry", name, early)
		}
		if refused := line[picture.Refused][0]; refused < slices.Min(line[picture.NotReady]) {
			t.Errorf("%s: ADD was refused after %.3f s, before NotReady", name, refused)
		}
		if back := slices.Min(line[picture.Ready]); back < line[picture.Renews][0] {
			t.Errorf("%s was Ready after %.3f s, before the first renewal", name, back)
		}
	}
	if mine, last := ours[picture.NotReady][0], slices.Max(theirs[picture.NotReady]); mine > last {
		t.Errorf("ours was NotReady after %.3f s, the last of upstream's after %.3f s", mine, last)
	}
	if dir := os.Getenv("DPU_E2E_WRITE"); dir != "" && !t.Failed() {
		must(t, picture.Replace(dir, "<!-- measured: TestCompared/death -->\n", "<!-- end of one death -->\n", table.String()+"\n"))
		must(t, picture.Write(dir))
	}
}

// seconds is a cell of the page: the median, with the least and the most of several.
func seconds(all []float64) string {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 1 {
		return fmt.Sprintf("%.3f", sorted[0])
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1])
}

// What upstream's sides ask for, in a dozen intervals, and that they tell nobody; ours are held to one PUT and one
// watch by TestGivenASteadyPairWhenFiftyIntervalsPassThenTheAuditLogShowsOneUpdateEachAndNoRead.
func compareRequests(t *testing.T) {
	const count = 12
	p := newSharedPair(t)
	p.startTheirs("host")
	p.startTheirs("dpu")
	p.WaitRenewals(soon, 2)
	start := time.Now()
	end := start.Add(count * interval)
	time.Sleep(time.Until(end))
	for side, want := range map[string][]string{"dpu": {"get", "update"}, "host": {"get"}} {
		events, err := p.control.Audit(p.theirUser(side), start, end)
		must(t, err)
		got := map[string]int{}
		for _, e := range events {
			got[e.Verb]++
			if !strings.Contains(e.URI, "/leases/"+p.LeaseName()) {
				t.Errorf("upstream's %s asked for %s %s", side, e.Verb, e.URI)
			}
		}
		t.Logf("upstream's %s: %v in %d intervals", side, got, count)
		for _, verb := range want {
			if got[verb] < count*3/4 || got[verb] > count+2 {
				t.Errorf("upstream's %s: %d of %s in %d intervals", side, got[verb], verb, count)
			}
		}
		if len(got) != len(want) {
			t.Errorf("upstream's %s: %v", side, got)
		}
	}
}

// Connections fall silent, and new ones work: those of a host whose DPU then dies, and those of two DPUs that live.
func compareHalfOpen(t *testing.T) {
	p := newSharedPair(t)
	dpu, host := p.bothHosts()
	ours, theirs := newPair(t, shared.control, shared.admin), newPair(t, shared.control, shared.admin)
	ours.every, ours.lasts = 2*time.Second, 10*time.Second // a request of ours may take two intervals
	ours.StartDPU()
	ours.StartHost()
	theirs.startTheirs("dpu")
	theirs.StartHost()
	for _, each := range []*pair{ours, theirs} {
		each.Expect(soon, "Ready", "LeaseRenewed")
		each.DPURelay.Forget()
	}
	p.HostRelay.Forget()
	start := time.Now()
	dpu.stop()
	p.Expect(duration+soon, "NotReady", "LeaseExpired")
	t.Logf("the death was known to our host after %s", time.Since(start))
	theirs.Expect(duration+soon, "NotReady", "LeaseExpired")

	poll(t, 2*time.Minute, "upstream's DPU renews again", func() error {
		if admits, reason := ours.ourAnswer(); !admits {
			t.Errorf("our DPU was not admitted: %s", reason)
		}
		if admits, reason := theirs.ourAnswer(); !admits {
			return fmt.Errorf("it is refused: %s", reason)
		}
		return nil
	})
	back := time.Since(start)
	answer(host.Ready).expect(t, soon, false, "")
	late := host.since(start, false)
	t.Logf("upstream's DPU renewed again after %s; the death was known to its host after %s", back, late.at.Sub(start))
	if min(back, late.at.Sub(start)) < 4*duration {
		t.Error("half-open connections do not stop upstream's renewals and monitor any more")
	}
}

// A service of the DPU fails, and ovnkube's process lives.
func compareServices(t *testing.T) {
	p := newSharedPair(t)
	_, host := p.bothHosts()
	well := p.file("well")
	must(t, harness.WriteFile(well, "", 0o644))
	p.StartDPU("--heartbeat=companion", "--probe=interval=500ms,failures=1;exec:test -e "+well)
	p.StaysFor(2*interval, "Ready")
	must(t, os.Remove(well))
	p.Expect(soon, "NotReady", "DPUReportedUnhealthy")
	answer(host.Ready).stays(t, duration, true)
	must(t, harness.WriteFile(well, "", 0o644))
	p.Expect(soon, "Ready", "LeaseRenewed")
}

// What the host sees by itself vanishes, here an interface of the node, and the DPU renews on.
func compareHostProbe(t *testing.T) {
	p := newSharedPair(t)
	p.node = shared.node
	name := "w" + p.Node[1:9]
	p.link("add", name, "type", "veth", "peer", "name", "p"+name)
	gone := func() error { return p.tryLink("del", name) }
	defer func() { _ = gone() }() // if the case ended before it was

	host := p.startTheirs("host")
	p.startTheirs("dpu")
	p.StartHost("--host-root="+p.node.Path("/"), "--probe=netdev:"+name)
	p.Expect(soon, "Ready", "LeaseRenewed")
	time.Sleep(2 * interval) // it has testified
	must(t, gone())
	p.Expect(soon, "NotReady", "HostProbeFailed")
	answer(host.Ready).stays(t, duration, true)
}

// A DPU side that is stopped in order.
func comparePlannedStop(t *testing.T) {
	p := newSharedPair(t)
	other := newPair(t, shared.control, shared.admin)
	dpu, host := p.startTheirs("dpu"), p.startTheirs("host")
	other.StartHost()
	other.StartDPU("--announce-shutdown")
	other.Expect(soon, "Ready", "LeaseRenewed")
	p.WaitRenewals(soon, 1)
	start := time.Now()
	dpu.stop()
	other.DPU.Stop()
	other.Expect(soon, "NotReady", "DPUShutdown")
	ours := time.Since(start)
	answer(host.Ready).expect(t, duration+soon, false, "DPU node lease expired at")
	late := host.since(start, false)
	t.Logf("known to ours after %s, to upstream after %s", ours, late.at.Sub(start))
	if late.at.Sub(start) < duration-interval {
		t.Errorf("upstream knew a planned stop after %s", late.at.Sub(start))
	}
}

// asksOnce makes what a runtime asks with: the network of the moment, and a pod.
func (n *ovnNode) asksOnce() (*libcni.CNIConfig, *libcni.NetworkConfigList, *libcni.RuntimeConf) {
	n.t.Helper()
	list, err := n.network()
	must(n.t, err)
	return n.library(nil), list,
		&libcni.RuntimeConf{ContainerID: "c1", NetNS: networkPath(newNetwork(n.t)), IfName: "eth0"}
}

func code(err error) uint {
	var said *cnitypes.Error
	if errors.As(err, &said) {
		return said.Code
	}
	return 0
}

// What a runtime is told of a dead DPU.
func compareRefusals(t *testing.T) {
	n := newOVNNode(t)
	dpu, host := n.bothHosts()
	n.ovnkube.Store(host)
	dpu.stop()
	n.Expect(duration+soon, "NotReady", "LeaseExpired")
	answer(host.Ready).expect(t, duration+soon, false, "")
	for _, row := range []struct {
		whose  string
		status uint
		add    string
	}{
		{"upstream", 50, "CNI request failed with status 400: 'DPU Not Ready: DPU node lease expired at"},
		{"ours", 50, "DPU Not Ready: the DPU has not renewed lease"},
	} {
		cni, list, pod := n.asksOnce()
		if err := cni.GetStatusNetworkList(t.Context(), list); code(err) != row.status {
			t.Errorf("%s: STATUS: %v", row.whose, err)
		}
		_, err := cni.AddNetworkList(t.Context(), list, pod)
		refusedWith(t, row.add, row.whose+": ADD", err)
		t.Logf("%s: ADD: code %d, %v", row.whose, code(err), err)
		if want := map[string]uint{"upstream": cnitypes.ErrInternal, "ours": cnitypes.ErrTryAgainLater}[row.whose]; code(err) != want {
			t.Errorf("%s: ADD has code %d, want %d", row.whose, code(err), want)
		}
		must(t, cni.DelNetworkList(t.Context(), list, pod)) // gated by neither
		if row.whose == "upstream" {
			n.gate("install-cni")
		}
	}
}

// ovnkube's CNI server hangs.
func compareWedgedServer(t *testing.T) {
	n := newOVNNode(t)
	dpu, host := n.bothHosts()
	n.ovnkube.Store(host)
	cni, list, _ := n.asksOnce()
	must(t, cni.GetStatusNetworkList(t.Context(), list))
	n.ovnkube.wedged.Store(true)
	const patience = 13 * time.Second // more than the gate's
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	start := time.Now()
	if err := cni.GetStatusNetworkList(ctx, list); err == nil || time.Since(start) < patience {
		t.Errorf("upstream's STATUS ended after %s: %v", time.Since(start), err)
	}
	n.gate("install-cni")
	cni, list, pod := n.asksOnce()
	start = time.Now()
	if err := cni.GetStatusNetworkList(t.Context(), list); code(err) != 50 {
		t.Errorf("STATUS through the gate: %v", err)
	}
	t.Logf("STATUS through the gate ended after %s", time.Since(start))

	dpu.stop() // of a DPU that is known to be dead, no process is asked
	n.Expect(duration+soon, "NotReady", "LeaseExpired")
	start = time.Now()
	if _, err := cni.AddNetworkList(t.Context(), list, pod); code(err) != cnitypes.ErrTryAgainLater {
		t.Errorf("ADD: %v", err)
	}
	t.Logf("ADD was refused after %s", time.Since(start))
}

// May one DPU's credential renew the lease of another?
func compareRights(t *testing.T) {
	p := newSharedPair(t)
	other := newPair(t, shared.control, shared.admin)
	victim := other.startTheirs("dpu")
	other.WaitRenewals(soon, 1)
	victim.stop()
	thief := p.newTheirs("dpu")
	thief.Node, thief.UID = other.Node, victim.UID
	before := other.Lease().Spec.RenewTime
	must(t, thief.Renew(t.Context()))
	if now := other.Lease().Spec.RenewTime; now.Equal(before) {
		t.Error("upstream's rights do not reach another's lease any more")
	}
	err := edit(clientOf(t, p.file("dpu.kubeconfig")), other, renewed)(t.Context())
	refusedWith(t, "a DPU may write only its own lease", "another's lease", err)
}

func anyLease(*coordination.Lease) bool { return true }

func (p *pair) deleteLease() {
	p.t.Helper()
	must(p.t, in(p.admin).Delete(p.t.Context(), p.LeaseName(), meta.DeleteOptions{}))
}

// How soon a DPU side makes a lease anew that somebody has deleted; upstream's host does so at its start only.
func compareDeletedLease(t *testing.T) {
	p := newSharedPair(t)
	p.startTheirs("host")
	p.startTheirs("dpu")
	p.WaitRenewals(soon, 1)
	p.deleteLease()
	start := time.Now()
	p.WaitLease(soon, "upstream's new lease", anyLease)
	theirs := time.Since(start)

	other := newPair(t, shared.control, shared.admin)
	other.mayCreate()
	other.startTheirs("host")
	other.StartDPU()
	other.WaitRenewals(soon, 2)
	other.deleteLease()
	start = time.Now()
	made := other.WaitLease(duration+soon, "our new lease", anyLease)
	t.Logf("made anew by upstream's DPU side after %s, by ours after %s", theirs, time.Since(start))
	if theirs > time.Since(start) || time.Since(start) < duration/2 {
		t.Errorf("made anew by upstream's DPU side after %s, by ours after %s", theirs, time.Since(start))
	}
	want := leaseOf(other).OwnerReferences[0]
	if owner := made.OwnerReferences; len(owner) != 1 || owner[0].UID != want.UID || *made.Spec.LeaseDurationSeconds != int32(duration.Seconds()) {
		t.Errorf("made anew: %+v", made)
	}
	other.WaitRenewals(soon, 5) // the collector has had time
	if now := other.Lease(); now.UID != made.UID {
		t.Errorf("the lease was made again: %s, then %s", made.UID, now.UID)
	}
}

// A Node gets a new UID while its DPU side, which goes by the old one, is upstream's; beside either host.
func compareNewNode(t *testing.T) {
	p, other := newSharedPair(t), newPair(t, shared.control, shared.admin)
	dpus := map[*pair]*theirs{}
	for _, each := range []*pair{p, other} {
		dpus[each] = each.newTheirs("dpu")
		each.makeNodeAnew()
		each.createLease()
	}
	host := p.startTheirs("host")
	dpus[p].run()
	other.StartHost()
	other.WaitLease(soon, "an owner that is no controller", func(l *coordination.Lease) bool {
		return len(l.OwnerReferences) == 1 && !*l.OwnerReferences[0].Controller
	})
	dpus[other].run()
	answer(host.Ready).expect(t, duration+soon, false, "DPU node lease expired at")
	other.Expect(soon, "Ready", "LeaseRenewed")
	other.StaysFor(2*duration, "Ready")
}

// upstreamsNode is a node whose kubelet and containerd ask upstream's plugin alone.
func (w *world) upstreamsNode(t *testing.T, name string) (*pair, *ovnkube) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "ovnkube.sock") // in a folder that the node sees, too
	node, err := harness.StartNode(t.Context(), harness.NodeOptions{Name: name, Dir: logDir("node-" + name), Bin: shared.parts, ControlPlane: w.control,
		CNI: func(binDir, confDir string) error {
			const plugin = "ovn-k8s-cni-overlay"
			if err := harness.WriteFile(filepath.Join(binDir, plugin), readFile(t, part(t, plugin)), 0o755); err != nil {
				return err
			}
			return harness.WriteFile(filepath.Join(confDir, ovnConf), fmt.Sprintf(
				`{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":%q,"ovnkube":%q}`, plugin, socket), 0o600)
		}})
	must(t, err)
	t.Cleanup(node.Stop)
	p := w.pairOn(t, node)
	p.HostRelay = p.relay() // upstream's host side runs here, not in the node
	return p, (&ovnNode{cniNode: cniNode{p}}).startOVNKube(socket)
}

// A death as the Node tells it, through kubelet and containerd: each check behind a node of its own.
func compareNode(t *testing.T) {
	w, err := newWorld(shared.parts, "-compared", true, harness.ControlPlaneOptions{})
	must(t, err)
	ours := w.pairOn(t, w.node)
	theirs, server := w.upstreamsNode(t, "worker-upstream")
	ours.StartHost()
	ours.StartDPU()
	host := theirs.startTheirs("host")
	server.Store(host)
	dpu := theirs.startTheirs("dpu")
	both := []*pair{ours, theirs}
	names := map[*pair]string{ours: "ours", theirs: "upstream's"}
	follow := func(what string, from time.Time, status core.ConditionStatus, text string) {
		t.Helper()
		var wait sync.WaitGroup
		for _, p := range both {
			wait.Go(func() {
				err := harness.Poll(t.Context(), nodeDuration+kubeletSync+kubeletWrite+soon, 50*time.Millisecond, names[p]+" "+what, func() error {
					node, err := p.getNode()
					if err != nil {
						return err
					}
					for _, c := range node.Status.Conditions {
						if c.Type == core.NodeReady && c.Status == status && strings.Contains(c.Message, text) {
							return nil
						}
					}
					return fmt.Errorf("%v", node.Status.Conditions)
				})
				if err != nil {
					t.Error(err)
				}
				t.Logf("%s: the Node said so %.1f s after %s", names[p], time.Since(from).Seconds(), what)
			})
		}
		wait.Wait()
	}
	follow("the start", time.Now(), core.ConditionTrue, "")
	for _, p := range both {
		p.WaitRenewals(soon, 1)
	}
	ours.DPU.Kill()
	dpu.stop()
	follow("the death", time.Now(), core.ConditionFalse, notReady)
	ours.StartDPU()
	theirs.startTheirs("dpu")
	follow("the return", time.Now(), core.ConditionTrue, "")
}
