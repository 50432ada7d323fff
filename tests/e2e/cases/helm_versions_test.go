// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dpu-heartbeat.test/e2e/harness"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nowhere is a value that keeps the DaemonSets off all nodes, for cases about what is installed, not about its Pods.
const nowhere = `serviceDaemonSet={"nodeSelector":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"nowhere","operator":"Exists"}]}]}}`

// theRelease has a namespace of its own; all of it goes in the end.
type theRelease struct {
	t  *testing.T
	ns string
}

func newRelease(t *testing.T, ns string) *theRelease {
	createNamespace(t, shared.admin, ns)
	t.Cleanup(func() {
		_, _ = tryHelm(t, helm4, "uninstall", release, "-n", ns, "--ignore-not-found")
		// Helm 4 leaves some of what upgrades made before one that failed, and other cases use these names.
		_, _ = shared.control.Kubectl(bounded(t), "delete", "--ignore-not-found", "clusterrole,clusterrolebinding", release+"-node-condition")
		_ = shared.admin.CoreV1().Namespaces().Delete(bounded(t), ns, meta.DeleteOptions{})
	})
	return &theRelease{t, ns}
}

func (r *theRelease) try(program, verb, what string, args ...string) error {
	words := []string{verb, release}
	if what != "" {
		words = append(words, what)
	}
	_, err := tryHelm(r.t, program, append(append(words, "-n", r.ns), args...)...)
	return err
}

func (r *theRelease) must(program, verb, what string, args ...string) {
	r.t.Helper()
	must(r.t, r.try(program, verb, what, args...))
}

func (r *theRelease) daemonSet() *apps.DaemonSet {
	r.t.Helper()
	set, err := shared.admin.AppsV1().DaemonSets(r.ns).Get(r.t.Context(), release, meta.GetOptions{})
	must(r.t, err)
	return set
}

// expect looks at the agent's image and at the init container, which installs or removes the gate.
func (r *theRelease) expect(image, initContainer string) {
	r.t.Helper()
	pod := r.daemonSet().Spec.Template.Spec
	if pod.Containers[0].Image != image || len(pod.InitContainers) != 1 || pod.InitContainers[0].Name != initContainer {
		r.t.Fatalf("image %s, init containers %v", pod.Containers[0].Image, pod.InitContainers)
	}
}

// editImage is what an admin does in a hurry.
func (r *theRelease) editImage(image string) {
	r.t.Helper()
	kubectl(r.t, shared.control, "set", "image", "-n", r.ns, "daemonset/"+release, "dpu-host-agent="+image)
}

func (r *theRelease) isThere(kind, name string) bool {
	out, _ := shared.control.Kubectl(r.t.Context(), "get", "-n", r.ns, kind, name, "--ignore-not-found", "-o", "name")
	return strings.TrimSpace(out) != ""
}

// Not in parallel, as the others that install: the chart's policies bind the certificates of all DPUs to its namespace.
func TestGivenAReleaseOfHelm4WhenTheAdminEditedItThenThePagesWayUpgradesRollsBackAndRemovesIt(t *testing.T) {
	r := newRelease(t, "helm-four")
	values := []string{"--set-json=" + nowhere, "--set=image.repository=r.example/h"}
	r.must(helm4, "install", hostChart, values...)
	manifest := filepath.Join(t.TempDir(), "manifest.yaml")
	must(t, harness.WriteFile(manifest, helmBy(t, helm4, "get", "manifest", release, "-n", r.ns), 0o600))

	// What an admin and the page do every day takes no field of the chart's.
	kubectl(t, shared.control, "rollout", "restart", "-n", r.ns, "daemonset/"+release)
	kubectl(t, shared.control, "set", "env", "-n", r.ns, "daemonset/"+release, "MINE=1")
	kubectl(t, shared.control, "annotate", "-n", r.ns, "daemonset/"+release, "mine=1")
	r.must(helm4, "upgrade", hostChart, "--reuse-values", "--set=nodeCondition=true")

	r.editImage("r.example/h:edited")
	err := r.try(helm4, "upgrade", hostChart, "--reuse-values", "--set=viewer=true", "--cleanup-on-fail")
	refusedWith(t, "conflict", "an upgrade over an edited field", err)
	if r.isThere("role", release+"-viewer") {
		t.Error("--cleanup-on-fail left what the failed upgrade had made")
	}
	r.expect("r.example/h:edited", "install-cni")
	r.must(helm4, "upgrade", hostChart, "--reuse-values", "--set=viewer=true", "--force-conflicts")
	r.expect("r.example/h:0.1.0", "install-cni")
	r.must(helm4, "upgrade", hostChart, "--reuse-values", "--set=viewer=false") // the field is Helm's again

	r.editImage("r.example/h:edited")
	refusedWith(t, "conflict", "a rollback over an edited field", r.try(helm4, "rollback", "1"))
	r.must(helm4, "rollback", "1", "--force-conflicts")
	r.expect("r.example/h:0.1.0", "install-cni")

	r.editImage("r.example/h:edited")
	r.must(helm4, "upgrade", hostChart, "--reuse-values", "--set=gate=uninstall", "--force-conflicts", "--cleanup-on-fail")
	r.expect("r.example/h:0.1.0", "uninstall-cni")
	r.must(helm4, "uninstall", "", "--wait")
	if left := kubectl(t, shared.control, "get", "--ignore-not-found", "-f", manifest); strings.TrimSpace(left) != "" {
		t.Fatalf("left behind: %s", left)
	}
}

func TestGivenAReleaseWhenHelm3And4TakeTurnsThenItIsOneDaemonSetThroughout(t *testing.T) {
	for first, second := range map[string]string{helm3: helm4, helm4: helm3} {
		t.Run(first+"_first", func(t *testing.T) {
			r := newRelease(t, "turns-"+first)
			r.must(first, "install", hostChart, "--set-json="+nowhere, "--set=image.repository=r.example/h,gate=install")
			uid := r.daemonSet().UID
			r.must(second, "upgrade", hostChart, "--reuse-values", "--set=image.tag=two")
			r.expect("r.example/h:two", "install-cni")
			r.editImage("r.example/h:edited") // no conflict: Helm 4 goes on as Helm 3 did, on the client's side
			r.must(first, "upgrade", hostChart, "--reuse-values", "--set=image.tag=three")
			r.expect("r.example/h:three", "install-cni")
			r.editImage("r.example/h:edited")
			r.must(second, "rollback", "1")
			r.expect("r.example/h:0.1.0", "install-cni")
			r.editImage("r.example/h:edited")
			r.must(first, "upgrade", hostChart, "--reuse-values", "--set=gate=uninstall")
			r.expect("r.example/h:0.1.0", "uninstall-cni")
			if r.daemonSet().UID != uid {
				t.Error("the DaemonSet is another one")
			}
			if env := r.daemonSet().Spec.Template.Spec.Containers[0].Env; len(env) != len(slices.CompactFunc(slices.Clone(env),
				func(a, b core.EnvVar) bool { return a.Name == b.Name })) {
				t.Errorf("%v", env)
			}
			r.must(second, "uninstall", "", "--wait")
			if r.isThere("daemonset", release) {
				t.Error("the DaemonSet is left")
			}
		})
	}
}

// taintedNode makes a Node without a kubelet that both charts' DaemonSets select, with the taints that DPF and
// Kubernetes give to a host whose DPU is down.
func taintedNode(t *testing.T, name string) {
	t.Helper()
	room := core.ResourceList{core.ResourceCPU: resource.MustParse("4"), core.ResourceMemory: resource.MustParse("8Gi"), core.ResourcePods: resource.MustParse("20")}
	_, err := shared.admin.CoreV1().Nodes().Create(t.Context(), &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{"k8s.ovn.org/dpu-host": "", "k8s.ovn.org/dpu": ""}},
		Spec: core.NodeSpec{Taints: []core.Taint{
			{Key: "dpu.nvidia.com/dpu-ready", Effect: core.TaintEffectNoSchedule},
			{Key: "dpu.nvidia.com/host-network", Value: "lost", Effect: core.TaintEffectNoExecute},
			{Key: "node.kubernetes.io/network-unavailable", Effect: core.TaintEffectNoSchedule}}},
		Status: core.NodeStatus{Capacity: room, Allocatable: room}}, meta.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = shared.admin.CoreV1().Nodes().Delete(bounded(t), name, meta.DeleteOptions{}) })
}

// As DPF deploys: one release with both charts. Its Nodes are tainted, and Pods without the toleration are evicted.
func TestGivenAParentChartWhenItIsInstalledOnTaintedNodesThenEachDaemonSetRunsThere(t *testing.T) {
	const node = "tainted"
	site := parentChart(t, siteChart, siteValues)
	taintedNode(t, node)
	for _, program := range []string{helm3, helm4} {
		t.Run(program, func(t *testing.T) {
			r := newRelease(t, "umbrella-"+program)
			r.must(program, "install", site)
			r.must(program, "upgrade", site, "--set=dpu-heartbeat-host.nodeCondition=true")
			victim := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "victim", Namespace: r.ns}, Spec: core.PodSpec{NodeName: node,
				Containers: []core.Container{{Name: "c", Image: "i"}}}}
			_, err := shared.admin.CoreV1().Pods(r.ns).Create(t.Context(), victim, meta.CreateOptions{})
			must(t, err)
			poll(t, soon, "the Pod without a toleration is evicted, and those of three DaemonSets are not", func() error {
				pods, err := shared.admin.CoreV1().Pods(r.ns).List(t.Context(), meta.ListOptions{})
				must(t, err)
				owners := map[string]int{}
				for _, pod := range pods.Items {
					if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
						owners[pod.Labels["app.kubernetes.io/instance"]]++
					}
				}
				if len(owners) != 3 || owners[""] != 0 {
					return fmt.Errorf("%v", owners)
				}
				return nil
			})
			r.must(program, "uninstall", "")
			for _, kind := range []string{"daemonset", "role", "serviceaccount"} {
				if left := kubectl(t, shared.control, "get", kind, "-n", r.ns, "-o", "name"); strings.Contains(left, release) {
					t.Errorf("left behind: %s", left)
				}
			}
		})
	}
}
