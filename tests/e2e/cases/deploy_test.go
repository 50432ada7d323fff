// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dpu-heartbeat.test/e2e/harness"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const deployDir = "../../../deploy"

// serverTakes has a real server look at manifests; an unknown field is a warning.
func serverTakes(t *testing.T, manifests ...string) string {
	t.Helper()
	out := kubectl(t, shared.control, append([]string{"apply", "--dry-run=server", "--validate=strict"}, manifests...)...)
	if strings.Contains(out, "Warning") {
		t.Fatal(out)
	}
	return out
}

// The whole of each overlay, as the admission chain of a real server takes it.
func TestGivenTheOverlaysWhenTheyAreAppliedThenTheServerTakesAllOfThemWithoutAWarning(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"host-cluster", "host-cluster-dra", "dpu-cluster"} {
		t.Run(overlay, func(t *testing.T) {
			out := serverTakes(t, "-k", filepath.Join(deployDir, "kustomize", "overlays", overlay))
			if !strings.Contains(out, "daemonset.apps/") {
				t.Fatal(out)
			}
		})
	}
}

// flowOf asks for path, and returns by which FlowSchema and priority level that was queued.
func flowOf(t *testing.T, kubeconfig, path string) (schema, level string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	transport, err := rest.TransportFor(config)
	must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	must(t, err)
	answer, err := transport.RoundTrip(request)
	must(t, err)
	answer.Body.Close()
	return answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID"), answer.Header.Get("X-Kubernetes-PF-PriorityLevel-UID")
}

func TestGivenTheFlowSchemaWhenHeartbeatsAreSentThenTheyAreQueuedWithThoseOfNodes(t *testing.T) {
	t.Parallel()
	p := newPair(t, shared.control, shared.admin)
	kubectl(t, shared.control, "apply", "-k", filepath.Join(deployDir, "kustomize", "priority"))
	ours, err := shared.admin.FlowcontrolV1().FlowSchemas().Get(t.Context(), "dpu-heartbeat", meta.GetOptions{})
	must(t, err)
	nodes, err := shared.admin.FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), "node-high", meta.GetOptions{})
	must(t, err)
	account := credential(t, p.Node, "--token")
	lease := "/apis/coordination.k8s.io/v1/namespaces/" + harness.Namespace + "/leases/" + p.LeaseName()
	for _, c := range []struct {
		name, kubeconfig, path string
		first                  bool
	}{
		{"a_DPUs_lease_by_certificate", p.file("dpu.kubeconfig"), lease, true},
		{"a_DPUs_lease_by_token", filepath.Join(account, "kubeconfig"), lease, true},
		{"a_hosts_lease", p.file("host.kubeconfig"), lease, true},
		{"a_hosts_node", p.file("host.kubeconfig"), "/api/v1/nodes/" + p.Node, true},
		{"anything_else_of_a_host", p.file("host.kubeconfig"), "/api/v1/namespaces/" + harness.Namespace + "/pods", false},
		{"anything_else_of_a_DPU", p.file("dpu.kubeconfig"), "/api/v1/nodes/" + p.Node, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			// The server reads a new FlowSchema a moment after it was made.
			poll(t, soon, "its queue", func() error {
				schema, level := flowOf(t, c.kubeconfig, c.path)
				isFirst := schema == string(ours.UID) && level == string(nodes.UID)
				if isFirst != c.first {
					return fmt.Errorf("FlowSchema %q, priority level %q", schema, level)
				}
				return nil
			})
		})
	}
}

// credential runs deploy/dpu-kubeconfig as the admin and returns its folder.
func credential(t *testing.T, node string, more ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dpu")
	must(t, runCredential(t.Context(), append([]string{node, dir}, more...)...))
	return dir
}

func runCredential(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(deployDir, "dpu-kubeconfig"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.control.AdminKubeconfig(),
		"PATH="+shared.parts+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// runBy runs an agent with what dpu-kubeconfig made for it in dir.
func (p *pair) runBy(dir, agent string, more ...string) *harness.Process {
	p.t.Helper()
	return p.run(agent, append([]string{"--config", filepath.Join(dir, agent+".yaml"), "--kubeconfig", filepath.Join(dir, "kubeconfig"),
		"--http-bind-address", "127.0.0.1:0", "--dpu-node-lease-renew-interval", interval.String(),
		"--dpu-node-lease-duration", duration.String()}, more...))
}

// bothBy runs both agents by credentials that are made so, waits until the DPU is Ready, and returns their folders.
func (p *pair) bothBy(how ...string) (host, dpu string) {
	p.t.Helper()
	host, dpu = credential(p.t, p.Node, append(how, "--host")...), credential(p.t, p.Node, how...)
	p.Host = p.runBy(host, "dpu-host-agent", "--readiness-file", p.RecordFile())
	p.DPU = p.runBy(dpu, "dpu-agent")
	p.Expect(soon, "Ready", "LeaseRenewed")
	return host, dpu
}

func TestGivenCredentialsForOneNodeWhenItsAgentsUseThemThenTheyWriteThatLeaseAndNoOther(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"--token", "--certificate"} {
		t.Run(strings.TrimPrefix(kind, "--"), func(t *testing.T) {
			p := newSharedPair(t)
			other := newPair(t, shared.control, shared.admin)
			host, dpu := p.bothBy(kind, "--duration", "1")

			_, err := in(clientOf(t, filepath.Join(host, "kubeconfig"))).Create(t.Context(), leaseOf(other), meta.CreateOptions{})
			refusedWith(t, "its own lease", "another host's lease", err)
			other.createLease()
			renewing := edit(clientOf(t, filepath.Join(dpu, "kubeconfig")), other, renewed)
			refusedWith(t, "its own lease", "another DPU's lease", renewing(t.Context()))

			// A new one in its place is taken up without a gap.
			must(t, runCredential(t.Context(), p.Node, dpu, kind, "--duration", "2"))
			p.StaysFor(duration+interval, "Ready")
		})
	}
}

func TestGivenADPUsTokenWhenItsNodeIsDeletedOrItIsRevokedThenItIsWorthNothing(t *testing.T) {
	t.Parallel()
	ends := func(end func(p *pair)) func(*testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			p := newPair(t, shared.control, shared.admin)
			c := clientOf(t, filepath.Join(credential(t, p.Node), "kubeconfig"))
			poll(t, soon, "the token works", func() error { return may(c, p) })
			end(p)
			poll(t, soon, "the token works no more", func() error {
				if may(c, p) == nil {
					return fmt.Errorf("it does")
				}
				return nil
			})
		}
	}
	t.Run("deleted", ends(func(p *pair) { p.makeNodeAnew() }))
	t.Run("revoked", ends(func(p *pair) { must(t, runCredential(t.Context(), p.Node, "--revoke")) }))
}

// may says whether c may still ask for the lease of p, there or not.
func may(c *kubernetes.Clientset, p *pair) error {
	_, err := in(c).Get(context.Background(), p.LeaseName(), meta.GetOptions{})
	if err != nil && strings.Contains(err.Error(), "not found") {
		return nil
	}
	return err
}

func TestGivenBadArgumentsWhenACredentialIsAskedForThenItSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no_such_node":  {[]string{"nobody-here", t.TempDir()}, "nobody-here"},
		"no_name":       {[]string{"Not A Node", t.TempDir()}, "is no name of a Node"},
		"no_directory":  {[]string{realNode}, "DIRECTORY is missing"},
		"no_hours":      {[]string{realNode, t.TempDir(), "--duration", "1d"}, "whole hours"},
		"no_end":        {[]string{realNode, "--host", "--revoke"}, "all hosts"},
		"no_end_of_DRA": {[]string{realNode, "--dra", "--revoke"}, "dpu-dra-driver"},
		"no_TLS":        {[]string{realNode, t.TempDir(), "--server", "http://x"}, "https://"},
	} {
		t.Run(name, func(t *testing.T) {
			refusedWith(t, c.says, name, runCredential(t.Context(), c.args...))
		})
	}
}
