// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
)

// The cases that hold the stand-in to the real server's behaviour, against the
// real server: one list, two targets. DPU_E2E_SUITE=whole runs the others, too. Their timers are short (a lease lasts two
// seconds), and here they share two cores with a cluster: what fails beside
// others gets a second chance alone.
func TestGivenTheIntegrationSuiteWhenItRunsAgainstTheRealServerThenItPasses(t *testing.T) {
	ours(t, "dpu-gate")
	python := "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import pytest, xdist").CombinedOutput(); err != nil {
		if os.Getenv("DPU_E2E") == "required" {
			t.Fatalf("%s: %s", err, out)
		}
		t.Skip("python3-pytest and python3-pytest-xdist are not installed")
	}
	which := "contract and not standin_only"
	if os.Getenv("DPU_E2E_SUITE") == "whole" {
		which = "not standin_only"
	}
	out, err := pytest(t, python, "integration", "-n", "4", "-m", which, "--ignore-glob=test_gate*", "--ignore=test_options.py", ".")
	var failed []string
	for _, m := range regexp.MustCompile(`(?m)^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$`).FindAllStringSubmatch(out, -1) {
		failed = append(failed, m[1])
	}
	if err != nil && len(failed) > 0 && len(failed) <= 5 {
		t.Logf("again, alone: %q", failed)
		out, err = pytest(t, python, "integration-again", failed...)
	}
	if err != nil {
		t.Fatalf("%v; the last lines are\n%s", err, tail(out, 60))
	}
	t.Log(tail(out, 1))
}

// pytest runs cases of tests/integration; what no API server takes part in has
// been run against the stand-in.
func pytest(t *testing.T, python, log string, what ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"-m", "pytest", "-q", "--tb=short"}, what...)...)
	cmd.Dir = "../../integration"
	cmd.Env = append(os.Environ(), "DPU_TEST_KUBECONFIG="+shared.control.AdminKubeconfig(),
		"COLUMNS=500") // for names that are not cut
	// Its own process group, so that its workers end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	must(t, harness.WriteFile(logDir(log+".log"), string(out), 0o644))
	return string(out), err
}

func tail(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
