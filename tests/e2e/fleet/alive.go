// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"dpu-heartbeat.test/e2e/harness"
)

const aliveIntervals = 4

// agent is one whole process with a connection that is counted.
type agent struct {
	name, scheme string
	relay        *harness.Relay
	side         *side

	memory, wakeUps, cpu, up, down float64
}

func (m *measure) startAgent(scheme, name string) (*agent, error) {
	a := &agent{name: name, scheme: scheme}
	var err error
	if a.relay, err = harness.NewRelay(0, "127.0.0.1:0", strings.TrimPrefix(m.plane.Server, "https://")); err != nil {
		return nil, err
	}
	w := way{scheme, "https://" + a.relay.Address()}
	number := map[string]int{"ours": 0, "upstream": 1}[scheme] // a node each
	kubeconfig, err := m.kubeconfig(w, name, number)
	if err != nil {
		return nil, err
	}
	records, err := os.MkdirTemp(m.records, "alive")
	if err != nil {
		return nil, err
	}
	program := map[string]string{"dpu": "dpu-agent", "host": "dpu-host-agent"}[name]
	argv := []string{filepath.Join(os.Getenv("DPU_BIN_DIR"), program), "--kubeconfig=" + kubeconfig,
		"--node-name=" + nodeName(number), "--http-bind-address=127.0.0.1:0"} // others may have the port
	if name == "host" {
		argv = append(argv, "--readiness-file="+filepath.Join(records, "readiness.json"))
	}
	if scheme == "upstream" {
		argv = append([]string{os.Args[0], "upstream-" + name}, sideArgs(m.files(w, name), number, 1, 0, records)...)
	}
	a.side, err = startSide(argv, m.log)
	return a, err
}

// look adds the agent's counters, all of its threads, with that sign: first with -1, then with 1.
func (a *agent) look(sign float64) {
	pid := a.side.cmd.Process.Pid
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		a.wakeUps += sign * field(task+"/status", "voluntary_ctxt_switches:") / (aliveIntervals * interval).Minutes()
		a.cpu += sign * field(task+"/schedstat", "") / 1e6 / aliveIntervals
	}
	a.up += sign * float64(a.relay.Up.Load()) / aliveIntervals
	a.down += sign * float64(a.relay.Down.Load()) / aliveIntervals
	a.memory = field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Anonymous:")
}

// field is the number behind a name in a file of /proc; 0 if it is not there.
func field(file, name string) float64 {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name); found {
			number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			value, _ := strconv.ParseFloat(number, 64)
			return value
		}
	}
	return 0
}

// alive measures one pair of agents of each scheme, all at the same time.
func (m *measure) alive() error {
	if err := m.makeNodes(2); err != nil {
		return err
	}
	for _, scheme := range schemes {
		for _, name := range []string{"host", "dpu"} {
			a, err := m.startAgent(scheme, name)
			if err != nil {
				return err
			}
			defer a.relay.Close()
			defer func() { _ = a.side.cmd.Process.Kill(); _ = a.side.cmd.Wait() }()
			m.out.Alive = append(m.out.Alive, a)
		}
	}
	time.Sleep(2 * interval) // whatever belongs to the start
	for _, a := range m.out.Alive {
		a.look(-1)
	}
	time.Sleep(aliveIntervals * interval)
	for _, a := range m.out.Alive {
		a.look(1)
		if a.memory == 0 {
			return fmt.Errorf("%s's %s ended: %s", a.scheme, a.name, harness.TailFile(m.log.Name(), 5))
		}
	}
	return nil
}
