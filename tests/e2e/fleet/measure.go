// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"dpu-heartbeat.test/e2e/harness"
)

const (
	interval = 10 * time.Second
	duration = 40 * time.Second
	patience = 3 * time.Minute // until all of a fleet are ready
	ticks    = 100.0           // of the kernel's CPU times, per second
)

var schemes = []string{"ours", "upstream"}

// result is a row of the table.
type result struct {
	Scheme      string  `json:"scheme"`
	N           int     `json:"n"`
	Storm       bool    `json:"storm"`
	Seconds     float64 `json:"seconds"`
	Requests    float64 `json:"requests_per_s"` // of leases, watches that were opened included
	Writes      float64 `json:"writes_per_s"`
	APICPU      float64 `json:"api_cpu_ms_per_s"`
	EtcdCPU     float64 `json:"etcd_cpu_ms_per_s"`
	APIMemory   float64 `json:"api_memory_mib"`
	FleetMemory float64 `json:"fleet_memory_kib_per_side"`
	FleetCPU    float64 `json:"fleet_cpu_ms_per_s"`
	DPU         report  `json:"dpus"`
	Host        report  `json:"hosts"`
	StartReady  float64 `json:"all_ready_after_start_s"`
	BackReady   float64 `json:"all_ready_after_outage_s"`
	Peak        float64 `json:"peak_requests_per_s"`
	NotReady    int64   `json:"turned_not_ready"`
}

type measure struct {
	ctx        context.Context
	plane      *harness.ControlPlane
	admin      *kubernetes.Clientset
	kubeconfig string
	dir        string
	span       time.Duration
	nodes      int // that exist
	idle       result
	results    []result
}

// newMeasure starts the API server. The fleets are no masters: its flow control holds for them.
func newMeasure(span time.Duration) (*measure, error) {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return nil, err
	}
	m := &measure{ctx: context.Background(), dir: dir, span: span}
	m.plane, err = harness.StartControlPlane(m.ctx, harness.ControlPlaneOptions{
		Dir: filepath.Join(dir, "cluster"), Bin: os.Getenv("DPU_E2E_PARTS"), APIOnly: true,
		APIArgs: []string{"--audit-log-path="}})
	if err != nil {
		return nil, err
	}
	if err := m.prepare(); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

func (m *measure) prepare() error {
	var err error
	if m.kubeconfig, err = m.plane.ClientKubeconfig("fleet", harness.Identity{User: "fleet"}); err != nil {
		return err
	}
	if m.admin, err = m.plane.Admin(); err != nil {
		return err
	}
	if err := m.plane.PrepareNamespace(m.ctx, ""); err != nil {
		return err
	}
	_, err = m.admin.RbacV1().ClusterRoleBindings().Create(m.ctx, &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: "User", Name: "fleet"}},
	}, metav1.CreateOptions{})
	return err
}

func (m *measure) stop() {
	m.plane.Stop()
	_ = os.RemoveAll(m.dir)
}

// ---- the fleet

type fleet struct {
	dpus, hosts *side
	began       time.Time
	log         *os.File
}

func (m *measure) makeNodes(n int) error {
	var group sync.WaitGroup
	errs := make(chan error, n)
	slots := make(chan struct{}, 16)
	for ; m.nodes < n; m.nodes++ {
		name := fmt.Sprintf("w-%d", m.nodes)
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			_, err := m.admin.CoreV1().Nodes().Create(m.ctx,
				&core.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				errs <- err
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}

// start begins with no lease, all sides at once, and returns when every host is ready.
func (m *measure) start(scheme string, n int) (*fleet, error) {
	if err := m.makeNodes(n); err != nil {
		return nil, err
	}
	err := m.admin.CoordinationV1().Leases(harness.Namespace).
		DeleteCollection(m.ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	f := &fleet{began: time.Now()}
	if f.log, err = os.Create(filepath.Join(m.dir, "sides.log")); err != nil {
		return nil, err
	}
	for _, kind := range []string{"host", "dpu"} {
		argv := []string{os.Getenv("DPU_FLEET"), kind}
		if scheme == "upstream" {
			argv = []string{os.Args[0], "upstream-" + kind}
		}
		records, err := os.MkdirTemp(m.dir, "records")
		if err != nil {
			return nil, err
		}
		s, err := startSide(append(argv, m.kubeconfig, "w", strconv.Itoa(n), interval.String(),
			duration.String(), records), f.log)
		if err != nil {
			return nil, err
		}
		if kind == "host" {
			f.hosts = s
		} else {
			f.dpus = s
		}
	}
	return f, f.waitReady(n)
}

// sides are its processes; none of a fleet that is nil.
func (f *fleet) sides() []*side {
	if f == nil {
		return nil
	}
	return []*side{f.dpus, f.hosts}
}

func (f *fleet) stop() {
	for _, s := range f.sides() {
		s.stop()
	}
	_ = f.log.Close()
}

func (f *fleet) waitReady(n int) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		r, err := f.hosts.report()
		if err != nil {
			return fmt.Errorf("%w: %s", err, harness.TailFile(f.log.Name(), 5))
		}
		if r.Ready == n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d are ready", r.Ready, n)
		}
	}
}

// ---- what it costs

// reading is a state of counters.
type reading struct {
	at                        time.Time
	requests, writes          float64
	apiCPU, etcdCPU, fleetCPU float64 // seconds
	apiMemory, fleetMemory    float64 // KiB
}

var sample = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} (\S+)$`)

func (m *measure) read(f *fleet) (reading, error) {
	r := reading{at: time.Now()}
	text, err := m.admin.RESTClient().Get().AbsPath("/metrics").DoRaw(m.ctx)
	if err != nil {
		return r, err
	}
	for _, found := range sample.FindAllStringSubmatch(string(text), -1) {
		count, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			return r, err
		}
		if !strings.Contains(found[1], `resource="leases"`) || strings.Contains(found[1], `verb="LIST"`) &&
			strings.Contains(found[1], `scope="cluster"`) {
			continue
		}
		r.requests += count
		if strings.Contains(found[1], `verb="PUT"`) || strings.Contains(found[1], `verb="POST"`) {
			r.writes += count
		}
	}
	r.apiCPU, r.apiMemory = usage(m.plane.APIServer().Pid)
	r.etcdCPU, _ = usage(m.plane.Etcd().Pid)
	for _, s := range f.sides() {
		cpu, memory := usage(s.cmd.Process.Pid)
		r.fleetCPU += cpu
		r.fleetMemory += memory
	}
	return r, nil
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

// fill takes off what an API server does for itself.
func (r *result) fill(from, to reading, idle *result) {
	s := to.at.Sub(from.at).Seconds()
	r.Seconds = s
	r.Requests = (to.requests-from.requests)/s - idle.Requests
	r.Writes = (to.writes-from.writes)/s - idle.Writes
	r.APICPU = 1000*(to.apiCPU-from.apiCPU)/s - idle.APICPU
	r.EtcdCPU = 1000*(to.etcdCPU-from.etcdCPU)/s - idle.EtcdCPU
	r.FleetCPU = 1000 * (to.fleetCPU - from.fleetCPU) / s
	r.APIMemory = to.apiMemory / 1024
	r.FleetMemory = to.fleetMemory / float64(max(1, 2*r.N))
}

// watch looks at the counters for as long as is asked for.
func (m *measure) watch(f *fleet, r *result) error {
	from, err := m.read(f)
	if err != nil {
		return err
	}
	time.Sleep(m.span)
	to, err := m.read(f)
	if err != nil {
		return err
	}
	r.fill(from, to, &m.idle)
	return nil
}

// measureIdle is done before the first fleet.
func (m *measure) measureIdle() error {
	var idle result
	time.Sleep(interval)
	err := m.watch(nil, &idle)
	m.idle = idle
	return err
}

// steady measures a fleet at its daily work.
func (m *measure) steady(scheme string, n int) error {
	f, err := m.start(scheme, n)
	if f != nil {
		defer f.stop()
	}
	if err != nil {
		return err
	}
	r := result{Scheme: scheme, N: n, StartReady: time.Since(f.began).Seconds()}
	time.Sleep(interval) // whatever belongs to the start
	if _, _, err := f.reports(); err != nil {
		return err
	}
	if err := m.watch(f, &r); err != nil {
		return err
	}
	if r.DPU, r.Host, err = f.reports(); err != nil {
		return err
	}
	r.NotReady = r.Host.Fell
	m.results = append(m.results, r)
	fmt.Fprintf(os.Stderr, "%s, %d: %.1f requests/s\n", scheme, n, r.Requests)
	return nil
}

func (f *fleet) reports() (report, report, error) {
	dpu, err := f.dpus.report()
	if err != nil {
		return dpu, report{}, err
	}
	host, err := f.hosts.report()
	return dpu, host, err
}

// storm takes the API server away for a lease duration and looks at what comes back.
func (m *measure) storm(scheme string, n int) error {
	f, err := m.start(scheme, n)
	if f != nil {
		defer f.stop()
	}
	if err != nil {
		return err
	}
	r := result{Scheme: scheme, N: n, Storm: true, StartReady: time.Since(f.began).Seconds()}
	time.Sleep(interval)
	m.plane.KillAPIServer()
	time.Sleep(duration)
	if err := m.plane.StartAPIServer(m.ctx); err != nil {
		return err
	}
	back := time.Now()
	from, err := m.read(f)
	if err != nil {
		return err
	}
	first, last := from, from
	for time.Since(back) < duration+interval {
		time.Sleep(time.Second)
		if last, err = m.read(f); err != nil {
			return err
		}
		r.Peak = max(r.Peak, (last.requests-from.requests)/last.at.Sub(from.at).Seconds())
		from = last
		host, err := f.hosts.report()
		if err != nil {
			return err
		}
		r.NotReady += host.Fell
		if host.Ready < n {
			r.BackReady = time.Since(back).Seconds()
		}
	}
	r.fill(first, last, &m.idle)
	m.results = append(m.results, r)
	fmt.Fprintf(os.Stderr, "%s, storm of %d: %d turned NotReady\n", scheme, n, r.NotReady)
	return nil
}
