// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// kubeletSync is how often the kubelet asks the runtime for its status, kubeletWrite how often it writes the Node
	// at the latest: each second, with a jitter of 4 %.
	kubeletSync  = 5 * time.Second
	kubeletWrite = 1040 * time.Millisecond
	nodeDuration = 6 * time.Second
	notReady     = "DPU Not Ready"
)

// realPair is the pair of the node with a kubelet, in which its host agent runs. The node is the case's alone, without a
// record or lease of the case before.
func realPair(t *testing.T) *pair {
	t.Helper()
	t.Parallel()
	return shared.pair(t)
}

func (w *world) pair(t *testing.T) *pair {
	t.Helper()
	w.nodeInUse.Lock()
	return w.pairOfLocked(t)
}

func (w *world) pairOfLocked(t *testing.T) *pair {
	t.Helper()
	t.Cleanup(w.nodeInUse.Unlock)
	ours(t, "dpu-gate")
	ours(t, "dpu-agent")
	p := &pair{t: t, control: w.control, admin: w.admin, node: w.node, Node: realNode, Dir: logDir("pairs/" + t.Name())}
	poll(t, 2*soon, "the Pods of the case before are gone", func() error {
		if n := p.attachments(); n != 0 {
			return fmt.Errorf("%d are attached", n)
		}
		return nil
	})
	w.pairs++
	p.starts = 10 * w.pairs // names the logs on the node, which all cases share
	must(t, os.RemoveAll(p.node.Path(recordInNode)))
	if err := in(p.admin).Delete(t.Context(), p.LeaseName(), meta.DeleteOptions{}); !errors.IsNotFound(err) {
		must(t, err)
	}
	return p.onNode()
}

// onNode gives the pair of a real node its identities and ways to the API server.
func (p *pair) onNode() *pair {
	t := p.t
	t.Helper()
	must(t, os.MkdirAll(p.Dir, 0o755))
	p.isOnNode, p.every, p.lasts = true, interval, nodeDuration
	p.HostRelay, p.DPURelay = p.node.Relay, p.relay()
	p.certificate("host", 0)
	p.certificate("dpu", 0)
	p.certificate("dra", 0)
	t.Cleanup(func() {
		if t.Failed() {
			events, err := p.control.Kubectl(bounded(t), "get", "events")
			t.Logf("%s--- events (%v)\n%s%s", p.report(), err, events, p.node.Diagnostics(25))
		}
		p.Driver.Kill()
		p.Host.Kill()
		p.DPU.Kill()
	})
	return p
}

const recordInNode = "/run/dpu-heartbeat/readiness.json"

// nodeReady waits for the Node's condition Ready to have that status, and text in its message.
func (p *pair) nodeReady(limit time.Duration, status core.ConditionStatus, text string) {
	p.t.Helper()
	await(p.t, limit, fmt.Sprintf("the Node is Ready=%s with %q", status, text), p.getNode, func(node *core.Node) bool {
		return slices.ContainsFunc(node.Status.Conditions, func(c core.NodeCondition) bool {
			return c.Type == core.NodeReady && c.Status == status && strings.Contains(c.Message, text) &&
				(status == core.ConditionTrue || c.Reason == "KubeletNotReady")
		})
	})
}

// pod creates a pod; on says on which node, "" leaves that to the scheduler.
func (p *pair) pod(name, on string) {
	p.t.Helper()
	p.podSpec(name, func(spec *core.PodSpec) { spec.NodeName = on })
}

func (p *pair) podSpec(name string, edit func(*core.PodSpec)) {
	p.t.Helper()
	_, err := p.admin.CoreV1().Pods("default").Create(p.t.Context(),
		&core.Pod{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: podOf(edit)}, meta.CreateOptions{})
	must(p.t, err)
	p.t.Cleanup(func() {
		now := int64(0)
		_ = p.admin.CoreV1().Pods("default").Delete(bounded(p.t), name, meta.DeleteOptions{GracePeriodSeconds: &now})
	})
}

// podOf is a pod of the tests' image, as edit changes it.
func podOf(edit func(*core.PodSpec)) core.PodSpec {
	grace, no := int64(1), false
	spec := core.PodSpec{
		TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no, DNSPolicy: core.DNSDefault,
		Containers: []core.Container{{Name: "pod", Image: harness.PodImage, ImagePullPolicy: core.PullNever}},
	}
	edit(&spec)
	return spec
}

func (p *pair) podRuns(name string) {
	p.t.Helper()
	p.awaitPod(2*soon, name, "runs", func(pod *core.Pod) bool {
		return pod.Status.Phase == core.PodRunning && pod.Status.PodIP != ""
	})
}

// podNotScheduled waits until the scheduler says that it cannot place the pod.
func (p *pair) podNotScheduled(name string) {
	p.t.Helper()
	p.awaitPod(soon, name, "cannot be placed", func(pod *core.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c core.PodCondition) bool {
			return c.Type == core.PodScheduled && c.Status == core.ConditionFalse && c.Reason == core.PodReasonUnschedulable
		})
	})
}

// podEvent waits for an event about the pod that contains text.
func (p *pair) podEvent(name, text string) {
	p.t.Helper()
	about := meta.ListOptions{FieldSelector: "involvedObject.name=" + name}
	await(p.t, 2*soon, fmt.Sprintf("an event of pod %s says %q", name, text), func() (*core.EventList, error) {
		return p.admin.CoreV1().Events("default").List(p.t.Context(), about)
	}, func(events *core.EventList) bool {
		return slices.ContainsFunc(events.Items, func(e core.Event) bool { return strings.Contains(e.Message, text) })
	})
}

// askSandbox asks a runtime for a pod's sandbox, as the kubelet does, and returns its id.
func askSandbox(ctx context.Context, client cri.RuntimeServiceClient, name string) (string, error) {
	made, err := client.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		Linux: &cri.LinuxPodSandboxConfig{CgroupParent: "/" + name, SecurityContext: &cri.LinuxSandboxSecurityContext{
			NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER}}},
		LogDirectory: "/var/log/" + name}})
	return made.GetPodSandboxId(), err
}

func removeSandbox(ctx context.Context, client cri.RuntimeServiceClient, id string) error {
	if _, err := client.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil && !strings.Contains(err.Error(), "no such device") {
		return err // not that the kubelet, which knows no such pod, was faster
	}
	_, err := client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

// straight asks containerd for a pod's network, whatever the Node's condition says.
func (p *pair) straight() (took time.Duration, refusal error) {
	p.t.Helper()
	p.runtime(func(ctx context.Context, client cri.RuntimeServiceClient) error {
		// The first call pays for the connection, the second is timed.
		if _, err := client.Version(ctx, &cri.VersionRequest{}); err != nil {
			return err
		}
		start := time.Now()
		var id string
		id, refusal = askSandbox(ctx, client, fmt.Sprintf("straight-%d", start.UnixNano()))
		if took = time.Since(start); refusal != nil {
			return nil
		}
		return removeSandbox(ctx, client, id)
	})
	return took, refusal
}

// attachments counts the addresses that pods of the node have.
func (p *pair) attachments() int {
	p.t.Helper()
	files, err := filepath.Glob(p.node.Path(harness.Addresses) + "/*/10.88.*")
	must(p.t, err)
	return len(files)
}

// The enhancement's own end-to-end test, on a real node. One story, in order.
func TestGivenARealNodeWhenItsDPUIsMissingLivesDiesAndReturnsThenTheNodeFollows(t *testing.T) {
	p := realPair(t)

	// Given the host side alone, and no DPU.
	p.StartHost()
	p.nodeReady(soon, core.ConditionFalse, notReady)
	p.Expect(nodeDuration+soon, "NotReady", "")
	p.pod("waits", "")
	p.podNotScheduled("waits")
	for end := time.Now().Add(2 * kubeletSync); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		p.nodeReady(0, core.ConditionFalse, notReady) // and never anything else
	}

	// When the DPU's agent comes, then the node is Ready and the pod runs.
	p.StartDPU()
	p.Expect(soon, "Ready", "LeaseRenewed")
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	p.podRuns("waits")
	p.pod("lives", realNode)
	p.podRuns("lives")
	if n := p.attachments(); n != 2 {
		t.Errorf("%d pods are attached, want 2", n)
	}

	// When the agent is killed, then once that is proven, a look and a write later, the Node says so.
	p.DPU.Kill()
	killed := time.Now()
	p.nodeReady(nodeDuration+kubeletSync+kubeletWrite+soon, core.ConditionFalse, notReady)
	took := time.Since(killed)
	t.Logf("the Node followed %s after the kill", took.Round(100*time.Millisecond))
	if allowed := nodeDuration + kubeletSync + kubeletWrite + 5*time.Second; took > allowed {
		t.Errorf("it took %s, more than %s", took, allowed)
	}
	await(t, soon, "a controller taints the Node", p.getNode, func(node *core.Node) bool {
		return slices.ContainsFunc(node.Spec.Taints, func(taint core.Taint) bool {
			return taint.Key == core.TaintNodeNotReady && taint.Effect == core.TaintEffectNoSchedule
		})
	})
	p.pod("unplaced", "")
	p.podNotScheduled("unplaced")
	p.pod("pinned", realNode)
	p.podEvent("pinned", notReady)
	took, err := p.straight()
	refusedWith(t, notReady, "a sandbox asked for straight", err)
	t.Logf("a sandbox was refused in %s: %v", took, err)
	if took > 5*time.Second {
		t.Errorf("it was refused only after %s", took)
	}
	p.deletePod("lives") // while the DPU is dead
	if n := p.attachments(); n != 1 {
		t.Errorf("%d pods are attached, want 1", n)
	}

	// When it returns, then the node is Ready again and what was held back runs.
	p.StartDPU()
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	p.podRuns("pinned")
	p.podRuns("unplaced")
	if took, err = p.straight(); err != nil {
		t.Errorf("a sandbox asked for straight: %v", err)
	}
	t.Logf("a sandbox was made in %s", took)
}

// services is what a DPU runs; tests/support/dpu_testing/ovn.py starts and ends OVS, OVN and what ovnkube shows.
type services struct {
	t       *testing.T
	RunDir  string
	in      io.Writer
	answers *bufio.Scanner
}

func startServices(t *testing.T) *services {
	t.Helper()
	for _, program := range []string{"ovs-vswitchd", "ovn-northd", "ovn-controller"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, "openvswitch-switch, ovn-central and ovn-host are not all installed: %v", err)
		}
	}
	cmd := exec.Command("/usr/bin/python3", "-m", "dpu_testing.ovn")
	cmd.Dir = "../../support"
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // it ends with its input, also when we are killed
		_ = cmd.Wait()
	})
	s := &services{t: t, in: in, answers: bufio.NewScanner(out)}
	s.RunDir = s.answer()
	return s
}

func (s *services) answer() string {
	s.t.Helper()
	if !s.answers.Scan() {
		s.t.Fatal("dpu_testing.ovn has ended: ", s.answers.Err())
	}
	return s.answers.Text()
}

// do kills or starts one of them.
func (s *services) do(verb, name string) {
	s.t.Helper()
	_, err := fmt.Fprintln(s.in, verb, name)
	must(s.t, err)
	s.answer()
}

// A DPU whose agent lives and renews, and whose services die one after the other. tests/integration has them all.
func TestGivenARealNodeWhenItsDPULosesAServiceThenTheNodeNamesItUntilItIsBack(t *testing.T) {
	ovn := startServices(t)
	p := realPair(t)
	p.StartHost()
	// All that is forgiven is a twentieth of the defaults, or less.
	p.StartDPU("--ovs-rundir="+ovn.RunDir,
		"--probe=interval=200ms,timeout=1s,refused=250ms,silent=3s,missing=3s,wrong=3s;ovn-kubernetes")
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	for _, name := range []string{"vswitchd", "ovn-sb", "ovn-controller", "ovnkube"} {
		lost := time.Now()
		ovn.do("kill", name)
		p.nodeReady(2*kubeletSync+soon, core.ConditionFalse, "probe '"+name+"'")
		named := time.Now()
		ovn.do("start", name)
		p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
		t.Logf("%s: the Node named it after %s and was Ready %s after its return", name,
			named.Sub(lost).Round(100*time.Millisecond), time.Since(named).Round(100*time.Millisecond))
	}
}
