// SPDX-License-Identifier: Apache-2.0

package fakekubelet

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
)

const (
	healthy   = health.HealthStatus_HEALTHY
	unhealthy = health.HealthStatus_UNHEALTHY
	unknown   = health.HealthStatus_UNKNOWN

	share = "a671734a-e8e5-11e4-8fde-42010af09327"
)

func TestAuthorityMayHaveAnyForm(t *testing.T) {
	s, _ := started(t)
	for _, authority := range []string{"localhost", s.registrySocket(), "%2Fvar%2Flib", "x:1"} {
		getInfo(t, dialRegistry(t, s.registrySocket(), grpc.WithAuthority(authority)))
	}
}

func claimOf(name, uid string) *drav1.Claim {
	return &drav1.Claim{Namespace: "default", Name: name, Uid: uid}
}

func prepare(k *kubelet, within time.Duration, claims ...*drav1.Claim) (
	map[string]*drav1.NodePrepareResourceResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	response, err := drav1.NewDRAPluginClient(k.conn).NodePrepareResources(ctx,
		&drav1.NodePrepareResourcesRequest{Claims: claims})
	return response.GetClaims(), err
}

func TestOlderKubeletPreparesWithV1beta1(t *testing.T) {
	s, k := started(t)
	uid := s.api.createClaim(t, "c", node, share)
	claims := []*drav1beta1.Claim{{Namespace: "default", Name: "c", Uid: uid}}
	client := drav1beta1.NewDRAPluginClient(k.conn)
	response, err := client.NodePrepareResources(context.Background(),
		&drav1beta1.NodePrepareResourcesRequest{Claims: claims})
	if err != nil || len(response.Claims[uid].GetDevices()) != 1 {
		t.Fatalf("%v %v", response, err)
	}
	undone, err := client.NodeUnprepareResources(context.Background(),
		&drav1beta1.NodeUnprepareResourcesRequest{Claims: claims})
	if err != nil || undone.Claims[uid] == nil || undone.Claims[uid].Error != "" {
		t.Fatalf("%v %v", undone, err)
	}
}

func TestHangingPrepareHitsItsDeadlineAndBlocksNobody(t *testing.T) {
	s, k := started(t)
	uid := s.api.createClaim(t, "c", node, share)
	s.api.addFault(t, map[string]any{"action": "hang",
		"match": map[string]any{"resource": "resourceclaims"}})
	done := make(chan error, 1)
	go func() {
		_, err := prepare(k, time.Second, claimOf("c", uid))
		done <- err
	}()
	getInfo(t, dialRegistry(t, s.registrySocket())) // has one second
	k.watch(t, "v1").expect(t, unknown, "no verdict yet")
	if code := status.Code(<-done); code != codes.DeadlineExceeded {
		t.Errorf("the status is %v", code)
	}
	s.api.clearFaults(t)
	eventually(t, 10*time.Second, "prepare works again", func() bool {
		got, err := prepare(k, time.Second, claimOf("c", uid))
		return err == nil && got[uid].GetError() == ""
	})
}

func TestEverythingGoesOverOneConnection(t *testing.T) {
	s, k := started(t)
	uid := s.api.createClaim(t, "c", node, share)
	w := k.watch(t, "v1")
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, err := prepare(k, 10*time.Second, claimOf("c", uid)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	s.tell(t, "Ready well")
	w.expect(t, healthy, "LeaseRenewed: well")
	if n := k.dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestHealthFollowsTheVerdictAtOnce(t *testing.T) {
	for _, version := range []string{"v1", "v1alpha1"} {
		s, k := started(t)
		w := k.watch(t, version)
		first := w.next(t, time.Second)
		if first.Health != unknown || first.Device.PoolName != node ||
			first.Device.DeviceName != "dpu0" || first.HealthCheckTimeoutSeconds != 30 {
			t.Errorf("the first report is %v", first)
		}
		for _, row := range []struct {
			told, message string
			status        health.HealthStatus
		}{
			{"Ready well", "LeaseRenewed: well", healthy},
			{"NotReady silent for 40 s", "LeaseExpired: silent for 40 s", unhealthy},
			{"Unknown waiting", "AwaitingFirstRenewal: waiting", unknown},
			{"Ready caf\u00e9", "LeaseRenewed: caf\u00e9", healthy},
		} {
			begin := time.Now()
			s.tell(t, "%s", row.told)
			w.expect(t, row.status, row.message)
			if took := time.Since(begin); took > 500*time.Millisecond {
				t.Errorf("%q took %v", row.told, took)
			}
		}
	}
}

func TestReaderThatPausesGetsTheNewestReport(t *testing.T) {
	// A small fixed window, and nobody who reads.
	s, k := started(t, grpc.WithStaticStreamWindowSize(65535), grpc.WithStaticConnWindowSize(65535))
	stream, err := health.NewDRAResourceHealthClient(k.conn).NodeWatchResources(
		context.Background(), &health.NodeWatchResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	const told = 5000
	long := strings.Repeat("x", 300)
	for i := range told {
		s.tell(t, "NotReady %d %s", i, long)
	}
	s.tell(t, "Ready the end")
	time.Sleep(500 * time.Millisecond)
	received := 0
	for {
		response, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		received++
		if response.Devices[0].Message == "LeaseRenewed: the end" {
			break
		}
	}
	if received > told/2 {
		t.Errorf("%d reports were queued for a reader that did not read", received)
	}
}

func TestCancelledStreamsAreForgotten(t *testing.T) {
	_, k := started(t)
	for range 100 { // three times as many as may be open
		w := k.watch(t, "v1alpha1")
		w.expect(t, unknown, "no verdict yet")
		w.cancel()
		if code := status.Code(w.ended(t)); code != codes.Canceled {
			t.Fatalf("the status is %v", code)
		}
	}
	if n := k.dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestIdleConnectionIsOpenedAgain(t *testing.T) {
	_, k := started(t, grpc.WithIdleTimeout(time.Second))
	for i := range 3 {
		if _, err := prepare(k, time.Second); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		time.Sleep(1500 * time.Millisecond)
	}
}

func TestStopTellsUnknownAndTakesTheSocketsAway(t *testing.T) {
	s, k := started(t)
	s.tell(t, "Ready well")
	w := k.watch(t, "v1")
	w.expect(t, healthy, "LeaseRenewed: well")
	s.stop(t)
	w.expect(t, unknown, "the agent that watches the DPU on this node is stopping")
	if err := w.ended(t); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	for _, path := range []string{s.registrySocket(), endpointOf(s)} {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	s.start(t) // and the kubelet finds it again, over the same client connection
	s.tell(t, "Ready back")
	register(t, s)
	eventually(t, 10*time.Second, "the old connection works again", func() bool {
		_, err := prepare(k, time.Second)
		return err == nil
	})
	k.watch(t, "v1").expect(t, healthy, "LeaseRenewed: back")
}
