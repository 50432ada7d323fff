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
	"time"

	"dpu-heartbeat.test/e2e/harness"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
)

// behindMultus is a node's CNI folders with Multus, the gate as install-cni
// puts it, and veth-cni under ovn-kubernetes's name.
type behindMultus struct {
	*pair
	binDir, confDir string
}

func newBehindMultus(t *testing.T) behindMultus {
	t.Helper()
	multus := part(t, "multus")
	m := behindMultus{pair: newSharedPair(t)}
	m.binDir, m.confDir = m.file("bin"), m.file("net.d")
	must(t, os.MkdirAll(m.binDir, 0o755))
	must(t, os.MkdirAll(m.confDir, 0o755))
	for name, from := range map[string]string{"multus": multus, "ovn-k8s-cni-overlay": filepath.Join(shared.parts, "veth-cni")} {
		must(t, os.Symlink(from, filepath.Join(m.binDir, name)))
	}
	must(t, harness.WriteFile(filepath.Join(m.confDir, ovnConf), fmt.Sprintf(
		`{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","stateDir":%q}`, m.file("attachments")), 0o600))
	m.install()
	return m
}

func (m behindMultus) install(more ...string) {
	m.t.Helper()
	args := append([]string{"install-cni", "--cni-conf-dir", m.confDir, "--cni-bin-dir", m.binDir,
		"--gate-binary", ours(m.t, "dpu-gate"), "--readiness-file", m.RecordFile()}, more...)
	out, err := exec.CommandContext(m.t.Context(), ours(m.t, "dpu-host-agent"), args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("install-cni: %v: %s", err, out)
	}
}

// list is what a runtime makes of Multus's own file, of that version; more is
// how Multus finds the gate.
func (m behindMultus) list(version, more string) *libcni.NetworkConfigList {
	m.t.Helper()
	conf, err := libcni.ConfFromBytes([]byte(fmt.Sprintf(
		`{"cniVersion":%q,"name":"multus-cni-network","type":"multus","binDir":%q,"cniDir":%q,"confDir":%q,%s}`,
		version, m.binDir, m.file("multus-cache"), m.confDir, more)))
	must(m.t, err)
	list, err := libcni.ConfListFromConf(conf)
	must(m.t, err)
	return list
}

// asDelegate gives Multus our file's own text.
func (m behindMultus) asDelegate() string {
	m.t.Helper()
	ours, err := os.ReadFile(filepath.Join(m.confDir, "05-dpu-gate.conflist"))
	must(m.t, err)
	return fmt.Sprintf(`"delegates":[%s]`, ours)
}

// asClusterNetwork gives Multus, which has a kubeconfig, a folder whose first
// file is ours, or the path of that file.
func (m behindMultus) asClusterNetwork(path string) string {
	return fmt.Sprintf(`"kubeconfig":%q,"clusterNetwork":%q`, shared.control.AdminKubeconfig(), path)
}

// refuses asks for STATUS and a Pod's network, and expects the gate's answer to both.
func (m behindMultus) refuses(when string, cni *libcni.CNIConfig, list *libcni.NetworkConfigList, pod *libcni.RuntimeConf) {
	m.t.Helper()
	said, ok := cni.GetStatusNetworkList(m.t.Context(), list).(*types.Error)
	if !ok || said.Code != types.ErrPluginNotAvailable || !strings.Contains(said.Msg, notReady) {
		m.t.Errorf("STATUS %s: %#v", when, said)
	}
	m.refusesAdd(when, cni, list, pod)
}

// refusesAdd asks again where Multus gave up before: it waits 2.5 s for the Pod's object, which a busy server may need.
func (m behindMultus) refusesAdd(when string, cni *libcni.CNIConfig, list *libcni.NetworkConfigList, pod *libcni.RuntimeConf) {
	m.t.Helper()
	poll(m.t, soon, "ADD is refused "+when, func() error {
		_, err := cni.AddNetworkList(m.t.Context(), list, pod)
		if err == nil {
			return harness.Final(fmt.Errorf("it was not"))
		}
		if strings.Contains(err.Error(), notReady) {
			return nil
		}
		return err
	})
}

// The thin plugin as it is released, between a runtime's library and what
// install-cni wrote.
func TestGivenMultusInFrontOfTheGateWhenTheDPULivesAndDiesThenStatusAndAddFollow(t *testing.T) {
	m := newBehindMultus(t)
	m.StartHost()
	m.Expect(soon, "Unknown", "AwaitingFirstRenewal")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cni := libcni.NewCNIConfigWithCacheDir([]string{m.binDir}, m.file("cache"), nil)
	m.pod("behind-multus", m.Node)
	attachment := &libcni.RuntimeConf{ContainerID: "c1", NetNS: "/proc/thread-self/ns/net", IfName: "refused0",
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", "behind-multus"}}}
	ways := map[string]string{"delegate": m.asDelegate(), "clusterNetwork": m.asClusterNetwork(m.confDir)}
	refused := func(when string) {
		t.Helper()
		for way, more := range ways {
			m.refuses(when+", as "+way, cni, m.list("1.1.0", more), attachment)
			// What Multus's own file says decides whether anybody asks it at all.
			if err := cni.GetStatusNetworkList(ctx, m.list("0.3.1", more)); err != nil {
				t.Errorf("STATUS by 0.3.1 %s, as %s: %v", when, way, err)
			}
			m.refusesAdd("by 0.3.1 "+when+", as "+way, cni, m.list("0.3.1", more), attachment)
		}
	}
	refused("before the first renewal")
	// Of a file that it is given by path, Multus 4.3.0 asks STATUS with no more than type and name:
	// the gate looks for its record in the default place, and cannot ask the plugin behind it.
	err := cni.GetStatusNetworkList(ctx, m.list("1.1.0", m.asClusterNetwork(filepath.Join(m.confDir, "05-dpu-gate.conflist"))))
	refusedWith(t, recordInNode, "STATUS of a file by path", err)

	m.StartDPU()
	m.Expect(soon, "Ready", "LeaseRenewed")
	for way, more := range ways {
		if err := cni.GetStatusNetworkList(ctx, m.list("1.1.0", more)); err != nil {
			t.Errorf("STATUS of a live DPU, as %s: %v", way, err)
		}
	}
	inOwnNetwork(t, func(pod string) { // without a way to the API server
		list := m.list("1.1.0", m.asDelegate())
		inside := &libcni.RuntimeConf{ContainerID: "c2", NetNS: pod, IfName: "eth0", Args: attachment.Args}
		made, err := cni.AddNetworkList(ctx, list, inside)
		if err != nil {
			t.Errorf("ADD of a live DPU: %v", err)
			return
		}
		if result, err := current.GetResult(made); err != nil || len(result.IPs) != 1 {
			t.Errorf("the delegate's result came through as %v (%v)", made, err)
		}
		elsewhere(func() {
			m.DPU.Kill()
			m.Expect(duration+soon, "NotReady", "LeaseExpired")
		})
		if err := cni.DelNetworkList(ctx, list, inside); err != nil {
			t.Errorf("DEL with a dead DPU: %v", err)
		}
		if left, _ := filepath.Glob(m.file("attachments/10.88.*")); len(left) != 0 {
			t.Errorf("DEL left %v", left)
		}
	})
	refused("of a dead DPU")
}

// The other order: what Multus's own file says does not matter then.
func TestGivenTheGateInFrontOfMultusWhenTheDPULivesAndDiesThenStatusAndAddFollow(t *testing.T) {
	m := newBehindMultus(t)
	must(t, harness.WriteFile(filepath.Join(m.confDir, "00-multus.conf"), fmt.Sprintf(
		`{"cniVersion":"0.3.1","name":"multus-cni-network","type":"multus","binDir":%q,"cniDir":%q,"delegates":[{
		"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","stateDir":%q}]}`,
		m.binDir, m.file("multus-cache"), m.file("attachments")), 0o600))
	m.install("--cni-source=00-multus.conf")
	files, err := libcni.ConfFiles(m.confDir, []string{".conf", ".conflist", ".json"})
	must(t, err)
	slices.Sort(files)
	list, err := libcni.ConfListFromFile(files[0]) // as a runtime chooses
	must(t, err)
	m.StartHost()
	m.Expect(soon, "Unknown", "AwaitingFirstRenewal")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cni := libcni.NewCNIConfigWithCacheDir([]string{m.binDir}, m.file("cache"), nil)
	inOwnNetwork(t, func(pod string) {
		attachment := &libcni.RuntimeConf{ContainerID: "c1", NetNS: pod, IfName: "eth0",
			Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", "p"}}}
		m.refuses("before the first renewal", cni, list, attachment)
		elsewhere(func() {
			m.StartDPU()
			m.Expect(soon, "Ready", "LeaseRenewed")
		})
		if err := cni.GetStatusNetworkList(ctx, list); err != nil {
			t.Errorf("STATUS of a live DPU: %v", err)
		}
		if _, err := cni.AddNetworkList(ctx, list, attachment); err != nil {
			t.Errorf("ADD of a live DPU: %v", err)
		}
		elsewhere(func() {
			m.DPU.Kill()
			m.Expect(duration+soon, "NotReady", "LeaseExpired")
		})
		if err := cni.DelNetworkList(ctx, list, attachment); err != nil {
			t.Errorf("DEL with a dead DPU: %v", err)
		}
		if left, _ := filepath.Glob(m.file("attachments/10.88.*")); len(left) != 0 {
			t.Errorf("DEL left %v", left)
		}
		m.refuses("of a dead DPU", cni, list, attachment)
	})
}
