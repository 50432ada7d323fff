// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dpu-heartbeat.test/e2e/harness"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"
)

// newNetwork makes a network namespace and returns it as a descriptor.
func newNetwork(t *testing.T) int {
	t.Helper()
	made := -1
	must(t, harness.InOwnThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			made, err = unix.Open(harness.ThreadNetwork, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		return err
	}))
	t.Cleanup(func() { unix.Close(made) })
	return made
}

// networkPath is what a runtime calls a network by.
func networkPath(network int) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), network) }

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
	err := harness.InOwnThread(func() (err error) {
		if err = unix.Setns(p.network, unix.CLONE_NEWNET); err == nil {
			out, err = p.Exec.ExecPlugin(ctx, path, stdin, env)
		}
		return err
	})
	return out, err
}

// cniNode is a pair with a node's CNI folders. The case asks in place of a runtime.
type cniNode struct{ *pair }

func newCNINode(t *testing.T) cniNode {
	t.Helper()
	n := cniNode{newSharedPair(t)}
	for _, dir := range []string{"net.d", "bin"} {
		must(t, os.Mkdir(n.file(dir), 0o755))
	}
	return n
}

// installs puts a program of the cluster's parts there under that name, by a link: a child that is forked while a copy
// is written holds it open, and the kernel refuses to run it (ETXTBSY).
func (n cniNode) installs(part, name string) {
	n.t.Helper()
	must(n.t, os.Symlink(filepath.Join(shared.parts, part), n.file("bin/"+name)))
}

// gate puts dpu-gate in front of the node's own plugin, or takes it away.
func (n cniNode) gate(verb string, more ...string) {
	n.t.Helper()
	argv := append([]string{verb, "--cni-conf-dir", n.file("net.d")}, more...)
	if verb == "install-cni" {
		argv = append(argv, "--readiness-file", n.RecordFile(), "--cni-bin-dir", n.file("bin"), "--gate-binary", ours(n.t, "dpu-gate"))
	}
	if out, err := exec.Command(ours(n.t, "dpu-host-agent"), argv...).CombinedOutput(); err != nil {
		n.t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

// network loads the first configuration that can be loaded, as a runtime does: one may just have gone.
func (n cniNode) network() (*libcni.NetworkConfigList, error) {
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

// library is what a runtime asks plugins with; how runs them, nil is here.
func (n cniNode) library(how invoke.Exec) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir([]string{n.file("bin")}, n.file("cache"), how)
}

// ovnNode is a node of ovn-kubernetes as far as files go. In its CNI server no check runs yet.
type ovnNode struct {
	cniNode
	ovnkube *ovnkube
}

func newOVNNode(t *testing.T) *ovnNode {
	t.Helper()
	n := &ovnNode{cniNode: newCNINode(t)}
	n.installs("ovn-k8s-cni-overlay", "ovn-k8s-cni-overlay")
	socket := filepath.Join(t.TempDir(), "ovnkube.sock") // short enough for one
	n.ovnkube = n.startOVNKube(socket)
	must(t, harness.WriteFile(n.file("net.d/"+ovnConf), fmt.Sprintf(
		`{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","ovnkube":%q}`, socket), 0o600))
	return n
}
