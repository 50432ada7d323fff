// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// backLimit is how long after its DPU a pod may have no network: the DPU settles for a lease duration and a quarter, a
// sandbox is stopped, the kubelet makes a new one.
const backLimit = nodeDuration*5/4 + soon

// sandboxes are a pod's, the ready ones first.
func (p *pair) sandboxes(pod string) []*cri.PodSandbox {
	p.t.Helper()
	var found []*cri.PodSandbox
	p.runtime(func(ctx context.Context, client cri.RuntimeServiceClient) error {
		list, err := client.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: &cri.PodSandboxFilter{
			LabelSelector: map[string]string{"io.kubernetes.pod.name": pod}}})
		if err != nil {
			return err
		}
		found = list.Items
		slices.SortStableFunc(found, func(a, b *cri.PodSandbox) int { return cmp.Compare(a.State, b.State) })
		return nil
	})
	return found
}

func (p *pair) runtime(ask func(context.Context, cri.RuntimeServiceClient) error) {
	p.t.Helper()
	connection, err := p.node.CRI()
	must(p.t, err)
	defer connection.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	must(p.t, ask(ctx, cri.NewRuntimeServiceClient(connection)))
}

// sandbox is the one that is ready.
func (p *pair) sandbox(pod string) string {
	p.t.Helper()
	all := p.sandboxes(pod)
	if len(all) == 0 || all[0].State != cri.PodSandboxState_SANDBOX_READY {
		p.t.Fatalf("pod %s has no ready sandbox: %v", pod, all)
	}
	return all[0].Id
}

// inNetwork runs a command in the network namespace of a pod.
func (p *pair) inNetwork(pod string, argv ...string) (string, error) {
	p.t.Helper()
	pid := p.pidOf(p.sandbox(pod))
	return p.node.Output(p.t.Context(), append([]string{"nsenter", "-t", fmt.Sprint(pid), "-n"}, argv...)...)
}

// pidOf is the process that holds a sandbox's namespaces, as the node numbers it.
func (p *pair) pidOf(sandbox string) int {
	p.t.Helper()
	var info struct{ Pid int }
	p.runtime(func(ctx context.Context, client cri.RuntimeServiceClient) error {
		status, err := client.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: sandbox, Verbose: true})
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(status.Info["info"]), &info)
	})
	return info.Pid
}

// attach gives a pod a further interface by ptp, keeps the result as Multus does, and returns the host's end of it.
func (p *pair) attach(pod, name string) string {
	p.t.Helper()
	id := p.sandbox(pod)
	conf := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"second","type":"ptp","ipam":{"type":"host-local","subnet":"10.89.0.0/24","dataDir":%q}}`,
		"/run/second-addresses")
	made, err := p.node.Output(p.t.Context(), "env", "CNI_COMMAND=ADD", "CNI_CONTAINERID="+id, fmt.Sprintf("CNI_NETNS=/proc/%d/ns/net", p.pidOf(id)),
		"CNI_IFNAME="+name, "CNI_PATH="+harness.CNIBinDir, "sh", "-c", `printf %s "$1" | "$CNI_PATH/ptp"`, "sh", conf)
	if err != nil {
		p.t.Fatalf("%v: %s", err, made)
	}
	var result struct {
		Interfaces []struct{ Name, Sandbox string }
	}
	must(p.t, json.Unmarshal([]byte(made), &result))
	if len(result.Interfaces) != 2 || result.Interfaces[0].Sandbox != "" || result.Interfaces[1].Name != name {
		p.t.Fatalf("ptp made %s", made)
	}
	cache := p.node.Path("/var/lib/cni/multus/results")
	must(p.t, os.MkdirAll(cache, 0o700))
	must(p.t, harness.WriteFile(fmt.Sprintf("%s/second-%s-%s", cache, id, name),
		fmt.Sprintf(`{"kind":"cniCacheV1","containerId":%q,"ifName":%q,"networkName":"second","result":%s}`, id, name, made), 0o600))
	return result.Interfaces[0].Name
}

func (p *pair) hasNetwork(pod string) error {
	out, err := p.inNetwork(pod, "ip", "-o", "link", "show", "eth0")
	if err == nil && !strings.Contains(out, "eth0") {
		err = fmt.Errorf("no eth0: %s", out)
	}
	return err
}

// startDPUOfBoot starts the DPU's agent as in another boot, and returns its id.
func (p *pair) startDPUOfBoot() string {
	p.t.Helper()
	boot := string(uuid.NewUUID())
	must(p.t, harness.WriteFile(p.file("boot-id"), boot+"\n", 0o644))
	p.starts++
	elsewhere := []string{"unshare", "--mount", "sh", "-c",
		`mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, p.file("boot-id"), ours(p.t, "dpu-agent")}
	var err error
	p.DPU, err = harness.StartProcess(fmt.Sprintf("dpu-agent-%d", p.starts), p.Dir, nil,
		append(elsewhere, p.flags("dpu", nil)...)...)
	must(p.t, err)
	return boot
}

// uplink is the DPU's interface on the host, which a reset takes, too.
const uplink = "dpu0"

func (p *pair) addUplink() {
	p.t.Helper()
	p.link("add", uplink, "type", "veth", "peer", "name", uplink+"-card")
	p.t.Cleanup(func() { _ = p.tryLink("del", uplink) })
}

func (p *pair) link(argv ...string) {
	p.t.Helper()
	must(p.t, p.tryLink(argv...))
}

func (p *pair) tryLink(argv ...string) error {
	out, err := p.node.Output(context.Background(), append([]string{"ip", "link"}, argv...)...)
	if err != nil {
		err = fmt.Errorf("ip link %q: %w: %s", argv, err, out)
	}
	return err
}

// page is what the host agent says of itself.
func (p *pair) page() (string, error) {
	log, err := os.ReadFile(p.Host.Log)
	if err != nil {
		return "", err
	}
	port := regexp.MustCompile(`serving /metrics.* port (\d+)`).FindSubmatch(log)
	if port == nil {
		return "", fmt.Errorf("no page yet")
	}
	return p.node.Output(p.t.Context(), "curl", "-sS", "http://127.0.0.1:"+string(port[1])+"/metrics")
}

// metric waits for one of the host agent's metrics to have that value.
func (p *pair) metric(name, value string) {
	p.t.Helper()
	poll(p.t, soon, name+" is "+value, func() error {
		page, err := p.page()
		if err == nil && !strings.Contains(page, "\ndpu_heartbeat_"+name+" "+value+"\n") {
			err = fmt.Errorf("it is %q", regexp.MustCompile(regexp.QuoteMeta(name)+` .*`).FindString(page))
		}
		return err
	})
}

// looked waits until the host agent has looked at all pods that are there now: the next look may have begun before.
func (p *pair) looked() {
	p.t.Helper()
	done := regexp.MustCompile(`pod_network_scans_total\{result="done"\} (\d+)`)
	looks := func() (n int, err error) {
		page, err := p.page()
		if found := done.FindStringSubmatch(page); found != nil {
			n, err = strconv.Atoi(found[1])
		}
		return n, err
	}
	first, err := looks()
	must(p.t, err)
	await(p.t, time.Minute, "two looks at the pods", looks, func(n int) bool { return n >= first+2 })
}

// dpuctl waits until a command of it on the node says all that.
func (p *pair) dpuctl(argv []string, words ...string) {
	p.t.Helper()
	poll(p.t, soon, fmt.Sprintf("dpuctl %q says %q", argv, words), func() error {
		// Its status is part of what it says, and no error.
		out, _ := p.node.Output(p.t.Context(), append([]string{ours(p.t, "dpuctl")}, argv...)...)
		for _, word := range words {
			if !strings.Contains(out, word) {
				return fmt.Errorf("it says %q", out)
			}
		}
		return nil
	})
}

// A DPU that resets takes the pods' interfaces with it, and is Ready before they are. One story, in order.
func TestGivenADPUThatResetsWhenItIsBackThenThePodsThatLostTheirNetworkGetItBack(t *testing.T) {
	p := realPair(t)

	// Given pods with and without a future, on a node that is Ready.
	p.addUplink()
	p.StartHost("--cri-socket="+p.node.RuntimeSocket(), "--on-lost-network=restart", "--events=on",
		"--probe=interval=1s,missing=0;netdev:"+uplink)
	boot := p.startDPUOfBoot()
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	lost := []string{"web-0", "web-1", "web-2"}
	for _, name := range append([]string{"whole", "moved"}, lost...) {
		p.pod(name, realNode)
	}
	p.podSpec("job", func(spec *core.PodSpec) { spec.NodeName, spec.RestartPolicy = realNode, core.RestartPolicyNever })
	before := map[string]string{}
	for _, name := range append([]string{"whole", "moved", "job"}, lost...) {
		p.podRuns(name)
		must(t, p.hasNetwork(name))
		before[name] = p.sandbox(name)
	}

	// Whose interface was never seen there is not lost without it.
	p.looked()

	// When the DPU dies and takes the interfaces with it, then it is refused at once, not only when
	// its lease has run out, and nothing is stopped.
	p.DPU.Kill()
	p.link("del", uplink)
	gone := time.Now()
	p.Expect(nodeDuration-2*interval, "NotReady", "HostProbeFailed")
	t.Logf("the DPU was refused %s after its interface was gone", time.Since(gone).Round(10*time.Millisecond))
	for _, name := range append([]string{"moved", "job"}, lost...) {
		_, err := p.inNetwork(name, "ip", "link", "del", "eth0")
		must(t, err)
	}
	for _, name := range append([]string{"moved", "job"}, lost...) {
		p.podEvent(name, "has lost its network: eth0 is gone")
	}
	p.nodeReady(nodeDuration+kubeletSync+kubeletWrite+soon, core.ConditionFalse, notReady)
	p.metric("pod_network_lost", fmt.Sprint(2+len(lost)))
	p.dpuctl([]string{"pods", "--output=name"}, "default/job\n", "default/moved\n", "default/web-0\n", "default/web-1\n", "default/web-2\n")
	p.dpuctl([]string{"status"}, "boot "+boot+"\n")
	for name, id := range before {
		if now := p.sandbox(name); now != id {
			t.Errorf("pod %s has another sandbox, %s, while the DPU is dead", name, now)
		}
	}

	// When it is back from its reboot, and ovn-kubernetes moves one interface back meanwhile, then the
	// other pods have their network again, on this node and in new sandboxes.
	p.addUplink()
	boot = p.startDPUOfBoot()
	p.Expect(soon, "Ready", "LeaseRenewed")
	ready := time.Now()
	_, err := p.inNetwork("moved", "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "moved-back")
	must(t, err)
	p.event(soon, "DPURebooted")
	for _, name := range lost {
		poll(t, backLimit, "pod "+name+" has a network again", func() error {
			all := p.sandboxes(name)
			if len(all) == 0 || all[0].State != cri.PodSandboxState_SANDBOX_READY || all[0].Id == before[name] {
				return fmt.Errorf("its sandboxes: %v", all)
			}
			return p.hasNetwork(name)
		})
	}
	t.Logf("%d pods had their network back %s after the DPU", len(lost), time.Since(ready).Round(100*time.Millisecond))
	for _, name := range lost {
		p.podRuns(name)
		p.podEvent(name, "the kubelet creates a new one")
	}

	// And it is told, nobody else was touched, and none twice.
	p.metric("dpu_reboots_total", "1")
	p.metric("pod_network_lost", "1")
	p.metric(`pod_sandbox_stops_total{result="stopped"}`, fmt.Sprint(len(lost)))
	p.dpuctl([]string{"status"}, "boot "+boot+", rebooted ")
	p.dpuctl([]string{"pods"}, "default/job ", "made before the DPU's reboot")
	for _, name := range []string{"whole", "moved", "job"} {
		if now := p.sandbox(name); now != before[name] {
			t.Errorf("pod %s has another sandbox: %s in place of %s", name, now, before[name])
		}
	}
	if phase := p.thePod("job").Status.Phase; phase != core.PodRunning {
		t.Errorf("the pod that may never start again is %s", phase)
	}
	for _, name := range lost {
		if all := p.sandboxes(name); all[0].Metadata.Attempt != 1 {
			t.Errorf("pod %s is at its sandbox number %d", name, all[0].Metadata.Attempt)
		}
	}
	log := readFile(t, p.Host.Log)
	if n := strings.Count(log, "the kubelet creates a new one"); n != len(lost) {
		t.Errorf("%d sandboxes were stopped, want %d", n, len(lost))
	}
	if !strings.Contains(log, "does not stop Pod default/job: its restartPolicy is Never") {
		t.Error("the log does not say why the job is left alone")
	}
}

// An interface of a secondary network, beside an eth0 that stays.
func TestGivenAPodWithASecondNetworkWhenThatIsLostThenItIsNamedAndThePodGetsANewSandbox(t *testing.T) {
	p := realPair(t)
	flags := []string{"--cri-socket=" + p.node.RuntimeSocket(), "--on-lost-network=restart", "--events=on"}
	p.StartHost(flags...)
	p.StartDPU()
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	p.pod("two-nets", realNode)
	p.podRuns("two-nets")
	before := p.sandbox("two-nets")
	end := p.attach("two-nets", "net1")
	p.Host.Kill() // it reads a result once: as Multus writes it, before the runtime shows the sandbox
	p.StartHost(flags...)
	p.metric("pod_network_lost", "0")
	p.looked()

	p.link("del", end)
	must(t, p.hasNetwork("two-nets"))
	p.podEvent("two-nets", "net1 is gone from the pod's network namespace")
	poll(t, backLimit, "the pod has a new sandbox", func() error {
		all := p.sandboxes("two-nets")
		if len(all) == 0 || all[0].State != cri.PodSandboxState_SANDBOX_READY || all[0].Id == before {
			return fmt.Errorf("%v", all)
		}
		return nil
	})
	p.podRuns("two-nets")
	p.metric("pod_network_lost", "0")
}
