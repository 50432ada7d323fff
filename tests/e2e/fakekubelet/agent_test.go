// SPDX-License-Identifier: Apache-2.0

package fakekubelet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// leases is where dpu-host-agent keeps the heartbeat of this node.
const leases = "/apis/coordination.k8s.io/v1/namespaces/ovn-kubernetes/leases"

// startAgent runs the real dpu-host-agent on the stage's kubelet directory.
func startAgent(t *testing.T, s *stage) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary(t, "host-agent/dpu-host-agent"), "--kubeconfig="+s.kubecfg, "--http-bind-address=127.0.0.1:0",
		"--node-name="+node, "--readiness-file="+filepath.Join(s.root, "readiness.json"),
		"--dpu-node-lease-renew-interval=200ms", "--dpu-node-lease-duration=2s",
		"--kubelet-root-dir="+s.root, "--dra-driver-name="+driver, "--dra-health-timeout=3s")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// renew does what a DPU does, until the returned function is called.
func renew(t *testing.T, s *stage) (stop func()) {
	t.Helper()
	url := s.api.url + leases + "/ovn-dpu-" + node
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if code, lease := s.api.do(t, "GET", url, nil); code == 200 {
				spec := lease["spec"].(map[string]any)
				spec["holderIdentity"] = "ovnkube-dpu-node"
				spec["renewTime"] = time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
				s.api.do(t, "PUT", url, lease) // a conflict is tried again
			}
			select {
			case <-quit:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	stop = sync.OnceFunc(func() { close(quit); <-done })
	t.Cleanup(stop) // a test that fails must not go on renewing: that would end the others
	return stop
}

func TestHostAgentTellsKubeletAndSchedulerWhetherTheDPULives(t *testing.T) {
	s := newStage(t, "3")
	agent := startAgent(t, s)
	w := register(t, s).watch(t, "v1")
	first := w.next(t, time.Second)
	if first.Health != unknown {
		t.Errorf("before any renewal the DPU is %v", first)
	}
	eventually(t, 5*time.Second, "a DPU never seen alive is tainted", func() bool {
		return s.taints(t) == "AwaitingFirstRenewal/NoSchedule"
	})

	stop := renew(t, s)
	for report := first; report.Health != healthy; report = w.next(t, 5*time.Second) {
	}
	eventually(t, 15*time.Second, "no taint", func() bool { return s.taints(t) == "" })

	stop()
	for report := w.next(t, 5*time.Second); report.Health != unhealthy; {
		report = w.next(t, 5*time.Second)
		if report.Health == unhealthy && !strings.HasPrefix(report.Message, "LeaseExpired: ") {
			t.Errorf("the reason is %q", report.Message)
		}
	}
	eventually(t, 5*time.Second, "a taint", func() bool {
		return s.taints(t) == "LeaseExpired/NoSchedule"
	})

	stop = renew(t, s)
	for report := w.next(t, 5*time.Second); report.Health != healthy; {
		report = w.next(t, 5*time.Second)
	}
	eventually(t, 15*time.Second, "no taint", func() bool { return s.taints(t) == "" })

	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.expect(t, unknown, "the agent that watches the DPU on this node is stopping")
	if err := agent.Wait(); err != nil {
		t.Errorf("dpu-host-agent ended with %v", err)
	}
	stop()
}

func TestDpuctlSeesWhatAKubeletSees(t *testing.T) {
	s := newStage(t, "3")
	s.start(t)
	watch := func(more ...string) *exec.Cmd {
		args := append([]string{"dra", "watch", "--driver", driver, "--kubelet-root-dir", s.root}, more...)
		return exec.Command(binary(t, "dpuctl/dpuctl"), args...)
	}
	for _, row := range []struct {
		told, shows string
		status      int
	}{
		{"Ready well", "Healthy    " + driver + "/" + node + "/dpu0", 0},
		{"NotReady silent", "LeaseExpired: silent", 1},
	} {
		s.tell(t, "%s", row.told)
		time.Sleep(100 * time.Millisecond)
		cmd := watch("--once")
		out, _ := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != row.status || !strings.Contains(string(out), row.shows) {
			t.Errorf("%q: status %d, %q", row.told, got, out)
		}
	}
	direct := watch("--once", "--socket", endpointOf(s))
	if out, _ := direct.Output(); !strings.Contains(string(out), "LeaseExpired: silent") {
		t.Errorf("by its socket: %q", out)
	}
	s.stop(t)
	gone := watch("--once")
	if out, err := gone.CombinedOutput(); err == nil || !strings.Contains(string(out), "reg.sock") {
		t.Errorf("without a plugin: %v, %q", err, out)
	}
}
