// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	draDriver = "dpu.k8s.ovn.org"
	draSlice  = draDriver + "-" + realNode
	// How long the kubelet believes a report.
	draTimeout = 6 * time.Second
)

// draPair is realPair on the cluster whose node is free first.
func draPair(t *testing.T) *pair {
	t.Helper()
	t.Parallel()
	own, err := draWorld()
	must(t, err)
	for ; ; time.Sleep(50 * time.Millisecond) {
		for _, w := range []*world{own, shared} {
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

// startDRAHost is startHostInNode with the DRA plugin and a short health timeout.
func (p *pair) startDRAHost(more ...string) {
	p.t.Helper()
	p.startHostInNode(append([]string{"--dra=on", "--dra-health-timeout=" + draTimeout.String()}, more...)...)
}

// claimedDPU is the real node with a DPU that is Ready, on offer by DRA and healthy, where this Kubernetes has device
// taints and health in pods on by default.
func claimedDPU(t *testing.T, flags ...string) (*pair, *resource.ResourceSlice) {
	t.Helper()
	p := draPair(t)
	if !p.hasGates() {
		t.Skip("this Kubernetes has neither taints nor health nor sharing of devices on by default")
	}
	p.claimObjects()
	p.startDRAHost(flags...)
	p.StartDPUEvery(interval, nodeDuration)
	p.expectInNode(soon, "Ready", "LeaseRenewed")
	slice := p.taints(soon, "")
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	return p, slice
}

// healthyPod creates a pod that claims the DPU, and waits until it runs and shows it healthy.
func (p *pair) healthyPod(name string) {
	p.t.Helper()
	p.claimingPod(name)
	p.podRuns(name)
	p.podHealth(2*soon, name, core.ResourceHealthStatusHealthy, "")
}

// hasGates says whether this Kubernetes has device taints, health in pods and shared devices on by
// default. Before 1.36 the API server drops them silently.
func (p *pair) hasGates() bool { return minor(p.t) >= 36 }

// minor is which Kubernetes the shared cluster is.
func minor(t *testing.T) int {
	t.Helper()
	version, err := shared.admin.Discovery().ServerVersion()
	must(t, err)
	n, err := strconv.Atoi(strings.TrimRight(version.Minor, "+"))
	must(t, err)
	return n
}

// withdrawn waits until the slice offers no device, or does again.
func (p *pair) withdrawn(limit time.Duration, want bool) {
	p.t.Helper()
	poll(p.t, limit, fmt.Sprintf("the device is withdrawn: %v", want), func() error {
		slice, err := p.admin.ResourceV1().ResourceSlices().Get(p.t.Context(), draSlice, meta.GetOptions{})
		if err == nil && (len(slice.Spec.Devices) == 0) != want {
			err = fmt.Errorf("there are %d", len(slice.Spec.Devices))
		}
		return err
	})
}

// offeredToAll waits until several claims may have the device.
func (p *pair) offeredToAll(limit time.Duration) {
	p.t.Helper()
	poll(p.t, limit, "the device is offered to all", func() error {
		slice, err := p.admin.ResourceV1().ResourceSlices().Get(p.t.Context(), draSlice, meta.GetOptions{})
		if err != nil {
			return err
		}
		for _, device := range slice.Spec.Devices {
			if all := device.AllowMultipleAllocations; all != nil && *all {
				return nil
			}
		}
		return fmt.Errorf("the slice has %v", slice.Spec.Devices)
	})
}

// taints waits until the device has exactly these taints, as "value/effect".
func (p *pair) taints(limit time.Duration, want string) *resource.ResourceSlice {
	p.t.Helper()
	var slice *resource.ResourceSlice
	poll(p.t, limit, fmt.Sprintf("the device's taints are %q", want), func() error {
		var err error
		slice, err = p.admin.ResourceV1().ResourceSlices().Get(p.t.Context(), draSlice, meta.GetOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, device := range slice.Spec.Devices {
			for _, taint := range device.Taints {
				got = append(got, taint.Value+"/"+string(taint.Effect))
			}
		}
		if s := strings.Join(got, ","); s != want {
			return fmt.Errorf("they are %q", s)
		}
		return nil
	})
	return slice
}

// bounded is a context for cleaning up, when the test's own is over.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// claimObjects makes the DeviceClass and a template of claims, once.
func (p *pair) claimObjects() {
	p.t.Helper()
	must(p.t, p.control.Apply(p.t.Context(), "../../../deploy/dra/deviceclass.yaml"))
	_, err := p.admin.ResourceV1().ResourceClaimTemplates("default").Create(p.t.Context(),
		&resource.ResourceClaimTemplate{
			ObjectMeta: meta.ObjectMeta{Name: "dpu"},
			Spec: resource.ResourceClaimTemplateSpec{Spec: resource.ResourceClaimSpec{
				Devices: resource.DeviceClaim{Requests: []resource.DeviceRequest{{
					Name: "dpu", Exactly: &resource.ExactDeviceRequest{DeviceClassName: draDriver,
						AllocationMode: resource.DeviceAllocationModeExactCount, Count: 1}}}}}},
		}, meta.CreateOptions{})
	must(p.t, err)
	p.t.Cleanup(func() {
		_ = p.admin.ResourceV1().ResourceClaimTemplates("default").Delete(bounded(p.t), "dpu", meta.DeleteOptions{})
	})
}

// claimingPod creates a pod that claims the DPU.
func (p *pair) claimingPod(name string) {
	p.t.Helper()
	p.claimingPodThat(name, func(*core.PodSpec) {})
}

func (p *pair) claimingPodThat(name string, edit func(*core.PodSpec)) {
	p.t.Helper()
	template := "dpu"
	p.podSpec(name, func(spec *core.PodSpec) {
		anyNode(spec)
		spec.ResourceClaims = []core.PodResourceClaim{{Name: "dpu", ResourceClaimTemplateName: &template}}
		spec.Containers[0].Resources.Claims = []core.ResourceClaim{{Name: "dpu"}}
		edit(spec)
	})
}

// podHealth waits until the pod's status shows the DPU's health, and text in its message.
func (p *pair) podHealth(limit time.Duration, name string, want core.ResourceHealthStatus, text string) {
	p.t.Helper()
	poll(p.t, limit, fmt.Sprintf("pod %s shows %s", name, want), func() error {
		return p.showsHealth(name, want, text)
	})
}

func (p *pair) showsHealth(name string, want core.ResourceHealthStatus, text string) error {
	pod, err := p.admin.CoreV1().Pods("default").Get(p.t.Context(), name, meta.GetOptions{})
	if err != nil {
		return err
	}
	for _, status := range pod.Status.ContainerStatuses {
		for _, allocated := range status.AllocatedResourcesStatus {
			for _, r := range allocated.Resources {
				message := ""
				if r.Message != nil {
					message = *r.Message
				}
				if allocated.Name != "claim:dpu" || string(r.ResourceID) != draDriver+"/"+realNode+"/dpu0" {
					return harness.Final(fmt.Errorf("%q is called %q", allocated.Name, r.ResourceID))
				}
				if r.Health == want && strings.Contains(message, text) {
					return nil
				}
				return fmt.Errorf("it is %s: %s", r.Health, message)
			}
		}
	}
	return fmt.Errorf("there is no health in its status yet")
}

// claimCondition waits until the claim of that pod has the condition Ready for the DPU.
func (p *pair) claimCondition(name string, want meta.ConditionStatus, reason string) {
	p.t.Helper()
	pod, err := p.admin.CoreV1().Pods("default").Get(p.t.Context(), name, meta.GetOptions{})
	must(p.t, err)
	poll(p.t, 2*soon, fmt.Sprintf("the claim of pod %s is Ready=%s", name, want), func() error {
		claim, err := p.admin.ResourceV1().ResourceClaims("default").Get(p.t.Context(), *pod.Status.ResourceClaimStatuses[0].ResourceClaimName, meta.GetOptions{})
		if err != nil {
			return err
		}
		for _, d := range claim.Status.Devices {
			if c := d.Conditions; d.Driver == draDriver && len(c) == 1 && c[0].Type == "Ready" && c[0].Status == want && c[0].Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("its devices are %+v", claim.Status.Devices)
	})
}

// One story, in order: a DPU that is claimed, dies, returns, and whose watcher goes away.
func TestGivenAPodThatClaimsTheDPUWhenTheDPUDiesAndReturnsThenPodAndSchedulerFollow(t *testing.T) {
	host, function := t.TempDir(), "sys/devices/pci0000:00/0000:03:00.0"
	must(t, os.MkdirAll(filepath.Join(host, function), 0o755))
	must(t, os.MkdirAll(filepath.Join(host, "sys/bus/pci/devices"), 0o755))
	must(t, os.Symlink("../../../devices/pci0000:00/0000:03:00.0", filepath.Join(host, "sys/bus/pci/devices/0000:03:00.0")))
	must(t, os.WriteFile(filepath.Join(host, function, "numa_node"), []byte("1\n"), 0o644))
	p, slice := claimedDPU(t, "--dra-attribute=model=bf3", "--host-root="+host, "--probe=pci:0000:03:00.0", "--dra-claim-conditions")
	standard := slice.Spec.Devices[0].Attributes
	if n, root := standard["resource.kubernetes.io/numaNode"].IntValue, standard["resource.kubernetes.io/pcieRoot"].StringValue; n == nil || *n != 1 || root == nil || *root != "pci0000:00" {
		t.Errorf("the device's attributes are %v", standard)
	}
	if len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].Name != realNode {
		t.Errorf("the slice's owners are %v", slice.OwnerReferences)
	}
	p.healthyPod("claims")
	p.claimingPod("shares") // every pod of the node may have it
	p.podRuns("shares")

	// When the DPU dies, then the pod says so, and no new claim is given the device.
	p.DPU.Kill()
	p.taints(nodeDuration+soon, "LeaseExpired/NoSchedule")
	p.podHealth(2*soon, "claims", core.ResourceHealthStatusUnhealthy, "LeaseExpired")
	p.claimCondition("claims", meta.ConditionFalse, "LeaseExpired")
	p.claimingPod("late")
	p.podNotScheduled("late")

	// When it returns, then everything does.
	p.StartDPUEvery(interval, nodeDuration)
	p.taints(soon, "")
	p.podHealth(2*soon, "claims", core.ResourceHealthStatusHealthy, "")
	p.claimCondition("claims", meta.ConditionTrue, "LeaseRenewed")
	p.podRuns("late")

	// When the kubelet removes our slice, as it does at its start, then it is back.
	must(t, p.admin.ResourceV1().ResourceSlices().Delete(t.Context(), draSlice, meta.DeleteOptions{}))
	poll(t, soon, "the slice is back", func() error {
		again, err := p.admin.ResourceV1().ResourceSlices().Get(t.Context(), draSlice, meta.GetOptions{})
		if err == nil && again.UID == slice.UID {
			err = fmt.Errorf("it is the old one")
		}
		return err
	})

	// When the agent stops, then the pod is told Unknown; when another one starts, Healthy.
	must(t, p.Host.Signal(syscall.SIGTERM))
	must(t, p.Host.Wait(10*time.Second))
	p.podHealth(2*soon, "claims", core.ResourceHealthStatusUnknown, "")
	p.startDRAHost("--dra-attribute=model=bf3")
	p.podHealth(2*soon, "claims", core.ResourceHealthStatusHealthy, "")

	// When a pod goes, then nothing holds it: Unprepare succeeds without its claim.
	must(t, p.admin.CoreV1().Pods("default").Delete(t.Context(), "shares", meta.DeleteOptions{}))
	p.podGone(2*soon, "shares")
}

// The kubelet goes the same way to the API server as the agent, so the way stays and the agent's
// right to read its lease goes: the agent cannot know, and the pod is told just that.
func TestGivenAPodThatClaimsTheDPUWhenTheHostMayNotReadTheLeaseThenItsHealthIsUnknown(t *testing.T) {
	p := draPair(t)
	if !p.hasGates() {
		t.Skip("this Kubernetes shows no health in pods by default")
	}
	subject := p.ungrouped()
	p.bind("dpu-host-agent", subject)
	p.bindCluster("dpu-host-agent", subject)
	p.bindCluster("dpu-host-agent-dra", subject)
	p.claimObjects()
	p.startDRAHost()
	p.StartDPUEvery(interval, nodeDuration)
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	p.healthyPod("wonders")

	p.unbind("dpu-host-agent")
	p.DPU.Kill()
	p.expectInNode(nodeDuration+soon, "Unknown", "ApiServerUnreachable")
	p.podHealth(2*soon, "wonders", core.ResourceHealthStatusUnknown, "ApiServerUnreachable")
	p.taints(soon, "") // nobody is accused
	p.nodeReady(2*kubeletSync, core.ConditionTrue, "")

	p.bind("dpu-host-agent", subject)
	p.podHealth(nodeDuration+2*soon, "wonders", core.ResourceHealthStatusUnhealthy, "LeaseExpired")
}

// What is left where the API server drops taints: an unhealthy DPU is not offered at all.
func TestGivenAnOlderKubernetesWhenTheDPUDiesAndReturnsThenItIsWithdrawnAndOfferedAgain(t *testing.T) {
	p := draPair(t)
	if p.hasGates() {
		t.Skip("this Kubernetes has device taints")
	}
	must(t, os.MkdirAll(p.node.Path("/var/lib/kubelet/plugins_registry"), 0o755))
	p.claimObjects()
	p.startDRAHost()
	p.StartDPUEvery(interval, nodeDuration)
	p.expectInNode(soon, "Ready", "LeaseRenewed")
	p.withdrawn(soon, false)
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	p.claimingPod("claims")
	p.podRuns("claims")

	p.DPU.Kill()
	p.withdrawn(nodeDuration+soon, true)
	must(t, p.admin.CoreV1().Pods("default").Delete(t.Context(), "claims", meta.DeleteOptions{}))
	p.claimingPod("late")
	p.podNotScheduled("late")

	p.StartDPUEvery(interval, nodeDuration)
	p.withdrawn(soon, false)
	p.podRuns("late")
}

// podGone waits until the pod is deleted.
func (p *pair) podGone(limit time.Duration, name string) {
	p.t.Helper()
	poll(p.t, limit, "pod "+name+" is gone", func() error {
		_, err := p.admin.CoreV1().Pods("default").Get(p.t.Context(), name, meta.GetOptions{})
		if err == nil {
			return fmt.Errorf("it is still there")
		}
		return nil
	})
}

func TestGivenTheNoExecuteEffectWhenTheDPUDiesThenItsPodsAreEvicted(t *testing.T) {
	p, _ := claimedDPU(t, "--dra-taint-effect=NoExecute")
	p.claimingPod("evicted")
	p.podRuns("evicted")
	p.pod("bystander", realNode)
	p.podRuns("bystander")
	p.DPU.Kill()
	p.taints(nodeDuration+soon, "LeaseExpired/NoExecute")
	p.podGone(2*soon, "evicted")
	p.podRuns("bystander") // it claims nothing
}

// Two agents side by side, as a DaemonSet with maxSurge has them for a moment.
func TestGivenARollingUpdateWhenTheOldAgentStopsThenHealthAndSliceStay(t *testing.T) {
	p, slice := claimedDPU(t, "--dra-rolling-update-uid=aaaaaaaa-1111")
	p.healthyPod("stays")

	old := p.Host
	p.startDRAHost("--dra-rolling-update-uid=bbbbbbbb-2222")
	t.Cleanup(old.Kill)
	poll(t, soon, "the kubelet registers the new one", func() error {
		if !strings.Contains(p.Host.Tail(200), "the kubelet registered driver") {
			return fmt.Errorf("it did not yet")
		}
		return nil
	})
	must(t, old.Signal(syscall.SIGTERM))
	must(t, old.Wait(10*time.Second))
	p.podHealth(2*soon, "stays", core.ResourceHealthStatusHealthy, "")
	p.claimingPod("next") // prepared by the one that is left
	p.podRuns("next")
	if again := p.taints(0, ""); again.UID != slice.UID {
		t.Errorf("the slice was made anew")
	}
}

func TestGivenARunningAgentWhenTheKubeletRestartsThenItFindsTheDPUAgain(t *testing.T) {
	p, slice := claimedDPU(t)
	p.healthyPod("survives")

	must(t, p.node.RestartKubelet(t.Context()))
	poll(t, 2*soon, "the kubelet's wipe is made good", func() error {
		again, err := p.admin.ResourceV1().ResourceSlices().Get(t.Context(), draSlice, meta.GetOptions{})
		if err == nil && again.UID == slice.UID {
			err = fmt.Errorf("it has not been wiped yet")
		}
		return err
	})
	p.DPU.Kill()
	p.podHealth(nodeDuration+2*soon, "survives", core.ResourceHealthStatusUnhealthy, "LeaseExpired")
	p.StartDPUEvery(interval, nodeDuration)
	p.podHealth(2*soon, "survives", core.ResourceHealthStatusHealthy, "")
	p.claimingPod("after")
	p.podRuns("after")
	if n := strings.Count(p.Host.Tail(1000), "the kubelet registered driver"); n != 2 {
		t.Errorf("the kubelet registered us %d times, want 2", n)
	}
}
