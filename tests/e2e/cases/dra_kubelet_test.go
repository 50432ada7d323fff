// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// The kubelet looks at a pod's devices again when it looks at the pod: its syncFrequency here.
	podSync = 10 * time.Second
	// How long the kubelet keeps the slices of a driver that is gone.
	sliceWipe = 30 * time.Second
)

// reports renews the lease in the DPU's place, with what it says of its health.
func (p *pair) reports(health string) {
	p.t.Helper()
	p.EditLease(func(l *coordination.Lease) {
		renewed(l)
		annotated("dpu.k8s.ovn.org/health", health)(l)
		if health == "" {
			delete(l.Annotations, "dpu.k8s.ovn.org/health")
		}
	})
}

// What the kubelet makes of a driver that says too much, nothing, and is no more.
func TestGivenAPodThatClaimsTheDPUWhenTheDriverIsHastyHangsOrIsGoneThenTheKubeletHasTheLastWord(t *testing.T) {
	p, _ := claimedDPU(t)
	p.healthyPod("sees")

	// When the DPU's health changes in quick succession, then the pod is shown the last of it.
	p.DPU.Kill()
	for range 10 {
		p.reports("unhealthy")
		p.reports("")
	}
	poll(t, 2*soon, "the pod is shown what was said last, as long as it is said", func() error {
		p.reports("unhealthy")
		return p.showsHealth("sees", core.ResourceHealthStatusUnhealthy, "DPUReportedUnhealthy")
	})
	p.StartDPU()
	p.podHealth(2*soon, "sees", core.ResourceHealthStatusHealthy, "")

	// When the driver is stopped in its tracks, then its last report is believed for the timeout, and not
	// a moment longer than it takes the kubelet to look again.
	must(t, p.Driver.Signal(syscall.SIGSTOP))
	p.podHealth(draTimeout+2*podSync+soon, "sees", core.ResourceHealthStatusUnknown, "")
	must(t, p.Driver.Signal(syscall.SIGCONT))
	p.podHealth(podSync+soon, "sees", core.ResourceHealthStatusHealthy, "")

	// When it is gone, then the kubelet takes its slice away; with another one it is back.
	p.Driver.Kill()
	p.podHealth(podSync+soon, "sees", core.ResourceHealthStatusUnknown, "")
	gone(t, sliceWipe+soon, "the slice", p.slice)
	p.startDriver()
	p.taints(soon, "")
	p.podHealth(podSync+soon, "sees", core.ResourceHealthStatusHealthy, "")
}

func (p *pair) hasHealth(name string) bool {
	p.t.Helper()
	pod := p.thePod(name)
	return len(pod.Status.ContainerStatuses) > 0 && len(pod.Status.ContainerStatuses[0].AllocatedResourcesStatus) > 0
}

// draGates turns those of device taints, sharing and health on or off, and what is on by default and needs them.
func draGates(on bool) string {
	gates := healthGates(on) + fmt.Sprintf(",DRADeviceTaints=%[1]v,DRAConsumableCapacity=%[1]v", on)
	if minor >= 37 {
		gates += fmt.Sprintf(",DRADeviceTaintRules=%[1]v,DRAFractionalCapacityRange=%[1]v", on)
	}
	return gates
}

func healthGates(on bool) string {
	gates := fmt.Sprintf("ResourceHealthStatus=%v", on)
	if minor >= 36 {
		gates += fmt.Sprintf(",ResourceHealthStatusMessage=%v", on)
	}
	return gates
}

// gates starts the API server again with them on or off. Scheduler and kubelet have them on, and find nothing of them.
func (p *pair) gates(ctx context.Context, on bool) {
	p.t.Helper()
	p.control.KillAPIServer()
	must(p.t, p.control.StartAPIServer(ctx, "--feature-gates="+draGates(on)))
}

func (p *pair) deletePod(name string) {
	p.t.Helper()
	must(p.t, p.admin.CoreV1().Pods("default").Delete(p.t.Context(), name, meta.DeleteOptions{}))
	gone(p.t, 2*soon, "pod "+name, func() (*core.Pod, error) { return p.getPod(name) })
}

// podShares starts a pod to which the DPU is given as one of many. The scheduler may be late to see that it is offered
// to all, and then gives it to one alone.
func (p *pair) podShares(limit time.Duration, name string) {
	p.t.Helper()
	poll(p.t, limit, "pod "+name+" shares the device", func() error {
		p.claimingPod(name)
		p.podRuns(name)
		claims, err := p.admin.ResourceV1().ResourceClaims("default").List(p.t.Context(), meta.ListOptions{})
		must(p.t, err)
		for _, claim := range claims.Items {
			if strings.HasPrefix(claim.Name, name+"-") && claim.Status.Allocation.Devices.Results[0].ShareID != nil {
				return nil
			}
		}
		p.deletePod(name)
		return fmt.Errorf("it has it alone")
	})
}

// One story, in order, as an administrator turns the gates on, and off again.
func TestGivenGatesThatAreOffWhenTheyAreTurnedOnThenTaintsSharingAndHealthAreThere(t *testing.T) {
	p := draPairAlone(t)
	t.Cleanup(func() { p.gates(context.Background(), true) })
	p.gates(t.Context(), false)
	p.claimObjects()
	p.startDRA()
	p.StartDPU()
	p.Expect(soon, "Ready", "LeaseRenewed")
	p.withdrawn(soon, false)
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")

	// Given no sharing, then one claim has the DPU and the next one waits for it.
	p.claimingPodThat("first", oneClaim)
	p.podRuns("first")
	p.claimingPod("second")
	p.podNotScheduled("second")

	// Given no taints, when the DPU dies, then it is not offered; nobody is shown any health.
	p.DPU.Kill()
	p.withdrawn(nodeDuration+soon, true)
	p.StartDPU()
	p.withdrawn(soon, false)
	if p.hasHealth("first") {
		t.Error("there is health in a pod's status with the gate off")
	}

	// When they are on, then from the driver's next start it is offered to all; they see its health, and its
	// taint keeps others away. (The scheduler loses count of a device that is shared while one has it alone.)
	p.deletePod("second")
	p.deletePod("first")
	p.gates(t.Context(), true)
	p.Driver.Kill()
	p.startDriver()
	p.offeredToAll(soon)
	p.podShares(2*soon, "second")
	p.healthyPod("shares")
	p.DPU.Kill()
	p.taints(nodeDuration+soon, "LeaseExpired/NoSchedule")
	p.podHealth(2*soon, "shares", core.ResourceHealthStatusUnhealthy, "LeaseExpired")

	// When they are off again, then the driver goes on, and a pod that is made now is shown no health.
	p.StartDPU()
	p.taints(soon, "")
	p.gates(t.Context(), false)
	p.deletePod("second")
	p.deletePod("shares")
	p.claimingPodThat("third", oneClaim)
	p.podRuns("third")
	if p.hasHealth("third") {
		t.Error("there is health in a new pod's status with the gate off again")
	}
}

// kube/healthcache holds both to the same words.
func TestGivenThePackageOfTheKubeletWhenAPluginSpeaksThenDpuctlKnowsWhatItKnows(t *testing.T) {
	t.Parallel()
	if minor < 37 {
		t.Skip("it is built from the newest kubelet")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(shared.parts, "healthcache.test"))
	cmd.Env = append(os.Environ(), "DPUCTL="+ours(t, "dpuctl"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// entries are the device healths in the pod's status, by the name that the kubelet gives each.
func (p *pair) entries(name string) (map[string]core.ResourceHealthStatus, error) {
	pod, err := p.getPod(name)
	if err != nil {
		return nil, err
	}
	found := map[string]core.ResourceHealthStatus{}
	for _, shown := range healths(pod) {
		found[shown.entry] = shown.Health
	}
	return found, nil
}

// One story, in order, of what a pod may ask for, and of a Lease that nobody may write.
func TestGivenAPodWithTwoClaimsAndASubrequestWhenTheDPUChangesThenEachEntryFollows(t *testing.T) {
	if minor < 36 {
		t.Skip("the 1.34 kubelet shows the health of one claim alone")
	}
	p := draPairAlone(t)
	p.claimObjects()
	poll(t, soon, "the kubelet has its folders: where a driver finds none, it looks again after the DPU's first renewal", func() error {
		_, err := os.Stat(p.node.Path("/var/lib/kubelet/plugins_registry"))
		return err
	})
	p.startDRA()
	p.taints(soon, "AwaitingFirstRenewal/NoSchedule") // nobody has seen it alive
	p.offered()
	claims := p.admin.ResourceV1().ResourceClaims("default")
	_, err := claims.Create(t.Context(), &resource.ResourceClaim{ObjectMeta: meta.ObjectMeta{Name: "either"},
		Spec: resource.ResourceClaimSpec{Devices: resource.DeviceClaim{Requests: []resource.DeviceRequest{{Name: "any",
			FirstAvailable: []resource.DeviceSubRequest{{Name: "dpu", DeviceClassName: draDriver,
				AllocationMode: resource.DeviceAllocationModeExactCount, Count: 1}}}}}}}, meta.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = claims.Delete(bounded(t), "either", meta.DeleteOptions{}) })
	either := "either"
	p.claimingPodThat("asks", func(spec *core.PodSpec) {
		oneClaim(spec)
		spec.ResourceClaims = append(spec.ResourceClaims, core.PodResourceClaim{Name: "other", ResourceClaimName: &either})
		spec.Containers[0].Resources.Claims = []core.ResourceClaim{{Name: "dpu"}, {Name: "other", Request: "any"}}
	})
	p.podRuns("asks")
	shows := func(want core.ResourceHealthStatus) {
		t.Helper()
		poll(t, 2*soon, fmt.Sprintf("both entries are %s", want), func() error {
			found, err := p.entries("asks")
			if err == nil && (len(found) != 2 || found["claim:dpu"] != want || found["claim:other/any"] != want) {
				err = fmt.Errorf("they are %v", found)
			}
			return err
		})
	}
	shows(core.ResourceHealthStatusHealthy)

	// Given a DPU that is well, then nothing else is shown for five of the kubelet's time-outs.
	stop := p.watchHealth("asks")
	time.Sleep(5 * draTimeout)
	if seen := stop(); !slices.Equal(seen, []string{string(core.ResourceHealthStatusHealthy)}) {
		t.Errorf("meanwhile the Pod's status showed %v", seen)
	}

	// When nobody may write the Lease, then nobody knows the DPU, and it keeps its Pods.
	allow := p.refuseLease()
	p.Expect(nodeDuration+2*soon, "Unknown", "ApiServerNotWriting")
	shows(core.ResourceHealthStatusUnknown)
	p.taints(0, "")
	allow()
	shows(core.ResourceHealthStatusHealthy)

	// When it dies, then both say so.
	p.DPU.Kill()
	shows(core.ResourceHealthStatusUnhealthy)
}

func TestGivenADriverThatIsAwayWhenPodsComeAndGoThenTheNextOneServesBoth(t *testing.T) {
	p, _ := claimedDPU(t)
	p.claimingPod("goes")
	p.podRuns("goes")

	// Given a claim that was prepared by one instance, when that is killed and the pod goes, then another unprepares it.
	p.Driver.Kill()
	must(t, p.admin.CoreV1().Pods("default").Delete(t.Context(), "goes", meta.DeleteOptions{}))
	p.claimingPodThat("comes", oneClaim) // of a claim from a template, the 1.34 kubelet shows no health
	p.podEvent("comes", "NodePrepareResources")
	if _, err := p.getPod("goes"); err != nil {
		t.Errorf("its claim was given back to nobody: %v", err)
	}
	p.startDriver()
	gone(t, 2*soon, "pod goes", func() (*core.Pod, error) { return p.getPod("goes") })
	p.podRuns("comes")
	p.podHealth(2*soon, "comes", core.ResourceHealthStatusHealthy, "")

	// Given an instance of a rolling update that is at work, then the other one asks the kubelet to come again.
	p.Driver.Kill()
	p.startDriver("--dra-rolling-update-uid=a-1")
	lock, err := p.node.Run(t.Context(), "lock", "flock", "--close", "/var/lib/kubelet/plugins/"+draDriver+"/serialize.lock", "sleep", "600")
	must(t, err)
	p.claimingPod("waits")
	p.podEvent("waits", "another instance of this driver is working")
	lock.Kill()
	p.podRuns("waits")
}

func TestGivenAKubeletUnderAnotherRootWhenTheDriverIsToldOfItThenItServesThere(t *testing.T) {
	const root = "/var/lib/k0s/kubelet"
	p := draPairAlone(t)
	t.Cleanup(func() { must(t, p.node.RestartKubelet(context.Background())) })
	must(t, os.MkdirAll(p.node.Path(root), 0o755))
	must(t, p.node.RestartKubelet(t.Context(), "--root-dir="+root))
	p.claimObjects()

	// Given a driver that looks in the usual place, then no kubelet comes, and it offers nothing and says so.
	p.startDRA()
	p.StartDPU()
	p.Expect(soon, "Ready", "LeaseRenewed")
	poll(t, time.Minute, "the driver says what to check, whether or not the folders are there", func() error {
		if !strings.Contains(p.Driver.Tail(100), "--kubelet-root-dir") {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	if _, err := p.slice(); err == nil {
		t.Errorf("it offers the DPU to a kubelet that does not know it")
	}

	// When it is told of the root, then the DPU is offered, claimed and seen.
	p.Driver.Kill()
	p.startDriver("--kubelet-root-dir=" + root)
	p.taints(soon, "")
	p.healthyPod("elsewhere")
	p.deletePod("elsewhere")
}
