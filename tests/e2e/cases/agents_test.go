// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	interval = time.Second
	duration = 5 * time.Second
	// soon bounds what takes milliseconds on an idle machine: on a busy one, too, only what is broken fails.
	soon = 30 * time.Second
)

// pair is one node's lease with the two agents around it, each with a client certificate under the rules of rbac/.
type pair struct {
	t       *testing.T
	control *harness.ControlPlane
	admin   *kubernetes.Clientset
	node    *harness.Node // a real one, of some cases
	Node    string
	Dir     string
	// isOnNode: the host's agent runs there, not here.
	isOnNode bool
	// Both agents' timers.
	every, lasts time.Duration
	Host         *harness.Process
	DPU          *harness.Process
	Driver       *harness.Process // of DRA, in some cases
	// HostRelay and DPURelay stand between the agents and the API server.
	HostRelay, DPURelay *harness.Relay
	starts              int
}

// newPair makes a Node object of a name of its own and identities for both sides.
func newPair(t *testing.T, control *harness.ControlPlane, admin *kubernetes.Clientset) *pair {
	t.Helper()
	p := &pair{t: t, control: control, admin: admin, Node: fmt.Sprintf("n%08x.example", rand.Uint32()),
		every: interval, lasts: duration}
	p.Dir = logDir("pairs/" + strings.ReplaceAll(t.Name(), "/", ".") + "-" + p.Node)
	must(t, os.MkdirAll(p.Dir, 0o755))
	p.createNode()
	p.HostRelay = p.relay()
	p.DPURelay = p.relay()
	p.certificate("host", 0)
	p.certificate("dpu", 0)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.report())
		}
		p.Host.Kill()
		p.DPU.Kill()
		_ = p.deleteNode(bounded(t))
	})
	return p
}

func (p *pair) createNode() {
	p.t.Helper()
	_, err := p.admin.CoreV1().Nodes().Create(p.t.Context(),
		&core.Node{ObjectMeta: meta.ObjectMeta{Name: p.Node}}, meta.CreateOptions{})
	must(p.t, err)
}

func (p *pair) deleteNode(ctx context.Context) error {
	return p.admin.CoreV1().Nodes().Delete(ctx, p.Node, meta.DeleteOptions{})
}

// makeNodeAnew gives the Node another UID.
func (p *pair) makeNodeAnew() {
	p.t.Helper()
	must(p.t, p.deleteNode(p.t.Context()))
	p.createNode()
}

func (p *pair) relay() *harness.Relay {
	p.t.Helper()
	r, err := harness.NewRelay(0, "127.0.0.1:0", strings.TrimPrefix(p.control.Server, "https://"))
	must(p.t, err)
	p.t.Cleanup(r.Close)
	return r
}

// certificate gives side ("host" or "dpu") a client certificate for so long (0: a day), and its kubeconfig.
func (p *pair) certificate(side string, lifetime time.Duration) {
	p.t.Helper()
	must(p.t, p.control.PKI.Client(p.file(side), harness.Identity{
		User:   p.user(side),
		Groups: []string{"dpu-heartbeat:" + side + "s"}, Lifetime: lifetime}))
	p.kubeconfig(side, harness.Credential{CertBase: p.file(side)})
}

func (p *pair) kubeconfig(side string, c harness.Credential) {
	p.t.Helper()
	relay := p.HostRelay
	if strings.HasSuffix(side, "dpu") {
		relay = p.DPURelay
	}
	must(p.t, p.control.PKI.Kubeconfig(p.file(side+".kubeconfig"), "https://"+relay.Address(), c))
}

func (p *pair) file(name string) string { return filepath.Join(p.Dir, name) }

// user is how the audit log names that side.
func (p *pair) user(side string) string { return "dpu-heartbeat:" + side + ":" + p.Node }

func (p *pair) flags(side string, more []string) []string {
	return append([]string{"--kubeconfig", p.file(side + ".kubeconfig"), "--node-name", p.Node,
		"--dpu-node-lease-renew-interval", p.every.String(),
		"--dpu-node-lease-duration", p.lasts.String(), "--log-level", "debug",
		"--http-bind-address", "127.0.0.1:0"}, more...)
}

func (p *pair) StartHost(more ...string) {
	p.t.Helper()
	more = p.flags("host", more)
	if !p.isOnNode {
		p.Host = p.run("dpu-host-agent", append(more, "--readiness-file", p.RecordFile()))
		return
	}
	p.starts++
	var err error
	p.Host, err = p.node.Run(p.t.Context(), fmt.Sprintf("dpu-host-agent-%d", p.starts), append([]string{ours(p.t, "dpu-host-agent")}, more...)...)
	must(p.t, err)
}

func (p *pair) StartDPU(more ...string) {
	p.t.Helper()
	p.DPU = p.run("dpu-agent", p.flags("dpu", more))
}

// startBoth starts both agents, the host's with these flags, and waits until the DPU is Ready.
func (p *pair) startBoth(more ...string) {
	p.t.Helper()
	p.StartHost(more...)
	p.StartDPU()
	p.Expect(soon, "Ready", "LeaseRenewed")
}

// killDPU waits until the host says so.
func (p *pair) killDPU() {
	p.t.Helper()
	p.DPU.Kill()
	p.Expect(duration+soon, "NotReady", "LeaseExpired")
}

func (p *pair) run(name string, flags []string) *harness.Process {
	p.t.Helper()
	p.starts++
	path := ours(p.t, name)
	process, err := harness.StartProcess(fmt.Sprintf("%s-%d", name, p.starts), p.Dir, nil, append([]string{path}, flags...)...)
	must(p.t, err)
	return process
}

// RecordFile is where this pair's host agent writes its verdict: on a node, where the gate looks for it.
func (p *pair) RecordFile() string {
	if p.isOnNode {
		return p.node.Path(recordInNode)
	}
	return p.file("readiness.json")
}

// record is what of the readiness record the cases look at.
type record struct {
	State   string `json:"state"`
	Admit   bool   `json:"admit"`
	Marked  bool   `json:"marked"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Lease   struct {
		UID       string `json:"uid"`
		RenewTime string `json:"renewTime"`
	} `json:"lease"`
	Pid int `json:"pid"`
}

func readRecord(path string) (record, error) {
	var r record
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

// Expect waits until the record says state and reason, those that are given. That of an agent before
// says nothing; on a node, pids are others.
func (p *pair) Expect(limit time.Duration, state, reason string) record {
	p.t.Helper()
	var r record
	poll(p.t, limit, "the record says "+state+" "+reason, func() error {
		var err error
		if r, err = readRecord(p.RecordFile()); err != nil {
			return err
		}
		isOld := !p.isOnNode && r.Pid != p.Host.Pid
		if isOld || (state != "" && r.State != state) || (reason != "" && r.Reason != reason) {
			return fmt.Errorf("pid %d says %s %s: %s", r.Pid, r.State, r.Reason, r.Message)
		}
		return nil
	})
	return r
}

// StaysFor watches the record for so long and fails at the first other state.
func (p *pair) StaysFor(span time.Duration, state string) {
	p.t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		r, err := readRecord(p.RecordFile())
		if err != nil {
			continue // torn: a reader tries again, and so do we
		}
		if r.State != state {
			p.t.Fatalf("the record changed from %s to %s %s: %s", state, r.State, r.Reason, r.Message)
		}
	}
}

func (p *pair) Lease() *coordination.Lease {
	p.t.Helper()
	lease, err := p.lease()
	must(p.t, err)
	return lease
}

// createLease makes it as a host does.
func (p *pair) createLease() {
	p.t.Helper()
	_, err := in(p.admin).Create(p.t.Context(), leaseOf(p), meta.CreateOptions{})
	must(p.t, err)
}

func (p *pair) lease() (*coordination.Lease, error) {
	return in(p.admin).Get(p.t.Context(), p.LeaseName(), meta.GetOptions{})
}

func (p *pair) LeaseName() string { return "ovn-dpu-" + p.Node }

// WaitLease waits until the lease is there and is accepts it.
func (p *pair) WaitLease(limit time.Duration, what string, is func(*coordination.Lease) bool) *coordination.Lease {
	p.t.Helper()
	return await(p.t, limit, what, p.lease, is)
}

// EditLease changes the lease as the admin, again until no one is in between.
func (p *pair) EditLease(change func(*coordination.Lease)) {
	p.t.Helper()
	poll(p.t, soon, "editing the lease", func() error { return edit(p.admin, p, change)(p.t.Context()) })
}

// WaitRenewals waits until renewTime has changed so many times from now, each time for so long.
func (p *pair) WaitRenewals(limit time.Duration, count int) {
	p.t.Helper()
	last := ""
	for range count + 1 { // the first is the one that is there
		lease := p.WaitLease(limit, "another renewal", func(l *coordination.Lease) bool { return fmt.Sprint(l.Spec.RenewTime) != last })
		last = fmt.Sprint(lease.Spec.RenewTime)
	}
}

func (p *pair) report() string {
	lease, err := in(p.admin).Get(bounded(p.t), p.LeaseName(), meta.GetOptions{})
	text, _ := json.Marshal(lease)
	return harness.Tails(25, p.Host, p.DPU) + fmt.Sprintf("--- lease (%v)\n%s\n", err, text)
}

// await polls get until is accepts what it returned.
func await[T any](t *testing.T, limit time.Duration, what string, get func() (T, error), is func(T) bool) T {
	t.Helper()
	var found T
	poll(t, limit, what, func() (err error) {
		if found, err = get(); err != nil || is(found) {
			return err
		}
		text, err := json.Marshal(found)
		return fmt.Errorf("it is %s (%v)", text, err)
	})
	return found
}

func (p *pair) getNode() (*core.Node, error) {
	return p.admin.CoreV1().Nodes().Get(p.t.Context(), p.Node, meta.GetOptions{})
}

func (p *pair) thePod(name string) *core.Pod {
	p.t.Helper()
	pod, err := p.getPod(name)
	must(p.t, err)
	return pod
}

func (p *pair) getPod(name string) (*core.Pod, error) {
	return p.admin.CoreV1().Pods("default").Get(p.t.Context(), name, meta.GetOptions{})
}

func (p *pair) awaitPod(limit time.Duration, name, what string, is func(*core.Pod) bool) {
	p.t.Helper()
	await(p.t, limit, "pod "+name+" "+what, func() (*core.Pod, error) { return p.getPod(name) }, is)
}

// gone waits until get does not find it any more.
func gone[T any](t *testing.T, limit time.Duration, what string, get func() (T, error)) {
	t.Helper()
	poll(t, limit, what+" is gone", func() error {
		if _, err := get(); !errors.IsNotFound(err) {
			return fmt.Errorf("it is still there (%v)", err)
		}
		return nil
	})
}

// bounded is a context for cleaning up, when the test's own is over.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func poll(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	must(t, harness.Poll(t.Context(), limit, 50*time.Millisecond, what, check))
}

// refusedWith fails the case, and lets it go on, unless err has these words.
func refusedWith(t *testing.T, words, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%s must be refused with %q: %v", what, words, err)
	}
}

// clientOf is one with the rights that a kubeconfig gives.
func clientOf(t *testing.T, kubeconfig string) *kubernetes.Clientset {
	t.Helper()
	c, err := harness.ClientFor(kubeconfig)
	must(t, err)
	return c
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
