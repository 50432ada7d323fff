// SPDX-License-Identifier: Apache-2.0

// Fleet measures what N DPUs and their N hosts cost one API server, ours beside
// the scheme of upstream's own health check, in turn, on the same machine.
//
//	fleet [-sizes 10,100,1000] [-seconds 60] [-storm N] [-json FILE]
//
// DPU_E2E_PARTS is the folder with kube-apiserver and etcd, DPU_FLEET the
// program tests/bench/fleet.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "upstream-") {
		return playUpstream(os.Args[1:])
	}
	sizes := flag.String("sizes", "10,100,1000", "numbers of DPUs")
	seconds := flag.Int("seconds", 60, "to measure, of each")
	storm := flag.Int("storm", 1000, "number of DPUs over an outage of one lease duration; 0: none")
	file := flag.String("json", "", "write the figures there, too")
	flag.Parse()
	m, err := newMeasure(time.Duration(*seconds) * time.Second)
	if err != nil {
		return err
	}
	defer m.stop()
	if err := m.measureIdle(); err != nil {
		return err
	}
	for _, word := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		for _, scheme := range schemes {
			if err := m.steady(scheme, n); err != nil {
				return err
			}
		}
	}
	if *storm > 0 {
		for _, scheme := range schemes {
			if err := m.storm(scheme, *storm); err != nil {
				return err
			}
		}
	}
	m.print(os.Stdout)
	if *file == "" {
		return nil
	}
	text, err := json.MarshalIndent(m.results, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(*file, append(text, '\n'), 0o644)
}

func playUpstream(args []string) error {
	if len(args) != 7 {
		return fmt.Errorf("want KIND KUBECONFIG PREFIX COUNT INTERVAL DURATION DIR")
	}
	count, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	interval, err := time.ParseDuration(args[4])
	if err != nil {
		return err
	}
	duration, err := time.ParseDuration(args[5])
	if err != nil {
		return err
	}
	return runUpstream(args[0], args[1], args[2], count, interval, duration)
}

// side is one process with N DPUs, or N hosts.
type side struct {
	cmd     *exec.Cmd
	in      *bufio.Writer
	closeIn func() error
	out     *bufio.Scanner
}

func startSide(argv []string, log *os.File) (*side, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &side{cmd: cmd, in: bufio.NewWriter(in), closeIn: in.Close, out: bufio.NewScanner(out)}, nil
}

// report says what there was since the one before.
func (s *side) report() (report, error) {
	var r report
	if _, err := s.in.WriteString("\n"); err != nil {
		return r, err
	}
	if err := s.in.Flush(); err != nil {
		return r, err
	}
	if !s.out.Scan() {
		return r, fmt.Errorf("%s ended", s.cmd.Args[0])
	}
	return r, json.Unmarshal(s.out.Bytes(), &r)
}

func (s *side) stop() {
	if s != nil {
		_ = s.closeIn() // it ends with its stdin
		_ = s.cmd.Wait()
	}
}
