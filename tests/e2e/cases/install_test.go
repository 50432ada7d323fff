// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const ovnConf = "10-ovn-kubernetes.conf"

// bareNode turns the node into one of ovn-kubernetes without a gate, until the
// end of the case.
func bareNode(t *testing.T) {
	t.Helper()
	binDir, confDir := shared.node.Path(harness.CNIBinDir), shared.node.Path(harness.CNIConfDir)
	aside := filepath.Join(t.TempDir(), "10-e2e.conflist")
	standing, err := os.ReadFile(filepath.Join(confDir, "10-e2e.conflist"))
	must(t, err)
	must(t, os.WriteFile(aside, standing, 0o600))
	must(t, harness.CNI{Parts: shared.parts}.InstallAsOVN(binDir, confDir))
	must(t, os.Remove(filepath.Join(confDir, "10-e2e.conflist")))
	must(t, os.Remove(filepath.Join(binDir, "dpu-gate")))
	t.Cleanup(func() {
		must(t, harness.CNI{Parts: shared.parts, Gate: harness.FindOurs("dpu-gate")}.Install(binDir, confDir))
		for _, name := range []string{"05-dpu-gate.conflist", ovnConf} {
			if err := os.Remove(filepath.Join(confDir, name)); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		}
	})
}

// inNode runs the host agent's program in the node, to its end.
func inNode(t *testing.T, args ...string) string {
	t.Helper()
	out, err := shared.node.Output(t.Context(), "", nil, append([]string{ours(t, "dpu-host-agent")}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v: %s", args, err, out)
	}
	return out
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(shared.node.Path(dir))
	must(t, err)
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

func (p *pair) podGoes(name string) {
	p.t.Helper()
	must(p.t, p.admin.CoreV1().Pods("default").Delete(p.t.Context(), name, meta.DeleteOptions{}))
	poll(p.t, 2*soon, "pod "+name+" is gone", func() error {
		if _, err := p.admin.CoreV1().Pods("default").Get(p.t.Context(), name, meta.GetOptions{}); !errors.IsNotFound(err) {
			return fmt.Errorf("it is still there (%v)", err)
		}
		return nil
	})
}

// One story, in order: what an administrator does, and containerd's part in it.
func TestGivenANodeOfOVNWhenTheGateIsPutInFrontAndTakenAwayThenNothingIsLeftButTheProgram(t *testing.T) {
	gate := ours(t, "dpu-gate")
	p := realPair(t)
	bareNode(t)
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	before := attachments(t)
	p.pod("older", realNode)
	p.podRuns("older")

	// When the gate is installed, then it counts at once, and says that nobody vouches for the DPU.
	inNode(t, "install-cni", "--gate-binary", gate)
	p.nodeReady(2*kubeletSync+soon, core.ConditionFalse, "dpu-host-agent")
	if _, err := sandbox(t); err == nil || !strings.Contains(err.Error(), notReady) {
		t.Errorf("a sandbox past the gate: %v", err)
	}

	// When both agents run, then pods come and go through it, the older one too.
	p.startHostInNode("--cni-sync")
	p.StartDPUEvery(interval, nodeDuration)
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	p.pod("newer", realNode)
	p.podRuns("newer")
	p.podGoes("older")
	if n := attachments(t); n != before+1 {
		t.Errorf("the delegate has %d attachments, want %d", n, before+1)
	}

	// When ovn-kubernetes takes its file away, as it does when it stops, then the node is not ready
	// until it is back.
	source := filepath.Join(shared.node.Path(harness.CNIConfDir), ovnConf)
	text, err := os.ReadFile(source)
	must(t, err)
	must(t, os.Remove(source))
	p.nodeReady(2*kubeletSync+soon, core.ConditionFalse, "delegateConf")
	must(t, harness.WriteFile(source, string(text), 0o600))
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")

	// When somebody deletes ours, then it is back before the kubelet asks twice.
	ourFile := filepath.Join(shared.node.Path(harness.CNIConfDir), "05-dpu-gate.conflist")
	must(t, os.Remove(ourFile))
	poll(t, 3*time.Second, "the conflist is back", func() error {
		_, err := os.Stat(ourFile)
		return err
	})

	// When the DPU dies, then pods wait; when the gate is taken out, they do not, DPU or not.
	p.DPU.Kill()
	p.nodeReady(nodeDuration+kubeletSync+soon, core.ConditionFalse, notReady)
	p.Host.Kill()
	inNode(t, "uninstall-cni")
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	p.podGoes("newer")
	if _, err := sandbox(t); err != nil {
		t.Errorf("a sandbox without the gate: %v", err)
	}
	if n := attachments(t); n != before {
		t.Errorf("the delegate has %d attachments, want %d", n, before)
	}
	if left := names(t, harness.CNIConfDir); !slices.Equal(left, []string{ovnConf}) {
		t.Errorf("left in %s: %q", harness.CNIConfDir, left)
	}
	if left := names(t, harness.CNIBinDir); !slices.Contains(left, "dpu-gate") {
		t.Errorf("the program is gone: %q", left)
	}
	inNode(t, "uninstall-cni", "--remove-binary")
	for _, left := range names(t, harness.CNIBinDir) {
		if strings.Contains(left, "dpu-gate") {
			t.Errorf("%s was left", left)
		}
	}
}
