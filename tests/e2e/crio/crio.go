// SPDX-License-Identifier: Apache-2.0

// Package crio plays what CRI-O does with its CNI library, call by call, as CRI-O 1.36.3 was seen to: it asks
// STATUS each half second until that succeeds once, then GC; from then on each five seconds if its option
// cni_status_grace_period is set, and never again if it is not. A pod's sandbox waits while the network is not
// ready; it gets ADD and CHECK, and DEL at its end or where one of them failed. CRI-O itself cannot be had as a
// package: what of it is here ends at the library's calls.
package crio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
)

const (
	startPoll   = 500 * time.Millisecond
	monitorPoll = 5 * time.Second
	gcLimit     = 30 * time.Second
)

var errStopped = errors.New("stopped before the network was ready")

// Options are those of its configuration that count here.
type Options struct {
	ConfDir  string // of which the first file by name is the network
	BinDir   string
	CacheDir string
	// Grace is cni_status_grace_period; 0, which is the default, asks no STATUS after the first success.
	Grace time.Duration
	// Exec runs the plugins.
	Exec invoke.Exec
}

// Pod is a sandbox that wants the network.
type Pod struct{ ID, NetNS string }

// Runtime is one life of CRI-O.
type Runtime struct {
	options Options
	cni     *libcni.CNIConfig
	list    *libcni.NetworkConfigList
	cancel  context.CancelFunc
	ended   chan struct{}

	mu           sync.Mutex // held while STATUS runs
	lastError    error
	firstFailure time.Time
	waiting      []chan error
	pods         map[string]Pod
}

// Start loads the network, with a VERSION for each plugin, and begins to ask. The pods are those that it finds
// running; GC leaves them alone.
func Start(ctx context.Context, o Options, pods ...Pod) (*Runtime, error) {
	list, err := Network(o.ConfDir)
	if err != nil {
		return nil, err
	}
	r := &Runtime{options: o, list: list, ended: make(chan struct{}), pods: map[string]Pod{},
		cni:       libcni.NewCNIConfigWithCacheDir([]string{o.BinDir}, o.CacheDir, o.Exec),
		lastError: errors.New("plugin status uninitialized")}
	for _, pod := range pods {
		r.pods[pod.ID] = pod
	}
	if _, err := r.cni.ValidateNetworkList(ctx, list); err != nil {
		return nil, err
	}
	ctx, r.cancel = context.WithCancel(ctx)
	go r.poll(ctx)
	return r, nil
}

// Network loads the first configuration of a folder that can be loaded: one may be gone since the folder was read.
func Network(dir string) (*libcni.NetworkConfigList, error) {
	files, err := libcni.ConfFiles(dir, []string{".conf", ".conflist", ".json"})
	slices.Sort(files)
	for _, file := range files {
		var list *libcni.NetworkConfigList
		if list, err = load(file); err == nil {
			return list, nil
		}
	}
	return nil, fmt.Errorf("no CNI configuration file in %s (%w)", dir, err)
}

func load(file string) (*libcni.NetworkConfigList, error) {
	if strings.HasSuffix(file, ".conflist") {
		return libcni.ConfListFromFile(file)
	}
	single, err := libcni.ConfFromFile(file)
	if err != nil {
		return nil, err
	}
	return libcni.ConfListFromConf(single)
}

// Stop ends it as SIGTERM does: whoever waits for the network is told so.
func (r *Runtime) Stop() {
	r.cancel()
	<-r.ended
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastError = errStopped
	r.wake(errStopped)
}

func (r *Runtime) poll(ctx context.Context) {
	defer close(r.ended)
	for !r.ask(ctx, true) {
		if !sleep(ctx, startPoll) {
			return
		}
	}
	for r.options.Grace > 0 {
		r.ask(ctx, false)
		if !sleep(ctx, monitorPoll) {
			return
		}
	}
}

func sleep(ctx context.Context, span time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(span):
		return true
	}
}

// ask asks STATUS once, and says whether it succeeded. A failure after a success counts only at a poll that is
// the grace after the first that failed.
func (r *Runtime) ask(ctx context.Context, isStart bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.cni.GetStatusNetworkList(ctx, r.list); err != nil {
		if !isStart && r.lastError == nil {
			if r.firstFailure.IsZero() {
				r.firstFailure = time.Now()
			}
			if time.Since(r.firstFailure) < r.options.Grace {
				return false
			}
		}
		r.lastError = err
		return false
	}
	r.firstFailure = time.Time{}
	if r.lastError == nil {
		return true
	}
	r.lastError = nil
	if isStart {
		r.collect(ctx)
	}
	r.wake(nil)
	return true
}

// collect is GC, which waited for the network to be ready; an error of it is only logged there.
func (r *Runtime) collect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, gcLimit)
	defer cancel()
	args := &libcni.GCArgs{}
	for id := range r.pods {
		args.ValidAttachments = append(args.ValidAttachments, types.GCAttachment{ContainerID: id, IfName: "eth0"})
	}
	_ = r.cni.GCNetworkList(ctx, r.list, args)
}

func (r *Runtime) wake(err error) {
	for _, waiter := range r.waiting {
		waiter <- err
	}
	r.waiting = nil
}

// NetworkReady is what CRI's Status says, from memory: nil, or the message of NetworkReady=false, whose reason
// is NetworkPluginNotReady.
func (r *Runtime) NetworkReady() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastError == nil {
		return nil
	}
	return fmt.Errorf("Network plugin returns error: %w", r.lastError)
}

// RunPodSandbox waits until the network is ready, or the caller's deadline; then it adds the pod.
func (r *Runtime) RunPodSandbox(ctx context.Context, pod Pod) (types.Result, error) {
	r.mu.Lock()
	ready := make(chan error, 1)
	if r.lastError == nil {
		ready <- nil
	} else {
		r.waiting = append(r.waiting, ready)
	}
	r.mu.Unlock()
	select {
	case err := <-ready:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	made, err := r.cni.AddNetworkList(ctx, r.list, pod.attachment())
	if err == nil {
		err = r.cni.CheckNetworkList(ctx, r.list, pod.attachment())
	}
	if err != nil {
		_ = r.tearDown(ctx, pod) // there, only logged
		return nil, fmt.Errorf("failed to create pod network sandbox %s: %w", pod.ID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod.ID] = pod
	return made, nil
}

// StopPodSandbox removes the pod.
func (r *Runtime) StopPodSandbox(ctx context.Context, pod Pod) error {
	if err := r.tearDown(ctx, pod); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, pod.ID)
	return nil
}

// tearDown goes by the configuration that the pod was added with, or else by the present one.
func (r *Runtime) tearDown(ctx context.Context, pod Pod) error {
	list, attachment := r.list, pod.attachment()
	text, cached, err := r.cni.GetNetworkListCachedConfig(list, attachment)
	if err == nil && text != nil {
		attachment = cached
		if list, err = libcni.ConfListFromBytes(text); err != nil {
			return err
		}
	}
	return r.cni.DelNetworkList(ctx, list, attachment)
}

func (p Pod) attachment() *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: p.ID, NetNS: p.NetNS, IfName: "eth0", Args: [][2]string{
		{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", p.ID},
		{"K8S_POD_INFRA_CONTAINER_ID", p.ID}, {"K8S_POD_UID", p.ID}}}
}
