// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	dpuImage = "dpu-heartbeat.test/dpu-heartbeat-dpu"
	// hostsAPI is where the DPU's node reaches the hosts' cluster.
	hostsAPI = "127.0.0.1:7443"
)

// imageOf builds the images as they are published, and returns the archive and the tag of this one.
func imageOf(t *testing.T, name string) (file, tag string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../run.sh", "images").Output()
	if err != nil {
		missing(t, "the images could not be built: %v", err)
	}
	for _, line := range strings.Fields(string(out)) {
		if found, ok := strings.CutPrefix(line, name+"="); ok {
			parts := strings.Split(filepath.Base(found), "-") // NAME-VERSION-ARCHITECTURE.tar
			return found, parts[len(parts)-2]
		}
	}
	t.Fatalf("run.sh images names no %s: %s", name, out)
	return "", ""
}

// dpuNode is a DPU with a cluster of its own, whose kubelet can run our image; it has OVS and OVN where they always are,
// and a way to the hosts' cluster.
func dpuNode(t *testing.T, ovn *services) (*world, *harness.Node, string) {
	t.Helper()
	archive, tag := imageOf(t, dpuImage)
	w, err := newWorld(shared.parts, "-dpu", false, harness.ControlPlaneOptions{})
	must(t, err)
	node, err := harness.StartNode(t.Context(), harness.NodeOptions{Name: "dpu-1", Dir: logDir("node-dpu"), Bin: shared.parts,
		ControlPlane: w.control, CNI: harness.CNI{Parts: shared.parts}.Install, Images: map[string]string{dpuImage: archive}})
	must(t, err)
	t.Cleanup(node.Stop)
	relay, err := harness.NewRelay(node.Pid(), hostsAPI, strings.TrimPrefix(shared.control.Server, "https://"))
	must(t, err)
	t.Cleanup(relay.Close)
	out, err := node.Output(t.Context(), "sh", "-c", `mkdir -p /run/openvswitch && mount --bind "$1" /run/openvswitch`, "sh", ovn.RunDir)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return w, node, tag
}

// As an administrator has it: the DPU's own cluster runs dpu-agent by our chart, with the credential of deploy/dpu-kubeconfig
// for the hosts' cluster, beside the DPU's OVS and OVN.
func TestGivenADPUsOwnClusterWhenItRunsTheChartBesideRealOVSAndOVNThenTheHostFollowsTheServices(t *testing.T) {
	ovn := startServices(t)
	p := newSharedPair(t)
	w, node, tag := dpuNode(t, ovn)
	settings := node.Path("/etc/dpu-heartbeat")
	must(t, os.MkdirAll(settings, 0o755))
	made := credential(t, p.Node, "--server", "https://"+hostsAPI)
	if out, err := exec.Command("cp", "-a", made+"/.", settings).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	kubectl(t, w.control, "label", "node", node.Name, "k8s.ovn.org/dpu=")
	manifest, err := rendered(t, dpuChart, "--set=image.repository="+dpuImage+",image.tag="+tag+",image.pullPolicy=Never,leaseNamespace="+harness.Namespace,
		fmt.Sprintf("--set=dpuHealthCheck.renewInterval=%d,dpuHealthCheck.leaseDuration=%d", interval/time.Second, duration/time.Second),
		`--set-json=probes=["interval=200ms,timeout=1s,refused=250ms,silent=3s,missing=3s,wrong=3s;ovn-kubernetes"]`)
	must(t, err)
	file := filepath.Join(t.TempDir(), "dpu.yaml")
	must(t, harness.WriteFile(file, manifest, 0o600))
	p.StartHost()
	p.Expect(soon, "Unknown", "AwaitingFirstRenewal")

	must(t, w.control.Apply(t.Context(), file))
	started := time.Now()
	p.Expect(2*soon, "Ready", "LeaseRenewed")
	t.Logf("the host saw the DPU %s after its DaemonSet was applied", time.Since(started).Round(100*time.Millisecond))
	pods := func() (*core.PodList, error) {
		return w.admin.CoreV1().Pods("default").List(t.Context(), meta.ListOptions{})
	}
	await(t, soon, "the Pod is ready", pods, func(all *core.PodList) bool {
		return len(all.Items) == 1 && len(all.Items[0].Status.ContainerStatuses) == 1 && all.Items[0].Status.ContainerStatuses[0].Ready
	})
	for _, name := range []string{"vswitchd", "ovn-controller"} {
		ovn.do("kill", name)
		if r := p.Expect(soon, "NotReady", "DPUReportedUnhealthy"); !strings.Contains(r.Message, "probe '"+name+"'") {
			t.Errorf("%s is dead, and the host says %s", name, r.Message)
		}
		ovn.do("start", name)
		p.Expect(soon, "Ready", "LeaseRenewed")
	}
	all, err := pods()
	must(t, err)
	if len(all.Items) != 1 || all.Items[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the Pod was started anew: %v", all.Items)
	}
	kubectl(t, w.control, "delete", "-f", file)
	p.Expect(duration+soon, "NotReady", "LeaseExpired")
}
