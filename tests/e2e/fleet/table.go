// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"dpu-heartbeat.test/e2e/picture"
)

// results is all that a run found.
type results struct {
	Alive  []*agent
	Steady []*steadyResult
	Storms []*stormResult
}

// column is what a scheme's runs found.
type column[T any] struct {
	scheme string
	runs   []T
}

// inColumns keeps the order in which the schemes were measured.
func inColumns[T any](all []T, schemeOf func(T) string) []column[T] {
	var out []column[T]
	for _, one := range all {
		i := slices.IndexFunc(out, func(c column[T]) bool { return c.scheme == schemeOf(one) })
		if i < 0 {
			i = len(out)
			out = append(out, column[T]{scheme: schemeOf(one)})
		}
		out[i].runs = append(out[i].runs, one)
	}
	return out
}

// row is a line of a table that has a column for each scheme.
type row[T any] struct {
	name   string
	format string
	of     func(T) float64
}

func printRows[T any](w io.Writer, title string, rows []row[T], columns []column[T]) {
	names := strings.NewReplacer("upstream", "upstream's scheme", withCertificates, " with certificates")
	fmt.Fprintf(w, "\n| %s |", title)
	for _, c := range columns {
		fmt.Fprintf(w, " %s |", names.Replace(c.scheme))
	}
	fmt.Fprintf(w, " ratio |\n|---|%s---|\n", strings.Repeat("---|", len(columns)))
	for _, row := range rows {
		fmt.Fprintf(w, "| %s |", row.name)
		var medians []float64
		var inOrder [][]float64 // of the runs
		for _, c := range columns {
			values := make([]float64, 0, len(c.runs))
			for _, run := range c.runs {
				values = append(values, row.of(run))
			}
			inOrder = append(inOrder, slices.Clone(values))
			slices.Sort(values)
			medians = append(medians, values[len(values)/2])
			fmt.Fprintf(w, " %s |", cell(row.format, values))
		}
		fmt.Fprintf(w, " %s%s |\n", ratio(medians), ratioSpread(inOrder))
	}
}

// cell is the median of sorted values, with the least and the most of several.
func cell(format string, values []float64) string {
	median := fmt.Sprintf(format, values[len(values)/2])
	if len(values) == 1 {
		return median
	}
	return fmt.Sprintf("%s ("+format+" to "+format+")", median, values[0], values[len(values)-1])
}

func ratio(values []float64) string {
	if len(values) < 2 || values[1] <= 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", max(0, values[0])/values[1])
}

// ratioSpread is the least and the most ratio of runs that follow each other; none of single runs, nor beside a zero.
func ratioSpread(columns [][]float64) string {
	if len(columns) < 2 || len(columns[0]) < 2 || len(columns[0]) != len(columns[1]) || slices.Min(columns[1]) <= 0 {
		return ""
	}
	var ratios []float64
	for i, value := range columns[0] {
		ratios = append(ratios, max(0, value)/columns[1][i])
	}
	return fmt.Sprintf(" (%.2f to %.2f)", slices.Min(ratios), slices.Max(ratios))
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
	{"API server, CPU ms per write", "%.2f", (*steadyResult).apiPerWrite},
	{"etcd, CPU ms per second", "%.0f", func(r *steadyResult) float64 { return 1000 * r.Rates[etcdCPU] }},
	{"etcd, KiB received per second", "%.1f", func(r *steadyResult) float64 { return r.Rates[etcdBytes] / 1024 }},
	{"all sides, CPU ms per second", "%.0f", func(r *steadyResult) float64 { return 1000 * r.Rates[sidesCPU] }},
	{"API server, MiB resident", "%.0f", func(r *steadyResult) float64 { return r.APIMemory }},
	{"watches open", "%.0f", func(r *steadyResult) float64 { return r.Watches }},
	{"renewal to verdict, p50 ms", "%.1f", func(r *steadyResult) float64 { return r.Host.P50 }},
	{"renewal to verdict, p99 ms", "%.1f", func(r *steadyResult) float64 { return r.Host.P99 }},
	{"renewals late by half an interval", "%.0f", func(r *steadyResult) float64 { return float64(r.DPU.Late) }},
	{"requests of DPUs that failed", "%.0f", func(r *steadyResult) float64 { return float64(r.DPU.Failures) }},
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
	{"connections opened", "%.0f", func(p *phaseResult) float64 { return float64(p.Connections) }},
	{"renewals late by half an interval", "%.0f", func(p *phaseResult) float64 { return float64(p.Late) }},
	{"requests of DPUs that failed", "%.0f", func(p *phaseResult) float64 { return float64(p.Failures) }},
}

func (out *results) print(w io.Writer) {
	for _, kind := range []struct{ name, title string }{{"host", "One host side"}, {"dpu", "One DPU side"}} {
		agents := slices.DeleteFunc(slices.Clone(out.Alive), func(a *agent) bool { return a.name != kind.name })
		if len(agents) > 0 {
			printRows(w, kind.title, aliveRows, inColumns(agents, func(a *agent) string { return a.scheme }))
		}
	}
	for rest := slices.Clone(out.Steady); len(rest) > 0; {
		n := rest[0].N
		ofSize := func(r *steadyResult) bool { return r.N == n }
		size := slices.DeleteFunc(slices.Clone(rest), func(r *steadyResult) bool { return !ofSize(r) })
		rest = slices.DeleteFunc(rest, ofSize)
		printRows(w, fmt.Sprintf("%d DPUs and their hosts", n), steadyRows,
			inColumns(size, func(r *steadyResult) string { return r.Scheme }))
	}
	out.printStorms(w)
}

func (out *results) printStorms(w io.Writer) {
	if len(out.Storms) == 0 {
		return
	}
	storms := inColumns(out.Storms, func(s *stormResult) string { return s.Scheme })
	var steady []string
	for _, c := range storms {
		steady = append(steady, fmt.Sprintf("%.0f", c.runs[0].Steady))
	}
	for i, phase := range out.Storms[0].Phases {
		var phases []column[*phaseResult]
		for _, c := range storms {
			of := column[*phaseResult]{scheme: c.scheme}
			for _, run := range c.runs {
				of.runs = append(of.runs, &run.Phases[i])
			}
			phases = append(phases, of)
		}
		title := fmt.Sprintf("%d DPUs (steady: %s requests/s): %s", out.Storms[0].N, strings.Join(steady, " and "), phase.Name)
		printRows(w, title, phaseRows, phases)
	}
}

// write puts the tables into the page, between its marks, and draws the pictures beside it anew.
func (out *results) write(dir, agents string, took time.Duration) error {
	const begin, end = "<!-- measured: ./dev bench fleet -->\n", "<!-- end of what was measured -->\n"
	var text bytes.Buffer
	fmt.Fprintf(&text, "\nOne run of %.0f minutes, %d cores of %s, %s.\n", took.Minutes(), runtime.NumCPU(),
		runtime.GOARCH, time.Now().UTC().Format("January 2006"))
	out.print(&text)
	if agents != "" {
		text.WriteString("\n```text\n" + agents + "```\n")
	}
	text.WriteString("\n")
	if err := picture.Replace(dir, begin, end, text.String()); err != nil {
		return err
	}
	return picture.Write(dir)
}
