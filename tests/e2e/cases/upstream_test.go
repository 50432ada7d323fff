// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	"dpu-heartbeat.test/e2e/upstream"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// theirs is one side of upstream's check, running, and what it has said so far.
type theirs struct {
	*upstream.Side
	t      *testing.T
	isHost bool
	cancel context.CancelFunc
	ended  chan struct{}

	mu    sync.Mutex
	words []word
}

// word is a change of what a host side says.
type word struct {
	at     time.Time
	ready  bool
	reason string
}

// theirUser is whom the audit log names.
func (p *pair) theirUser(side string) string { return p.user("upstream-" + side) }

// theirRights gives both of upstream's sides the rights that it asks for, and no others.
func (p *pair) theirRights() {
	p.t.Helper()
	name := p.bindingName("ovnkube-node-dpu-leases")
	roles := p.admin.RbacV1().Roles(harness.Namespace)
	if _, err := roles.Get(p.t.Context(), name, meta.GetOptions{}); err == nil {
		return
	}
	_, err := roles.Create(p.t.Context(), &rbac.Role{ObjectMeta: meta.ObjectMeta{Name: name}, Rules: []rbac.PolicyRule{{
		APIGroups: upstream.Rules.Groups, Resources: upstream.Rules.Resources, Verbs: upstream.Rules.Verbs}}},
		meta.CreateOptions{})
	must(p.t, err)
	kubectl(p.t, p.control, "create", "rolebinding", "-n", harness.Namespace, name, "--role="+name,
		"--user="+p.theirUser("dpu"), "--user="+p.theirUser("host"))
}

// newTheirs makes a side of upstream's ("dpu" or "host") behind the relay of ours.
func (p *pair) newTheirs(side string) *theirs {
	p.t.Helper()
	p.theirRights()
	name := "upstream-" + side
	must(p.t, p.control.PKI.Client(p.file(name), harness.Identity{User: p.theirUser(side)}))
	p.kubeconfig(name, harness.Credential{CertBase: p.file(name)})
	config, err := clientcmd.BuildConfigFromFlags("", p.file(name+".kubeconfig"))
	must(p.t, err)
	machine := "dpu-of-" + p.Node
	if side == "host" {
		machine, err = os.Hostname() // ours asks for the same
		must(p.t, err)
	}
	client, err := upstream.Client(config, machine)
	must(p.t, err)
	node, err := p.getNode()
	must(p.t, err)
	s := &theirs{t: p.t, isHost: side == "host", Side: &upstream.Side{Client: client, Namespace: harness.Namespace,
		Node: p.Node, UID: node.UID, Interval: p.every, Duration: p.lasts}}
	s.Changed = func(ready bool, reason string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.words = append(s.words, word{time.Now(), ready, reason})
	}
	p.t.Cleanup(s.stop)
	return s
}

// run starts it; a host's first step has been done when it returns.
func (s *theirs) run() *theirs {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.ended = cancel, make(chan struct{})
	if s.isHost { // it ends with an error, and is started again
		poll(s.t, soon, "upstream's host starts", func() error { return s.Ensure(ctx) })
	}
	go func() {
		defer close(s.ended)
		if s.isHost {
			s.RunHost(ctx)
		} else {
			s.RunDPU(ctx)
		}
	}()
	return s
}

func (p *pair) startTheirs(side string) *theirs {
	p.t.Helper()
	return p.newTheirs(side).run()
}

// stop ends it at once, as the death of its process does.
func (s *theirs) stop() {
	if s.cancel != nil {
		s.cancel()
		<-s.ended
		s.cancel = nil
	}
}

// since returns the first word of that kind after a time, an empty one if there is none.
func (s *theirs) since(start time.Time, ready bool) word {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.words, func(w word) bool { return w.ready == ready && w.at.After(start) })
	if i < 0 {
		return word{}
	}
	return s.words[i]
}

// answer is what a host side, of either kind, answers CNI at the moment.
type answer func() (bool, string)

func (p *pair) ourAnswer() (bool, string) {
	for {
		r, err := readRecord(p.RecordFile())
		if err == nil {
			return r.Admit, r.State + "/" + r.Reason + ": " + r.Message
		}
		time.Sleep(time.Millisecond) // torn
	}
}

func (a answer) expect(t *testing.T, limit time.Duration, want bool, text string) {
	t.Helper()
	poll(t, limit, fmt.Sprintf("admission is %v, %q", want, text), func() error {
		if admits, reason := a(); admits != want || !strings.Contains(reason, text) {
			return fmt.Errorf("it is %v: %s", admits, reason)
		}
		return nil
	})
}

func (a answer) stays(t *testing.T, span time.Duration, want bool) {
	t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if admits, reason := a(); admits != want {
			t.Fatalf("admission became %v: %s", admits, reason)
		}
	}
}

// arrangement is who is where: "ours", "theirs", and for a DPU "companion".
type arrangement struct{ dpu, hosts []string }

func TestGivenEachArrangementWhenTheDPUDiesAndReturnsThenEachHostFollows(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]arrangement{
		"both_ours":              {[]string{"ours"}, []string{"ours"}},
		"both_theirs":            {[]string{"theirs"}, []string{"theirs"}},
		"our_DPU_their_host":     {[]string{"ours"}, []string{"theirs"}},
		"their_DPU_our_host":     {[]string{"theirs"}, []string{"ours"}},
		"companion_our_host":     {[]string{"theirs", "companion"}, []string{"ours"}},
		"two_writers_our_host":   {[]string{"theirs", "ours"}, []string{"ours"}},
		"two_writers_their_host": {[]string{"theirs", "ours"}, []string{"theirs"}},
		"our_DPU_both_on_host":   {[]string{"ours"}, []string{"theirs", "ours"}},
		"their_DPU_both_on_host": {[]string{"theirs"}, []string{"theirs", "ours"}},
	} {
		t.Run(name, func(t *testing.T) { newSharedPair(t).play(a) })
	}
}

func (p *pair) play(a arrangement) {
	p.t.Helper()
	hosts := map[string]answer{}
	for _, kind := range a.hosts { // upstream's first: its start writes a renewal
		if kind == "theirs" {
			hosts[kind] = p.startTheirs("host").Ready
		} else {
			p.StartHost()
			p.Expect(soon, "", "")
			hosts[kind] = p.ourAnswer
		}
	}
	stop := p.startDPUs(a.dpu)
	for _, admits := range hosts {
		admits.expect(p.t, soon, true, "")
	}
	if _, beside := hosts["ours"]; beside {
		p.Expect(soon, "Ready", "LeaseRenewed")
	}
	for _, admits := range hosts {
		admits.stays(p.t, duration/time.Duration(len(hosts)), true)
	}
	if slices.Equal(a.dpu, []string{"theirs", "ours"}) && !strings.Contains(p.DPU.Tail(1000), "another program also renews lease") {
		p.t.Error("our DPU side says nothing of the other writer")
	}
	stop()
	for kind, admits := range hosts {
		text := map[string]string{"ours": "NotReady/LeaseExpired", "theirs": "DPU node lease expired at"}[kind]
		admits.expect(p.t, duration+soon, false, text)
	}
	p.startDPUs(a.dpu)
	for _, admits := range hosts {
		admits.expect(p.t, soon, true, "")
	}
}

func (p *pair) startDPUs(kinds []string) (stop func()) {
	p.t.Helper()
	var other *theirs
	for _, kind := range kinds {
		switch kind {
		case "theirs":
			other = p.startTheirs("dpu")
		case "companion":
			p.StartDPU("--heartbeat=companion", "--probe=exec:/bin/true")
		default:
			p.StartDPU()
		}
	}
	return func() {
		if other != nil {
			other.stop()
		}
		p.DPU.Kill()
	}
}

// A DPU's renewal and a host's bump differ by dpu-agent's sign, or by the machine that the API server names as the writer.
func TestGivenADeadDPUWhenUpstreamsHostStartsAgainAndAgainThenItStaysNotReady(t *testing.T) {
	t.Parallel()
	for dpu, writer := range map[string]string{"ours": "another program than dpu-agent", "theirs": "this host"} {
		t.Run(dpu, func(t *testing.T) {
			p := newSharedPair(t)
			p.StartHost()
			stop := p.startDPUs([]string{dpu})
			p.Expect(soon, "Ready", "LeaseRenewed")
			p.WaitRenewals(soon, 2)
			stop()
			p.Expect(duration+soon, "NotReady", "LeaseExpired")
			for wait := interval; wait < 8*interval; wait *= 2 { // as a kubelet backs off
				p.startTheirs("host").stop()
				answer(p.ourAnswer).stays(t, wait, false)
			}
			if !strings.Contains(p.Host.Tail(1000), writer+" wrote the renewTime") {
				t.Error("our host side says nothing of the other")
			}
			p.startDPUs([]string{dpu})
			p.Expect(soon, "Ready", "LeaseRenewed")
		})
	}
}

// ovnkube is a host's CNI server, and the check of the process that runs at the moment, nil for none.
type ovnkube struct {
	atomic.Pointer[theirs]
	wedged atomic.Bool // it takes calls and answers none
}

func (n *ovnNode) startOVNKube(socket string) *ovnkube {
	n.t.Helper()
	o := &ovnkube{}
	listener, err := net.Listen("unix", socket)
	must(n.t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.wedged.Load() {
			<-r.Context().Done()
		} else if check := o.Load(); check != nil {
			check.Handler().ServeHTTP(w, r)
		}
	})}
	go func() { _ = server.Serve(listener) }()
	n.t.Cleanup(func() { server.Close() })
	return o
}

// askAlways asks for the node's STATUS all the time, as its runtime does, by the configuration of the moment.
func (n *ovnNode) askAlways() (asked *atomic.Int32) {
	n.t.Helper()
	asked = &atomic.Int32{}
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cni := n.library(nil)
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			list, err := n.network()
			if err == nil {
				err = cni.GetStatusNetworkList(ctx, list)
			}
			if err != nil && ctx.Err() == nil {
				n.t.Errorf("STATUS: %v", err)
			}
			asked.Add(1)
		}
	}()
	n.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return asked
}

// The steps of docs/upstream.md, there and back, on a node whose runtime asks all the time. What is not played is
// the moment that ovnkube itself takes to start again with other options.
func TestGivenANodeOnUpstreamsCheckWhenItMovesHereAndBackThenNothingIsEverRefused(t *testing.T) {
	n := newOVNNode(t)
	asked := n.askAlways()
	past := func(when string, hosts ...answer) {
		t.Helper()
		for _, admits := range hosts {
			admits.expect(t, soon, true, "")
		}
		time.Sleep(duration + interval) // what renews no more has run out
		for _, admits := range hosts {
			if admitted, reason := admits(); !admitted {
				t.Errorf("%s: %s", when, reason)
			}
		}
		t.Logf("%s: STATUS was asked %d times so far", when, asked.Load())
	}
	dpu, host := n.startTheirs("dpu"), n.startTheirs("host")
	n.ovnkube.Store(host)

	n.StartDPU("--heartbeat=companion", "--probe=exec:/bin/true")
	n.StartHost()
	n.Expect(soon, "Ready", "LeaseRenewed")
	n.gate("install-cni")
	past("the gate in front, our companion on the DPU", host.Ready, n.ourAnswer)
	n.DPU.Stop()
	n.StartDPU()
	n.WaitRenewals(soon, 2)
	dpu.stop()
	past("our DPU side alone", host.Ready, n.ourAnswer)
	// With 1.3.0 the page ends here: its host side, turned off, would answer nobody.
	released := n.newTheirs("host")
	released.Interval, released.Is130 = 0, true
	server := httptest.NewServer(released.Handler())
	defer server.Close()
	for verb, answers := range map[string]bool{"ADD": false, "STATUS": false, "DEL": true} {
		answer, err := http.Post(server.URL, "application/json", strings.NewReader(`{"Env":{"CNI_COMMAND":"`+verb+`"}}`))
		if (err == nil) != answers {
			t.Errorf("1.3.0, turned off: %s: %v", verb, err)
		}
		if err == nil {
			_ = answer.Body.Close()
		}
	}
	host.stop()
	off := n.newTheirs("host")
	off.Interval = 0
	n.ovnkube.Store(off.run())
	past("upstream's turned off", n.ourAnswer)

	back := n.startTheirs("host")
	n.ovnkube.Store(back)
	n.gate("uninstall-cni")
	n.Host.Stop()
	past("our host side off", back.Ready)
	n.startTheirs("dpu")
	n.WaitRenewals(soon, 2)
	n.DPU.Stop()
	past("upstream alone again", back.Ready)
}
