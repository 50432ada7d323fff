// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// results is all that a run found.
type results struct {
	Alive  []*agent
	Steady []*steadyResult // ours and upstream's of a size, in turn
	Storms []*stormResult
}

// row is a line of a table that has a column for each scheme.
type row[T any] struct {
	name   string
	format string
	of     func(T) float64
}

func printRows[T any](w io.Writer, title string, rows []row[T], ours, theirs T) {
	fmt.Fprintf(w, "\n| %s | ours | upstream's scheme | ratio |\n|---|---|---|---|\n", title)
	for _, row := range rows {
		a, b := row.of(ours), row.of(theirs)
		fmt.Fprintf(w, "| %s | "+row.format+" | "+row.format+" | %s |\n", row.name, a, b, ratio(a, b))
	}
}

func ratio(a, b float64) string {
	if b <= 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", max(0, a)/b)
}

var aliveRows = []row[*agent]{
	{"anonymous memory, KiB", "%.0f", func(a *agent) float64 { return a.memory }},
	{"wake-ups per minute", "%.0f", func(a *agent) float64 { return a.wakeUps }},
	{"CPU ms per interval", "%.2f", func(a *agent) float64 { return a.cpu }},
	{"bytes sent per interval", "%.0f", func(a *agent) float64 { return a.up }},
	{"bytes received per interval", "%.0f", func(a *agent) float64 { return a.down }},
}

var steadyRows = []row[*steadyResult]{
	{"requests of leases per second", "%.1f", func(r *steadyResult) float64 { return r.Rates.requests() }},
	{"of these reads", "%.1f", func(r *steadyResult) float64 { return r.Rates[reads] }},
	{"of these writes", "%.1f", func(r *steadyResult) float64 { return r.Rates[writes] }},
	{"API server, CPU ms per second", "%.0f", func(r *steadyResult) float64 { return 1000 * r.Rates[apiCPU] }},
	{"etcd, CPU ms per second", "%.0f", func(r *steadyResult) float64 { return 1000 * r.Rates[etcdCPU] }},
	{"etcd, KiB received per second", "%.1f", func(r *steadyResult) float64 { return r.Rates[etcdBytes] / 1024 }},
	{"all sides, CPU ms per second", "%.0f", func(r *steadyResult) float64 { return 1000 * r.Rates[sidesCPU] }},
	{"API server, MiB resident", "%.0f", func(r *steadyResult) float64 { return r.APIMemory }},
	{"watches open", "%.0f", func(r *steadyResult) float64 { return r.Watches }},
	{"renewal to verdict, p50 ms", "%.1f", func(r *steadyResult) float64 { return r.Host.P50 }},
	{"renewal to verdict, p99 ms", "%.1f", func(r *steadyResult) float64 { return r.Host.P99 }},
	{"renewals late by half an interval", "%.0f", func(r *steadyResult) float64 { return float64(r.DPU.Late) }},
	{"renewals that failed", "%.0f", func(r *steadyResult) float64 { return float64(r.DPU.Failures) }},
	{"hosts that turned NotReady", "%.0f", func(r *steadyResult) float64 { return float64(r.Host.Fell) }},
	{"all ready after the first start, s", "%.1f", func(r *steadyResult) float64 { return r.StartReady }},
}

var phaseRows = []row[*phaseResult]{
	{"hosts that turned NotReady", "%.0f", func(p *phaseResult) float64 { return float64(p.Fell) }},
	{"hosts not Ready in the end", "%.0f", func(p *phaseResult) float64 { return float64(p.Left) }},
	{"all Ready again after, s", "%.0f", func(p *phaseResult) float64 { return p.ReadyAfter }},
	{"peak of requests per second", "%.0f", func(p *phaseResult) float64 { return p.Peak }},
	{"requests per second", "%.0f", func(p *phaseResult) float64 { return p.Average }},
	{"CPU time of the API server, s", "%.1f", func(p *phaseResult) float64 { return p.APICPU }},
	{"CPU time of all sides, s", "%.1f", func(p *phaseResult) float64 { return p.SidesCPU }},
	{"renewals that failed", "%.0f", func(p *phaseResult) float64 { return float64(p.Failures) }},
}

func (out *results) print(w io.Writer) {
	if len(out.Alive) == 4 {
		printRows(w, "One host side", aliveRows, out.Alive[0], out.Alive[2])
		printRows(w, "One DPU side", aliveRows, out.Alive[1], out.Alive[3])
	}
	for i := 0; i+1 < len(out.Steady); i += 2 {
		title := fmt.Sprintf("%d DPUs and their hosts", out.Steady[i].N)
		printRows(w, title, steadyRows, out.Steady[i], out.Steady[i+1])
	}
	if len(out.Storms) < 2 {
		return
	}
	ours, theirs := out.Storms[0], out.Storms[1]
	for i := range ours.Phases {
		title := fmt.Sprintf("%d DPUs (steady: %.0f and %.0f requests/s): %s", ours.N, ours.Steady, theirs.Steady, ours.Phases[i].Name)
		printRows(w, title, phaseRows, &ours.Phases[i], &theirs.Phases[i])
	}
}

// write puts the tables into the page, between its marks.
func (out *results) write(dir, agents string, took time.Duration) error {
	const begin, end = "<!-- measured: ./dev bench fleet -->\n", "<!-- end of what was measured -->\n"
	path := filepath.Join(dir, "performance/measured.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, found := strings.Cut(string(page), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has not both marks %q and %q", path, begin, end)
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s%s\nOne run of %.0f minutes, %d cores of %s, %s.\n", head, begin, took.Minutes(),
		runtime.NumCPU(), runtime.GOARCH, time.Now().UTC().Format("January 2006"))
	out.print(&text)
	if agents != "" {
		text.WriteString("\n```text\n" + agents + "```\n")
	}
	text.WriteString("\n" + end + tail)
	return os.WriteFile(path, text.Bytes(), 0o644)
}
