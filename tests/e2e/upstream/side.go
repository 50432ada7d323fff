// SPDX-License-Identifier: Apache-2.0

// Package upstream plays the DPU health check that ovn-kubernetes has built in (OKEP-5674), as 1.3.0 (tag v1.3.0,
// 251895cd5) and master of August 2026 (8871cd9c) have it: what it writes to the lease and when, what it makes of an
// answer, which errors it tries again, and the words with which it refuses. It has no more time limits and no fewer
// mistakes than that. Their lease code is the same; where their CNI servers differ, Side.Is130 says which it is. A
// change of upstream's go-controller/pkg/node/dpulease, or of its CNI server's check, belongs here.
package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	cni "github.com/containernetworking/cni/pkg/types"
	coordination "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	leases "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

const Holder = "ovnkube-dpu-node"

// Rules are what its Role ovnkube-node-dpu-leases allows.
var Rules = struct{ Groups, Resources, Verbs []string }{
	[]string{"coordination.k8s.io"}, []string{"leases"}, []string{"get", "create", "update"}}

// Client is as ovnkube makes its own: 50 requests a second, no time limit, and a User-Agent that begins with the name
// of its machine. Each has connections of its own, as processes have.
func Client(shared *rest.Config, machine string) (*kubernetes.Clientset, error) {
	config := rest.CopyConfig(shared)
	config.UserAgent = machine + "/ovnkube@00000000 (linux/amd64) kubernetes/v0.0.0"
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, address)
	}
	config.QPS, config.Burst, config.Timeout = 50, 50, 0
	return kubernetes.NewForConfig(config)
}

// Side is the check of one ovnkube, on a DPU or on its host.
type Side struct {
	Client             kubernetes.Interface
	Namespace, Node    string
	UID                types.UID // of the Node, as it was at the start
	Interval, Duration time.Duration
	// Is130 is the released one, without commit 0fe6e3d96: a host whose Interval is 0 has no manager, and its CNI
	// server asks it nevertheless.
	Is130 bool
	// Clock is the wall clock; nil is the machine's.
	Clock func() time.Time
	// Changed, if it is set, is told each change of what Ready says.
	Changed func(ready bool, reason string)
	// Seen, if it is set, is told each attempt to renew, and each lease that was read on the host.
	Seen func(lease *coordination.Lease, err error)

	mu       sync.Mutex
	notReady bool
	reason   string
}

func (s *Side) LeaseName() string { return "ovn-dpu-" + s.Node }

// Ready is what the CNI server goes by: ready until something speaks against it.
func (s *Side) Ready() (bool, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.notReady, s.reason
}

func (s *Side) set(ready bool, reason string) {
	s.mu.Lock()
	changed := s.notReady == ready || s.reason != reason
	s.notReady, s.reason = !ready, reason
	s.mu.Unlock()
	if changed && s.Changed != nil {
		s.Changed(ready, reason)
	}
}

// RunDPU renews each interval, counted from the end of the renewal before, until ctx ends.
func (s *Side) RunDPU(ctx context.Context) {
	if s.Interval == 0 {
		return
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := s.Renew(ctx)
		if s.Seen != nil {
			s.Seen(nil, err)
		}
	}, s.Interval)
}

// RunHost looks at the lease until ctx ends. Ensure has to come first.
func (s *Side) RunHost(ctx context.Context) {
	if s.Interval == 0 {
		return
	}
	s.check(ctx)
	wait.UntilWithContext(ctx, s.check, min(s.Interval, s.Duration/4))
}

// Renew writes the lease with a new time, and makes it where it is missing.
func (s *Side) Renew(ctx context.Context) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := s.leases().Get(ctx, s.LeaseName(), meta.GetOptions{})
		if errors.IsNotFound(err) {
			return s.Ensure(ctx)
		}
		if err != nil {
			return err
		}
		return s.update(ctx, lease)
	})
}

// Ensure is Renew for a host's start; what goes wrong is not ready, and ovnkube ends with it.
func (s *Side) Ensure(ctx context.Context) error {
	if s.Interval == 0 {
		return nil
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := s.leases().Get(ctx, s.LeaseName(), meta.GetOptions{})
		if errors.IsNotFound(err) {
			return s.create(ctx)
		}
		if err != nil {
			return err
		}
		return s.update(ctx, lease)
	})
	if err != nil {
		s.set(false, fmt.Sprintf("failed ensuring DPU lease: %v", err))
		return err
	}
	s.set(true, "")
	return nil
}

func (s *Side) leases() leases.LeaseInterface { return s.Client.CoordinationV1().Leases(s.Namespace) }

// create tries again, as after a conflict, where another was faster.
func (s *Side) create(ctx context.Context) error {
	lease := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: s.LeaseName(), Namespace: s.Namespace}}
	s.fill(lease)
	_, err := s.leases().Create(ctx, lease, meta.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		return errors.NewConflict(schema.GroupResource{Group: coordination.GroupName, Resource: "leases"}, s.LeaseName(), err)
	}
	return err
}

func (s *Side) update(ctx context.Context, lease *coordination.Lease) error {
	s.fill(lease)
	_, err := s.leases().Update(ctx, lease, meta.UpdateOptions{})
	return err
}

// fill sets what is its own; annotations and other owners stay as they are.
func (s *Side) fill(lease *coordination.Lease) {
	holder, seconds, now := Holder, int32(s.Duration.Seconds()), meta.NewMicroTime(s.now())
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &holder, &seconds, &now
	if lease.Spec.AcquireTime == nil {
		lease.Spec.AcquireTime = &now
	}
	yes, no := true, false
	for i := range lease.OwnerReferences {
		if owner := &lease.OwnerReferences[i]; owner.Kind == "Node" && owner.Name == s.Node && owner.UID == s.UID {
			owner.BlockOwnerDeletion = &no
			return
		}
	}
	lease.OwnerReferences = append(lease.OwnerReferences, meta.OwnerReference{APIVersion: "v1", Kind: "Node",
		Name: s.Node, UID: s.UID, Controller: &yes, BlockOwnerDeletion: &no})
}

func (s *Side) now() time.Time {
	if s.Clock == nil {
		return time.Now()
	}
	return s.Clock()
}

// check reads the lease once; an error of any kind is not ready, but that of the process's own end.
func (s *Side) check(ctx context.Context) {
	lease, err := s.leases().Get(ctx, s.LeaseName(), meta.GetOptions{})
	switch {
	case ctx.Err() != nil:
		return
	case errors.IsNotFound(err):
		s.set(false, "DPU node lease not found")
	case err != nil:
		s.set(false, fmt.Sprintf("failed to read DPU node lease: %v", err))
	default:
		s.judge(lease)
	}
	if s.Seen != nil {
		s.Seen(lease, err)
	}
}

func (s *Side) judge(lease *coordination.Lease) {
	if lease.Spec.LeaseDurationSeconds == nil || lease.Spec.RenewTime == nil {
		s.set(false, "DPU node lease missing renew time or duration")
		return
	}
	expiry := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	if s.now().After(expiry) {
		s.set(false, fmt.Sprintf("DPU node lease expired at %s", expiry.UTC().Format(time.RFC3339)))
		return
	}
	s.set(true, "")
}

// Handler is ovnkube's CNI server in mode dpu-host, as far as the check goes: what passes it is answered with
// nothing, and the plugin goes on.
func (s *Side) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Env map[string]string }
		err := json.NewDecoder(r.Body).Decode(&asked)
		if err == nil {
			err = s.gate(asked.Env["CNI_COMMAND"])
		}
		if refusal, is := err.(*cni.Error); is {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(refusal)
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
}

func (s *Side) gate(verb string) error {
	if s.Is130 && s.Interval == 0 && (verb == "ADD" || verb == "STATUS") {
		panic(http.ErrAbortHandler) // a nil pointer's method was called: the connection is closed without an answer
	}
	ready, reason := s.Ready()
	if ready || verb != "ADD" && verb != "STATUS" {
		return nil
	}
	text := "DPU Not Ready"
	if reason != "" {
		text += ": " + reason
	}
	if verb == "STATUS" {
		return &cni.Error{Code: cni.ErrPluginNotAvailable, Msg: text}
	}
	return fmt.Errorf("%s", text)
}
