// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	draDriver = "dpu.k8s.ovn.org"
	// How long the kubelet believes a report.
	draTimeout = 6 * time.Second
)

// draPair is realPair on the cluster with DRA whose node is free first.
func draPair(t *testing.T) *pair {
	t.Helper()
	t.Parallel()
	own, err := draWorld()
	must(t, err)
	worlds := []*world{own, shared}
	if minor < 36 {
		worlds = worlds[:1]
	}
	for ; ; time.Sleep(50 * time.Millisecond) {
		for _, w := range worlds {
			if w.nodeInUse.TryLock() {
				return w.pairOfLocked(t)
			}
		}
	}
}

// draPairAlone is draPair for a case that does to its cluster what others there would notice.
func draPairAlone(t *testing.T) *pair {
	t.Helper()
	t.Parallel()
	own, err := draWorld()
	must(t, err)
	return own.pair(t)
}

// startDRA starts the host's agent and the DRA driver, which gets these flags.
func (p *pair) startDRA(more ...string) {
	p.t.Helper()
	p.StartHost()
	p.startDriver(more...)
}

// startDriver starts the DRA driver on the node, with a short health timeout.
func (p *pair) startDriver(more ...string) {
	p.t.Helper()
	p.starts++
	argv := append([]string{ours(p.t, "dpu-dra-driver"), "--kubeconfig", p.file("dra.kubeconfig"), "--node-name", p.Node,
		"--dra-health-timeout", draTimeout.String(), "--log-level", "debug", "--http-bind-address", "127.0.0.1:0"}, more...)
	var err error
	p.Driver, err = p.node.Run(p.t.Context(), fmt.Sprintf("dpu-dra-driver-%d", p.starts), argv...)
	must(p.t, err)
}

// claimedDPU is the real node with a DPU that is Ready, on offer by DRA and healthy.
func claimedDPU(t *testing.T, flags ...string) (*pair, *resource.ResourceSlice) {
	t.Helper()
	p := draPair(t)
	p.claimObjects()
	p.startDRA(flags...)
	return p, p.offered()
}

// offered starts the DPU, and waits until it is Ready and on offer.
func (p *pair) offered() *resource.ResourceSlice {
	p.t.Helper()
	p.StartDPU()
	p.Expect(soon, "Ready", "LeaseRenewed")
	slice := p.taints(soon, "")
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	return slice
}

// healthyPod creates a pod that claims the DPU, and waits until it runs and shows it healthy.
func (p *pair) healthyPod(name string) {
	p.t.Helper()
	p.claimingPodThat(name, oneClaim)
	p.podRuns(name)
	p.podHealth(2*soon, name, core.ResourceHealthStatusHealthy, "")
}

func (p *pair) draSlice() string { return draDriver + "-" + p.Node }

func (p *pair) awaitSlice(limit time.Duration, what string, is func(*resource.ResourceSlice) bool) *resource.ResourceSlice {
	p.t.Helper()
	return await(p.t, limit, "the slice "+what, p.slice, is)
}

func (p *pair) slice() (*resource.ResourceSlice, error) {
	return p.admin.ResourceV1().ResourceSlices().Get(p.t.Context(), p.draSlice(), meta.GetOptions{})
}

// withdrawn waits until the slice offers no device, or does again.
func (p *pair) withdrawn(limit time.Duration, want bool) {
	p.t.Helper()
	p.awaitSlice(limit, fmt.Sprintf("is empty: %v", want), func(slice *resource.ResourceSlice) bool {
		return (len(slice.Spec.Devices) == 0) == want
	})
}

// offeredToAll waits until several claims may have the device.
func (p *pair) offeredToAll(limit time.Duration) {
	p.t.Helper()
	p.awaitSlice(limit, "offers the device to all", func(slice *resource.ResourceSlice) bool {
		return slices.ContainsFunc(slice.Spec.Devices, func(device resource.Device) bool {
			return device.AllowMultipleAllocations != nil && *device.AllowMultipleAllocations
		})
	})
}

// madeAnew waits until there is another slice in place of the old one.
func (p *pair) madeAnew(limit time.Duration, old *resource.ResourceSlice) {
	p.t.Helper()
	p.awaitSlice(limit, "is another one", func(slice *resource.ResourceSlice) bool { return slice.UID != old.UID })
}

// taints waits until the device has exactly these taints, as "value/effect".
func (p *pair) taints(limit time.Duration, want string) *resource.ResourceSlice {
	p.t.Helper()
	return p.awaitSlice(limit, fmt.Sprintf("has the taints %q", want), func(slice *resource.ResourceSlice) bool {
		var got []string
		for _, device := range slice.Spec.Devices {
			for _, taint := range device.Taints {
				got = append(got, taint.Value+"/"+string(taint.Effect))
			}
		}
		return strings.Join(got, ",") == want
	})
}

// claimObjects makes the DeviceClass, a template of claims and a claim, once.
// That of the case before may take long to go: the claims' controller tries a conflict again after up to 20 s.
func (p *pair) claimObjects() {
	p.t.Helper()
	must(p.t, p.control.Apply(p.t.Context(), "../../../deploy/dra/deviceclass.yaml"))
	p.claimTemplate("dpu")
	poll(p.t, 3*soon, "the claim is made, after that of the case before has gone", func() error {
		_, err := p.makeClaim("dpu")
		return err
	})
}

func (p *pair) makeClaim(name string) (*resource.ResourceClaim, error) {
	claims := p.admin.ResourceV1().ResourceClaims("default")
	claim, err := claims.Create(p.t.Context(), &resource.ResourceClaim{
		ObjectMeta: meta.ObjectMeta{Name: name}, Spec: claimSpec()}, meta.CreateOptions{})
	if err == nil {
		p.t.Cleanup(func() { _ = claims.Delete(bounded(p.t), name, meta.DeleteOptions{}) })
	}
	return claim, err
}

func claimSpec(tolerations ...resource.DeviceToleration) resource.ResourceClaimSpec {
	return resource.ResourceClaimSpec{Devices: resource.DeviceClaim{Requests: []resource.DeviceRequest{{
		Name: "dpu", Exactly: &resource.ExactDeviceRequest{DeviceClassName: draDriver, Tolerations: tolerations,
			AllocationMode: resource.DeviceAllocationModeExactCount, Count: 1}}}}}
}

func (p *pair) claimTemplate(name string, tolerations ...resource.DeviceToleration) {
	p.t.Helper()
	templates := p.admin.ResourceV1().ResourceClaimTemplates("default")
	_, err := templates.Create(p.t.Context(),
		&resource.ResourceClaimTemplate{
			ObjectMeta: meta.ObjectMeta{Name: name},
			Spec:       resource.ResourceClaimTemplateSpec{Spec: claimSpec(tolerations...)},
		}, meta.CreateOptions{})
	must(p.t, err)
	p.t.Cleanup(func() { _ = templates.Delete(bounded(p.t), name, meta.DeleteOptions{}) })
}

func (p *pair) claimingPod(name string) {
	p.t.Helper()
	p.claimingPodThat(name, func(*core.PodSpec) {})
}

func (p *pair) claimingPodThat(name string, edit func(*core.PodSpec)) {
	p.t.Helper()
	p.podSpec(name, func(spec *core.PodSpec) {
		claiming(spec, "dpu")
		edit(spec)
	})
}

// claiming gives the pod a claim of that template.
func claiming(spec *core.PodSpec, template string) {
	anyNode(spec)
	spec.ResourceClaims = []core.PodResourceClaim{{Name: "dpu", ResourceClaimTemplateName: &template}}
	spec.Containers[0].Resources.Claims = []core.ResourceClaim{{Name: "dpu"}}
}

// oneClaim has the pod share the one claim of claimObjects. The 1.34 kubelet shows the health of no claim whose name is
// not the pod's own for it.
func oneClaim(spec *core.PodSpec) {
	name := "dpu"
	spec.ResourceClaims = []core.PodResourceClaim{{Name: name, ResourceClaimName: &name}}
}

// podHealth waits until the pod's status shows the DPU's health, and text in its message, which there is from 1.36.
func (p *pair) podHealth(limit time.Duration, name string, want core.ResourceHealthStatus, text string) {
	p.t.Helper()
	poll(p.t, limit, fmt.Sprintf("pod %s shows %s", name, want), func() error {
		return p.showsHealth(name, want, text)
	})
}

func (p *pair) showsHealth(name string, want core.ResourceHealthStatus, text string) error {
	pod, err := p.getPod(name)
	if err != nil {
		return err
	}
	all := healths(pod)
	if len(all) == 0 {
		return fmt.Errorf("there is no health in its status yet")
	}
	first, message := all[0], ""
	if first.Message != nil {
		message = *first.Message
	}
	if first.entry != "claim:dpu" || string(first.ResourceID) != draDriver+"/"+p.Node+"/dpu0" {
		return harness.Final(fmt.Errorf("%q is called %q", first.entry, first.ResourceID))
	}
	if first.Health != want || (minor >= 36 && !strings.Contains(message, text)) {
		return fmt.Errorf("it is %s: %s", first.Health, message)
	}
	return nil
}

// shownHealth is one in a pod's status, with the name that the kubelet gives its entry.
type shownHealth struct {
	entry string
	core.ResourceHealth
}

func healths(pod *core.Pod) (all []shownHealth) {
	for _, status := range pod.Status.ContainerStatuses {
		for _, allocated := range status.AllocatedResourcesStatus {
			for _, r := range allocated.Resources {
				all = append(all, shownHealth{string(allocated.Name), r})
			}
		}
	}
	return all
}

// claimCondition waits until the claim of claimObjects has the condition Ready for the DPU.
func (p *pair) claimCondition(want meta.ConditionStatus, reason string) {
	p.t.Helper()
	await(p.t, 2*soon, fmt.Sprintf("the claim is Ready=%s", want), func() (*resource.ResourceClaim, error) {
		return p.admin.ResourceV1().ResourceClaims("default").Get(p.t.Context(), "dpu", meta.GetOptions{})
	}, func(claim *resource.ResourceClaim) bool {
		return slices.ContainsFunc(claim.Status.Devices, func(d resource.AllocatedDeviceStatus) bool {
			c := d.Conditions
			return d.Driver == draDriver && len(c) == 1 && c[0].Type == "Ready" && c[0].Status == want && c[0].Reason == reason
		})
	})
}

// One story, in order: a DPU that is claimed, dies, returns, and whose watcher goes away.
func TestGivenAPodThatClaimsTheDPUWhenTheDPUDiesAndReturnsThenPodAndSchedulerFollow(t *testing.T) {
	p, slice := claimedDPU(t, "--dra-claim-conditions")
	if len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].Name != realNode {
		t.Errorf("the slice's owners are %v", slice.OwnerReferences)
	}
	p.healthyPod("claims")
	p.claimingPodThat("twin", oneClaim) // of the same claim
	p.claimingPod("shares")             // every pod of the node may have it
	p.podRuns("twin")
	p.podRuns("shares")

	// When the DPU dies, then the pod says so, and no new claim is given the device.
	p.DPU.Kill()
	p.taints(nodeDuration+soon, "LeaseExpired/NoSchedule")
	p.podHealth(2*soon, "claims", core.ResourceHealthStatusUnhealthy, "LeaseExpired")
	p.podHealth(2*soon, "twin", core.ResourceHealthStatusUnhealthy, "LeaseExpired")
	p.claimCondition(meta.ConditionFalse, "LeaseExpired")
	p.claimingPod("late")
	p.podNotScheduled("late")

	// When it returns, then everything does.
	p.StartDPU()
	p.taints(soon, "")
	p.podHealth(2*soon, "claims", core.ResourceHealthStatusHealthy, "")
	p.claimCondition(meta.ConditionTrue, "LeaseRenewed")
	p.podRuns("late")

	// When the kubelet removes our slice, as it does at its start, then it is back.
	must(t, p.admin.ResourceV1().ResourceSlices().Delete(t.Context(), p.draSlice(), meta.DeleteOptions{}))
	p.madeAnew(soon, slice)

	// When the driver stops, then the pod is told Unknown; when another one starts, Healthy.
	must(t, p.Driver.Signal(syscall.SIGTERM))
	must(t, p.Driver.Wait(10*time.Second))
	p.podHealth(2*soon, "claims", core.ResourceHealthStatusUnknown, "")
	p.startDriver()
	p.podHealth(2*soon, "claims", core.ResourceHealthStatusHealthy, "")

	// When the judge dies, then the pod is told so once the record is overdue; with another judge, Healthy.
	p.Host.Kill()
	p.podHealth(2*soon, "claims", core.ResourceHealthStatusUnknown, "RecordStale")
	p.taints(0, "") // its last verdict still counts, as it does for CNI
	p.StartHost()
	p.podHealth(2*soon, "claims", core.ResourceHealthStatusHealthy, "")

	// When a pod goes, then nothing holds it: Unprepare succeeds without its claim.
	p.deletePod("shares")
}

// beside starts another node with a kubelet, and returns its pair.
func (p *pair) beside(name string) *pair {
	p.t.Helper()
	other := &pair{t: p.t, control: p.control, admin: p.admin, Node: name, Dir: p.file(name)}
	var err error
	other.node, err = startNode(p.t.Context(), p.control, name, other.file("node"))
	must(p.t, err)
	p.t.Cleanup(func() {
		other.node.Stop()
		must(p.t, other.deleteNode(bounded(p.t)))
	})
	return other.onNode()
}

// toldToGo waits until the pod is being deleted, and fails if it was told so early. Both times are cut to the second.
func (p *pair) toldToGo(name string, earliest time.Time) {
	p.t.Helper()
	poll(p.t, 2*soon, "pod "+name+" is told to go", func() error {
		pod, err := p.getPod(name)
		if err != nil {
			return harness.Final(err) // its last second is longer than our pause
		}
		if pod.DeletionTimestamp == nil {
			return fmt.Errorf("it stays")
		}
		told := pod.DeletionTimestamp.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		if told.Before(earliest.Add(-time.Second)) {
			return harness.Final(fmt.Errorf("at %s, before %s", told, earliest))
		}
		return nil
	})
}

// runsOn waits until a pod of the ReplicaSet, which stays, runs on the node.
func (p *pair) runsOn(set string) {
	p.t.Helper()
	await(p.t, 2*soon, "a pod of "+set+" runs on "+p.Node, func() (*core.PodList, error) {
		return p.admin.CoreV1().Pods("default").List(p.t.Context(), meta.ListOptions{LabelSelector: "set=" + set})
	}, func(pods *core.PodList) bool {
		return slices.ContainsFunc(pods.Items, func(pod core.Pod) bool {
			return pod.DeletionTimestamp == nil && pod.Spec.NodeName == p.Node && pod.Status.Phase == core.PodRunning
		})
	})
}

func TestGivenTwoNodesAndNoExecuteWhenOneDPUDiesThenItsPodsMoveOrLeaveWhenTheirTolerationEnds(t *testing.T) {
	p := draPairAlone(t)
	p.claimObjects()
	p.startDRA("--dra-taint-effect=NoExecute")
	p.offered()
	labels, one, patience := map[string]string{"set": "moves"}, int32(1), int64(5)
	sets := p.admin.AppsV1().ReplicaSets("default")
	_, err := sets.Create(t.Context(), &apps.ReplicaSet{ObjectMeta: meta.ObjectMeta{Name: "moves"},
		Spec: apps.ReplicaSetSpec{Replicas: &one, Selector: &meta.LabelSelector{MatchLabels: labels},
			Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: labels},
				Spec: podOf(func(spec *core.PodSpec) { claiming(spec, "dpu") })}}}, meta.CreateOptions{})
	must(t, err)
	p.claimTemplate("patient", resource.DeviceToleration{Operator: resource.DeviceTolerationOpExists,
		Effect: resource.DeviceTaintEffectNoExecute, TolerationSeconds: &patience})
	if minor >= 36 { // 1.34 evicts it at once: its scheduler hands no toleration on
		p.podSpec("patient", func(spec *core.PodSpec) { claiming(spec, "patient") })
		p.podRuns("patient")
	}
	p.pod("bystander", realNode)
	p.podRuns("bystander")
	p.runsOn("moves")
	other := p.beside("worker-2")
	t.Cleanup(func() { _, _ = p.control.Kubectl(bounded(t), "delete", "--cascade=foreground", "replicaset", "moves") })
	other.startDRA("--dra-taint-effect=NoExecute")
	other.offered()

	p.DPU.Kill()
	taint := p.taints(nodeDuration+soon, "LeaseExpired/NoExecute").Spec.Devices[0].Taints[0]
	if minor >= 36 {
		p.toldToGo("patient", taint.TimeAdded.Add(time.Duration(patience)*time.Second))
	}
	other.runsOn("moves")
	p.podRuns("bystander") // it claims nothing
}

// rollingDriver runs the driver as the DaemonSet that we ship, with the node's programs and libraries for an image.
func (p *pair) rollingDriver() {
	p.t.Helper()
	var set apps.DaemonSet
	must(p.t, yaml.Unmarshal([]byte(readFile(p.t, deployDir+"/kustomize/dra/daemonset.yaml")), &set))
	program := ours(p.t, "dpu-dra-driver")
	spec := &set.Spec.Template.Spec
	spec.NodeSelector = nil
	driver := &spec.Containers[0]
	driver.Image, driver.ImagePullPolicy, driver.Command = harness.PodImage, core.PullNever, []string{program}
	driver.Args = append(driver.Args, "--kubeconfig="+p.file("dra.kubeconfig"))
	for i, dir := range []string{"/usr", "/lib", "/lib64", filepath.Dir(program), logDir("")} {
		name := fmt.Sprintf("node-%d", i)
		spec.Volumes = append(spec.Volumes, core.Volume{Name: name,
			VolumeSource: core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: dir}}})
		driver.VolumeMounts = append(driver.VolumeMounts, core.VolumeMount{Name: name, MountPath: dir, ReadOnly: true})
	}
	_, err := p.admin.AppsV1().DaemonSets(set.Namespace).Create(p.t.Context(), &set, meta.CreateOptions{})
	must(p.t, err)
	p.t.Cleanup(func() {
		_, _ = p.control.Kubectl(bounded(p.t), "delete", "--cascade=foreground", "-n", set.Namespace, "daemonset", set.Name)
	})
}

// driverPod waits until the DaemonSet has one Pod, other than old, that is Ready, and returns it.
func (p *pair) driverPod(old types.UID) *core.Pod {
	p.t.Helper()
	drivers := meta.ListOptions{LabelSelector: "app.kubernetes.io/name=dpu-dra-driver"}
	pods := await(p.t, 3*soon, "a Pod of the DaemonSet has taken over", func() (*core.PodList, error) {
		return p.admin.CoreV1().Pods(harness.Namespace).List(p.t.Context(), drivers)
	}, func(pods *core.PodList) bool {
		return len(pods.Items) == 1 && pods.Items[0].UID != old && slices.ContainsFunc(pods.Items[0].Status.Conditions,
			func(c core.PodCondition) bool { return c.Type == core.PodReady && c.Status == core.ConditionTrue })
	})
	return &pods.Items[0]
}

// watchHealth notes each health that the pod's status shows, until stop is called, which returns them in order.
func (p *pair) watchHealth(name string) (stop func() []string) {
	p.t.Helper()
	watcher, err := p.admin.CoreV1().Pods("default").Watch(p.t.Context(),
		meta.ListOptions{FieldSelector: "metadata.name=" + name})
	must(p.t, err)
	seen := make(chan []string)
	var isStopped atomic.Bool
	go func() {
		var all []string
		for event := range watcher.ResultChan() {
			pod, ok := event.Object.(*core.Pod)
			if !ok {
				if !isStopped.Load() { // a watch that is stopped while it reads ends with an ERROR
					all = append(all, fmt.Sprintf("%s: %v", event.Type, event.Object))
				}
				break
			}
			for _, shown := range healths(pod) {
				if n := len(all); n == 0 || all[n-1] != string(shown.Health) {
					all = append(all, string(shown.Health))
				}
			}
		}
		seen <- all
	}()
	return func() []string {
		isStopped.Store(true)
		watcher.Stop()
		return <-seen
	}
}

// rollouts is how many are watched: DPU_E2E_ROLLOUTS, or a few.
func rollouts(t *testing.T) int {
	text := os.Getenv("DPU_E2E_ROLLOUTS")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

func TestGivenADaemonSetWithDRAWhenItRollsThenTheDPUStaysOnOfferAndHealthy(t *testing.T) {
	p := draPairAlone(t) // elsewhere, it gives each case's Node a Pod, and an overlay meets it
	p.claimObjects()
	p.StartHost()
	p.rollingDriver()
	pod := p.driverPod("")
	slice := p.offered()
	p.healthyPod("stays")
	stop := p.watchHealth("stays")
	for range rollouts(t) {
		kubectl(t, p.control, "-n", harness.Namespace, "rollout", "restart", "daemonset/dpu-dra-driver")
		old := pod.UID
		pod = p.driverPod(old)
		sockets := strings.Join(p.names("/var/lib/kubelet/plugins_registry"), " ")
		if !strings.Contains(sockets, string(pod.UID)) || strings.Contains(sockets, string(old)) {
			t.Errorf("the sockets are %s; %s has made way for %s", sockets, old, pod.UID)
		}
		p.podHealth(2*soon, "stays", core.ResourceHealthStatusHealthy, "")
	}
	if seen := stop(); !slices.Equal(seen, []string{string(core.ResourceHealthStatusHealthy)}) {
		t.Errorf("meanwhile the Pod's status showed %v", seen)
	}
	p.claimingPod("next") // prepared by the one that is left
	p.podRuns("next")
	if again := p.taints(0, ""); again.UID != slice.UID {
		t.Errorf("the slice was made anew")
	}

	// When it is taken away without a successor, then the Pod is told Unknown.
	kubectl(t, p.control, "-n", harness.Namespace, "delete", "--cascade=foreground", "daemonset", "dpu-dra-driver")
	p.podHealth(2*soon, "stays", core.ResourceHealthStatusUnknown, "")
}

func TestGivenARunningDriverWhenTheKubeletRestartsThenItFindsTheDPUAgain(t *testing.T) {
	p, slice := claimedDPU(t)
	p.healthyPod("survives")

	must(t, p.node.RestartKubelet(t.Context()))
	p.madeAnew(2*soon, slice)
	p.DPU.Kill()
	p.podHealth(nodeDuration+2*soon, "survives", core.ResourceHealthStatusUnhealthy, "LeaseExpired")
	p.StartDPU()
	p.podHealth(2*soon, "survives", core.ResourceHealthStatusHealthy, "")
	p.claimingPod("after")
	p.podRuns("after")
	if n := strings.Count(p.Driver.Tail(1000), "the kubelet registered driver"); n != 2 {
		t.Errorf("the kubelet registered us %d times, want 2", n)
	}

	// When it restarts without the gate of health, then what it showed is gone; with it, it is shown again.
	must(t, p.node.RestartKubelet(t.Context(), "--feature-gates="+healthGates(false)))
	poll(t, 2*soon, "the pod's health is gone", func() error {
		if p.hasHealth("survives") {
			return fmt.Errorf("it is still shown")
		}
		return nil
	})
	must(t, p.node.RestartKubelet(t.Context()))
	p.podHealth(2*soon, "survives", core.ResourceHealthStatusHealthy, "")
}
