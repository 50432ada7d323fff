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

const python = "/usr/bin/python3"

// runPython runs what is in tests/dir to its end, and keeps what it says in a log of that name.
func runPython(t *testing.T, limit time.Duration, dir, log, env string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir = "../../" + dir
	cmd.Env = append(os.Environ(), env, "COLUMNS=500") // for names that are not cut
	// Its own process group, so that what it has started ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	must(t, harness.WriteFile(logDir(log), string(out), 0o644))
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		t.Fatalf("%v; the last lines are\n%s", err, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
	t.Log(lines[len(lines)-1])
}

// The cases that hold the stand-in to the real server. DPU_E2E_SUITE=whole runs the others, too.
func TestGivenTheIntegrationSuiteWhenItRunsAgainstTheRealServerThenItPasses(t *testing.T) {
	ours(t, "dpu-gate")
	if out, err := exec.Command(python, "-c", "import pytest, xdist").CombinedOutput(); err != nil {
		missing(t, "python3-pytest and python3-pytest-xdist are not installed: %s", out)
	}
	which := "contract and not standin_only"
	if os.Getenv("DPU_E2E_SUITE") == "whole" {
		which = "not standin_only"
	}
	runPython(t, 8*time.Minute, "integration", "integration.log", "DPU_TEST_KUBECONFIG="+shared.control.AdminKubeconfig(),
		"-m", "pytest", "-q", "--tb=short", "-n", "4", "-m", which, "--ignore-glob=test_gate*", ".")
}

// The documentation, command by command, on a cluster of its own beside those in use here.
func TestGivenTheWalkthroughWhenItsCommandsAreRunAsTheyStandThenEachDoesWhatThePageSays(t *testing.T) {
	t.Parallel()
	runPython(t, 12*time.Minute, "docs", "walkthrough.log", "DPU_E2E_DIR="+logDir("walkthrough"), "walkthrough.py")
}
