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
// real server: one list, two targets.
func TestGivenTheIntegrationSuiteWhenItRunsAgainstTheRealServerThenItPasses(t *testing.T) {
	ours(t, "dpu-host-agent")
	python := "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import pytest, xdist").CombinedOutput(); err != nil {
		if os.Getenv("DPU_E2E") == "required" {
			t.Fatalf("%s: %s", err, out)
		}
		t.Skip("python3-pytest and python3-pytest-xdist are not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-m", "pytest", "-q", "-n", "4", "-p", "no:cacheprovider", "--tb=short",
		// What no API server takes part in has been run already.
		"--ignore-glob=test_gate*", "--ignore=test_options.py", "-k", "not demo", ".")
	cmd.Dir = "../../integration"
	cmd.Env = append(os.Environ(), "DPU_TEST_KUBECONFIG="+shared.control.AdminKubeconfig())
	// Its own process group, so that its workers end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	must(t, harness.WriteFile(logDir("integration.log"), string(out), 0o644))
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		t.Fatalf("%v; the last lines are\n%s", err, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
	t.Log(lines[len(lines)-1])
}
