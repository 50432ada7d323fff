// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	stderrors "errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/crio"
	"dpu-heartbeat.test/e2e/harness"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"
)

const threadNetwork = "/proc/thread-self/ns/net"

// newNetwork makes a network namespace and returns it as a descriptor.
func newNetwork(t *testing.T) int {
	t.Helper()
	own, err := unix.Open(threadNetwork, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(own)
	made := -1
	err = inNetwork(own, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		made, err = unix.Open(threadNetwork, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	must(t, err)
	t.Cleanup(func() { unix.Close(made) })
	return made
}

// networkPath is what a runtime calls a network by.
func networkPath(network int) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), network) }

// inNetwork runs do with its thread in a network; the programs that do runs inherit it. The thread comes back
// (see harness.NewRelay for why it must).
func inNetwork(network int, do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := unix.Open(threadNetwork, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	defer func() {
		if err := unix.Setns(own, unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
	}()
	if err := unix.Setns(network, unix.CLONE_NEWNET); err != nil {
		return err
	}
	return do()
}

// inOwnNetwork runs do in a network made for it, with the path of a second one, the pod's.
func inOwnNetwork(t *testing.T, do func(podNetns string)) {
	t.Helper()
	pod := newNetwork(t)
	must(t, inNetwork(newNetwork(t), func() error {
		do(networkPath(pod))
		return nil
	}))
}

// elsewhere runs do on another thread, which is in the machine's own network.
func elsewhere(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

// plugins runs plugins in a network of their own, whoever calls, and remembers the verbs.
type plugins struct {
	invoke.Exec
	network int
	mu      sync.Mutex
	verbs   []string
}

func newPlugins(t *testing.T) *plugins {
	t.Helper()
	return &plugins{network: newNetwork(t), Exec: &invoke.DefaultExec{
		RawExec: &invoke.RawExec{Stderr: os.Stderr}, PluginDecoder: version.PluginDecoder{}}}
}

func (p *plugins) ExecPlugin(ctx context.Context, path string, stdin []byte, env []string) ([]byte, error) {
	for _, variable := range env {
		if verb, is := strings.CutPrefix(variable, "CNI_COMMAND="); is {
			p.mu.Lock()
			p.verbs = append(p.verbs, verb)
			p.mu.Unlock()
		}
	}
	var out []byte
	err := inNetwork(p.network, func() (err error) {
		out, err = p.Exec.ExecPlugin(ctx, path, stdin, env)
		return err
	})
	return out, err
}

// take returns the verbs since the last time, a repeated one once.
func (p *plugins) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.Join(slices.Compact(p.verbs), " ")
	p.verbs = nil
	return text
}

// crioNode is a node of OpenShift as far as CNI goes: the gate's conflist before the network's own file, and
// CRI-O, whose parts that call them are played.
type crioNode struct {
	*pair
	plugins *plugins
	ovnkube *ovnkube
}

func newCRIONode(t *testing.T) *crioNode {
	t.Helper()
	n := newOVNNode(t)
	n.gate("install-cni")
	return n
}

// newOVNNode is that node before the gate. Its plugin asks ovnkube's CNI server, in which no check runs yet.
func newOVNNode(t *testing.T) *crioNode {
	t.Helper()
	ours(t, "dpu-gate")
	n := &crioNode{pair: newSharedPair(t), plugins: newPlugins(t)}
	for _, dir := range []string{"net.d", "bin"} {
		must(t, os.Mkdir(n.file(dir), 0o755))
	}
	program, err := os.ReadFile(filepath.Join(shared.parts, "veth-cni"))
	must(t, err)
	must(t, harness.WriteFile(n.file("bin/veth-cni"), string(program), 0o755))
	socket := filepath.Join(t.TempDir(), "ovnkube.sock") // short enough for one
	n.ovnkube = n.startOVNKube(socket)
	must(t, harness.WriteFile(n.file("net.d/10-ovn-kubernetes.conf"), fmt.Sprintf(
		`{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"veth-cni","stateDir":%q,"ovnkube":%q}`,
		n.file("attachments"), socket), 0o600))
	return n
}

// gate puts dpu-gate in front of the node's own plugin, or takes it away.
func (n *crioNode) gate(verb string) {
	n.t.Helper()
	argv := []string{verb, "--cni-conf-dir", n.file("net.d")}
	if verb == "install-cni" {
		argv = append(argv, "--readiness-file", n.RecordFile(), "--cni-bin-dir", n.file("bin"), "--gate-binary", ours(n.t, "dpu-gate"))
	}
	if out, err := exec.Command(ours(n.t, "dpu-host-agent"), argv...).CombinedOutput(); err != nil {
		n.t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

// start starts CRI-O, with its option cni_status_grace_period.
func (n *crioNode) start(grace time.Duration, running ...crio.Pod) *crio.Runtime {
	n.t.Helper()
	r, err := crio.Start(n.t.Context(), crio.Options{ConfDir: n.file("net.d"), BinDir: n.file("bin"), CacheDir: n.file("cache"),
		Grace: grace, Exec: n.plugins}, running...)
	must(n.t, err)
	n.t.Cleanup(r.Stop)
	return r
}

func (n *crioNode) newPod(id string) crio.Pod {
	n.t.Helper()
	return crio.Pod{ID: id, NetNS: networkPath(newNetwork(n.t))}
}

// run starts a pod's sandbox in the background.
func (n *crioNode) run(r *crio.Runtime, pod crio.Pod) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := r.RunPodSandbox(n.t.Context(), pod)
		done <- err
	}()
	return done
}

func (n *crioNode) expectNetwork(limit time.Duration, r *crio.Runtime, ready bool) {
	n.t.Helper()
	poll(n.t, limit, fmt.Sprintf("NetworkReady=%v", ready), func() error {
		err := r.NetworkReady()
		if ready {
			return err
		}
		var said *types.Error
		if !stderrors.As(err, &said) || said.Code != types.ErrPluginNotAvailable ||
			!strings.HasPrefix(err.Error(), "Network plugin returns error: "+notReady) {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
}

// called compares the verbs since the last time.
func (n *crioNode) called(when, want string) {
	n.t.Helper()
	if got := n.plugins.take(); got != want {
		n.t.Errorf("%s: it called %q, want %q", when, got, want)
	}
}

func (n *crioNode) waits(sandbox chan error, span time.Duration) {
	n.t.Helper()
	select {
	case err := <-sandbox:
		n.t.Fatalf("the sandbox did not wait: %v", err)
	case <-time.After(span):
	}
}

func (n *crioNode) attached() int {
	files, _ := filepath.Glob(n.file("attachments/10.88.*"))
	return len(files)
}

// With cni_status_grace_period the Node follows the DPU: NetworkReady=false at the second poll that fails, and a
// sandbox that is on its way waits, without an ADD that could say why.
func TestGivenCRIOThatPollsWhenTheDPUDiesThenSandboxesWaitUntilItIsBack(t *testing.T) {
	n := newCRIONode(t)
	n.StartHost()
	n.StartDPU()
	n.Expect(soon, "Ready", "LeaseRenewed")
	r := n.start(2 * time.Second)
	n.expectNetwork(soon, r, true)
	pod := n.newPod("c1")
	made, err := r.RunPodSandbox(t.Context(), pod)
	must(t, err)
	result, err := current.GetResult(made)
	if err != nil || len(result.IPs) != 1 || len(result.Interfaces) != 1 {
		t.Errorf("the delegate's result came through as %v (%v)", made, err)
	}
	n.plugins.take() // when it polls is its own

	n.DPU.Kill()
	n.Expect(duration+soon, "NotReady", "LeaseExpired")
	n.expectNetwork(soon, r, false)
	n.plugins.take()
	waiting := n.run(r, n.newPod("c2"))
	n.waits(waiting, 6*time.Second) // one poll more
	n.called("while the network is not ready", "STATUS")
	must(t, r.StopPodSandbox(t.Context(), pod))
	if n.attached() != 0 {
		t.Error("DEL of a pod was held back")
	}

	n.StartDPU()
	n.Expect(soon, "Ready", "LeaseRenewed")
	n.expectNetwork(soon, r, true)
	must(t, <-waiting)
	if n.attached() != 1 {
		t.Error("the sandbox that waited was not attached")
	}
}

// Without it, as OpenShift has it, CRI-O never asks again: the Node stays Ready, and what says why a pod does not
// start is the refusal of its ADD.
func TestGivenCRIOThatDoesNotPollWhenTheDPUDiesThenAddAloneIsRefused(t *testing.T) {
	n := newCRIONode(t)
	n.StartHost()
	n.StartDPU()
	n.Expect(soon, "Ready", "LeaseRenewed")
	r := n.start(0)
	n.expectNetwork(soon, r, true)
	n.called("its start", "VERSION STATUS GC")
	pod := n.newPod("c1")
	must(t, <-n.run(r, pod))
	n.called("RunPodSandbox", "ADD CHECK")

	n.DPU.Kill()
	n.Expect(duration+soon, "NotReady", "LeaseExpired")
	start := time.Now()
	err := <-n.run(r, n.newPod("c2"))
	if err == nil || !strings.Contains(err.Error(), `plugin type="dpu-gate" failed (add): `+notReady) {
		t.Errorf("ADD with a dead DPU: %v", err)
	}
	t.Logf("refused in %s", time.Since(start))
	n.called("RunPodSandbox with a dead DPU", "ADD DEL")
	time.Sleep(6 * time.Second) // longer than a poll
	n.called("the time after it", "")
	if err := r.NetworkReady(); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	must(t, r.StopPodSandbox(t.Context(), pod))
	n.called("StopPodSandbox", "DEL")
	if n.attached() != 0 {
		t.Error("DEL left something")
	}

	n.StartDPU()
	n.Expect(soon, "Ready", "LeaseRenewed")
	must(t, <-n.run(r, n.newPod("c3"))) // nothing has to notice first
}

// Started beside a dead DPU it waits for the first success with any setting, and only then collects: what runs
// is left alone, what is gone is given back.
func TestGivenCRIOThatStartsBesideADeadDPUWhenItReturnsThenItCollectsAndGoesOn(t *testing.T) {
	n := newCRIONode(t)
	n.StartHost()
	n.StartDPU()
	n.Expect(soon, "Ready", "LeaseRenewed")
	r := n.start(0)
	n.expectNetwork(soon, r, true)
	stays, goes := n.newPod("c1"), n.newPod("c2")
	must(t, <-n.run(r, stays))
	must(t, <-n.run(r, goes))
	r.Stop()
	n.DPU.Kill()
	n.Expect(duration+soon, "NotReady", "LeaseExpired")

	n.plugins.take()
	r = n.start(0, stays)
	n.expectNetwork(soon, r, false)
	waiting := n.run(r, n.newPod("c3"))
	n.waits(waiting, 2*time.Second)
	n.called("its start beside a dead DPU", "VERSION STATUS")
	n.StartDPU()
	must(t, <-waiting)
	n.called("once the DPU is back", "STATUS DEL GC ADD CHECK")
	if n.attached() != 2 {
		t.Errorf("%d pods are attached, want the one that stayed and the new one", n.attached())
	}

	// Whoever still waits when it is stopped is told so.
	r.Stop()
	n.DPU.Kill()
	n.Expect(duration+soon, "NotReady", "LeaseExpired")
	r = n.start(0, stays)
	waiting = n.run(r, n.newPod("c4"))
	n.waits(waiting, time.Second)
	r.Stop()
	if err := <-waiting; err == nil || !strings.Contains(err.Error(), "stopped before the network was ready") {
		t.Errorf("a sandbox that waits for a runtime that ends: %v", err)
	}
}
