// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Names of what a meter adds up. Times are CPU seconds.
const (
	reads     = "reads"
	writes    = "writes"
	watches   = "watches" // that were opened
	apiCPU    = "api CPU"
	etcdCPU   = "etcd CPU"
	sidesCPU  = "sides CPU"
	etcdBytes = "etcd bytes" // that came to etcd
)

const etcdPatience = time.Second // with its metrics

// totals are sums since the meter's begin.
type totals struct {
	at  time.Time
	sum map[string]float64
}

// rates are totals per second.
type rates map[string]float64

func (to totals) since(from totals) rates {
	r := rates{}
	s := to.at.Sub(from.at).Seconds()
	for key, value := range to.sum {
		r[key] = (value - from.sum[key]) / s
	}
	return r
}

// meter adds up counters of processes that may come and go: who counts from zero again was restarted.
type meter struct {
	seen map[string]float64 // by whose and what
	sum  map[string]float64
}

func newMeter() *meter { return &meter{seen: map[string]float64{}, sum: map[string]float64{}} }

func (t *meter) add(whose, what string, value float64) {
	key := whose + " " + what
	before, known := t.seen[key]
	if known && value >= before {
		t.sum[what] += value - before
	} else if known {
		t.sum[what] += value
	}
	t.seen[key] = value
}

// begin takes counters of a process from zero on, where add takes them from the first look on.
func (t *meter) begin(whose, what string) {
	if _, known := t.seen[whose+" "+what]; !known {
		t.add(whose, what, 0)
	}
}

func (t *meter) totals(at time.Time) totals {
	return totals{at: at, sum: maps.Clone(t.sum)}
}

var requestSample = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} (\S+)$`)

// addRequests counts those for single leases; lists of the whole cluster are the API server's own.
func (t *meter) addRequests(server, text string) error {
	sums := map[string]float64{reads: 0, writes: 0, watches: 0}
	for _, found := range requestSample.FindAllStringSubmatch(text, -1) {
		count, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			return err
		}
		label := func(name, value string) bool { return strings.Contains(found[1], name+`="`+value+`"`) }
		switch {
		case !label("resource", "leases") || label("scope", "cluster"):
		case label("verb", "WATCH"):
			sums[watches] += count
		case label("verb", "PUT") || label("verb", "POST"):
			sums[writes] += count
		default:
			sums[reads] += count
		}
	}
	for what, sum := range sums {
		t.add(server, what, sum)
	}
	return nil
}

// value is that of a metric without labels.
func value(text, name string) float64 {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			number, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return number
		}
	}
	return 0
}

// usage is a process' CPU time in seconds, and its memory in KiB; zeros if it is gone.
func usage(pid int) (float64, float64) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	pages, _ := strconv.ParseFloat(fields[21], 64)
	return (user + system) / ticks, pages * float64(os.Getpagesize()) / 1024
}

// read adds what happened since the last time. A server that is gone has nothing to say, and an etcd that is silent
// must not keep the API server's counters waiting. A request counts when it was answered.
func (m *measure) read(f *fleet) (totals, error) {
	servers := map[string]*kubernetes.Clientset{"api": m.admin}
	pids := map[string]int{"api": m.plane.APIServer().Pid}
	if m.peer != nil {
		servers["peer"] = m.peer
		pids["peer"] = m.plane.Peer().Pid
	}
	for name, client := range servers {
		text, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(m.ctx)
		if err != nil {
			continue
		}
		if err := m.meter.addRequests(name, string(text)); err != nil {
			return totals{}, err
		}
		cpu, _ := usage(pids[name])
		m.meter.add(name, apiCPU, cpu)
	}
	at := time.Now()
	ctx, cancel := context.WithTimeout(m.ctx, etcdPatience)
	defer cancel()
	if text, err := m.plane.EtcdMetrics(ctx); err == nil {
		m.meter.add("etcd", etcdBytes, value(text, "etcd_network_client_grpc_received_bytes_total"))
	}
	cpu, _ := usage(m.plane.Etcd().Pid)
	m.meter.add("etcd", etcdCPU, cpu)
	for i, s := range f.sides() {
		cpu, _ := usage(s.cmd.Process.Pid)
		whose := fmt.Sprintf("side %d of %p", i, f)
		m.meter.begin(whose, sidesCPU)
		m.meter.add(whose, sidesCPU, cpu)
	}
	return m.meter.totals(at), nil
}

var watchSample = regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{(.*resource="leases".*)\} (\S+)$`)

// openWatches are those for single leases, or, of a whole namespace, few.
func (m *measure) openWatches() (float64, error) {
	text, err := m.admin.RESTClient().Get().AbsPath("/metrics").DoRaw(m.ctx)
	sum := 0.0
	for _, found := range watchSample.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(found[1], `scope="cluster"`) {
			count, _ := strconv.ParseFloat(found[2], 64)
			sum += count
		}
	}
	return sum, err
}
