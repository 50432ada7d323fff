// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	pageName = "performance.md"
	measured = "<!-- measured: ./dev bench fleet -->\n"
	endOf    = "<!-- end of what was measured -->\n"
)

// write puts the tables into the page, between its marks, and the plots beside it.
func (out *results) write(dir, agents string) error {
	path := filepath.Join(dir, pageName)
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, found := strings.Cut(string(page), measured)
	_, tail, ended := strings.Cut(rest, endOf)
	if !found || !ended {
		return fmt.Errorf("%s has not both marks %q and %q", path, measured, endOf)
	}
	var text bytes.Buffer
	text.WriteString(head + measured)
	fmt.Fprintf(&text, "\nOne run of %.0f minutes, %s.\n", out.Seconds/60, machine())
	out.print(&text)
	if agents != "" {
		text.WriteString("\n```text\n" + agents + "```\n")
	}
	text.WriteString("\n" + endOf + tail)
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		return err
	}
	return out.plot(dir)
}

// machine says of which class it is, and when.
func machine() string {
	return fmt.Sprintf("%d cores of %s, %s", runtime.NumCPU(), runtime.GOARCH, time.Now().UTC().Format("January 2006"))
}

// ---- on paper

// perNode is what one DPU more costs, by a fleet and the smallest.
type perNode struct{ api, etcd, memory float64 } // CPU ms/s, MiB

// largestInTime is that of our fleets which the machine could carry; 0: none.
func (out *results) largestInTime() int {
	n := 0
	for _, r := range out.Steady {
		if r.Scheme == "ours" && r.DPU.Late == 0 && r.DPU.Failures == 0 {
			n = max(n, r.N)
		}
	}
	return n
}

func (out *results) perNode(scheme string, n int) (per perNode) {
	var least *steadyResult
	for _, r := range out.Steady {
		if r.Scheme != scheme {
			continue
		}
		if least == nil {
			least = r
		}
		if r.N == n {
			per = perNode{1000 * r.Rates[apiCPU] / float64(n), 1000 * r.Rates[etcdCPU] / float64(n),
				max(0, r.APIMemory-least.APIMemory) / float64(max(1, n-least.N))}
		}
	}
	return per
}

// Versions of a lease stay until etcd is compacted: the API server does that each five minutes, to
// where it was five minutes before.
const keptSeconds = 600

// printPaper multiplies what was measured at the default interval.
func (out *results) printPaper(w io.Writer) {
	n := out.largestInTime()
	if n == 0 {
		return
	}
	ours, theirs := out.perNode("ours", n), out.perNode("upstream", n)
	var bytesPerWrite float64
	for _, r := range out.Steady {
		if r.N == n && r.Scheme == "ours" {
			bytesPerWrite = r.Rates[etcdBytes] / r.Rates[etcdPuts]
		}
	}
	fmt.Fprintf(w, "\n| on paper, from %d nodes | interval | writes/s | API server, cores: ours, upstream's | etcd, cores | API server's memory for it | versions that etcd keeps |\n"+
		"|---|---|---|---|---|---|---|\n", n)
	for _, nodes := range []float64{5000, 15000, 100000} {
		for _, seconds := range []float64{10, 20, 60} {
			share := nodes * interval.Seconds() / seconds / 1000
			writes := nodes / seconds
			fmt.Fprintf(w, "| %.0f | %.0f s | %.0f | %.1f, %.1f | %.1f | %.1f GiB | %.1f GiB |\n", nodes, seconds, writes,
				share*ours.api, share*theirs.api, share*ours.etcd, nodes*ours.memory/1024,
				writes*keptSeconds*bytesPerWrite/math.Pow(1024, 3))
		}
	}
}

// ---- plots

const plotHead = `set terminal svg size 760,280 font "sans-serif,11" background "white"
set grid lc rgb "#dddddd"
set key top left
set style line 1 lc rgb "#1b6ca8" lw 2 pt 7 ps 0.5
set style line 2 lc rgb "#c0392b" lw 2 pt 5 ps 0.5
`

func gnuplot(path, script string) error {
	cmd := exec.Command("gnuplot")
	cmd.Stdin = strings.NewReader(plotHead + fmt.Sprintf("set output %q\n", path) + script)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("gnuplot: %w: %s", err, text)
	}
	return nil
}

// block is data for gnuplot under a name.
func block(name string, lines func(func(...float64))) string {
	var text strings.Builder
	text.WriteString("$" + name + " << END\n")
	lines(func(values ...float64) {
		for _, v := range values {
			fmt.Fprintf(&text, "%.3g ", v)
		}
		text.WriteString("\n")
	})
	return text.String() + "END\n"
}

func (out *results) plot(dir string) error {
	if len(out.Steady) > 0 {
		if err := gnuplot(filepath.Join(dir, "performance-fleet.svg"), out.fleetPlot()); err != nil {
			return err
		}
	}
	if len(out.Storms) == 2 {
		return gnuplot(filepath.Join(dir, "performance-storm.svg"), out.stormPlot())
	}
	return nil
}

func (out *results) fleetPlot() string {
	script := ""
	for _, scheme := range schemes {
		script += block(scheme, func(line func(...float64)) {
			for _, r := range out.Steady {
				if r.Scheme == scheme {
					line(float64(r.N), r.Rates.requests(), 1000*(r.Rates[apiCPU]+r.Rates[etcdCPU]))
				}
			}
		})
	}
	return script + `set multiplot layout 1,2
set logscale xy
set xlabel "DPUs"
set ylabel "requests per second"
plot $ours using 1:2 with linespoints ls 1 title "ours", $upstream using 1:2 with linespoints ls 2 title "upstream's scheme"
set ylabel "API server and etcd, CPU ms per second"
plot $ours using 1:3 with linespoints ls 1 notitle, $upstream using 1:3 with linespoints ls 2 notitle
`
}

func (out *results) stormPlot() string {
	script := ""
	for _, r := range out.Storms {
		script += block(r.Scheme, func(line func(...float64)) {
			for _, p := range r.Points {
				line(p.Seconds, p.Requests, float64(p.NotReady))
			}
		})
	}
	return script + `set multiplot layout 2,1
set ylabel "requests/s"
plot $ours using 1:2 with lines ls 1 title "ours", $upstream using 1:2 with lines ls 2 title "upstream's scheme"
set xlabel "seconds"
set ylabel "NotReady"
plot $ours using 1:3 with lines ls 1 notitle, $upstream using 1:3 with lines ls 2 notitle
`
}
