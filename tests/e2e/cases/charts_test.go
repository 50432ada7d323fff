// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dpu-heartbeat.test/e2e/harness"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A parent chart with both of ours, one of them twice.
const siteChart = `apiVersion: v2
name: site
version: 1.0.0
dependencies:
  - {name: dpu-heartbeat-host, version: ">=0.0.0-0"}
  - {name: dpu-heartbeat-dpu, version: ">=0.0.0-0"}
` + second

const second = `  - {name: dpu-heartbeat-host, version: ">=0.0.0-0", alias: Second_DPU}
`

const siteValues = `Second_DPU: {gate: "off", dpu: {name: dpu1, port: 9414}}
`

// parentChart makes a chart with the given Chart.yaml and values, with ours in its charts/.
func parentChart(t *testing.T, chart, values string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site")
	must(t, os.MkdirAll(filepath.Join(dir, "charts"), 0o755))
	must(t, harness.WriteFile(filepath.Join(dir, "Chart.yaml"), chart, 0o644))
	must(t, harness.WriteFile(filepath.Join(dir, "values.yaml"), values, 0o644))
	helm(t, "package", "-d", filepath.Join(dir, "charts"), hostChart, dpuChart)
	return dir
}

// objectsIn are the objects of a manifest; two of one kind and name are a mistake of ours.
func objectsIn(t *testing.T, manifest string) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	seen := map[string]bool{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		var o unstructured.Unstructured
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		must(t, err)
		if o.Object == nil {
			continue
		}
		key := o.GetKind() + "/" + o.GetName()
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		objects = append(objects, o)
	}
}

// daemonSetsIn are the DaemonSets of a manifest, by name.
func daemonSetsIn(t *testing.T, manifest string) map[string]apps.DaemonSet {
	t.Helper()
	sets := map[string]apps.DaemonSet{}
	for _, o := range objectsIn(t, manifest) {
		if o.GetKind() == "DaemonSet" {
			var set apps.DaemonSet
			text, err := o.MarshalJSON()
			must(t, err)
			must(t, json.Unmarshal(text, &set))
			sets[set.Name] = set
		}
	}
	return sets
}

// Users have DaemonSets of these names: an upgrade must not make others beside them.
func TestGivenAReleaseOfItsOwnWhenItIsRenderedThenItsNamesAreTheReleases(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"r", "dpu-heartbeat", "dpu-heartbeat-host", "dpu-host-agent", "dpu-agent", "ovn-kubernetes-x", strings.Repeat("n", 53)} {
		for chart, program := range map[string]string{hostChart: "dpu-host-agent", dpuChart: "dpu-agent"} {
			t.Run(name+filepath.Base(chart), func(t *testing.T) {
				out := helmBy(t, helm4, "template", name, chart, "-n", "ns", "--kube-version", "1.34.0", "--set=openshift=true")
				want := name[:min(40, len(name))]
				set, ok := daemonSetsIn(t, out)[want]
				labels := map[string]string{"app.kubernetes.io/name": program, "app.kubernetes.io/instance": name}
				if !ok || fmt.Sprint(set.Spec.Selector.MatchLabels) != fmt.Sprint(labels) {
					t.Fatalf("no DaemonSet %s, or it selects by %v", want, set.Spec.Selector)
				}
				var hasAccount bool
				for _, o := range objectsIn(t, out) {
					hasAccount = hasAccount || o.GetKind() == "ServiceAccount" && o.GetName() == set.Spec.Template.Spec.ServiceAccountName
					if !strings.HasPrefix(o.GetName(), want) || strings.HasPrefix(o.GetName(), want+"-"+want) {
						t.Errorf("%s %s", o.GetKind(), o.GetName())
					}
				}
				if !hasAccount {
					t.Errorf("there is no account %q", set.Spec.Template.Spec.ServiceAccountName)
				}
			})
		}
	}
}

func TestGivenAParentChartWhenItIsRenderedThenEachOfOursHasNamesOfItsOwn(t *testing.T) {
	t.Parallel()
	site := parentChart(t, siteChart, siteValues)
	withoutSecond := strings.Replace(siteChart, second, "", 1)
	between := filepath.Join(t.TempDir(), "umbrella")
	must(t, os.MkdirAll(filepath.Join(between, "charts"), 0o755))
	must(t, harness.WriteFile(filepath.Join(between, "Chart.yaml"), `{apiVersion: v2, name: umbrella, version: 1.0.0, dependencies: [
		{name: site, version: "1.0.0", alias: east}, {name: site, version: "1.0.0", alias: west}]}`, 0o644))
	// Helm 3 loses the second of two aliases below aliases: no second DPU here.
	helm(t, "package", "-d", filepath.Join(between, "charts"), parentChart(t, withoutSecond, ""))
	for _, c := range []struct {
		name, chart string
		has         []string
		sets        int
	}{
		{"r", site, []string{"r-dpu-heartbeat-host", "r-dpu-heartbeat-dpu"}, 3},
		{"dpu-heartbeat-host", site, []string{"dpu-heartbeat-host-dpu-heartbeat-host", "dpu-heartbeat-host-dpu-heartbeat-dpu"}, 3},
		{strings.Repeat("n", 53), site, nil, 3},
		{"r", between, []string{"r-east-dpu-heartbeat-host", "r-west-dpu-heartbeat-host", "r-west-dpu-heartbeat-dpu"}, 4},
	} {
		t.Run(fmt.Sprintf("%s_%s", c.name, filepath.Base(c.chart)), func(t *testing.T) {
			args := []string{"template", c.name, c.chart, "-n", "ns", "--kube-version", "1.34.0"}
			out := helm(t, args...)
			if by4 := helmBy(t, helm4, args...); !isSame(by4, out) {
				t.Fatalf("Helm 4 makes something else:\n%s", by4)
			}
			sets := daemonSetsIn(t, out)
			var selectors []string
			for name, set := range sets {
				if len(name) > 63 || !strings.HasPrefix(name, c.name[:min(30, len(c.name))]) ||
					!(strings.HasSuffix(name, "-dpu-heartbeat-host") || strings.HasSuffix(name, "-dpu-heartbeat-dpu") || strings.HasSuffix(name, "-second-dpu")) {
					t.Errorf("DaemonSet %q names not its release and chart", name)
				}
				selectors = append(selectors, fmt.Sprint(set.Spec.Selector.MatchLabels))
			}
			slices.Sort(selectors)
			if len(sets) != c.sets || len(slices.Compact(selectors)) != c.sets {
				t.Fatalf("%d DaemonSets, which select by %v", len(sets), selectors)
			}
			for _, name := range c.has {
				if _, ok := sets[name]; !ok {
					t.Errorf("no DaemonSet %q", name)
				}
			}
		})
	}
	// A parent with one of ours may keep the names that it had before those of the chart were in them.
	one := parentChart(t, withoutSecond, "dpu-heartbeat-host: {fullnameOverride: r}\n")
	set, ok := daemonSetsIn(t, helmBy(t, helm4, "template", "r", one, "-n", "ns", "--kube-version", "1.34.0"))["r"]
	if !ok || set.Spec.Selector.MatchLabels["app.kubernetes.io/instance"] != "r" {
		t.Fatalf("fullnameOverride: %v", set.Spec.Selector)
	}
}

// What a platform gives to a chart: DPF's controller (serviceDaemonSet, without what is not set), and a parent (global).
func TestGivenThePlatformsValuesWhenAChartIsRenderedThenTheyAreTakenAndAnyTaintIsTolerated(t *testing.T) {
	t.Parallel()
	terms := `"nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"In","values":["a"]}]}]}`
	for name, values := range map[string]string{
		"least":      `{"serviceDaemonSet":{"labels":{"svc.dpu.nvidia.com/service":"s"}}}`,
		"empty":      `{"serviceDaemonSet":{"labels":{},"annotations":{}},"global":{}}`,
		"parent":     `{"global":{"image":{"registry":"r.example"},"skipCallToK8s":true}}`,
		"no_global":  `{"global":null}`,
		"everything": `{"serviceDaemonSet":{` + terms + `,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"maxSurge":0}},"labels":{"a":"b"},"annotations":{"c":"d"},"resources":{"limits":{"memory":"1Gi"}}}}`,
	} {
		for _, chart := range []string{hostChart, dpuChart} {
			t.Run(name+"_"+filepath.Base(chart), func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "values.json")
				must(t, harness.WriteFile(file, values, 0o600))
				args := []string{"-f", file}
				if chart == dpuChart {
					args = append([]string{"-f", dpuChart + "/values-dpf.yaml"}, args...)
				}
				out, err := rendered(t, chart, args...)
				must(t, err)
				set, ok := daemonSetsIn(t, out)[release]
				if !ok {
					t.Fatal(out)
				}
				// DPF taints the hosts' Nodes: NoSchedule for critical services, NoExecute for a lost host network.
				if !slices.Contains(set.Spec.Template.Spec.Tolerations, core.Toleration{Operator: core.TolerationOpExists}) {
					t.Errorf("%v", set.Spec.Template.Spec.Tolerations)
				}
			})
		}
	}
}

// environmentOf is the environment of each container of the chart's Pods.
func environmentOf(t *testing.T, chart string, args ...string) map[string][]core.EnvVar {
	t.Helper()
	out, err := rendered(t, chart, args...)
	must(t, err)
	pod := daemonSetsIn(t, out)[release].Spec.Template.Spec
	env := map[string][]core.EnvVar{}
	for _, c := range append(pod.Containers, pod.InitContainers...) {
		env[c.Name] = c.Env
	}
	return env
}

// For each name that a chart itself sets: a value of the admin's takes its place, and an empty one takes it away.
func TestGivenAnOptionThatAChartSetsWhenTheAdminSetsItThenItIsThereOnce(t *testing.T) {
	t.Parallel()
	checked := map[string]string{ // what cannot be anything
		"DPU_HEARTBEAT_DPU_NODE_LEASE_RENEW_INTERVAL": "7", "DPU_HEARTBEAT_DPU_NODE_LEASE_DURATION": "77",
		"DPU_HEARTBEAT_ON_LOST_NETWORK": "status", "DPU_HEARTBEAT_CNI_SOURCE": "99-x.conf",
		"DPU_HEARTBEAT_HTTP_BIND_ADDRESS": "127.0.0.1:9499",
	}
	for _, c := range []struct{ name, chart, values string }{
		{"host", hostChart, "dra.enabled=true,dra.claimConditions=true,pods.criSocket=/run/x/x.sock,apiServer.host=h,cni.source=x.conf"},
		{"further_DPU", hostChart, "dpu.name=d,gate=off"},
		{"DPU", dpuChart, "credentialSecret=s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			allowed := maps.Clone(checked)
			names := map[string]bool{}
			for _, env := range environmentOf(t, c.chart, "--set", c.values) {
				for _, v := range env {
					names[v.Name] = true
				}
			}
			if len(names) < 5 {
				t.Fatalf("%v", names)
			}
			set, empty := []string{"--set", c.values}, []string{"--set", c.values}
			for name := range names {
				if allowed[name] == "" {
					allowed[name] = "mine"
				}
				set = append(set, "--set-string", "env."+name+"="+allowed[name])
				empty = append(empty, "--set-string", "env."+name+"=")
			}
			for container, env := range environmentOf(t, c.chart, set...) {
				seen := map[string]bool{}
				for _, v := range env {
					if seen[v.Name] || v.Value != allowed[v.Name] || v.ValueFrom != nil {
						t.Errorf("%s: %v, or twice", container, v)
					}
					seen[v.Name] = true
				}
				if len(seen) != len(names) {
					t.Errorf("%s has only %v", container, seen)
				}
			}
			for container, env := range environmentOf(t, c.chart, empty...) {
				if len(env) != 0 {
					t.Errorf("%s: still there: %v", container, env)
				}
			}
		})
	}
}
