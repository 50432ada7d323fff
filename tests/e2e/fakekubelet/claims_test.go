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
			if text := k.prepareError(t, name, uid); !strings.Contains(text, "claim 'default/first', which does not share it") {
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
