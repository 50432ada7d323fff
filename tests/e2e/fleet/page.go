// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	pageName = "performance/measured.md"
	measured = "<!-- measured: ./dev bench fleet -->\n"
	endOf    = "<!-- end of what was measured -->\n"
)

// write puts the tables into the page, between its marks.
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
	return os.WriteFile(path, text.Bytes(), 0o644)
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
