// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
)

// The cases that hold the stand-in to the real server's behaviour, against the
// real server: one list, two targets. DPU_E2E_SUITE=whole runs the others, too.
func TestGivenTheIntegrationSuiteWhenItRunsAgainstTheRealServerThenItPasses(t *testing.T) {
	ours(t, "dpu-gate")
	python := "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import pytest, xdist").CombinedOutput(); err != nil {
		missing(t, "python3-pytest and python3-pytest-xdist are not installed: %s", out)
	}
	which := "contract and not standin_only"
	if os.Getenv("DPU_E2E_SUITE") == "whole" {
		which = "not standin_only"
	}
	out, err := pytest(t, python, "-n", "4", "-m", which, "--ignore-glob=test_gate*", ".")
	if err != nil {
		t.Fatalf("%v; the last lines are\n%s", err, tail(out, 60))
	}
	t.Log(tail(out, 1))
}

// pytest runs cases of tests/integration; what no API server takes part in has
// been run against the stand-in.
func pytest(t *testing.T, python string, what ...string) (string, error) {
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
	must(t, harness.WriteFile(logDir("integration.log"), string(out), 0o644))
	return string(out), err
}

func tail(text string, count int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
