#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The leader election of k8s.io/client-go 0.37.2 takes durations in nanoseconds and renews with microseconds, but
# its followers count in whole seconds, in two places:
#
# - They wait for the leaseDurationSeconds of the Lease, to which LeaseDuration is cut. LeaseDuration 1.9 s with
#   RenewDeadline 1.8 s is taken as valid. A leader that loses its connection goes on for its RenewDeadline, and a
#   follower leads after 1 s: here both led for half a second and more.
# - They note a renewal only if the record changed, and compare records as JSON, whose times have no fraction.
#   Renewals within one second of the clock are one renewal. So a leader that lives, and whose last renewal is half
#   or two thirds of its lease ago, is deposed, and both lead until its next renewal: with a lease of 1 s, renewed
#   every 0.7 s, within seconds to a minute. Longer leases lose up to a second of their margin.
#
# It hurts who shortens the lease for a quick takeover, and leaves no whole second between LeaseDuration and
# RenewDeadline. The API server here is a stand-in with one Lease, which refuses stale resourceVersions, as the real
# one.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the modules cannot be had. Needs Go and the Go module
# proxy.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
cd "$dir"
cat >go.mod <<'MOD'
module finding

go 1.26.0

require (
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
)
MOD
cat >main.go <<'GO'
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const ms = time.Millisecond

// An API server with one Lease.
type server struct {
	sync.Mutex
	lease  *coordination.Lease
	writes int
	cut    string        // the client that is cut off
	age    time.Duration // of the last renewal when another took the Lease
}

func fail(w http.ResponseWriter, code int, reason meta.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason})
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if s.cut == r.UserAgent() {
		fail(w, http.StatusServiceUnavailable, meta.StatusReasonServiceUnavailable)
		return
	}
	if r.Method != http.MethodGet {
		l := &coordination.Lease{}
		if err := json.NewDecoder(r.Body).Decode(l); err != nil {
			panic(err)
		}
		if s.lease == nil != (r.Method == http.MethodPost) || s.lease != nil && l.ResourceVersion != s.lease.ResourceVersion {
			fail(w, http.StatusConflict, meta.StatusReasonConflict)
			return
		}
		if s.lease != nil && *s.lease.Spec.HolderIdentity != *l.Spec.HolderIdentity {
			s.age = time.Since(s.lease.Spec.RenewTime.Time)
		}
		s.writes++
		l.ResourceVersion = strconv.Itoa(s.writes)
		s.lease = l
	}
	if s.lease == nil {
		fail(w, http.StatusNotFound, meta.StatusReasonNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(s.lease)
}

func lock(url, name string) *resourcelock.LeaseLock {
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: url, QPS: -1, UserAgent: name, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	return &resourcelock.LeaseLock{LeaseMeta: meta.ObjectMeta{Name: "a", Namespace: "b"}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name}}
}

// Two candidates, until both lead at once: how old the last renewal was when the second took the Lease, and how long
// both led. cutAfter: the first is cut off then, if not 0.
func race(duration, deadline, retry, cutAfter, limit time.Duration) (time.Duration, time.Duration) {
	s := &server{}
	h := httptest.NewServer(s)
	defer h.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var leaders atomic.Int32
	var both atomic.Int64
	var overlap atomic.Int64
	var done sync.WaitGroup
	for i, name := range []string{"first", "second"} {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{Lock: lock(h.URL, name),
			LeaseDuration: duration, RenewDeadline: deadline, RetryPeriod: retry,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(leading context.Context) {
					if leaders.Add(1) == 2 {
						both.Store(time.Now().UnixNano())
					}
					<-leading.Done()
					if leaders.Add(-1) == 1 {
						overlap.Store(time.Now().UnixNano() - both.Load())
						cancel()
					}
				},
				OnStoppedLeading: func() {},
			}})
		if err != nil {
			panic(err)
		}
		done.Go(func() {
			time.Sleep(time.Duration(i) * retry / 2)
			elector.Run(ctx)
		})
	}
	if cutAfter > 0 {
		time.Sleep(cutAfter)
		s.Lock()
		s.cut = "first"
		s.Unlock()
	}
	done.Wait()
	return s.age, time.Duration(overlap.Load())
}

func main() {
	s := &server{}
	h := httptest.NewServer(s)
	a := lock(h.URL, "a")
	at := func(fraction time.Duration) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 1, RenewTime: meta.NewTime(time.Unix(1767225600, 0).Add(fraction))}
	}
	ctx := context.Background()
	if err := a.Create(ctx, at(0)); err != nil {
		panic(err)
	}
	_, before, _ := a.Get(ctx)
	if err := a.Update(ctx, at(900*ms)); err != nil {
		panic(err)
	}
	_, after, _ := a.Get(ctx)
	fmt.Printf("Lease: %s\nrecord: %s\nseen by a follower: %v\n", s.lease.Spec.RenewTime.UTC().Format("05.000000"), after, !bytes.Equal(before, after))
	h.Close()

	_, overlap := race(1900*ms, 1800*ms, 100*ms, 3*time.Second, 20*time.Second)
	fmt.Printf("lease 1.9 s, deadline 1.8 s, connection lost: both lead for %v, more than 100 ms: %v\n", overlap.Round(ms), overlap > 100*ms)
	age, overlap := race(1000*ms, 900*ms, 700*ms, 0, 8*time.Minute)
	fmt.Printf("lease 1 s, renewed every 0.7 s: deposed %v after a renewal, both lead for %v, a living leader deposed: %v\n", age.Round(ms),
		overlap.Round(ms), age > 0 && age < 900*ms && overlap > 0)
}
GO
go mod tidy >/dev/null 2>&1 && go build -o finding . || exit 2
seen=$(./finding 2>/dev/null)
printf '%s\n' "$seen"
[[ $seen == *'seen by a follower: false'* ]] || exit 1
[[ $seen == *'more than 100 ms: true'* ]] || exit 1
[[ $seen == *'a living leader deposed: true'* ]] || exit 1
