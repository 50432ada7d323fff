// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	hostChart = deployDir + "/charts/dpu-heartbeat-host"
	dpuChart  = deployDir + "/charts/dpu-heartbeat-dpu"
	// Sorts behind the FlowSchema of the other cases, which asks for the same precedence.
	release = "heartbeat-elsewhere"
)

// Helm as it is released, by its part's name. Helm 4 applies on the server's side.
const (
	helm3 = "helm"
	helm4 = "helm4"
)

// helm runs as the admin and returns what it says on stdout.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	return helmBy(t, helm3, args...)
}

func helmBy(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := tryHelm(t, program, args...)
	must(t, err)
	return out
}

func tryHelm(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	name := program
	program = part(t, name)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.control.AdminKubeconfig(),
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s%s", name, strings.Join(args, " "), err, said.String(), out)
	}
	return string(out), err
}

// rendered is what both Helms make of a chart with these arguments.
func rendered(t *testing.T, chart string, args ...string) (string, error) {
	t.Helper()
	args = append([]string{"template", release, chart, "-n", "default", "--kube-version", "1.34.0"}, args...)
	out, err := tryHelm(t, helm3, args...)
	out4, err4 := tryHelm(t, helm4, args...)
	if (err == nil) != (err4 == nil) || !isSame(out, out4) {
		t.Fatalf("Helm 3 and 4 differ: %v, %v:\n%s\n%s", err, err4, out, out4)
	}
	return out, err
}

// isSame says whether two manifests are, in whatever order: Helm 4 leaves more empty lines.
func isSame(a, b string) bool {
	documents := func(text string) []string {
		text = regexp.MustCompile(`\n\s*\n`).ReplaceAllString(text, "\n")
		all := strings.Split(text, "---\n")
		slices.Sort(all)
		return all
	}
	return slices.Equal(documents(a), documents(b))
}

// Each value that changes what is made.
func TestGivenTheChartsWhenTheyAreRenderedWithAnyValueThenTheServerTakesThemWithoutAWarning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, chart string
		values      []string
		has         string // in what is made
	}{
		{"host", hostChart, nil, "- install-cni"},
		{"host_watches_only", hostChart, []string{"--set=gate=off"}, "kind: FlowSchema"},
		{"host_uninstalls", hostChart, []string{"--set=gate=uninstall"}, "- uninstall-cni"},
		{"host_with_DRA", hostChart, []string{"--set=dra.enabled=true"}, "--dra-rolling-update-uid"},
		{"host_with_everything", hostChart, []string{"--set=dra.enabled=true,dra.claimConditions=true,nodeCondition=true,viewer=true"}, "dpu-heartbeat:viewers"},
		{"host_with_pods", hostChart, []string{"--set=pods.criSocket=/run/crio/crio.sock,pods.onLostNetwork=restart"}, "path: /run/crio\n"},
		{"host_on_OpenShift", hostChart, []string{"-f", hostChart + "/values-openshift.yaml"}, "path: /var/lib/cni/bin"},
		{"host_on_OpenShift_before_Multus", hostChart, []string{"-f", hostChart + "/values-openshift.yaml"}, "value: 00-multus.conf"},
		{"host_on_OpenShift_by_its_SCC", hostChart, []string{"-f", hostChart + "/values-openshift.yaml"}, "name: system:openshift:scc:privileged"},
		{"host_on_OpenShift_on_its_nodes", hostChart, []string{"-f", hostChart + "/values-openshift.yaml"}, "key: network.operator.openshift.io/dpu-host"},
		{"host_timers_as_the_platform_names_them", hostChart, []string{"--set=dpuHealthCheck.renewInterval=,dpuHealthCheck.leaseDuration=,env.OVNKUBE_NODE_LEASE_DURATION=60"},
			"name: OVNKUBE_NODE_LEASE_DURATION"},
		{"host_by_another_way", hostChart, []string{"--set=apiServer.host=192.0.2.1"}, "KUBERNETES_SERVICE_HOST"},
		{"host_with_DRA_and_a_kubelet_elsewhere", hostChart, []string{"--set=dra.enabled=true,dra.kubeletRoot=/var/lib/k0s/kubelet"}, "mountPath: /var/lib/k0s/kubelet/plugins_registry"},
		{"host_with_DRA_that_makes_no_decoy", hostChart, []string{"--set=dra.enabled=true,dra.kubeletRoot=/x/kubelet/"}, "path: /x/kubelet/plugins\n          type: Directory\n"},
		{"host_with_DRA_as_the_kubelet_knows_it", hostChart, []string{"--set=dra.enabled=true,dra.kubeletRoot=/x/kubelet"}, "value: /x/kubelet\n"},
		{"host_with_DRA_and_an_option", hostChart, []string{"--set=dra.enabled=true,dra.port=9500,dra.env.DPU_HEARTBEAT_DRA_TAINT_EFFECT=off,dra.resources.limits.memory=99Mi"}, "value: \"off\""},
		{"host_timers", hostChart, []string{"--set=dpuHealthCheck.renewInterval=500ms"}, "value: 500ms"},
		{"host_timers_in_other_units", hostChart, []string{"--set=dpuHealthCheck.renewInterval=59s,dpuHealthCheck.leaseDuration=1m"}, "value: 1m"},
		{"host_timers_just_so", hostChart, []string{"--set=dpuHealthCheck.renewInterval=100ms,dpuHealthCheck.leaseDuration=1"}, "value: 100ms"},
		{"host_timers_off_by_the_interval", hostChart, []string{"--set=dpuHealthCheck.renewInterval=0,dpuHealthCheck.leaseDuration=0.5"}, "value: \"0.5\""},
		{"host_timers_off_by_the_duration", hostChart, []string{"--set=dpuHealthCheck.leaseDuration=0"}, "value: \"0\""},
		{"DPU_timer_whose_partner_a_file_may_set", dpuChart, []string{"--set=dpuHealthCheck.renewInterval=50,dpuHealthCheck.leaseDuration="}, "value: \"50\""},
		{"host_page_elsewhere", hostChart, []string{"--set=env.DPU_HEARTBEAT_HTTP_BIND_ADDRESS=0.0.0.0:9500"}, "port: 9500"},
		{"DPU_page_elsewhere", dpuChart, []string{"--set=env.DPU_HEARTBEAT_HTTP_BIND_ADDRESS=192.0.2.7:9500"}, "host: 192.0.2.7"},
		{"host_by_another_name", hostChart, []string{"--set=fullnameOverride=" + release + "-x"}, "serviceAccountName: " + release + "-x"},
		{"host_option", hostChart, []string{"--set=env.DPU_HEARTBEAT_LOG_FORMAT=json"}, "value: json"},
		{"host_of_a_further_DPU", hostChart, []string{"--set=dpu.name=dpu1,dpu.port=9415,gate=off,dra.enabled=true,dra.port=9416"}, "value: ovn-dpu-$(NODE_NAME)--dpu1"},
		{"host_of_a_further_DPU_with_its_driver", hostChart, []string{"--set=dpu.name=dpu1,gate=off,dra.enabled=true,dra.claimConditions=true"}, "resourceNames: [dpu1.dpu.k8s.ovn.org]"},
		{"host_of_a_further_DPU_keeps_off_the_gate", hostChart, []string{"--set=dpu.name=dpu1,gate=off"}, "name: DPU_HEARTBEAT_CNI_SYNC\n          value: \"false\""},
		{"host_large_number", hostChart, []string{`--set-json=env={"DPU_HEARTBEAT_API_OUTAGE_HOLD":2592000}`}, `value: "2592000"`},
		{"host_broken_number", hostChart, []string{`--set-json=env={"DPU_HEARTBEAT_STALE_HOLD":1234567.5}`}, `value: "1234567.5"`},
		{"host_option_turned_off", hostChart, []string{"--set=env.DPU_HEARTBEAT_CNI_SYNC=false"}, "name: DPU_HEARTBEAT_CNI_SYNC\n          value: \"false\""},
		{"DPU_large_number", dpuChart, []string{`--set-json=env={"X":1000000}`}, `value: "1000000"`},
		{"host_image", hostChart, []string{"--set=image.repository=r.example/h,image.tag=v9", "--set=imagePullSecrets[0].name=s"}, "image: r.example/h:v9"},
		{"DPU", dpuChart, nil, "hostPath"},
		{"DPU_with_a_Secret", dpuChart, []string{"--set=credentialSecret=s"}, "key: TOKEN_FILE"},
		{"DPU_on_OpenShift_by_its_SCC", dpuChart, []string{"-f", dpuChart + "/values-openshift.yaml"}, "serviceAccountName: " + release},
		{"DPU_on_OpenShift_on_its_nodes", dpuChart, []string{"-f", dpuChart + "/values-openshift.yaml"}, "key: network.operator.openshift.io/dpu\n"},
		{"DPU_by_DPF_with_its_credential", dpuChart, []string{"-f", dpuChart + "/values-dpf.yaml"}, "key: KUBERNETES_CA_DATA"},
		{"DPU_by_DPF_as_critical", dpuChart, []string{"-f", dpuChart + "/values-dpf.yaml"}, "path: /servingz"},
		{"DPU_by_DPF_past_sick_ones", dpuChart, []string{"-f", dpuChart + "/values-dpf.yaml"}, "maxUnavailable: 100%"},
		{"DPU_probes", dpuChart, []string{"--set=probes[0]=unix:/run/x"}, "--probe=unix:/run/x"},
		{"DPU_namespace", dpuChart, []string{"--set=leaseNamespace=there"}, "value: there"},
		{"DPU_service_labels", dpuChart, []string{"--set=serviceDaemonSet.labels.svc\\.dpu\\.nvidia\\.com/service=x,serviceDaemonSet.annotations.a=b"}, "svc.dpu.nvidia.com/service: x"},
		{"DPU_service", dpuChart, []string{"--set-json=serviceDaemonSet.nodeSelector={\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"k\",\"operator\":\"Exists\"}]}]}",
			"--set=serviceDaemonSet.resources.limits.memory=99Mi,serviceDaemonSet.updateStrategy.type=OnDelete"}, "memory: 99Mi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lint := append([]string{"lint", "--strict", c.chart}, c.values...)
			helm(t, lint...)
			out, err := rendered(t, c.chart, c.values...)
			must(t, err)
			sets := 1
			if slices.ContainsFunc(c.values, func(v string) bool { return strings.Contains(v, "dra.enabled=true") }) {
				sets = 2
			}
			if !strings.Contains(out, c.has) || strings.Count(out, "kind: DaemonSet") != sets {
				t.Fatalf("no %q, or not %d DaemonSets:\n%s", c.has, sets, out)
			}
			for _, line := range strings.Split(out, "\n") {
				name, ok := strings.CutPrefix(line, "  name: ")
				isTheirs := strings.HasSuffix(name, "dpu.k8s.ovn.org") || strings.Contains(name, "dpu-heartbeat:") || strings.HasPrefix(name, "system:")
				if ok && !strings.HasPrefix(name, release) && !isTheirs {
					t.Errorf("%q has not the release's name", name)
				}
			}
			file := filepath.Join(t.TempDir(), "all.yaml")
			must(t, harness.WriteFile(file, out, 0o600))
			serverTakes(t, "-f", file)
		})
	}
}

// What a value takes away. A part that is null, as Helm's users turn one off, leaves no nil behind.
func TestGivenValuesThatTakeSomethingAwayWhenAChartIsRenderedThenItIsNotThere(t *testing.T) {
	t.Parallel()
	type row struct{ chart, value, without string }
	rows := []row{
		{hostChart, "dra.enabled=false", "dra-driver"},
		{hostChart, "dra.enabled=true,dra.claimConditions=false", "DRA_CLAIM_CONDITIONS"},
		{hostChart, "dpuHealthCheck.leaseDuration=", "DPU_HEARTBEAT_DPU_NODE_LEASE_DURATION"},
		{dpuChart, "dpuHealthCheck.leaseDuration=", "DPU_HEARTBEAT_DPU_NODE_LEASE_DURATION"},
		{hostChart, "rbac=false", "kind: Role"},
		{hostChart, "priority=false", "kind: FlowSchema"},
		{dpuChart, "credentialSecret=s", "--config"},
		{dpuChart, "openshift=false", "serviceAccountName"},
	}
	for chart, parts := range map[string][]string{
		hostChart: {"pods", "dra", "dpu", "dpu.name", "cni", "cni.confDir", "dpuHealthCheck", "apiServer", "env", "gate", "nodeCondition"},
		dpuChart:  {"dpuHealthCheck", "dpuHealthCheck.leaseDuration", "env", "probes", "readiness"},
	} {
		for _, part := range parts {
			rows = append(rows, row{chart, part + "=null", "nil"})
		}
	}
	for _, c := range rows {
		t.Run(c.value, func(t *testing.T) {
			out, err := rendered(t, c.chart, "--set", c.value)
			must(t, err)
			if strings.Contains(out, c.without) || !strings.Contains(out, "kind: DaemonSet") {
				t.Fatalf("%q is still there, or no DaemonSet:\n%s", c.without, out)
			}
		})
	}
}

func TestGivenValuesThatMakeNoSenseWhenAChartIsRenderedThenItIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ chart, value, says string }{
		{hostChart, "gate=on", "gate"},
		{hostChart, "gates=off", "gates"},
		{hostChart, "dpu.name=dpu1", "gate: off"},
		{hostChart, "dpu.name=a--b,gate=off", "name"}, // who reads NODE--NAME cuts at the last two dashes
		{hostChart, "dpu.name=dpu1,gate=off,pods.criSocket=/run/x/x.sock,pods.onLostNetwork=restart", "pods.onLostNetwork"},
		{hostChart, "pods.criSocket=/x.sock", "pods.criSocket"},
		{hostChart, "pods.criSocket=/run/../x.sock", "pods.criSocket"},
		{hostChart, "cni.confDir=/", "cni.confDir"},
		{hostChart, "cni.binDir=/./", "cni.binDir"},
		{hostChart, "dpuHealthCheck.renewInterval=soon", "renewInterval"},
		{hostChart, "cni.confDir=etc", "confDir"},
		{hostChart, "serviceDaemonSet.nodeSelector.kubernetes\\.io/os=linux", "nodeSelector"},
		{dpuChart, "leaseNamespace=Not_A_Name", "leaseNamespace"},
		{dpuChart, "probes=unix:/x", "probes"},
		{dpuChart, "readiness=dpu", "readiness"},
		{hostChart, "cni.source=/etc/x", "source"},
		{hostChart, "cni.source=.x", "cni.source"},
		{hostChart, "cni.source=00-calico.conflist", "sorts after 00-dpu-gate.conflist"},
		{hostChart, "cni.binDir=/etc/cni/net.d/", "would both be at /etc/cni/net.d"},
		{hostChart, "pods.criSocket=/run/dpu-heartbeat/x.sock", "would both be at /run/dpu-heartbeat"},
		{hostChart, "pods.onLostNetwork=restart", "needs pods.criSocket"},
		{hostChart, "env.DPU_HEARTBEAT_ON_LOST_NETWORK=status", "needs pods.criSocket"},
		{hostChart, "dpu.name=dpu1,gate=off,env.DPU_HEARTBEAT_CNI_SYNC=on", "only the first DPU's agent"},
		{hostChart, "env.DPU_HEARTBEAT_LEASE_NAME=ovn-dpu-$(NODE_NAME)--b", "only the first DPU's agent"},
		{hostChart, "dra.kubeletRoot=/", "kubeletRoot"},
		{hostChart, "dra.kubeletRoot=var/lib/kubelet", "kubeletRoot"},
		{hostChart, "fullnameOverride=dpu-agent-7", "choose another"},
		// What the schema cannot compare: two timers, from wherever each comes.
		{hostChart, "dpuHealthCheck.renewInterval=40,dpuHealthCheck.leaseDuration=10", "longer than the renew interval, which is 40"},
		{dpuChart, "dpuHealthCheck.renewInterval=40,dpuHealthCheck.leaseDuration=40", "longer than the renew interval, which is 40"},
		{hostChart, "dpuHealthCheck.renewInterval=1m,dpuHealthCheck.leaseDuration=59s", "longer than the renew interval, which is 1m"},
		{hostChart, "dpuHealthCheck.renewInterval=50,dpuHealthCheck.leaseDuration=", "the default of dpuHealthCheck.leaseDuration"},
		{dpuChart, "credentialSecret=s,dpuHealthCheck.renewInterval=,dpuHealthCheck.leaseDuration=10", "the default of dpuHealthCheck.renewInterval"},
		{hostChart, "dpuHealthCheck.leaseDuration=,env.OVNKUBE_NODE_LEASE_DURATION=9", "env.OVNKUBE_NODE_LEASE_DURATION"},
		{dpuChart, "env.DPU_HEARTBEAT_DPU_NODE_LEASE_DURATION=9", "env.DPU_HEARTBEAT_DPU_NODE_LEASE_DURATION"},
		{hostChart, "dpuHealthCheck.renewInterval=,env.OVNKUBE_NODE_DPU_LEASE_RENEW_INTERVAL=soon", "not a duration"},
		{hostChart, "dpuHealthCheck.renewInterval=99ms", "at least 100ms"},
		{hostChart, "dpuHealthCheck.leaseDuration=40.5", "whole seconds"},
		{dpuChart, "dpuHealthCheck.leaseDuration=10500ms", "whole seconds"},
		{hostChart, "dpuHealthCheck.leaseDuration=601", "0 to 600s"},
	} {
		t.Run(c.value, func(t *testing.T) {
			_, err := rendered(t, c.chart, "--set", c.value)
			refusedWith(t, c.says, c.value, err)
		})
	}
	// The policy for DPUs goes by the names of their accounts.
	_, err := tryHelm(t, helm3, "template", "dpu-agent-x", hostChart, "--kube-version", "1.34.0")
	refusedWith(t, "choose another", "the release's name", err)
	helm(t, "template", "dpu-agents", hostChart, "--kube-version", "1.34.0")
}

// Not in parallel: its policies bind the certificates of all DPUs to its namespace.
func TestGivenAnotherNamespaceWhenTheHostsChartIsInstalledThenAllOfItHoldsThereAndGoesAgain(t *testing.T) {
	const ns = "elsewhere"
	createNamespace(t, shared.admin, ns)
	t.Cleanup(func() {
		_ = shared.admin.CoreV1().Namespaces().Delete(bounded(t), ns, meta.DeleteOptions{})
	})
	// No node has that label: this is about what is installed, not about its pods.
	nowhere := `--set-json=serviceDaemonSet.nodeSelector={"nodeSelectorTerms":[{"matchExpressions":[{"key":"nowhere","operator":"Exists"}]}]}`
	notes := helm(t, "install", release, hostChart, "-n", ns, "--wait", "--set=viewer=true", nowhere)
	if !strings.Contains(notes, "kubectl dpu nodes -n "+ns) {
		t.Fatalf("the notes do not say what to look at: %s", notes)
	}
	t.Cleanup(func() { _, _ = tryHelm(t, helm3, "uninstall", release, "-n", ns, "--ignore-not-found") })
	t.Run("agents_and_policies", func(t *testing.T) { worksIn(t, ns) })

	manifest := helm(t, "get", "manifest", release, "-n", ns)
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	must(t, harness.WriteFile(file, manifest, 0o600))
	helm(t, "upgrade", release, hostChart, "-n", ns, "--wait", "--reuse-values", "--set=gate=off,viewer=false")
	if out, err := shared.control.Kubectl(t.Context(), "get", "-n", ns, "role", release+"-viewer"); err == nil {
		t.Fatalf("the upgrade left the viewer: %s", out)
	}
	helm(t, "rollback", release, "1", "-n", ns, "--wait")
	kubectl(t, shared.control, "get", "-n", ns, "role", release+"-viewer")
	helm(t, "uninstall", release, "-n", ns, "--wait")
	if left := kubectl(t, shared.control, "get", "--ignore-not-found", "-f", file); strings.TrimSpace(left) != "" {
		t.Fatalf("left behind: %s", left)
	}
}

func createNamespace(t *testing.T, admin *kubernetes.Clientset, name string) {
	t.Helper()
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}, meta.CreateOptions{})
	must(t, err)
}

// worksIn has both agents work in ns, and shows that the policies bite there.
func worksIn(t *testing.T, ns string) {
	p, other := newPair(t, shared.control, shared.admin), newPair(t, shared.control, shared.admin)
	host, dpu := p.bothBy("--namespace", ns, "--release", release, "--duration", "1")

	leases := shared.admin.CoordinationV1().Leases(ns)
	_, err := leases.Create(t.Context(), leaseOf(other), meta.CreateOptions{})
	must(t, err)
	for _, side := range []string{dpu, host} {
		c := clientOf(t, filepath.Join(side, "kubeconfig"))
		poll(t, soon, "the policy is in force", func() error {
			lease, err := leases.Get(t.Context(), other.LeaseName(), meta.GetOptions{})
			must(t, err)
			renewed(lease)
			_, err = c.CoordinationV1().Leases(ns).Update(t.Context(), lease, meta.UpdateOptions{})
			if err == nil || !strings.Contains(err.Error(), "its own lease") {
				return fmt.Errorf("another node's lease: %v", err)
			}
			return nil
		})
		_, err = in(c).Get(t.Context(), p.LeaseName(), meta.GetOptions{})
		refusedWith(t, "forbidden", "a lease of the other namespace", err)
	}
	// As somebody who may but look, through kubectl.
	must(t, shared.control.PKI.Client(p.file("viewer"), harness.Identity{User: "somebody", Groups: []string{"dpu-heartbeat:viewers"}}))
	must(t, shared.control.PKI.Kubeconfig(p.file("viewer.kubeconfig"), shared.control.Server, harness.Credential{CertBase: p.file("viewer")}))
	must(t, os.Symlink(ours(t, "dpuctl"), p.file("kubectl-dpu")))
	cmd := exec.CommandContext(t.Context(), filepath.Join(shared.parts, "kubectl"), "dpu", "nodes", "-n", ns)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.file("viewer.kubeconfig"), "PATH="+p.Dir+":"+os.Getenv("PATH"))
	out, _ := cmd.CombinedOutput() // its status is that of the worst DPU
	if !strings.Contains(string(out), "2 with a DPU") || strings.Contains(string(out), "not checked") {
		t.Fatalf("%s", out)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == p.Node && words[1] != "Ready" {
			t.Fatalf("%s", out)
		}
	}
}
