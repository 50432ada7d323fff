// SPDX-License-Identifier: Apache-2.0

package fakekubelet

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	healthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// kubelet is what a kubelet keeps of a plugin.
type kubelet struct {
	info  *registration.PluginInfo
	conn  *grpc.ClientConn
	dials atomic.Int32
}

// dialRegistry connects as the kubelet's plugin manager does: the raw path as target of a custom
// dialer, which makes the percent-encoded path the :authority.
func dialRegistry(t *testing.T, path string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	conn, err := grpc.NewClient("passthrough:///"+path, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func getInfo(t *testing.T, conn *grpc.ClientConn) *registration.PluginInfo {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	info, err := registration.NewRegistrationClient(conn).GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		t.Fatalf("GetInfo: %v", err)
	}
	return info
}

func notify(t *testing.T, conn *grpc.ClientConn, ok bool, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := registration.NewRegistrationClient(conn).NotifyRegistrationStatus(ctx,
		&registration.RegistrationStatus{PluginRegistered: ok, Error: text})
	if err != nil {
		t.Fatalf("NotifyRegistrationStatus: %v", err)
	}
}

// register does what a kubelet does when it sees the registration socket.
func register(t *testing.T, s *stage, options ...grpc.DialOption) *kubelet {
	t.Helper()
	eventually(t, 5*time.Second, "the registration socket is served", func() bool {
		conn, err := net.Dial("unix", s.registrySocket())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	k := &kubelet{}
	registry := dialRegistry(t, s.registrySocket())
	k.info = getInfo(t, registry)
	notify(t, registry, true, "")
	_ = registry.Close()
	options = append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			k.dials.Add(1)
			return (&net.Dialer{}).DialContext(ctx, "unix", k.info.Endpoint)
		}))
	conn, err := grpc.NewClient("unix:"+k.info.Endpoint, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	k.conn = conn
	return k
}

// stream is one open health stream; reports arrive in the channel, which ends with it.
type stream struct {
	reports chan *health.DeviceHealth
	err     error // once reports is closed
	cancel  context.CancelFunc
}

// healthClient is the kubelet's: v1 as it is from 1.37 on, v1alpha1 by the wrapper that 1.37 keeps
// for older drivers.
func (k *kubelet) healthClient(t *testing.T, version string) health.DRAResourceHealthClient {
	t.Helper()
	switch version + ".DRAResourceHealth" {
	case health.DRAResourceHealthService:
		return health.NewDRAResourceHealthClient(k.conn)
	case healthv1alpha1.DRAResourceHealthService:
		return health.V1Alpha1ClientWrapper{Client: healthv1alpha1.NewDRAResourceHealthClient(k.conn)}
	}
	t.Fatalf("no kubelet knows health %s", version)
	return nil
}

// watch opens a health stream of the given service version.
func (k *kubelet) watch(t *testing.T, version string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	raw, err := k.healthClient(t, version).NodeWatchResources(ctx, &health.NodeWatchResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	w := &stream{reports: make(chan *health.DeviceHealth, 1000), cancel: cancel}
	go func() {
		defer close(w.reports)
		for {
			var response *health.NodeWatchResourcesResponse
			if response, w.err = raw.Recv(); w.err != nil {
				return
			}
			for _, device := range response.Devices {
				w.reports <- device
			}
		}
	}()
	return w
}

// next waits for the next report.
func (w *stream) next(t *testing.T, within time.Duration) *health.DeviceHealth {
	t.Helper()
	select {
	case report, open := <-w.reports:
		if !open {
			t.Fatalf("the stream ended: %v", w.err)
		}
		return report
	case <-time.After(within):
		t.Fatalf("no report within %v", within)
	}
	return nil
}

// expect waits for a report with this status and message, skipping others.
func (w *stream) expect(t *testing.T, status health.HealthStatus, message string) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		report := w.next(t, time.Until(deadline))
		if report.Health == status && report.Message == message {
			return
		}
	}
}

// ended waits for the end of the stream and returns its error.
func (w *stream) ended(t *testing.T) error {
	t.Helper()
	deadline := time.After(5 * time.Second)
	for {
		select {
		case _, open := <-w.reports:
			if !open {
				return w.err
			}
		case <-deadline:
			t.Fatal("the stream did not end")
		}
	}
}

func endpointOf(s *stage) string {
	return filepath.Join(s.root, "plugins", driver, "dra.sock")
}
