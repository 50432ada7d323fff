// SPDX-License-Identifier: Apache-2.0

// Fleet measures what N DPUs and their N hosts cost one API server, ours beside
// the scheme of upstream's own health check, in turn, on the same machine.
//
//	fleet [-schemes ours,upstream] [-sizes 10,100,1000] [-interval 10s] [-intervals 3] [-storm N] [-runs N] [-alive=false] [-write DIR]
//
// DPU_E2E_PARTS is the folder with kube-apiserver and etcd, DPU_BIN_DIR the one
// with our agents, DPU_FLEET the program tests/bench/fleet.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dpu-heartbeat.test/e2e/picture"
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
	only := flag.String("schemes", strings.Join(schemes, ","), "which to measure; with "+withCertificates+" behind it, each side has a client certificate in place of a token")
	sizes := flag.String("sizes", "10,100,1000", "numbers of DPUs; one that is named again is measured again")
	flag.DurationVar(&interval, "interval", interval, "the renew interval; a lease lasts four of them")
	intervals := flag.Int("intervals", 3, "how many to measure, of each")
	storm := flag.Int("storm", 1000, "number of DPUs in the storms; 0: none")
	runs := flag.Int("runs", 1, "how many storms of each; several are shown as median (least to most)")
	alive := flag.Bool("alive", true, "measure one pair of agents")
	write := flag.String("write", "", "folder with performance/measured.md, into which the figures go, too")
	draw := flag.String("draw", "", "folder with performance/measured.md, whose pictures are drawn anew; nothing is measured")
	agents := flag.String("agents", os.DevNull, "file with what tests/bench/bench.py said, for that page")
	flag.Parse()
	duration = 4 * interval
	if *draw != "" {
		return picture.Write(*draw)
	}
	said, err := os.ReadFile(*agents)
	if err != nil {
		return err
	}
	restore, err := allowInotify()
	if err != nil {
		return err
	}
	defer restore()
	m, err := newMeasure(*intervals)
	if err != nil {
		return err
	}
	defer m.stop()
	m.schemes = strings.Split(*only, ",")
	failed := m.all(*sizes, *storm, *runs, *alive) // what there is by then is shown all the same
	m.out.print(os.Stdout)
	if *write == "" || failed != nil {
		return failed
	}
	return m.out.write(*write, string(said), time.Since(m.began))
}

// allowInotify lets one user have as many hosts as there are: each looks after its record.
func allowInotify() (func(), error) {
	const file = "/proc/sys/fs/inotify/max_user_instances"
	before, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	restore := func() { _ = os.WriteFile(file, before, 0o644) }
	return restore, os.WriteFile(file, []byte("65536"), 0o644)
}

func (m *measure) all(sizes string, storm, runs int, alive bool) error {
	if err := m.measureIdle(); err != nil {
		return err
	}
	if alive {
		if err := m.alive(); err != nil {
			return err
		}
	}
	for _, word := range strings.FieldsFunc(sizes, func(c rune) bool { return c == ',' }) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		for _, scheme := range m.schemes {
			if err := m.steady(scheme, n); err != nil {
				return err
			}
		}
	}
	for range runs {
		for _, scheme := range m.schemes {
			if err := m.storm(scheme, storm); err != nil {
				return err
			}
		}
	}
	return nil
}

// sideArgs are those of a process with many sides, ours or upstream's: of the nodes from one number on. The kubeconfig
// of each is named so, a dot, and its node.
func sideArgs(kubeconfig string, first, count int, spread time.Duration, records string) []string {
	return []string{kubeconfig, strconv.Itoa(first), strconv.Itoa(count), seconds(interval), seconds(duration), seconds(spread), records}
}

// seconds is a duration as both parsers take it: 1m15s is none to the agents'.
func seconds(d time.Duration) string { return fmt.Sprintf("%gs", d.Seconds()) }

func playUpstream(args []string) error {
	if len(args) != 8 {
		return fmt.Errorf("want KIND KUBECONFIG FIRST COUNT INTERVAL DURATION SPREAD DIR")
	}
	var err error
	var nodes [2]int
	for i := range nodes {
		if nodes[i], err = strconv.Atoi(args[2+i]); err != nil {
			return err
		}
	}
	var times [3]time.Duration
	for i := range times {
		if times[i], err = time.ParseDuration(args[4+i]); err != nil {
			return err
		}
	}
	u := &upstream{interval: times[0], spread: times[2], first: nodes[0], count: nodes[1]}
	u.duration.Store(int64(times[1]))
	return u.run(args[0], args[1])
}

// side is one process with many DPUs, or many hosts.
type side struct {
	asking sync.Mutex // one line in, one out
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
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
	return &side{cmd: cmd, in: in, out: bufio.NewScanner(out)}, nil
}

// say has one line answered: with what there was since the one before. One with a duration restarts all sides, one by
// one, with that of the lease.
func (s *side) say(line string) (report, error) {
	var r report
	s.asking.Lock()
	defer s.asking.Unlock()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		return r, err
	}
	if !s.out.Scan() {
		return r, fmt.Errorf("%s ended", s.cmd.Args[0])
	}
	return r, json.Unmarshal(s.out.Bytes(), &r)
}

func (s *side) stop() {
	_ = s.in.Close() // it ends with its stdin
	_ = s.cmd.Wait()
}

// sides are the processes with all DPUs, or all hosts.
type sides []*side

func (all sides) report() (report, error) { return all.say("") }

func (all sides) roll(duration time.Duration) error {
	_, err := all.say(seconds(duration))
	return err
}

// say adds up what they answer: the median of the medians, and the worst of the worst.
func (all sides) say(line string) (report, error) {
	var sum report
	var medians []float64
	for _, s := range all {
		r, err := s.say(line)
		if err != nil {
			return sum, err
		}
		sum.Ready += r.Ready
		sum.Fell += r.Fell
		sum.Late += r.Late
		sum.Failures += r.Failures
		sum.P99 = max(sum.P99, r.P99)
		medians = append(medians, r.P50)
	}
	slices.Sort(medians)
	sum.P50 = medians[len(medians)/2]
	return sum, nil
}

func (all sides) stop() {
	for _, s := range all {
		s.stop()
	}
}
