// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"dpu-heartbeat.test/e2e/harness"
	played "dpu-heartbeat.test/e2e/upstream"
)

// report is what one line of stdin is answered with, here and by the fleet of ours (fleet.h).
type report struct {
	Ready    int     `json:"ready"`
	NotReady int     `json:"not_ready"`
	Fell     int64   `json:"fell"`
	Renewals int64   `json:"renewals"`
	Late     int64   `json:"late"`
	Failures int64   `json:"failures"`
	Samples  int     `json:"samples"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
}

// upstream counts what many sides of ovn-kubernetes' own health check do, which the package of that name plays.
type upstream struct {
	interval, duration time.Duration
	spread             time.Duration // within which they start
	count              int
	renewals, late     atomic.Int64
	failures, fell     atomic.Int64
	ready              atomic.Int64
	mutex              sync.Mutex
	latencies          []float64 // ms, from a renewal's stamp to when a host knew it
}

func (u *upstream) run(kind, kubeconfig, prefix string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	for i := range u.count {
		go func() {
			time.Sleep(rand.N(u.spread + 1))
			for { // as its pod, which is started again
				err := u.side(config, fmt.Sprintf("%s-%d", prefix, i), kind == "upstream-host")
				fmt.Fprintln(os.Stderr, err)
				time.Sleep(u.interval)
			}
		}()
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		text, err := json.Marshal(u.report())
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return lines.Err()
}

func (u *upstream) side(config *rest.Config, node string, isHost bool) error {
	client, err := played.Client(config)
	if err != nil {
		return err
	}
	ctx := context.Background()
	object, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s := &played.Side{Client: client, Namespace: harness.Namespace, Node: node, UID: object.UID,
		Interval: u.interval, Duration: u.duration}
	if !isHost {
		s.Seen = u.countRenewals()
		s.RunDPU(ctx)
		return nil
	}
	if err := s.Ensure(ctx); err != nil {
		return err
	}
	s.Seen = u.countVerdicts(s)
	s.RunHost(ctx)
	return nil
}

func (u *upstream) countRenewals() func(*coordination.Lease, error) {
	var renewed time.Time
	return func(_ *coordination.Lease, err error) {
		if err != nil {
			u.failures.Add(1)
			return
		}
		now := time.Now()
		if renewed.IsZero() {
			u.ready.Add(1)
		} else if now.Sub(renewed) > u.interval*3/2 {
			u.late.Add(1)
		}
		renewed = now
		u.renewals.Add(1)
	}
}

// countVerdicts counts as a renewal what came after the first look: before it was the host's own.
func (u *upstream) countVerdicts(s *played.Side) func(*coordination.Lease, error) {
	var known time.Time
	wasReady := false
	return func(lease *coordination.Lease, err error) {
		ready, _ := s.Ready()
		if ready && lease.Spec.RenewTime.After(known) {
			if !known.IsZero() {
				u.renewals.Add(1)
				u.mutex.Lock()
				u.latencies = append(u.latencies, float64(time.Since(lease.Spec.RenewTime.Time).Microseconds())/1000)
				u.mutex.Unlock()
			}
			known = lease.Spec.RenewTime.Time
		}
		if ready && !wasReady {
			u.ready.Add(1)
		} else if !ready && wasReady {
			u.ready.Add(-1)
			u.fell.Add(1)
		}
		wasReady = ready
	}
}

func (u *upstream) report() report {
	u.mutex.Lock()
	latencies := u.latencies
	u.latencies = nil
	u.mutex.Unlock()
	ready := int(u.ready.Load())
	r := report{Ready: ready, NotReady: u.count - ready, Fell: u.fell.Swap(0), Renewals: u.renewals.Swap(0),
		Late: u.late.Swap(0), Failures: u.failures.Swap(0), Samples: len(latencies)}
	if n := len(latencies); n > 0 {
		slices.Sort(latencies)
		r.P50, r.P99, r.Max = latencies[n/2], latencies[n*99/100], latencies[n-1]
	}
	return r
}
