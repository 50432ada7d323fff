// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"dpu-heartbeat.test/e2e/harness"
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

// upstream plays the scheme of ovn-kubernetes' own health check on many sides: its DPUs read and
// write the lease each interval, its hosts read it each min(interval, duration/4) and compare the
// stamp with their own clock. A connection for each side, as nodes have it.
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
	side := u.dpu
	if kind == "upstream-host" {
		side = u.host
	}
	for i := range u.count {
		client, err := ownClient(config)
		if err != nil {
			return err
		}
		go func() {
			time.Sleep(rand.N(u.spread + 1))
			side(client, fmt.Sprintf("%s-%d", prefix, i))
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

// ownClient shares no connection: a dialer of its own makes a transport of its own.
func ownClient(shared *rest.Config) (*kubernetes.Clientset, error) {
	config := rest.CopyConfig(shared)
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	config.QPS, config.Burst, config.Timeout = -1, -1, 30*time.Second
	return kubernetes.NewForConfig(config)
}

func (u *upstream) dpu(client *kubernetes.Clientset, node string) {
	var renewed time.Time
	for tick := time.Tick(u.interval); ; <-tick {
		if err := u.renew(client, node); err != nil {
			u.failures.Add(1)
			continue
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

func (u *upstream) renew(client *kubernetes.Clientset, node string) error {
	leases := client.CoordinationV1().Leases(harness.Namespace)
	lease, err := leases.Get(context.Background(), "ovn-dpu-"+node, metav1.GetOptions{})
	now := metav1.NowMicro()
	if apierrors.IsNotFound(err) {
		holder, seconds := "ovnkube-dpu-node", int32(u.duration/time.Second)
		_, err = leases.Create(context.Background(), &coordination.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "ovn-dpu-" + node},
			Spec: coordination.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(context.Background(), lease, metav1.UpdateOptions{})
	return err
}

func (u *upstream) host(client *kubernetes.Clientset, node string) {
	var known time.Time
	ready := false
	for tick := time.Tick(min(u.interval, u.duration/4)); ; <-tick {
		lease, err := client.CoordinationV1().Leases(harness.Namespace).
			Get(context.Background(), "ovn-dpu-"+node, metav1.GetOptions{})
		now := time.Now()
		alive := err == nil && lease.Spec.RenewTime != nil &&
			now.Before(lease.Spec.RenewTime.Add(u.duration))
		if alive && lease.Spec.RenewTime.After(known) {
			known = lease.Spec.RenewTime.Time
			u.renewals.Add(1)
			u.mutex.Lock()
			u.latencies = append(u.latencies, float64(now.Sub(known).Microseconds())/1000)
			u.mutex.Unlock()
		}
		if alive && !ready {
			u.ready.Add(1)
		} else if !alive && ready {
			u.ready.Add(-1)
			u.fell.Add(1)
		}
		ready = alive
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
