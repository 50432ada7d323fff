// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// The default timers, unless -interval says otherwise.
var (
	interval = 10 * time.Second
	duration = 4 * interval
)

const (
	patience = 3 * time.Minute // until all of a fleet are ready
	ticks    = 100.0           // of the kernel's CPU times, per second

	startsPerSecond = 40 // of the DPUs, and of the hosts
	// Of either scheme. On a node each side is a process: those that share one share its caches and certificates, too.
	perProcess = 50
)

var schemes = []string{"ours", "upstream"}

const withCertificates = "+certificates" // behind a scheme's name

// steadyResult is a fleet at its daily work.
type steadyResult struct {
	Scheme     string
	N          int
	Rates      rates   // without what the API server does for itself
	APIMemory  float64 // MiB
	Watches    float64
	DPU, Host  report
	StartReady float64 // seconds until all were ready
}

type measure struct {
	ctx       context.Context
	plane     *harness.ControlPlane
	admin     *kubernetes.Clientset
	peer      *kubernetes.Clientset // of the second API server, nil: none
	account   *core.ServiceAccount
	withCerts bool
	way       way // straight to the API server
	dir       string
	records   string   // of the hosts, in memory
	log       *os.File // of all sides
	schemes   []string // that are measured
	intervals int
	nodes     int // that exist
	meter     *meter
	idle      rates
	began     time.Time
	out       results
}

// newMeasure starts the API server. The fleets are no masters: its flow control holds for them.
func newMeasure(intervals int) (*measure, error) {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return nil, err
	}
	m := &measure{ctx: context.Background(), dir: dir, intervals: intervals, meter: newMeter(), began: time.Now()}
	if err := m.prepare(); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

func (m *measure) prepare() error {
	var err error
	if m.records, err = os.MkdirTemp("/dev/shm", "fleet"); err != nil {
		return err
	}
	if m.log, err = os.Create(filepath.Join(m.dir, "sides.log")); err != nil {
		return err
	}
	m.plane, err = harness.StartControlPlane(m.ctx, harness.ControlPlaneOptions{Dir: filepath.Join(m.dir, "cluster"),
		Bin: os.Getenv("DPU_E2E_PARTS"), APIOnly: true, APIArgs: []string{"--audit-log-path="}})
	if err != nil {
		return err
	}
	if m.admin, err = m.plane.Admin(); err != nil {
		return err
	}
	if err := m.plane.PrepareNamespace(m.ctx, ""); err != nil {
		return err
	}
	m.way = way{"fleet", m.plane.Server}
	return m.makeAccount()
}

const group = "fleet" // of the certificates

// makeAccount makes the service account that all tokens are of, and gives it and the group all rights.
func (m *measure) makeAccount() (err error) {
	meta := metav1.ObjectMeta{Name: "fleet", Namespace: harness.Namespace}
	accounts := m.admin.CoreV1().ServiceAccounts(meta.Namespace)
	if m.account, err = accounts.Create(m.ctx, &core.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = m.admin.RbacV1().ClusterRoleBindings().Create(m.ctx, &rbac.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbac.Subject{{Kind: rbac.ServiceAccountKind, Name: meta.Name, Namespace: meta.Namespace},
			{Kind: rbac.GroupKind, APIGroup: rbac.GroupName, Name: group}},
	}, metav1.CreateOptions{})
	return err
}

// way is an address of the API server, and a name for the files of those who take it.
type way struct{ name, url string }

// files is the beginning of their names; a dot and the node follow.
func (m *measure) files(w way, kind string) string { return filepath.Join(m.dir, w.name+"-"+kind) }

// credential makes one for each side, once: the API server remembers for ten seconds whose a token is, so that one
// token for all would cost it nothing.
func (m *measure) credential(kind string, number int) (c harness.Credential, err error) {
	path := filepath.Join(m.dir, kind+"."+nodeName(number))
	if m.withCerts {
		c.CertBase = path
		if _, err = os.Stat(path + ".crt"); err != nil {
			err = m.plane.PKI.Client(path, harness.Identity{User: kind + "-" + nodeName(number), Groups: []string{group}})
		}
		return c, err
	}
	c.TokenFile = path + ".token"
	if _, err = os.Stat(c.TokenFile); err == nil {
		return c, nil
	}
	token, err := m.plane.PKI.Token(harness.TokenRequest{Namespace: m.account.Namespace, Name: m.account.Name,
		UID: string(m.account.UID), Lifetime: 24 * time.Hour})
	if err != nil {
		return c, err
	}
	return c, harness.WriteFile(c.TokenFile, token, 0o600)
}

// kubeconfig is that of one side.
func (m *measure) kubeconfig(w way, kind string, number int) (string, error) {
	path := m.files(w, kind) + "." + nodeName(number)
	c, err := m.credential(kind, number)
	if err != nil {
		return "", err
	}
	return path, m.plane.PKI.Kubeconfig(path, w.url, c)
}

func (m *measure) stop() {
	if m.plane != nil {
		m.plane.Stop()
	}
	_ = os.RemoveAll(m.dir)
	_ = os.RemoveAll(m.records)
}

// ---- the fleet

type fleet struct {
	scheme      string
	program     string // the scheme without its credential
	n           int
	dpus, hosts sides
	began       time.Time
}

func nodeName(number int) string { return fmt.Sprintf("w-%d", number) }

func (m *measure) makeNode(name string) error {
	_, err := m.admin.CoreV1().Nodes().Create(m.ctx,
		&core.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (m *measure) makeNodes(n int) error {
	var group sync.WaitGroup
	errs := make(chan error, n)
	slots := make(chan struct{}, 16)
	for ; m.nodes < n; m.nodes++ {
		name := nodeName(m.nodes)
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := m.makeNode(name); err != nil {
				errs <- err
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}

// newFleet begins with no lease, and no side yet.
func (m *measure) newFleet(scheme string, n int) (*fleet, error) {
	if err := m.makeNodes(n); err != nil {
		return nil, err
	}
	err := m.admin.CoordinationV1().Leases(harness.Namespace).
		DeleteCollection(m.ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	program, hasCertificates := strings.CutSuffix(scheme, withCertificates)
	m.withCerts = hasCertificates
	return &fleet{scheme: scheme, program: program, n: n, began: time.Now()}, nil
}

// startSides starts all "dpu" or all "host" within a time; 0: at once. Records are in memory, as on a node.
func (m *measure) startSides(f *fleet, kind string, w way, spread time.Duration) (all sides, err error) {
	argv := []string{os.Getenv("DPU_FLEET"), kind}
	if f.program == "upstream" {
		argv = []string{os.Args[0], "upstream-" + kind}
	}
	records, err := os.MkdirTemp(m.records, kind)
	if err != nil {
		return nil, err
	}
	for i := range f.n {
		if _, err := m.kubeconfig(w, kind, i); err != nil {
			return nil, err
		}
	}
	for first := 0; first < f.n; first += perProcess {
		args := sideArgs(m.files(w, kind), first, min(perProcess, f.n-first), spread, records)
		s, err := startSide(append(slices.Clone(argv), args...), m.log)
		if err != nil {
			all.stop()
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// spread is the time within which the sides of a fleet start, for its daily work to be measured: on a machine
// that they share with the API server, they make no more connections a second.
func (f *fleet) spread() time.Duration {
	return max(interval, time.Duration(f.n)*time.Second/startsPerSecond)
}

// start starts all sides, and returns when every host is ready.
func (m *measure) start(f *fleet) error {
	var err error
	if f.hosts, err = m.startSides(f, "host", m.way, f.spread()); err != nil {
		return err
	}
	if f.dpus, err = m.startSides(f, "dpu", m.way, f.spread()); err != nil {
		return err
	}
	return m.waitReady(f, f.hosts)
}

// sides are its processes; none of a fleet that is nil.
func (f *fleet) sides() sides {
	if f == nil {
		return nil
	}
	return slices.Concat(f.dpus, f.hosts)
}

func (f *fleet) stop() { f.sides().stop() }

func (m *measure) waitReady(f *fleet, s sides) error {
	for deadline := time.Now().Add(f.spread() + patience); ; time.Sleep(50 * time.Millisecond) {
		r, err := s.report()
		if err != nil {
			return fmt.Errorf("%w: %s", err, harness.TailFile(m.log.Name(), 5))
		}
		if r.Ready == f.n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s, %d: not all became ready within %v, but %d", f.scheme, f.n, f.spread()+patience, r.Ready)
		}
	}
}

// ---- its daily work

func (r rates) minus(other rates) rates {
	out := rates{}
	for key, value := range r {
		out[key] = value - other[key]
	}
	return out
}

// watch looks at the counters for a while.
func (m *measure) watch(f *fleet, while time.Duration) (rates, error) {
	first, err := m.read(f)
	if err != nil {
		return nil, err
	}
	time.Sleep(while)
	last, err := m.read(f)
	return last.since(first).minus(m.idle), err
}

// settle is how long whatever belongs to a start may go on. An API server needs its time at short intervals, too.
func settle() time.Duration { return max(interval, 10*time.Second) }

// measureIdle is done before the first fleet.
func (m *measure) measureIdle() (err error) {
	time.Sleep(settle())
	m.idle, err = m.watch(nil, 2*settle())
	return err
}

// steady measures a fleet at its daily work.
func (m *measure) steady(scheme string, n int) error {
	f, err := m.newFleet(scheme, n)
	if err != nil {
		return err
	}
	defer f.stop()
	if err := m.start(f); err != nil {
		return err
	}
	r := &steadyResult{Scheme: scheme, N: n, StartReady: time.Since(f.began).Seconds()}
	time.Sleep(settle())
	if _, _, err := f.reports(); err != nil {
		return err
	}
	if r.Rates, err = m.watch(f, time.Duration(m.intervals)*interval); err != nil {
		return err
	}
	if r.DPU, r.Host, err = f.reports(); err != nil {
		return err
	}
	if r.Watches, err = m.openWatches(); err != nil {
		return err
	}
	_, r.APIMemory = usage(m.plane.APIServer().Pid)
	r.APIMemory /= 1024
	m.out.Steady = append(m.out.Steady, r)
	fmt.Fprintf(os.Stderr, "%s, %d: %.1f requests/s, %.2f ms a write\n", scheme, n, r.Rates.requests(), r.apiPerWrite())
	return nil
}

// apiPerWrite is the API server's CPU time in ms.
func (r *steadyResult) apiPerWrite() float64 { return 1000 * r.Rates[apiCPU] / r.Rates[writes] }

func (r rates) requests() float64 { return r[reads] + r[writes] + r[watches] }

func (f *fleet) reports() (report, report, error) {
	dpu, err := f.dpus.report()
	if err != nil {
		return dpu, report{}, err
	}
	host, err := f.hosts.report()
	return dpu, host, err
}
