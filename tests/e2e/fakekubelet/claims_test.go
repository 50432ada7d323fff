// SPDX-License-Identifier: Apache-2.0

package fakekubelet

import (
	"context"
	"strings"
	"testing"
	"time"

	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
)

const claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"

// prepareError asks for one claim as a kubelet does and returns why it was refused, or "".
func (k *kubelet) prepareError(t *testing.T, name, uid string) string {
	t.Helper()
	got, err := prepare(k, 45*time.Second, claimOf(name, uid))
	if err != nil || got[uid] == nil {
		t.Fatalf("%s: %v %v", name, got, err)
	}
	return got[uid].Error
}

func (k *kubelet) unprepare(t *testing.T, name, uid string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err := drav1.NewDRAPluginClient(k.conn).NodeUnprepareResources(ctx,
		&drav1.NodeUnprepareResourcesRequest{Claims: []*drav1.Claim{claimOf(name, uid)}}); err != nil {
		t.Fatal(err)
	}
}

// Without consumable capacity a claim has the device alone: whoever allocated it twice.
func TestSecondClaimIsRefusedWhereTheDeviceIsNotShared(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s)
	first := s.api.createClaimFor(t, "first", node, "")
	second := s.api.createClaimFor(t, "second", node, "")
	shared := s.api.createClaim(t, "shared", node)
	if text := k.prepareError(t, "first", first); text != "" {
		t.Fatalf("the first: %s", text)
	}
	for _, restarts := range []bool{false, true} {
		if restarts { // it remembers
			s.stop(t)
			s.start(t)
			k = register(t, s)
		}
		for name, uid := range map[string]string{"second": second, "shared": shared} {
			if text := k.prepareError(t, name, uid); !strings.Contains(text, "claim 'default/first', which has it alone") {
				t.Errorf("%s, restarts %v: %q", name, restarts, text)
			}
		}
	}
	k.unprepare(t, "first", first)
	if text := k.prepareError(t, "second", second); text != "" {
		t.Fatalf("after it: %s", text)
	}

	// A kubelet that lost its memory never unprepares: then it is enough that the claim is gone.
	s.api.do(t, "DELETE", s.api.url+claims+"/second", nil)
	if text := k.prepareError(t, "shared", shared); !strings.Contains(text, "default/second") {
		t.Errorf("it is not refused: %q", text)
	}
	eventually(t, 5*time.Second, "the next try is not", func() bool {
		return k.prepareError(t, "shared", shared) == ""
	})
}

func TestPodsThatClaimTheDPUAreToldWhenItDies(t *testing.T) {
	s := newStage(t, "3")
	stop := renew(t, s)
	startAgent(t, s)
	k := register(t, s)
	w := k.watch(t, "v1")
	for report := w.next(t, 5*time.Second); report.Health != healthy; {
		report = w.next(t, 5*time.Second)
	}
	time.Sleep(4 * time.Second) // past what is no news of a start
	uid := s.api.createClaimFor(t, "claim", node, "share", "pod-1")
	if text := k.prepareError(t, "claim", uid); text != "" {
		t.Fatal(text)
	}
	stop()
	told := func(reason, note string) func() bool {
		return func() bool {
			_, list := s.api.do(t, "GET", s.api.url+"/apis/events.k8s.io/v1/namespaces/default/events", nil)
			items, _ := list["items"].([]any)
			for _, item := range items {
				e := item.(map[string]any)
				about := e["regarding"].(map[string]any)
				if about["kind"] == "Pod" && about["name"] == "pod-1" && about["uid"] == "uid-pod-1" &&
					e["reason"] == reason && strings.HasPrefix(e["note"].(string), note) {
					return true
				}
			}
			return false
		}
	}
	eventually(t, 10*time.Second, "the pod is told", told("DPUUnhealthy", "LeaseExpired: "))
	renew(t, s)
	eventually(t, 10*time.Second, "and again", told("DPUHealthy", "LeaseRenewed: "))
}
