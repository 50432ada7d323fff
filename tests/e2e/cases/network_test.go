// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"dpu-heartbeat.test/e2e/harness"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"
)

const threadNetwork = "/proc/thread-self/ns/net"

// newNetwork makes a network namespace and returns it as a descriptor.
func newNetwork(t *testing.T) int {
	t.Helper()
	own, err := unix.Open(threadNetwork, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(own)
	made := -1
	err = inNetwork(own, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		made, err = unix.Open(threadNetwork, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	must(t, err)
	t.Cleanup(func() { unix.Close(made) })
	return made
}

// networkPath is what a runtime calls a network by.
func networkPath(network int) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), network) }

// inNetwork runs do with its thread in a network; the programs that do runs inherit it. The thread comes back
// (see harness.NewRelay for why it must).
func inNetwork(network int, do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := unix.Open(threadNetwork, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	defer func() {
		if err := unix.Setns(own, unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
	}()
	if err := unix.Setns(network, unix.CLONE_NEWNET); err != nil {
		return err
	}
	return do()
}

// inOwnNetwork runs do in a network made for it, with the path of a second one, the pod's.
func inOwnNetwork(t *testing.T, do func(podNetns string)) {
	t.Helper()
	pod := newNetwork(t)
	must(t, inNetwork(newNetwork(t), func() error {
		do(networkPath(pod))
		return nil
	}))
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

// plugins runs plugins in a network of their own, whoever calls.
type plugins struct {
	invoke.Exec
	network int
}

func newPlugins(t *testing.T) *plugins {
	t.Helper()
	return &plugins{network: newNetwork(t), Exec: &invoke.DefaultExec{
		RawExec: &invoke.RawExec{Stderr: os.Stderr}, PluginDecoder: version.PluginDecoder{}}}
}

func (p *plugins) ExecPlugin(ctx context.Context, path string, stdin []byte, env []string) ([]byte, error) {
	var out []byte
	err := inNetwork(p.network, func() (err error) {
		out, err = p.Exec.ExecPlugin(ctx, path, stdin, env)
		return err
	})
	return out, err
}

// ovnNode is a node of ovn-kubernetes as far as files go. Its plugin asks ovnkube's CNI server, in which no check
// runs yet.
type ovnNode struct {
	*pair
	plugins *plugins
	ovnkube *ovnkube
}

func newOVNNode(t *testing.T) *ovnNode {
	t.Helper()
	ours(t, "dpu-gate")
	n := &ovnNode{pair: newSharedPair(t), plugins: newPlugins(t)}
	for _, dir := range []string{"net.d", "bin"} {
		must(t, os.Mkdir(n.file(dir), 0o755))
	}
	// A child that is forked while a copy is written holds it open, and the kernel refuses to run it (ETXTBSY).
	must(t, os.Symlink(filepath.Join(shared.parts, "veth-cni"), n.file("bin/veth-cni")))
	socket := filepath.Join(t.TempDir(), "ovnkube.sock") // short enough for one
	n.ovnkube = n.startOVNKube(socket)
	must(t, harness.WriteFile(n.file("net.d/10-ovn-kubernetes.conf"), fmt.Sprintf(
		`{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"veth-cni","stateDir":%q,"ovnkube":%q}`,
		n.file("attachments"), socket), 0o600))
	return n
}

// gate puts dpu-gate in front of the node's own plugin, or takes it away.
func (n *ovnNode) gate(verb string) {
	n.t.Helper()
	argv := []string{verb, "--cni-conf-dir", n.file("net.d")}
	if verb == "install-cni" {
		argv = append(argv, "--readiness-file", n.RecordFile(), "--cni-bin-dir", n.file("bin"), "--gate-binary", ours(n.t, "dpu-gate"))
	}
	if out, err := exec.Command(ours(n.t, "dpu-host-agent"), argv...).CombinedOutput(); err != nil {
		n.t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

// network loads the first configuration of the node that can be loaded, as a runtime does: one may be gone since
// the folder was read.
func (n *ovnNode) network() (*libcni.NetworkConfigList, error) {
	files, err := libcni.ConfFiles(n.file("net.d"), []string{".conf", ".conflist", ".json"})
	slices.Sort(files)
	for _, file := range files {
		var list *libcni.NetworkConfigList
		if strings.HasSuffix(file, ".conflist") {
			list, err = libcni.ConfListFromFile(file)
		} else {
			var single *libcni.PluginConfig
			if single, err = libcni.ConfFromFile(file); err == nil {
				list, err = libcni.ConfListFromConf(single)
			}
		}
		if err == nil {
			return list, nil
		}
	}
	return nil, fmt.Errorf("no CNI configuration in %s (%w)", n.file("net.d"), err)
}
