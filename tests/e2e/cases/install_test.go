// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
)

const (
	ovnConf = "10-ovn-kubernetes.conf"
	ourConf = "05-dpu-gate.conf" // of one plugin of 1.1.0
)

// bareNode turns the node into one of ovn-kubernetes without a gate, for this case.
func (p *pair) bareNode() {
	t := p.t
	t.Helper()
	binDir, confDir := p.node.Path(harness.CNIBinDir), p.node.Path(harness.CNIConfDir)
	must(t, harness.CNI{Parts: shared.parts}.InstallAsOVN(binDir, confDir))
	must(t, os.Remove(filepath.Join(confDir, "10-e2e.conflist")))
	must(t, os.Remove(filepath.Join(binDir, "dpu-gate")))
	t.Cleanup(func() {
		must(t, harness.CNI{Parts: shared.parts, Gate: harness.FindOurs("dpu-gate")}.Install(binDir, confDir))
		for _, name := range []string{ourConf, ovnConf} {
			if err := os.Remove(filepath.Join(confDir, name)); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		}
	})
}

// inNode runs the host agent's program in the node, to its end.
func (p *pair) inNode(args ...string) string {
	t := p.t
	t.Helper()
	out, err := p.node.Output(t.Context(), append([]string{ours(t, "dpu-host-agent")}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v: %s", args, err, out)
	}
	return out
}

func (p *pair) names(dir string) []string {
	t := p.t
	t.Helper()
	entries, err := os.ReadDir(p.node.Path(dir))
	must(t, err)
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

// One story, in order: what an administrator does, and containerd's part in it.
func TestGivenANodeOfOVNWhenTheGateIsPutInFrontAndTakenAwayThenNothingIsLeftButTheProgram(t *testing.T) {
	gate := ours(t, "dpu-gate")
	p := realPair(t)
	p.bareNode()
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	before := p.attachments()
	p.pod("older", realNode)
	p.podRuns("older")

	// When the gate is installed, then it counts at once, and says that nobody vouches for the DPU.
	p.inNode("install-cni", "--gate-binary", gate)
	p.nodeReady(2*kubeletSync+soon, core.ConditionFalse, "dpu-host-agent")
	_, err := p.straight()
	refusedWith(t, notReady, "a sandbox past the gate", err)

	// When both agents run, then pods come and go through it, the older one too.
	p.StartHost("--cni-sync")
	p.StartDPU()
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	p.pod("newer", realNode)
	p.podRuns("newer")
	p.deletePod("older")
	if n := p.attachments(); n != before+1 {
		t.Errorf("%d pods are attached, want %d", n, before+1)
	}

	// When ovn-kubernetes takes its file away, as it does when it stops, then the node is not ready until it is back.
	source := filepath.Join(p.node.Path(harness.CNIConfDir), ovnConf)
	text := readFile(t, source)
	must(t, os.Remove(source))
	p.nodeReady(2*kubeletSync+soon, core.ConditionFalse, "delegateConf")
	must(t, harness.WriteFile(source, text, 0o600))
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")

	// When somebody deletes ours, then it is back before the kubelet asks twice.
	ourFile := filepath.Join(p.node.Path(harness.CNIConfDir), ourConf)
	must(t, os.Remove(ourFile))
	poll(t, 3*time.Second, "it is back", func() error {
		_, err := os.Stat(ourFile)
		return err
	})

	// When the DPU dies, then pods wait; when the gate is taken out, they do not, DPU or not.
	p.DPU.Kill()
	p.nodeReady(nodeDuration+kubeletSync+soon, core.ConditionFalse, notReady)
	p.Host.Kill()
	p.inNode("uninstall-cni")
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	p.deletePod("newer")
	if _, err := p.straight(); err != nil {
		t.Errorf("a sandbox without the gate: %v", err)
	}
	if n := p.attachments(); n != before {
		t.Errorf("%d pods are attached, want %d", n, before)
	}
	if left := p.names(harness.CNIConfDir); !slices.Equal(left, []string{ovnConf}) {
		t.Errorf("left in %s: %q", harness.CNIConfDir, left)
	}
	if left := p.names(harness.CNIBinDir); !slices.Contains(left, "dpu-gate") {
		t.Errorf("the program is gone: %q", left)
	}
	p.inNode("uninstall-cni", "--remove-binary")
	for _, left := range p.names(harness.CNIBinDir) {
		if strings.Contains(left, "dpu-gate") {
			t.Errorf("%s was left", left)
		}
	}
}
