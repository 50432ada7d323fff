// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
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
	poll(p.t, soon, "the lease is written", func() error {
		return edit(p.admin, p, func(l *coordination.Lease) {
			renewed(l)
			annotated("dpu.k8s.ovn.org/health", health)(l)
			if health == "" {
				delete(l.Annotations, "dpu.k8s.ovn.org/health")
			}
		})(p.t.Context())
	})
}

// What the kubelet makes of an agent that says too much, nothing, and is no more.
func TestGivenAPodThatClaimsTheDPUWhenTheAgentIsHastyHangsOrIsGoneThenTheKubeletHasTheLastWord(t *testing.T) {
	ours(t, "dpu-gate")
	ours(t, "dpu-agent")
	p := realPair(t)
	if !p.hasGates() {
		t.Skip("this Kubernetes shows no health of devices by default")
	}
	p.claimObjects()
	p.startDRAHost()
	p.StartDPUEvery(interval, nodeDuration)
	p.expectInNode(soon, "Ready", "LeaseRenewed")
	p.taints(soon, "")
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	p.claimingPod("sees")
	p.podRuns("sees")
	p.podHealth(2*soon, "sees", core.ResourceHealthStatusHealthy, "")

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
	p.StartDPUEvery(interval, nodeDuration)
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
	poll(t, sliceWipe+soon, "the slice is gone", func() error {
		_, err := p.admin.ResourceV1().ResourceSlices().Get(t.Context(), draSlice, meta.GetOptions{})
		if errors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is still there (%v)", err)
	})
	p.startDRAHost()
	p.taints(soon, "")
	p.podHealth(podSync+soon, "sees", core.ResourceHealthStatusHealthy, "")
}
