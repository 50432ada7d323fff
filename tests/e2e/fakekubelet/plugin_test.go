// SPDX-License-Identifier: Apache-2.0

package fakekubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	healthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drav1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
)

const (
	healthy   = health.HealthStatus_HEALTHY
	unhealthy = health.HealthStatus_UNHEALTHY
	unknown   = health.HealthStatus_UNKNOWN
)

func TestRegistrationTellsWhoWeAre(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s)
	if k.info.Type != "DRAPlugin" || k.info.Name != driver || k.info.Endpoint != endpointOf(s) {
		t.Errorf("info is %v", k.info)
	}
	want := []string{drav1.DRAPluginService, drav1beta1.DRAPluginService, health.DRAResourceHealthService,
		healthv1alpha1.DRAResourceHealthService}
	if !reflect.DeepEqual(k.info.SupportedVersions, want) {
		t.Errorf("versions are %v", k.info.SupportedVersions)
	}
}

func TestKubeletRestartRegistersAgainWithoutOurRestart(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	for range 3 {
		k := register(t, s)
		k.watch(t, "v1").expect(t, unknown, "no verdict yet")
		_ = k.conn.Close()
	}
}

func TestRejectedRegistrationIsServedOn(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	conn := dialRegistry(t, s.registrySocket())
	getInfo(t, conn)
	notify(t, conn, false, "no handler registered for plugin type: DRAPlugin")
	getInfo(t, conn)
	notify(t, conn, true, "")
}

func TestAuthorityMayHaveAnyForm(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
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

func TestPrepareChecksTheClaimAndNamesTheShare(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s)
	good := s.api.createClaim(t, "good", node)
	elsewhere := s.api.createClaim(t, "elsewhere", "node2")
	got, err := prepare(k, 45*time.Second, claimOf("good", good), claimOf("elsewhere", elsewhere),
		claimOf("good", "replaced-uid"), claimOf("missing", "u4"))
	if err != nil || len(got) != 4 {
		t.Fatalf("%v %v", got, err)
	}
	devices := got[good].GetDevices()
	if got[good].GetError() != "" || len(devices) != 1 {
		t.Fatalf("%v", got[good])
	}
	d := devices[0]
	if d.PoolName != node || d.DeviceName != "dpu0" || len(d.CdiDeviceIds) != 0 ||
		!reflect.DeepEqual(d.RequestNames, []string{"dpu"}) ||
		d.GetShareId() != "a671734a-e8e5-11e4-8fde-42010af09327" {
		t.Errorf("%v", d)
	}
	for uid, words := range map[string]string{elsewhere: "is not on this node",
		"replaced-uid": "was replaced", "u4": "not found"} {
		if text := got[uid].GetError(); !strings.Contains(text, words) {
			t.Errorf("%s: %q", uid, text)
		}
	}
	again, err := prepare(k, 45*time.Second, claimOf("good", good))
	if err != nil || again[good].String() != got[good].String() {
		t.Errorf("the second time: %v %v", again, err)
	}
}

func TestOlderKubeletPreparesWithV1beta1(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s)
	uid := s.api.createClaim(t, "c", node)
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

func TestUnprepareNeedsNobody(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s)
	s.api.do(t, "POST", s.api.control+"/listener", map[string]any{"open": false})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	response, err := drav1.NewDRAPluginClient(k.conn).NodeUnprepareResources(ctx,
		&drav1.NodeUnprepareResourcesRequest{Claims: []*drav1.Claim{claimOf("gone", "u1")}})
	if err != nil || response.Claims["u1"] == nil || response.Claims["u1"].Error != "" {
		t.Fatalf("%v %v", response, err)
	}
}

func TestFailedLookupIsRetriedByTheKubelet(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s)
	uid := s.api.createClaim(t, "c", node)
	s.api.addFault(t, map[string]any{"action": "status", "code": 503,
		"match": map[string]any{"resource": "resourceclaims"}})
	got, err := prepare(k, 45*time.Second, claimOf("c", uid))
	if err != nil || got[uid].GetError() == "" {
		t.Fatalf("%v %v", got, err)
	}
	s.api.clearFaults(t)
	got, err = prepare(k, 45*time.Second, claimOf("c", uid))
	if err != nil || got[uid].GetError() != "" {
		t.Fatalf("%v %v", got, err)
	}
}

func TestHangingPrepareHitsItsDeadlineAndBlocksNobody(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s)
	uid := s.api.createClaim(t, "c", node)
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
	s := newStage(t, "3")
	s.start(t)
	k := register(t, s)
	uid := s.api.createClaim(t, "c", node)
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
		s := newStage(t, "30")
		s.start(t)
		w := register(t, s).watch(t, version)
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

func TestHeartbeatsComeThriceATimeoutAndStopWithTheMonitor(t *testing.T) {
	s := newStage(t, "3")
	s.start(t)
	s.tell(t, "Ready well")
	w := register(t, s).watch(t, "v1")
	w.expect(t, healthy, "LeaseRenewed: well")
	begin := time.Now()
	for range 3 {
		w.expect(t, healthy, "LeaseRenewed: well")
	}
	if took := time.Since(begin); took > 3500*time.Millisecond || took < 1500*time.Millisecond {
		t.Errorf("three heartbeats took %v", took)
	}
	s.tell(t, "Stall")
	w.expect(t, unknown, "the agent that watches the DPU on this node makes no progress")
	select {
	case report := <-w.reports:
		t.Errorf("a stalled monitor vouched: %v", report)
	case <-time.After(2500 * time.Millisecond):
	}
	s.tell(t, "Unstall")
	w.expect(t, healthy, "LeaseRenewed: well")
}

func TestReaderThatPausesGetsTheNewestReport(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	// A small fixed window, and nobody who reads.
	k := register(t, s, grpc.WithStaticStreamWindowSize(65535),
		grpc.WithStaticConnWindowSize(65535))
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
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s)
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

func TestWhatIsNotServedIsUnimplemented(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s)
	for method, words := range map[string]string{
		"/v1alpha3.Node/NodePrepareResources":               "unknown method /v1alpha3.Node/NodePrepareResources",
		"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/Nothing": "DRAPlugin/Nothing",
	} {
		err := k.conn.Invoke(context.Background(), method, &drav1.NodePrepareResourcesRequest{},
			&drav1.NodePrepareResourcesResponse{})
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestRequestsBeyondOurMeansAreRefusedOneByOne(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s)
	w := k.watch(t, "v1")
	client := drav1.NewDRAPluginClient(k.conn)
	big := &drav1.NodePrepareResourcesRequest{
		Claims: []*drav1.Claim{claimOf(strings.Repeat("x", 2<<20), "u")}}
	if _, err := client.NodePrepareResources(context.Background(), big); status.Code(err) !=
		codes.ResourceExhausted {
		t.Errorf("too large: %v", err)
	}
	small := &drav1.NodePrepareResourcesRequest{Claims: []*drav1.Claim{claimOf("c", "u")}}
	if _, err := client.NodePrepareResources(context.Background(), small,
		grpc.UseCompressor(gzip.Name)); status.Code(err) != codes.Unimplemented {
		t.Errorf("compressed: %v", err)
	}
	many := &drav1.NodePrepareResourcesRequest{}
	for i := range 300 {
		many.Claims = append(many.Claims, claimOf("c", fmt.Sprint("u", i)))
	}
	if _, err := client.NodePrepareResources(context.Background(), many); status.Code(err) !=
		codes.ResourceExhausted {
		t.Errorf("too many: %v", err)
	}
	s.tell(t, "Ready still here")
	w.expect(t, healthy, "LeaseRenewed: still here")
	if n := k.dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestIdleConnectionIsOpenedAgain(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	k := register(t, s, grpc.WithIdleTimeout(time.Second))
	for i := range 3 {
		if _, err := prepare(k, time.Second); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		time.Sleep(1500 * time.Millisecond)
	}
}

func TestStopTellsUnknownAndTakesTheSocketsAway(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	s.tell(t, "Ready well")
	k := register(t, s)
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

func TestKilledPluginIsReplacedOverItsStaleSockets(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	w := register(t, s).watch(t, "v1")
	w.expect(t, unknown, "no verdict yet")
	s.kill(t)
	if code := status.Code(w.ended(t)); code != codes.Unavailable {
		t.Errorf("the status is %v", code)
	}
	if _, err := os.Lstat(s.registrySocket()); err != nil {
		t.Fatal("the stale socket is gone, this tests nothing")
	}
	s.start(t)
	register(t, s).watch(t, "v1").expect(t, unknown, "no verdict yet")
}

func TestTwoInstancesLiveSideBySideInARollingUpdate(t *testing.T) {
	old := newStage(t, "30")
	old.uid = "11111111-aaaa"
	old.start(t)
	successor := &stage{api: old.api, root: old.root, timeout: "30", kubecfg: old.kubecfg,
		uid: "22222222-bbbb"}
	successor.start(t)
	for _, s := range []*stage{old, successor} {
		s.tell(t, "Ready from %s", s.uid)
		register(t, s).watch(t, "v1").expect(t, healthy, "LeaseRenewed: from "+s.uid)
	}
	old.stop(t)
	register(t, successor).watch(t, "v1").expect(t, healthy, "LeaseRenewed: from "+successor.uid)
	eventually(t, 5*time.Second, "the slice stays", func() bool { return successor.taints(t) == "" })
}

func TestSliceFollowsTheVerdictAndComesBack(t *testing.T) {
	s := newStage(t, "30")
	s.start(t)
	s.tell(t, "Ready well")
	eventually(t, 5*time.Second, "a clean slice", func() bool { return s.taints(t) == "" })
	s.tell(t, "NotReady silent")
	eventually(t, 5*time.Second, "a taint", func() bool {
		return s.taints(t) == "LeaseExpired/NoSchedule"
	})
	// What a kubelet does to the slices of its node when it starts.
	if code, _ := s.api.do(t, "DELETE", s.api.url+slice, nil); code != 200 {
		t.Fatalf("deleting the slice: %d", code)
	}
	eventually(t, 5*time.Second, "the slice is back", func() bool {
		return s.taints(t) == "LeaseExpired/NoSchedule"
	})
	s.tell(t, "Ready again")
	eventually(t, 5*time.Second, "a clean slice", func() bool { return s.taints(t) == "" })
	s.stop(t)
	if s.taints(t) != "" {
		t.Error("the slice is left to the kubelet on stop")
	}
}
