// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
)

// newBrokenPair is a pair, Ready, on a control plane that the case may break as it likes.
func newBrokenPair(t *testing.T) (*harness.ControlPlane, *pair) {
	t.Helper()
	t.Parallel()
	ours(t, "dpu-agent") // before a control plane is started for nothing
	control, err := harness.StartControlPlane(t.Context(), harness.ControlPlaneOptions{
		Dir: logDir("control-plane-" + t.Name()), Bin: shared.parts, APIOnly: true})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(control.Diagnostics(15))
		}
		control.Stop()
	})
	must(t, control.PrepareNamespace(t.Context(), rbacDir()))
	admin, err := control.Admin()
	must(t, err)
	p := newPair(t, control, admin)
	p.startBoth()
	p.WaitRenewals(soon, 2)
	return control, p
}

// neverNotReady watches from broken until the record is Ready again: it is not the DPU that is broken.
func (p *pair) neverNotReady(broken func()) {
	p.t.Helper()
	seen, done := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(seen)
		for {
			if r, err := readRecord(p.RecordFile()); err == nil && r.State == "NotReady" {
				seen <- r.Reason + ": " + r.Message
				return
			}
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	broken()
	p.Expect(2*soon, "Ready", "LeaseRenewed")
	p.WaitRenewals(soon, 2)
	// Past a whole lease: what came back must be a live watch, not a memory.
	time.Sleep(duration + interval)
	close(done)
	if what, flipped := <-seen; flipped {
		p.t.Fatalf("it was called NotReady: %s", what)
	}
	p.Expect(soon, "Ready", "LeaseRenewed")
}

func TestGivenAnAPIServerThatCrashesWhenItComesBackThenNothingFlipped(t *testing.T) {
	control, p := newBrokenPair(t)
	p.neverNotReady(func() {
		control.KillAPIServer()
		must(t, control.PKI.Server("apiserver")) // another certificate
		time.Sleep(duration + 2*time.Second)     // longer than a lease
		must(t, control.StartAPIServer(t.Context()))
	})
	p.killDPU()
}

// The server hangs with every connection open: to its peers it is silent.
func TestGivenAnAPIServerThatHangsWhenItGoesOnThenNothingFlipped(t *testing.T) {
	control, p := newBrokenPair(t)
	p.neverNotReady(func() {
		must(t, control.APIServer().Signal(syscall.SIGSTOP))
		p.Expect(duration+soon, "Unknown", "ApiServerUnreachable")
		must(t, control.APIServer().Signal(syscall.SIGCONT))
	})
}

// The version from which the host would resume its watch is gone: the server answers 410.
func TestGivenAWatchWhoseVersionWasCompactedWhenTheHostResumesThenItListsAgain(t *testing.T) {
	control, p := newBrokenPair(t)
	start := time.Now()
	p.neverNotReady(func() {
		p.HostRelay.Cut()
		p.WaitRenewals(soon, 3)
		control.KillAPIServer()
		must(t, control.CompactEtcd(t.Context()))
		must(t, control.StartAPIServer(t.Context()))
		p.WaitRenewals(soon, 2)
		p.HostRelay.Mend()
	})
	p.sees("host", "a list after the 410", start, func(e harness.AuditEvent) bool { return e.Verb == "list" })
}

// After a restore, versions that the agents have seen come again with other contents; an old watch stays silent.
func TestGivenAnEtcdRestoredFromAnOlderSnapshotWhenVersionsGoBackThenNothingFlipped(t *testing.T) {
	control, p := newBrokenPair(t)
	snapshot := filepath.Join(control.Dir, "snapshot")
	restart := func(between func()) {
		control.KillAPIServer()
		control.StopEtcd()
		between()
		must(t, control.StartEtcd())
		must(t, control.StartAPIServer(t.Context()))
	}
	restart(func() { must(t, os.CopyFS(snapshot, os.DirFS(control.EtcdData()))) })
	p.Expect(2*soon, "Ready", "LeaseRenewed")
	p.WaitRenewals(soon, 8)
	before := p.Lease().ResourceVersion
	p.neverNotReady(func() {
		restart(func() {
			must(t, os.RemoveAll(control.EtcdData()))
			must(t, os.CopyFS(control.EtcdData(), os.DirFS(snapshot)))
		})
	})
	t.Logf("version %s before the restore, %s some renewals after it", before, p.Lease().ResourceVersion)
	p.killDPU()
}

func TestGivenAHostThatIsStoppedWhenItGoesOnThenItNeitherAccusesNorVouches(t *testing.T) {
	p := readyPair(t)
	must(t, p.Host.Signal(syscall.SIGSTOP))
	time.Sleep(2 * duration)
	p.neverNotReady(func() { // for a moment it cannot know
		must(t, p.Host.Signal(syscall.SIGCONT))
		time.Sleep(duration)
	})
	must(t, p.Host.Signal(syscall.SIGSTOP))
	p.DPU.Kill()
	time.Sleep(2 * duration)
	must(t, p.Host.Signal(syscall.SIGCONT))
	p.Expect(duration+soon, "NotReady", "LeaseExpired")
}

func TestGivenAHostThatRestartsWhenTheDPULivesOrDiedThenItsFirstWordIsRight(t *testing.T) {
	const lasts = 2 * duration // a DPU's retry takes almost as long as one
	p := newSharedPair(t)
	p.lasts = lasts
	p.startBoth()
	p.Host.Kill()
	time.Sleep(lasts + duration)
	p.StartHost()
	p.Expect(soon, "Ready", "LeaseRenewed")
	p.StaysFor(lasts, "Ready")
	p.Host.Kill()
	p.DPU.Kill()
	time.Sleep(lasts + duration)
	start := time.Now()
	p.StartHost()
	p.Expect(soon, "NotReady", "LeaseExpired")
	if took := time.Since(start); took > lasts {
		t.Errorf("it took %s, as if the dead DPU had been given another lease", took)
	}
}
