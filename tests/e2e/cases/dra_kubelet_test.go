// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
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

// What the kubelet makes of an agent that says too much, nothing, and is no more.
func TestGivenAPodThatClaimsTheDPUWhenTheAgentIsHastyHangsOrIsGoneThenTheKubeletHasTheLastWord(t *testing.T) {
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

	// When the agent is stopped in its tracks, then its last report is believed for the timeout, and not
	// a moment longer than it takes the kubelet to look again.
	must(t, p.Host.Signal(syscall.SIGSTOP))
	p.podHealth(draTimeout+2*podSync+soon, "sees", core.ResourceHealthStatusUnknown, "")
	must(t, p.Host.Signal(syscall.SIGCONT))
	p.podHealth(podSync+soon, "sees", core.ResourceHealthStatusHealthy, "")

	// When it is gone, then the kubelet takes its slice away; with another one it is back.
	p.Host.Kill()
	p.podHealth(podSync+soon, "sees", core.ResourceHealthStatusUnknown, "")
	gone(t, sliceWipe+soon, "the slice", p.slice)
	p.startDRAHost()
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
	p.startDRAHost()
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

	// When they are on, then from the agent's next start it is offered to all; they see its health, and its
	// taint keeps others away. (The scheduler loses count of a device that is shared while one has it alone.)
	p.deletePod("second")
	p.deletePod("first")
	p.gates(t.Context(), true)
	p.Host.Kill()
	p.startDRAHost()
	p.offeredToAll(soon)
	p.podShares(2*soon, "second")
	p.healthyPod("shares")
	p.DPU.Kill()
	p.taints(nodeDuration+soon, "LeaseExpired/NoSchedule")
	p.podHealth(2*soon, "shares", core.ResourceHealthStatusUnhealthy, "LeaseExpired")

	// When they are off again, then the agent goes on, and a pod that is made now is shown no health.
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
