// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// own text, its path, or a folder whose first file is ours.
func TestGivenMultusInFrontOfTheGateWhenTheDPULivesAndDiesThenStatusAndAddFollow(t *testing.T) {
	m := newMultusNode(t)
	must(t, harness.WriteFile(m.file("net.d/"+ovnConf), "{"+m.plugin+"}", 0o600))
	clusterNetwork := func(path string) string {
		return fmt.Sprintf(`"kubeconfig":%q,"clusterNetwork":%q`, shared.control.AdminKubeconfig(), path)
	}
	// Of a list that it is given by path, Multus 4.3.0 asks STATUS with no more than type and name: the gate looks for
	// its record in the default place, and cannot ask the plugin behind it.
	m.gate("install-cni", "--cni-form=list")
	err := m.library(nil).GetStatusNetworkList(t.Context(), m.list("1.1.0", clusterNetwork(m.file("net.d/05-dpu-gate.conflist"))))
	refusedWith(t, recordInNode, "STATUS of a list by path", err)

	// One plugin in a .conf is passed on whole.
	m.gate("install-cni")
	delegate := fmt.Sprintf(`"delegates":[%s]`, readFile(t, m.file("net.d/"+ourConf)))
	path, folder := clusterNetwork(m.file("net.d/"+ourConf)), clusterNetwork(m.file("net.d"))
	m.follows(m.list("1.1.0", delegate), m.list("1.1.0", path), m.list("1.1.0", folder), m.list("0.3.1", delegate),
		m.list("0.3.1", folder))
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

// generator is Multus's own writer of its configuration: the thick daemon, or the thin plugin's entrypoint.
type generator struct {
	program string
	made    string // the file that it writes
	status  uint   // the code of a refusal that reaches the runtime
}

var (
	thick = generator{"multus-daemon", "00-multus.conf", types.ErrInternal}
	thin  = generator{"thin_entrypoint", "00-multus.conflist", types.ErrPluginNotAvailable}
)

// generates starts it with the first configuration of the folder, or with primary, and returns when its own is there.
// Both want a service account's files in their well-known place, which is a tmpfs of their own, and reach the API
// server, so the plugin behind them is one that makes no network.
func (m multusNode) generates(g generator, primary string) {
	t := m.t
	t.Helper()
	m.installs(g.program, g.program)
	m.installs("multus-shim", "multus-shim")
	must(t, os.Remove(m.file("bin/ovn-k8s-cni-overlay")))
	must(t, harness.WriteFile(m.file("bin/ovn-k8s-cni-overlay"), fmt.Sprintf(`#!/bin/sh
cat >/dev/null
case $CNI_COMMAND in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}' ;;
ADD) mkdir -p %[1]s/n && touch %[1]s/n/10.88.0.2 && echo '{"cniVersion":"1.1.0","ips":[{"address":"10.88.0.2/24"}]}' ;;
DEL) rm -f %[1]s/n/10.88.0.2 ;;
esac
`, m.file("addresses")), 0o755))
	account, err := m.admin.CoreV1().ServiceAccounts(harness.Namespace).Create(t.Context(),
		&core.ServiceAccount{ObjectMeta: meta.ObjectMeta{GenerateName: "multus-"}}, meta.CreateOptions{})
	must(t, err)
	binding, err := m.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{GenerateName: "multus-"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbac.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}}}, meta.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = m.admin.RbacV1().ClusterRoleBindings().Delete(context.Background(), binding.Name, meta.DeleteOptions{})
	})
	token, err := shared.control.PKI.Token(harness.TokenRequest{Namespace: account.Namespace, Name: account.Name,
		UID: string(account.UID), Lifetime: time.Hour})
	must(t, err)
	must(t, harness.WriteFile(m.file("token"), token, 0o600))
	must(t, harness.WriteFile(m.file("ca.crt"), readFile(t, shared.control.PKI.CAFile()), 0o600))
	host, port, _ := strings.Cut(strings.TrimPrefix(shared.control.Server, "https://"), ":")
	const place = "/run/secrets/kubernetes.io/serviceaccount"
	script := fmt.Sprintf(`mount -t tmpfs none /run && mkdir -p %[1]s && cp %[2]q %[3]q %[1]s/ && exec "$@"`,
		place, m.file("token"), m.file("ca.crt"))
	argv := append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", m.file("bin/" + g.program)},
		m.generatorFlags(g, primary)...)
	process, err := harness.StartProcess(g.program, m.Dir, []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}, argv...)
	must(t, err)
	t.Cleanup(process.Stop)
	poll(t, 2*soon, g.program+" writes its configuration", func() error { // the daemon waits 20 s for definitions that are not there
		if text, err := os.ReadFile(m.file("net.d/" + g.made)); err != nil || len(text) == 0 {
			return fmt.Errorf("%v\n%s", err, process.Tail(5))
		}
		return nil
	})
}

func (m multusNode) generatorFlags(g generator, primary string) []string {
	m.t.Helper()
	if g == thin {
		must(m.t, os.Mkdir(m.file("multus.d"), 0o755))
		return []string{"--cni-bin-dir=" + m.file("bin"), "--cni-conf-dir=" + m.file("net.d"), "--multus-autoconfig-dir=" + m.file("net.d"),
			"--multus-cni-conf-dir=" + m.file("multus.d"), "--multus-kubeconfig-file-host=" + shared.control.AdminKubeconfig(),
			"--skip-multus-binary-copy", "--multus-bin-file=" + m.file("bin/multus"), "--multus-master-cni-file-name=" + primary}
	}
	sockets := m.t.TempDir() // short enough for a socket's name
	config := fmt.Sprintf(`{"cniVersion":"1.1.0","logLevel":"verbose","logToStderr":true,"multusConfigFile":"auto","cniConfigDir":%[1]q,
"multusAutoconfigDir":%[1]q,"multusMasterCNI":%[2]q,"binDir":%[3]q,"cniDir":%[4]q,"socketDir":%[5]q,"daemonSocketDir":%[5]q}`,
		m.file("net.d"), primary, m.file("bin"), m.file("multus-cache"), sockets)
	must(m.t, harness.WriteFile(m.file("daemon-config.json"), config, 0o600))
	return []string{"--config", m.file("daemon-config.json")}
}

// followsGenerated has the DPU live and die behind the first configuration by name, as a runtime takes it: STATUS, ADD
// and DEL reach the plugin, and a dead DPU is refused.
func (m multusNode) followsGenerated(status uint) {
	t := m.t
	t.Helper()
	list, err := m.network()
	must(t, err)
	cni := m.library(nil)
	m.pod(m.Node, m.Node)
	pod := &libcni.RuntimeConf{ContainerID: "c1", NetNS: networkPath(newNetwork(t)), IfName: "eth0",
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", m.Node}}}
	m.StartHost()
	m.StartDPU()
	m.Expect(soon, "Ready", "LeaseRenewed")
	must(t, cni.GetStatusNetworkList(t.Context(), list))
	poll(t, soon, "ADD", func() error { // Multus knows the Pod a moment after it is made
		_, err := cni.AddNetworkList(t.Context(), list, pod)
		return err
	})
	addresses := func() []string { found, _ := filepath.Glob(m.file("addresses/*/10.88.*")); return found }
	if len(addresses()) != 1 {
		t.Errorf("ADD left %v", addresses())
	}
	m.killDPU()
	must(t, cni.DelNetworkList(t.Context(), list, pod))
	if len(addresses()) != 0 {
		t.Errorf("DEL left %v", addresses())
	}
	if err := cni.GetStatusNetworkList(t.Context(), list); code(err) != status || !strings.Contains(err.Error(), notReady) {
		t.Errorf("STATUS of a dead DPU: %v", err)
	}
	_, err = cni.AddNetworkList(t.Context(), list, pod)
	refusedWith(t, notReady, "ADD of a dead DPU", err)
}

// As both releases are installed: what they generate names, or copies, the first file of the folder, which is ours.
func TestGivenMultusGeneratesInFrontOfTheGateWhenTheDPULivesAndDiesThenStatusAddAndDelFollow(t *testing.T) {
	for _, g := range []generator{thick, thin} {
		t.Run(g.program, func(t *testing.T) {
			m := newMultusNode(t)
			part(t, g.program)
			must(t, harness.WriteFile(m.file("net.d/"+ovnConf), "{"+m.plugin+"}", 0o600))
			m.gate("install-cni")
			m.generates(g, ourConf)
			m.followsGenerated(g.status)
		})
	}
}

// The gate first, before what they generate.
func TestGivenTheGateInFrontOfWhatMultusGeneratesWhenTheDPULivesAndDiesThenStatusAddAndDelFollow(t *testing.T) {
	for _, g := range []generator{thick, thin} {
		t.Run(g.program, func(t *testing.T) {
			m := newMultusNode(t)
			part(t, g.program)
			must(t, harness.WriteFile(m.file("net.d/"+ovnConf), "{"+m.plugin+"}", 0o600))
			m.generates(g, ovnConf)
			m.gate("install-cni", "--cni-source="+g.made)
			m.followsGenerated(types.ErrPluginNotAvailable)
		})
	}
}
