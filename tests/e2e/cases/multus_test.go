// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"dpu-heartbeat.test/e2e/harness"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
)

// multusNode has Multus, and ptp under the name of ovn-kubernetes' plugin.
type multusNode struct {
	cniNode
	plugin string // the body of the plugin's configuration
}

func newMultusNode(t *testing.T) multusNode {
	t.Helper()
	part(t, "multus")
	m := multusNode{cniNode: newCNINode(t)}
	m.plugin = `"cniVersion":"1.1.0","name":"ovn-kubernetes",` + harness.PodNetwork("ovn-k8s-cni-overlay", m.file("addresses"))
	m.installs("multus", "multus")
	m.installs("ptp", "ovn-k8s-cni-overlay")
	m.installs("host-local", "host-local")
	return m
}

// multus is Multus's own file, of that version; more is how Multus finds the next plugin.
func (m multusNode) multus(version, more string) string {
	return fmt.Sprintf(`{"cniVersion":%q,"name":"multus-cni-network","type":"multus","binDir":%q,"cniDir":%q,"confDir":%q,%s}`,
		version, m.file("bin"), m.file("multus-cache"), m.file("net.d"), more)
}

// list is what a runtime makes of Multus's own file.
func (m multusNode) list(version, more string) *libcni.NetworkConfigList {
	m.t.Helper()
	conf, err := libcni.ConfFromBytes([]byte(m.multus(version, more)))
	must(m.t, err)
	list, err := libcni.ConfListFromConf(conf)
	must(m.t, err)
	return list
}

// refuses asks for STATUS and a Pod's network, and expects the gate's answer to both. By a version that is older than
// STATUS, nobody is asked for that. It asks for ADD again where Multus gave up before: it waits 2.5 s for the Pod's
// object, which a busy server may need.
func (m multusNode) refuses(when string, list *libcni.NetworkConfigList, pod *libcni.RuntimeConf) {
	m.t.Helper()
	cni := m.library(nil)
	if err := cni.GetStatusNetworkList(m.t.Context(), list); list.CNIVersion == "0.3.1" {
		must(m.t, err)
	} else if code(err) != types.ErrPluginNotAvailable || !strings.Contains(err.Error(), notReady) {
		m.t.Errorf("STATUS %s: %v", when, err)
	}
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

// follows has the DPU live and die. By each list the runtime is told; a Pod comes and goes by the first.
func (m multusNode) follows(lists ...*libcni.NetworkConfigList) {
	m.t.Helper()
	m.pod(m.Node, m.Node)
	pod := &libcni.RuntimeConf{ContainerID: "c1", NetNS: networkPath(newNetwork(m.t)), IfName: "eth0",
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", m.Node}}}
	m.StartHost()
	m.Expect(soon, "Unknown", "AwaitingFirstRenewal")
	for _, list := range lists {
		m.refuses("before the first renewal", list, pod)
	}

	m.StartDPU()
	m.Expect(soon, "Ready", "LeaseRenewed")
	for _, list := range lists {
		must(m.t, m.library(nil).GetStatusNetworkList(m.t.Context(), list))
	}
	inside := m.library(newPlugins(m.t)) // without a way to the API server
	made, err := inside.AddNetworkList(m.t.Context(), lists[0], pod)
	must(m.t, err)
	if result, err := current.GetResult(made); err != nil || len(result.IPs) != 1 {
		m.t.Errorf("the plugin's result came through as %v (%v)", made, err)
	}

	m.killDPU()
	must(m.t, inside.DelNetworkList(m.t.Context(), lists[0], pod))
	if left, _ := filepath.Glob(m.file("addresses/*/10.88.*")); len(left) != 0 {
		m.t.Errorf("DEL left %v", left)
	}
	for _, list := range lists {
		m.refuses("of a dead DPU", list, pod)
	}
}

// The thin plugin as it is released, between a runtime's library and what install-cni wrote: Multus has our file's
// own text, or a folder whose first file is ours.
func TestGivenMultusInFrontOfTheGateWhenTheDPULivesAndDiesThenStatusAndAddFollow(t *testing.T) {
	m := newMultusNode(t)
	must(t, harness.WriteFile(m.file("net.d/"+ovnConf), "{"+m.plugin+"}", 0o600))
	m.gate("install-cni")
	const ourFile = "net.d/05-dpu-gate.conflist"
	delegate := fmt.Sprintf(`"delegates":[%s]`, readFile(t, m.file(ourFile)))
	clusterNetwork := func(path string) string {
		return fmt.Sprintf(`"kubeconfig":%q,"clusterNetwork":%q`, shared.control.AdminKubeconfig(), path)
	}
	// Of a file that it is given by path, Multus 4.3.0 asks STATUS with no more than type and name:
	// the gate looks for its record in the default place, and cannot ask the plugin behind it.
	err := m.library(nil).GetStatusNetworkList(t.Context(), m.list("1.1.0", clusterNetwork(m.file(ourFile))))
	refusedWith(t, recordInNode, "STATUS of a file by path", err)

	folder := clusterNetwork(m.file("net.d"))
	m.follows(m.list("1.1.0", delegate), m.list("1.1.0", folder), m.list("0.3.1", delegate), m.list("0.3.1", folder))
}

// The other order: what Multus's own file says does not matter then.
func TestGivenTheGateInFrontOfMultusWhenTheDPULivesAndDiesThenStatusAndAddFollow(t *testing.T) {
	m := newMultusNode(t)
	must(t, harness.WriteFile(m.file("net.d/00-multus.conf"), m.multus("0.3.1", `"delegates":[{`+m.plugin+`}]`), 0o600))
	m.gate("install-cni", "--cni-source=00-multus.conf")
	list, err := m.network()
	must(t, err)
	m.follows(list)
}
