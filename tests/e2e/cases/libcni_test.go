// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"golang.org/x/sys/unix"
)

// inOwnNetwork runs do in a network namespace made for it, with the path of a
// second one, the pod's. The plugins that do runs inherit the first. The thread
// comes back (see harness.NewRelay for why it must).
func inOwnNetwork(t *testing.T, do func(podNetns string)) {
	t.Helper()
	const self = "/proc/thread-self/ns/net"
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := unix.Open(self, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(own)
	defer func() {
		if err := unix.Setns(own, unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
	}()
	must(t, unix.Unshare(unix.CLONE_NEWNET))
	pod, err := unix.Open(self, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(pod)
	must(t, unix.Unshare(unix.CLONE_NEWNET))
	do(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), pod))
}

// elsewhere runs do on another thread, which is in the machine's own network.
func elsewhere(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

// CRI-O is not built here; this is what it calls of its CNI library: the status of
// a network list each five seconds, and the list's ADD and DEL.
func TestGivenTheLibraryOfCRIOWhenTheDPULivesAndDiesThenStatusAndAddFollow(t *testing.T) {
	gate := ours(t, "dpu-gate")
	p := newSharedPair(t)
	p.StartHost()
	p.Expect(soon, "Unknown", "AwaitingFirstRenewal")
	delegate, err := os.ReadFile(filepath.Join(shared.parts, "veth-cni"))
	must(t, err)
	must(t, harness.WriteFile(p.file("veth-cni"), string(delegate), 0o755))
	program, err := os.ReadFile(gate)
	must(t, err)
	must(t, harness.WriteFile(p.file("dpu-gate"), string(program), 0o755))
	list, err := libcni.ConfListFromBytes([]byte(fmt.Sprintf(`{"cniVersion":"1.0.0","cniVersions":["1.0.0","1.1.0"],
		"name":"e2e","plugins":[{"type":"dpu-gate","readinessFile":%q,"delegate":{"type":"veth-cni","stateDir":%q}}]}`,
		p.RecordFile(), p.file("attachments"))))
	must(t, err)
	if list.CNIVersion != "1.1.0" {
		t.Fatalf("the library took version %s of the list", list.CNIVersion)
	}
	cni := libcni.NewCNIConfigWithCacheDir([]string{p.Dir}, p.file("cache"), nil)

	inOwnNetwork(t, func(pod string) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		attachment := &libcni.RuntimeConf{ContainerID: "c1", NetNS: pod, IfName: "eth0"}
		refused := func(err error, code uint, what string) {
			t.Helper()
			said, ok := err.(*types.Error)
			if !ok || said.Code != code || !strings.HasPrefix(said.Msg, notReady) {
				t.Errorf("%s: %#v, want code %d", what, err, code)
			}
		}
		refused(cni.GetStatusNetworkList(ctx, list), types.ErrPluginNotAvailable, "STATUS before the first renewal")
		_, err := cni.AddNetworkList(ctx, list, attachment)
		if err == nil || !strings.Contains(err.Error(), notReady) {
			t.Errorf("ADD before the first renewal: %v", err)
		}

		elsewhere(func() { p.StartDPU() }) // not in a network without an API server
		p.Expect(soon, "Ready", "LeaseRenewed")
		must(t, cni.GetStatusNetworkList(ctx, list))
		made, err := cni.AddNetworkList(ctx, list, attachment)
		must(t, err)
		result, err := current.GetResult(made)
		if err != nil || len(result.IPs) != 1 || len(result.Interfaces) != 1 {
			t.Errorf("the delegate's result came through as %v (%v)", made, err)
		}
		must(t, cni.CheckNetworkList(ctx, list, attachment))

		p.DPU.Kill()
		p.Expect(duration+soon, "NotReady", "LeaseExpired")
		refused(cni.GetStatusNetworkList(ctx, list), types.ErrPluginNotAvailable, "STATUS of a dead DPU")
		must(t, cni.CheckNetworkList(ctx, list, attachment)) // never gated
		must(t, cni.GCNetworkList(ctx, list, &libcni.GCArgs{ValidAttachments: []types.GCAttachment{
			{ContainerID: attachment.ContainerID, IfName: attachment.IfName}}}))
		must(t, cni.DelNetworkList(ctx, list, attachment))
		if left, _ := filepath.Glob(p.file("attachments/10.88.*")); len(left) != 0 {
			t.Errorf("DEL left %v", left)
		}
	})
}
