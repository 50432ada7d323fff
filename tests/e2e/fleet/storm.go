// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"dpu-heartbeat.test/e2e/harness"
)

const (
	etcdSilence = 15 * time.Second
	rollout     = 26 * time.Second // a little more than FLEET_ROLLOUT_S
	rolledOut   = 60 * time.Second // the lease duration after it
	longest     = 3 * time.Minute  // until all are ready again
	stopped     = 11 * time.Second // an API server, by then: a little more than Process.Stop waits
)

// stormResult is what a fleet went through, phase by phase.
type stormResult struct {
	Scheme string
	N      int
	Steady float64 // requests per second
	Phases []phaseResult
}

type phaseResult struct {
	Name             string
	Peak, Average    float64 // requests per second: of one second, and of all
	APICPU, SidesCPU float64 // seconds, all of the phase
	Fell             int64   // hosts that turned NotReady
	Late, Failures   int64   // renewals of DPUs, requests of theirs that failed
	Connections      int64   // that were opened to the balancer
	ReadyAfter       float64 // seconds after what happened was over; 0: all always were
	Left             int     // not ready in the end
}

// stormy is a fleet in a storm: its sides reach the API servers by a balancer.
type stormy struct {
	m        *measure
	f        *fleet
	balancer *harness.Relay
	out      *stormResult
}

func (m *measure) storm(scheme string, n int) error {
	if n == 0 {
		return nil
	}
	f, err := m.newFleet(scheme, n)
	if err != nil {
		return err
	}
	defer f.stop()
	peer, err := m.plane.StartPeer(m.ctx)
	if err != nil {
		return err
	}
	m.plane.Peer().Kill() // its port is known
	balancer, err := harness.NewRelay(0, "127.0.0.1:0", strings.TrimPrefix(m.plane.Server, "https://"), strings.TrimPrefix(peer, "https://"))
	if err != nil {
		return err
	}
	defer balancer.Close()
	balanced := way{"balancer", "https://" + balancer.Address()}
	if f.dpus, err = m.startSides(f, "dpu", balanced, f.spread()); err != nil {
		return err
	}
	if err := m.waitReady(f, f.dpus); err != nil {
		return err
	}
	time.Sleep(interval) // whatever belongs to the start
	s := &stormy{m: m, f: f, balancer: balancer, out: &stormResult{Scheme: scheme, N: n}}
	if err := s.weather(balanced, peer); err != nil {
		return err
	}
	m.out.Storms = append(m.out.Storms, s.out)
	return nil
}

func (s *stormy) weather(balanced way, peer string) error {
	m := s.m
	for i, storm := range []struct {
		name   string
		after  time.Duration
		happen func() error
	}{
		{"all hosts started at once", 3*interval + s.f.spread(), func() (err error) {
			s.f.hosts, err = m.startSides(s.f, "host", balanced, 0)
			return err
		}},
		{"API server gone for one duration", 3 * interval, func() error {
			m.plane.KillAPIServer()
			time.Sleep(duration)
			return m.plane.StartAPIServer(m.ctx)
		}},
		{"two API servers restarted in turn", interval, func() error { return m.rollServers(peer) }},
		{"etcd silent for 15 s", 2 * interval, func() error {
			_ = m.plane.Etcd().Signal(syscall.SIGSTOP)
			time.Sleep(etcdSilence)
			return m.plane.Etcd().Signal(syscall.SIGCONT)
		}},
		{"duration of all changed, agents restarted one by one", interval, func() error {
			if err := s.f.sides().roll(rolledOut); err != nil {
				return err
			}
			time.Sleep(rollout)
			return nil
		}},
	} {
		if err := s.phase(storm.name, storm.after, storm.happen); err != nil {
			return err
		}
		if i == 0 {
			steady, err := m.watch(s.f, 2*interval)
			if err != nil {
				return err
			}
			s.out.Steady = steady.requests()
		}
	}
	return nil
}

// rollServers restarts two API servers one after the other, in order, as an upgrade does.
func (m *measure) rollServers(peer string) error {
	var err error
	if _, err = m.plane.StartPeer(m.ctx); err != nil {
		return err
	}
	kubeconfig, err := m.kubeconfig(way{"peer", peer}, "admin", 0)
	if err != nil {
		return err
	}
	if m.peer, err = harness.ClientFor(kubeconfig); err != nil {
		return err
	}
	defer func() { m.peer = nil }()
	time.Sleep(interval / 2)
	stopEvenly(m.plane.APIServer())
	if err := m.plane.StartAPIServer(m.ctx); err != nil {
		return err
	}
	time.Sleep(interval / 2)
	stopEvenly(m.plane.Peer())
	return nil
}

// stopEvenly takes as long for either scheme. An API server ends sooner if it has no watches to end, and what all of a
// phase cost is compared; on a cluster others have watches, too, which hold up the end.
func stopEvenly(server *harness.Process) {
	over := time.After(stopped)
	server.Stop()
	<-over
}

// phase looks at the fleet each second while something happens, for a while after, and until all are ready.
func (s *stormy) phase(name string, after time.Duration, happen func() error) error {
	r := phaseResult{Name: name}
	first, err := s.m.read(s.f)
	if err != nil {
		return err
	}
	if _, _, err := s.look(); err != nil { // what was before
		return err
	}
	var over atomic.Int64 // when it was, in ns since the phase began
	connections := s.balancer.Accepted.Load()
	began, done := time.Now(), make(chan error, 1)
	go func() {
		err := happen()
		over.Store(int64(max(1, time.Since(began))))
		done <- err
	}()
	last := first
	goesOn := func() bool {
		ended, since := time.Duration(over.Load()), time.Since(began)
		return ended == 0 || since < ended+after || (r.Left > 0 && since < ended+longest)
	}
	for goesOn() {
		time.Sleep(time.Second)
		now, err := s.m.read(s.f)
		if err != nil {
			return err
		}
		host, dpu, err := s.look()
		if err != nil {
			return err
		}
		rate := now.since(last)
		last = now
		r.Peak = max(r.Peak, rate.requests())
		r.Fell += host.Fell
		r.Late += dpu.Late
		r.Failures += dpu.Failures
		r.Left = s.f.n - host.Ready
		if ended := over.Load(); ended > 0 && r.Left > 0 {
			r.ReadyAfter = (time.Since(began) - time.Duration(ended)).Seconds()
		}
	}
	r.Connections = s.balancer.Accepted.Load() - connections
	r.Average = last.since(first).requests()
	r.APICPU, r.SidesCPU = last.sum[apiCPU]-first.sum[apiCPU], last.sum[sidesCPU]-first.sum[sidesCPU]
	s.out.Phases = append(s.out.Phases, r)
	fmt.Fprintf(os.Stderr, "%s, %d: %+v\n", s.f.scheme, s.f.n, r)
	return <-done
}

// look asks the sides that there are: hosts and DPUs.
func (s *stormy) look() (host, dpu report, err error) {
	if dpu, err = s.f.dpus.report(); err == nil && s.f.hosts != nil {
		host, err = s.f.hosts.report()
	}
	return host, dpu, err
}
