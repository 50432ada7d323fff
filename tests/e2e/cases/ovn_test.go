// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// services is OVS and OVN, with what of ovnkube is to be seen: what a DPU runs.
// tests/support/dpu_testing/ovn.py starts and ends them.
type services struct {
	t       *testing.T
	RunDir  string
	in      io.Writer
	answers *bufio.Scanner
}

func startServices(t *testing.T) *services {
	t.Helper()
	for _, program := range []string{"ovs-vswitchd", "ovn-northd", "ovn-controller"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, "openvswitch-switch, ovn-central and ovn-host are not all installed: %v", err)
		}
	}
	cmd := exec.Command("/usr/bin/python3", "-m", "dpu_testing.ovn")
	cmd.Dir = "../../support"
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // it ends with its input, also when we are killed
		_ = cmd.Wait()
	})
	s := &services{t: t, in: in, answers: bufio.NewScanner(out)}
	s.RunDir = s.answer()
	return s
}

func (s *services) answer() string {
	s.t.Helper()
	if !s.answers.Scan() {
		s.t.Fatal("dpu_testing.ovn has ended: ", s.answers.Err())
	}
	return s.answers.Text()
}

// do kills or starts one of them.
func (s *services) do(verb, name string) {
	s.t.Helper()
	_, err := fmt.Fprintln(s.in, verb, name)
	must(s.t, err)
	s.answer()
}

// A DPU whose agent lives and renews, and whose services die one after the other. tests/integration has them all.
func TestGivenARealNodeWhenItsDPULosesAServiceThenTheNodeNamesItUntilItIsBack(t *testing.T) {
	ovn := startServices(t)
	p := realPair(t)
	p.StartHost()
	// All that is forgiven is a twentieth of the defaults, or less.
	p.StartDPU("--ovs-rundir="+ovn.RunDir,
		"--probe=interval=200ms,timeout=1s,refused=250ms,silent=3s,missing=3s,wrong=3s;ovn-kubernetes")
	p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
	for _, name := range []string{"vswitchd", "ovn-sb", "ovn-controller", "ovnkube"} {
		lost := time.Now()
		ovn.do("kill", name)
		p.nodeReady(2*kubeletSync+soon, core.ConditionFalse, "probe '"+name+"'")
		named := time.Now()
		ovn.do("start", name)
		p.nodeReady(2*kubeletSync+soon, core.ConditionTrue, "")
		t.Logf("%s: the Node named it after %s and was Ready %s after its return", name,
			named.Sub(lost).Round(100*time.Millisecond), time.Since(named).Round(100*time.Millisecond))
	}
}
