// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"dpu-heartbeat.test/e2e/harness"
	played "dpu-heartbeat.test/e2e/upstream"
)

// report is what one line of stdin is answered with, here and by the fleet of ours (fleet.h).
type report struct {
	Ready    int     `json:"ready"`
	Fell     int64   `json:"fell"`
	Late     int64   `json:"late"`
	Failures int64   `json:"failures"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
}

// upstream counts what many sides of ovn-kubernetes' own health check do, which the package of that name plays.
type upstream struct {
	interval       time.Duration
	duration       atomic.Int64  // of the lease, in ns
	spread         time.Duration // within which they start
	first, count   int           // of the nodes
	late, failures atomic.Int64
	fell, ready    atomic.Int64
	mutex          sync.Mutex
	latencies      []float64                  // ms, from a renewal's stamp to when a host knew it
	restart        map[int]context.CancelFunc // of the sides that run
}

// counted is one side, as long as it lives.
type counted struct {
	all   *upstream
	side  *played.Side
	known time.Time // the last renewal
	ready bool
}

func (u *upstream) run(kind, kubeconfig string) error {
	u.restart = map[int]context.CancelFunc{}
	for i := range u.count {
		go func() {
			time.Sleep(rand.N(u.spread + 1))
			for { // as its pod, which is started again
				ctx, cancel := context.WithCancel(context.Background())
				u.mutex.Lock()
				u.restart[i] = cancel
				u.mutex.Unlock()
				if err := u.play(ctx, kubeconfig, nodeName(u.first+i), kind == "upstream-host"); err != nil {
					fmt.Fprintln(os.Stderr, err)
					time.Sleep(u.interval)
				}
			}
		}()
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() != "" {
			duration, err := time.ParseDuration(lines.Text())
			if err != nil {
				return err
			}
			go u.roll(duration)
		}
		text, err := json.Marshal(u.report())
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return lines.Err()
}

// roll restarts all sides, one by one, with another lease duration.
func (u *upstream) roll(duration time.Duration) {
	u.duration.Store(int64(duration))
	for i := range u.count {
		u.mutex.Lock()
		if cancel := u.restart[i]; cancel != nil {
			cancel()
		}
		u.mutex.Unlock()
		time.Sleep((rollout - time.Second) / time.Duration(u.count))
	}
}

// play is one side until ctx ends.
func (u *upstream) play(ctx context.Context, kubeconfig, node string, isHost bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig+"."+node)
	if err != nil {
		return err
	}
	if !isHost {
		config.Wrap(u.countFailures)
	}
	client, err := played.Client(config, fmt.Sprintf("%s-%t", node, isHost))
	if err != nil {
		return err
	}
	object, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	s := &played.Side{Client: client, Namespace: harness.Namespace, Node: node, UID: object.UID,
		Interval: u.interval, Duration: time.Duration(u.duration.Load())}
	c := &counted{all: u, side: s}
	defer c.set(false)
	if !isHost {
		s.Seen = c.unlessOver(ctx, c.renewal)
		s.RunDPU(ctx)
		return nil
	}
	if err := s.Ensure(ctx); err != nil {
		return err
	}
	s.Seen = c.unlessOver(ctx, c.verdict)
	s.RunHost(ctx)
	return nil
}

// failing counts requests that got no answer, or none of success: client-go tries a read that got none up to ten times
// within one renewal.
type failing struct {
	http.RoundTripper
	count *atomic.Int64
}

func (u *upstream) countFailures(next http.RoundTripper) http.RoundTripper {
	return failing{next, &u.failures}
}

func (f failing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := f.RoundTripper.RoundTrip(request)
	if request.Context().Err() == nil && (err != nil || response.StatusCode >= http.StatusBadRequest) {
		f.count.Add(1)
	}
	return response, err
}

// unlessOver: what a side does while it ends is not counted.
func (c *counted) unlessOver(ctx context.Context, seen func(*coordination.Lease, error)) func(*coordination.Lease, error) {
	return func(lease *coordination.Lease, err error) {
		if ctx.Err() == nil {
			seen(lease, err)
		}
	}
}

func (c *counted) set(ready bool) {
	if ready && !c.ready {
		c.all.ready.Add(1)
	} else if !ready && c.ready {
		c.all.ready.Add(-1)
	}
	c.ready = ready
}

// renewal is what a DPU has tried.
func (c *counted) renewal(_ *coordination.Lease, err error) {
	u := c.all
	if err != nil {
		return
	}
	now := time.Now()
	if !c.known.IsZero() && now.Sub(c.known) > u.interval*3/2 {
		u.late.Add(1)
	}
	c.known = now
	c.set(true)
}

// verdict is what a host has found. The renewal that it finds first was its own.
func (c *counted) verdict(lease *coordination.Lease, err error) {
	u := c.all
	ready, _ := c.side.Ready()
	if ready && lease.Spec.RenewTime.After(c.known) {
		if !c.known.IsZero() {
			u.mutex.Lock()
			u.latencies = append(u.latencies, float64(time.Since(lease.Spec.RenewTime.Time).Microseconds())/1000)
			u.mutex.Unlock()
		}
		c.known = lease.Spec.RenewTime.Time
	}
	if c.ready && !ready {
		u.fell.Add(1)
	}
	c.set(ready)
}

func (u *upstream) report() report {
	u.mutex.Lock()
	latencies := u.latencies
	u.latencies = nil
	u.mutex.Unlock()
	r := report{Ready: int(u.ready.Load()), Fell: u.fell.Swap(0), Late: u.late.Swap(0), Failures: u.failures.Swap(0)}
	if n := len(latencies); n > 0 {
		slices.Sort(latencies)
		r.P50, r.P99 = latencies[n/2], latencies[n*99/100]
	}
	return r
}
