// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
)

// row is a line of the tables: a name, and a figure of a result.
type row struct {
	name   string
	format string
	of     func(*result) float64
	ratio  bool // ours to upstream's says something
}

var steadyRows = []row{
	{"requests of leases per second", "%.1f", func(r *result) float64 { return r.Requests }, true},
	{"writes of leases per second", "%.1f", func(r *result) float64 { return r.Writes }, true},
	{"API server, CPU ms per second", "%.0f", func(r *result) float64 { return r.APICPU }, true},
	{"API server, MiB", "%.0f", func(r *result) float64 { return r.APIMemory }, true},
	{"etcd, CPU ms per second", "%.0f", func(r *result) float64 { return r.EtcdCPU }, true},
	{"all sides, CPU ms per second", "%.0f", func(r *result) float64 { return r.FleetCPU }, true},
	{"a side, KiB", "%.0f", func(r *result) float64 { return r.FleetMemory }, true},
	{"renewal to verdict, p50 ms", "%.1f", func(r *result) float64 { return r.Host.P50 }, true},
	{"renewal to verdict, p99 ms", "%.1f", func(r *result) float64 { return r.Host.P99 }, true},
	{"renewal to verdict, max ms", "%.1f", func(r *result) float64 { return r.Host.Max }, true},
	{"renewals", "%.0f", func(r *result) float64 { return float64(r.DPU.Renewals) }, false},
	{"renewals late by half an interval", "%.0f", func(r *result) float64 { return float64(r.DPU.Late) }, false},
	{"requests that failed", "%.0f", func(r *result) float64 { return float64(r.DPU.Failures) }, false},
	{"hosts that turned NotReady", "%.0f", func(r *result) float64 { return float64(r.NotReady) }, false},
	{"all ready after the start, s", "%.1f", func(r *result) float64 { return r.StartReady }, false},
}

var stormRows = []row{
	{"hosts that turned NotReady, though all DPUs live", "%.0f", func(r *result) float64 { return float64(r.NotReady) }, false},
	{"all ready after the outage, s", "%.1f", func(r *result) float64 { return r.BackReady }, false},
	{"peak of requests of leases per second", "%.0f", func(r *result) float64 { return r.Peak }, true},
	{"the same on average", "%.0f", func(r *result) float64 { return r.Requests }, true},
	{"API server, CPU ms per second", "%.0f", func(r *result) float64 { return r.APICPU }, true},
}

// print writes Markdown: a table for each size, and one for each storm.
func (m *measure) print(w io.Writer) {
	for i := 0; i+1 < len(m.results); i += 2 {
		ours, theirs := &m.results[i], &m.results[i+1]
		rows, title := steadyRows, fmt.Sprintf("%d DPUs and their hosts, %.0f s", ours.N, ours.Seconds)
		if ours.Storm {
			rows, title = stormRows, fmt.Sprintf("%d DPUs: the API server gone for %v, then back", ours.N, duration)
		}
		fmt.Fprintf(w, "\n| %s | ours | upstream's scheme | ratio |\n|---|---|---|---|\n", title)
		for _, row := range rows {
			a, b := row.of(ours), row.of(theirs)
			ratio := ""
			if row.ratio && b > 0 {
				ratio = fmt.Sprintf("%.2f", a/b)
			}
			fmt.Fprintf(w, "| %s | "+row.format+" | "+row.format+" | %s |\n", row.name, a, b, ratio)
		}
	}
}
