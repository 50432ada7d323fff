// SPDX-License-Identifier: Apache-2.0

// Package healthcache gives one plugin's words to the kubelet's own DRA manager and to `dpuctl dra
// watch`, and asks both what they make of them: they have to say the same. The manager is the
// kubelet's package as it is released; what it says is what it would write into a pod's status.
package healthcache

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
)

const (
	driver = "dpu.example.com"
	// A kubelet's and dpuctl's pause between two streams.
	streamPause = 5 * time.Second
	// A busy machine fails nothing.
	soon = 30 * time.Second
)

var devices = []string{"dpu0", "dpu1"}

// plugin says to all who watch what it is given, and has every claim prepared.
type plugin struct {
	health.UnimplementedDRAResourceHealthServer
	drapb.UnimplementedDRAPluginServer
	mutex   sync.Mutex
	streams []chan *health.NodeWatchResourcesResponse // closed: the stream ends
}

func (p *plugin) NodeWatchResources(_ *health.NodeWatchResourcesRequest, s health.DRAResourceHealth_NodeWatchResourcesServer) error {
	words := make(chan *health.NodeWatchResourcesResponse, 16)
	p.mutex.Lock()
	p.streams = append(p.streams, words)
	p.mutex.Unlock()
	for said := range words {
		if err := s.Send(said); err != nil {
			return err
		}
	}
	return nil
}

func (p *plugin) NodePrepareResources(_ context.Context, r *drapb.NodePrepareResourcesRequest) (*drapb.NodePrepareResourcesResponse, error) {
	out := &drapb.NodePrepareResourcesResponse{Claims: map[string]*drapb.NodePrepareResourceResponse{}}
	for _, claim := range r.Claims {
		prepared := &drapb.NodePrepareResourceResponse{}
		for _, device := range devices {
			prepared.Devices = append(prepared.Devices, &drapb.Device{PoolName: "node", DeviceName: device})
		}
		out.Claims[claim.Uid] = prepared
	}
	return out, nil
}

func (p *plugin) say(said ...*health.DeviceHealth) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, words := range p.streams {
		words <- &health.NodeWatchResourcesResponse{Devices: said}
	}
}

func (p *plugin) endStreams() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, words := range p.streams {
		close(words)
	}
	p.streams = nil
}

func (p *plugin) awaitStreams(t *testing.T) {
	t.Helper()
	eventually(t, "both watch", func() error {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		if len(p.streams) != 2 {
			return fmt.Errorf("%d do", len(p.streams))
		}
		return nil
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	for deadline := time.Now().Add(soon); ; time.Sleep(50 * time.Millisecond) {
		err := holds()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %v", what, soon, err)
		}
	}
}

// serve offers the plugin's services, health by its name of before 1.37, too.
func serve(t *testing.T, p *plugin) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hc") // not t.TempDir(): the paths of sockets are short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "dra.sock")
	listener, err := net.Listen("unix", path)
	must(t, err)
	server := grpc.NewServer()
	before := health.DRAResourceHealth_ServiceDesc
	before.ServiceName = "v1alpha1.DRAResourceHealth"
	server.RegisterService(&before, p)
	health.RegisterDRAResourceHealthServer(server, p)
	drapb.RegisterDRAPluginServer(server, p)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return path
}

// kubelet is a pod that claims both devices, and the manager that knows their health.
type kubelet struct {
	logger  klog.Logger
	manager *dra.Manager
	pod     *core.Pod
}

func startKubelet(t *testing.T, socket string) *kubelet {
	t.Helper()
	logger, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	name := "claim"
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "pod", Namespace: "default", UID: "pod-uid"},
		Spec: core.PodSpec{
			ResourceClaims: []core.PodResourceClaim{{Name: "dpu", ResourceClaimName: &name}},
			Containers: []core.Container{{Name: "c",
				Resources: core.ResourceRequirements{Claims: []core.ResourceClaim{{Name: "dpu"}}}}}}}
	claim := &resource.ResourceClaim{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "default", UID: "claim-uid"},
		Status: resource.ResourceClaimStatus{
			Allocation:  &resource.AllocationResult{},
			ReservedFor: []resource.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod", UID: pod.UID}}}}
	for _, device := range devices {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resource.DeviceRequestAllocationResult{Request: "dpu", Driver: driver, Pool: "node", Device: device})
	}
	m, err := dra.NewManager(logger, fake.NewSimpleClientset(claim), t.TempDir())
	must(t, err)
	node := func(context.Context) (*core.Node, error) { return &core.Node{}, nil }
	must(t, m.Start(ctx, func() []*core.Pod { return []*core.Pod{pod} }, node, nil))
	services := []string{"v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"}
	must(t, m.GetWatcherHandler().RegisterPlugin(ctx, driver, socket, services, nil))
	must(t, m.PrepareResources(ctx, pod))
	return &kubelet{logger, m, pod}
}

// says is "device health message" for both devices.
func (k *kubelet) says() map[string]string {
	status := core.PodStatus{ContainerStatuses: []core.ContainerStatus{{Name: "c"}}}
	k.manager.UpdateAllocatedResourcesStatus(k.logger, k.pod, &status)
	out := map[string]string{}
	for _, claim := range status.ContainerStatuses[0].AllocatedResourcesStatus {
		for _, r := range claim.Resources {
			message := ""
			if r.Message != nil {
				message = *r.Message
			}
			device := string(r.ResourceID[strings.LastIndex(string(r.ResourceID), "/")+1:])
			out[device] = strings.TrimSpace(string(r.Health) + " " + message)
		}
	}
	return out
}

// dpuctl runs on a terminal, where it shows all that it knows again and again.
type dpuctl struct {
	mutex  sync.Mutex
	screen string
}

func startDpuctl(t *testing.T, socket string) *dpuctl {
	t.Helper()
	cmd := exec.Command("script", "--quiet", "--command",
		os.Getenv("DPUCTL")+" dra watch --driver "+driver+" --socket "+socket, "/dev/null")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	d := &dpuctl{}
	go d.read(out)
	return d
}

// read keeps the last whole screen: what stands between two of its clearings.
func (d *dpuctl) read(terminal io.Reader) {
	const clear = "\x1b[H\x1b[J"
	var seen string
	buffer := make([]byte, 1<<16)
	for {
		n, err := terminal.Read(buffer)
		if err != nil {
			return
		}
		seen += string(buffer[:n])
		seen = seen[max(0, strings.LastIndex(seen, clear)):]
		d.mutex.Lock()
		d.screen = seen
		d.mutex.Unlock()
	}
}

var row = regexp.MustCompile(`(?m)^(\w+) +` + regexp.QuoteMeta(driver) + `/node/(\w+)  \d+ s of \d+ s ago  (.*)\r$`)

// says is the same as of the kubelet: a device that nobody speaks of is Unknown.
func (d *dpuctl) says() map[string]string {
	out := map[string]string{}
	for _, device := range devices {
		out[device] = "Unknown"
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, m := range row.FindAllStringSubmatch(d.screen, -1) {
		out[m[2]] = strings.TrimSpace(m[1] + " " + m[3])
	}
	return out
}

func of(device string, status health.HealthStatus, message string, timeoutSeconds int64) *health.DeviceHealth {
	return &health.DeviceHealth{Device: &health.DeviceIdentifier{PoolName: "node", DeviceName: device},
		Health: status, Message: message, HealthCheckTimeoutSeconds: timeoutSeconds, LastUpdatedTime: 1}
}

func TestGivenTheSameWordsWhenKubeletAndDpuctlAreAskedThenTheySayTheSame(t *testing.T) {
	const healthy, unhealthy, unknown = health.HealthStatus_HEALTHY, health.HealthStatus_UNHEALTHY, health.HealthStatus_UNKNOWN
	long := strings.Repeat("x", 1500)
	p := &plugin{}
	socket := serve(t, p)
	k := startKubelet(t, socket)
	d := startDpuctl(t, socket)
	p.awaitStreams(t)
	type words = []*health.DeviceHealth
	for _, step := range []struct {
		name string
		said words // nil: nothing more
		want [2]string
	}{
		{"one of two", words{of("dpu0", healthy, "well", 60)}, [2]string{"Healthy well", "Unknown"}},
		{"the other; what is left out stays", words{of("dpu1", unhealthy, "silent", 60)}, [2]string{"Healthy well", "Unhealthy silent"}},
		{"nobody is spoken of", words{}, [2]string{"Healthy well", "Unhealthy silent"}},
		{"another message", words{of("dpu0", healthy, "better", 60)}, [2]string{"Healthy better", "Unhealthy silent"}},
		{"a number that is none", words{of("dpu0", 7, "odd", 60)}, [2]string{"Unknown odd", "Unhealthy silent"}},
		{"twice in one message", words{of("dpu0", healthy, "a", 60), of("dpu0", unhealthy, "b", 60)}, [2]string{"Unhealthy b", "Unhealthy silent"}},
		{"no timeout, and one below nothing", words{of("dpu0", healthy, "", 0), of("dpu1", healthy, "", -5)}, [2]string{"Healthy", "Healthy"}},
		{"a message over a kubelet's limit", words{of("dpu0", unhealthy, long, 60)}, [2]string{"Unhealthy " + long[:1021] + "...", "Healthy"}},
		{"a short timeout", words{of("dpu0", healthy, "soon stale", 1), of("dpu1", unknown, "who knows", 60)}, [2]string{"Healthy soon stale", "Unknown who knows"}},
		{"which is over", nil, [2]string{"Unknown", "Unknown who knows"}},
		{"and for good with the next message", words{of("dpu1", healthy, "back", 60)}, [2]string{"Unknown", "Healthy back"}},
	} {
		if step.said != nil {
			p.say(step.said...)
		}
		agree(t, step.name, k, d, step.want)
	}

	// What a plugin said is void with its stream, and new with the next.
	p.endStreams()
	agree(t, "the stream ends", k, d, [2]string{"Unknown", "Unknown"})
	time.Sleep(streamPause)
	p.awaitStreams(t)
	p.say(of("dpu1", unhealthy, "again", 60))
	agree(t, "another stream", k, d, [2]string{"Unknown", "Unhealthy again"})
}

// agree waits until both say what is wanted: it may take either a second to look again.
func agree(t *testing.T, name string, k *kubelet, d *dpuctl, want [2]string) {
	t.Helper()
	for who, says := range map[string]func() map[string]string{"the kubelet": k.says, "dpuctl": d.says} {
		eventually(t, name, func() error {
			got := says()
			if got["dpu0"] != want[0] || got["dpu1"] != want[1] {
				return fmt.Errorf("%s says %q, not %q", who, got, want)
			}
			return nil
		})
	}
}
