// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
)

// row is a line of the table of a fleet.
type row struct {
	name   string
	format string
	of     func(*steadyResult) float64
	rate   func(rates) float64         // where each window has one: the ratio's spread
	limit  func(*steadyResult) float64 // nil: there is none
}

func rateRow(name, format string, limit func(*steadyResult) float64, rate func(rates) float64) row {
	return row{name, format, func(r *steadyResult) float64 { return rate(r.Rates) }, rate, limit}
}

func onePutPerInterval(r *steadyResult) float64 { return float64(r.N) / interval.Seconds() }

func none(*steadyResult) float64 { return 0 }

var steadyRows = []row{
	rateRow("requests of leases per second", "%.1f", onePutPerInterval, rates.requests),
	rateRow("of these reads", "%.1f", none, func(r rates) float64 { return r[reads] }),
	rateRow("of these writes", "%.1f", onePutPerInterval, func(r rates) float64 { return r[writes] }),
	rateRow("API server, CPU ms per second", "%.0f", nil, func(r rates) float64 { return 1000 * r[apiCPU] }),
	rateRow("etcd, CPU ms per second", "%.0f", nil, func(r rates) float64 { return 1000 * r[etcdCPU] }),
	rateRow("etcd, writes per second", "%.1f", onePutPerInterval, func(r rates) float64 { return r[etcdPuts] }),
	rateRow("etcd, KiB received per second", "%.1f", nil, func(r rates) float64 { return r[etcdBytes] / 1024 }),
	rateRow("all sides, CPU ms per second", "%.0f", nil, func(r rates) float64 { return 1000 * r[sidesCPU] }),
	{"API server, MiB resident", "%.0f", func(r *steadyResult) float64 { return r.APIMemory }, nil, nil},
	{"a side, KiB resident", "%.0f", func(r *steadyResult) float64 { return r.FleetMemory }, nil, nil},
	{"watches open", "%.0f", func(r *steadyResult) float64 { return r.Watches }, nil, nil},
	{"renewal to verdict, p50 ms", "%.1f", func(r *steadyResult) float64 { return r.Host.P50 }, nil, nil},
	{"renewal to verdict, p99 ms", "%.1f", func(r *steadyResult) float64 { return r.Host.P99 }, nil, nil},
	{"renewal to verdict, max ms", "%.1f", func(r *steadyResult) float64 { return r.Host.Max }, nil, nil},
	{"renewals", "%.0f", func(r *steadyResult) float64 { return float64(r.DPU.Renewals) }, nil, nil},
	{"renewals late by half an interval", "%.0f", func(r *steadyResult) float64 { return float64(r.DPU.Late) }, nil, none},
	{"renewals that failed", "%.0f", func(r *steadyResult) float64 { return float64(r.DPU.Failures) }, nil, none},
	{"hosts that turned NotReady", "%.0f", func(r *steadyResult) float64 { return float64(r.Host.Fell) }, nil, none},
	{"all ready after the first start, s", "%.1f", func(r *steadyResult) float64 { return r.StartReady }, nil, nil},
}

func ratio(a, b float64) string {
	if b <= 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", max(0, a)/b)
}

// ratios is that of the whole, and its spread over the windows.
func (row row) ratios(ours, theirs *steadyResult) string {
	whole := ratio(row.of(ours), row.of(theirs))
	if row.rate == nil || whole == "" {
		return whole
	}
	least, most, seen := 0.0, 0.0, false
	for i := range min(len(ours.Windows), len(theirs.Windows)) {
		b := row.rate(theirs.Windows[i])
		if b <= 0 {
			return whole
		}
		a := max(0, row.rate(ours.Windows[i])/b)
		if least, most = min(least, a), max(most, a); !seen {
			least, most, seen = a, a, true
		}
	}
	return fmt.Sprintf("%s (%.2f to %.2f)", whole, least, most)
}

func (out *results) print(w io.Writer) {
	out.printAlive(w)
	for i := 0; i+1 < len(out.Steady); i += 2 {
		ours, theirs := out.Steady[i], out.Steady[i+1]
		fmt.Fprintf(w, "\n| %d DPUs and their hosts, %.0f s | ours | upstream's scheme | limit | ratio |\n|---|---|---|---|---|\n",
			ours.N, ours.Seconds)
		for _, row := range steadyRows {
			limit := ""
			if row.limit != nil {
				limit = fmt.Sprintf(row.format, row.limit(ours))
			}
			fmt.Fprintf(w, "| %s | "+row.format+" | "+row.format+" | %s | %s |\n",
				row.name, row.of(ours), row.of(theirs), limit, row.ratios(ours, theirs))
		}
	}
	for _, missed := range out.Missed {
		fmt.Fprintf(w, "\n%s.\n", missed)
	}
	if len(out.Storms) == 2 {
		out.printStorms(w)
	}
	out.printPaper(w)
}

// ---- one pair of agents

var aliveRows = []struct {
	name   string
	format string
	of     func(*aliveResult) float64
}{
	{"anonymous memory, KiB", "%.0f", func(a *aliveResult) float64 { return a.Private }},
	{"proportional memory, KiB", "%.0f", func(a *aliveResult) float64 { return a.Share }},
	{"wake-ups per minute", "%.0f", func(a *aliveResult) float64 { return a.WakeUps }},
	{"CPU ms per interval", "%.2f", func(a *aliveResult) float64 { return a.CPU }},
	{"system calls per interval", "%.0f", func(a *aliveResult) float64 { return a.Syscalls }},
	{"bytes sent per interval", "%.0f", func(a *aliveResult) float64 { return a.Up }},
	{"bytes received per interval", "%.0f", func(a *aliveResult) float64 { return a.Down }},
	{"program, KiB", "%.0f", func(a *aliveResult) float64 { return a.Program }},
}

func (out *results) find(scheme, name string) *aliveResult {
	for i := range out.Alive {
		if out.Alive[i].Scheme == scheme && out.Alive[i].Name == name {
			return &out.Alive[i]
		}
	}
	return nil
}

func (out *results) printAlive(w io.Writer) {
	for _, name := range []string{"dpu", "host"} {
		ours, theirs := out.find("ours", name), out.find("upstream", name)
		if ours == nil || theirs == nil {
			continue
		}
		title := map[string]string{"dpu": "One DPU side", "host": "One host side"}[name]
		fmt.Fprintf(w, "\n| %s | ours | upstream's scheme | limit | ratio |\n|---|---|---|---|---|\n", title)
		for _, row := range aliveRows {
			fmt.Fprintf(w, "| %s | "+row.format+" | "+row.format+" | %s | %s |\n", row.name, row.of(ours), row.of(theirs),
				out.aliveLimit(name, row.name), ratio(row.of(ours), row.of(theirs)))
		}
		if len(ours.First) > 0 && len(theirs.First) > 0 {
			fmt.Fprintf(w, "| start to first renewal, ms: median (min to max) | %s | %s | | %s |\n", spread(ours.First), spread(theirs.First),
				ratio(ours.First[len(ours.First)/2], theirs.First[len(theirs.First)/2]))
		}
	}
}

func spread(sorted []float64) string {
	return fmt.Sprintf("%.0f (%.0f to %.0f)", sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1])
}

// aliveLimit of bytes is the bare PUT. A DPU wakes for its timer and for the answer, a host for
// the event and once more.
func (out *results) aliveLimit(name, row string) string {
	switch {
	case strings.HasPrefix(row, "wake-ups"):
		return fmt.Sprintf("%.0f", 2*60/interval.Seconds())
	case name == "dpu" && strings.HasPrefix(row, "bytes sent"):
		return fmt.Sprintf("%.0f (%.2f)", out.Put.Up, out.find("ours", "dpu").Up/max(1, out.Put.Up))
	case name == "dpu" && strings.HasPrefix(row, "bytes received"):
		return fmt.Sprintf("%.0f (%.2f)", out.Put.Down, out.find("ours", "dpu").Down/max(1, out.Put.Down))
	}
	return ""
}

// ---- storms

func (out *results) printStorms(w io.Writer) {
	ours, theirs := out.Storms[0], out.Storms[1]
	fmt.Fprintf(w, "\n| %d DPUs (steady: %.0f and %.0f requests/s) | | ours | upstream's scheme |\n|---|---|---|---|\n",
		ours.N, ours.Steady, theirs.Steady)
	for i := range ours.Phases {
		a, b := &ours.Phases[i], &theirs.Phases[i]
		title := a.Name
		for _, row := range []struct {
			name string
			of   func(*phaseResult, *stormResult) string
		}{
			{"hosts that turned NotReady", func(p *phaseResult, _ *stormResult) string { return fmt.Sprint(p.Fell) }},
			{"all Ready again after, s", func(p *phaseResult, r *stormResult) string {
				if p.Left > 0 {
					return fmt.Sprintf("%d are not", p.Left)
				}
				return fmt.Sprintf("%.0f", p.ReadyAfter)
			}},
			{"peak of requests per second (to the steady rate)", func(p *phaseResult, r *stormResult) string {
				return fmt.Sprintf("%.0f (%s)", p.Peak, ratio(p.Peak, r.Steady))
			}},
			{"requests, writes per second", func(p *phaseResult, _ *stormResult) string {
				return fmt.Sprintf("%.0f, %.0f", p.Average, p.Writes)
			}},
			{"CPU time of the API server, of all sides, s", func(p *phaseResult, _ *stormResult) string {
				return fmt.Sprintf("%.1f, %.1f", p.APICPU, p.SidesCPU)
			}},
			{"renewals that failed", func(p *phaseResult, _ *stormResult) string { return fmt.Sprint(p.Failures) }},
		} {
			fmt.Fprintf(w, "| %s | %s | %s | %s |\n", title, row.name, row.of(a, ours), row.of(b, theirs))
			title = ""
		}
	}
}
