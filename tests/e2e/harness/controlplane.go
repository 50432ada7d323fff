// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const serviceAccountIssuer = "https://kubernetes.default.svc"

// auditPolicy records all requests and their answers: it is the tests' witness.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- level: Request
  resources:
  - {group: coordination.k8s.io, resources: [leases]}
  namespaces: [ovn-kubernetes]
- level: Metadata
`

// ControlPlane is etcd, kube-apiserver, kube-controller-manager and kube-scheduler on the loopback.
type ControlPlane struct {
	PKI    *PKI
	Dir    string // state, certificates and logs, ours alone
	Server string // https://127.0.0.1:PORT

	opts ControlPlaneOptions

	apiPort, etcdPort, etcdPeerPort int
	peerPort                        int // of the second API server
	etcd, api, peer, kcm, sch       *Process
}

// ControlPlaneOptions choose what is started.
type ControlPlaneOptions struct {
	// Dir must not exist or be empty.
	Dir string
	// Bin is the folder with kube-apiserver and so on.
	Bin string
	// APIOnly leaves the controller manager and the scheduler out.
	APIOnly bool
	// APIArgs are further flags of kube-apiserver.
	APIArgs []string
	// Gates are feature gates of all parts, as their flag --feature-gates has them.
	Gates string
}

// StartControlPlane returns once the admin may use it. On failure nothing is left running.
func StartControlPlane(ctx context.Context, o ControlPlaneOptions) (*ControlPlane, error) {
	c := &ControlPlane{Dir: o.Dir, opts: o}
	err := c.start(ctx)
	if err != nil {
		c.Stop()
		return nil, fmt.Errorf("control plane: %w\n%s", err, c.Diagnostics(20))
	}
	return c, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := os.MkdirAll(c.logDir(), 0o755); err != nil {
		return err
	}
	if err := c.prepareFiles(); err != nil {
		return err
	}
	if err := c.StartEtcd(); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	if c.opts.APIOnly {
		return nil
	}
	return c.startControllers(ctx)
}

func (c *ControlPlane) prepareFiles() error {
	var err error
	if c.PKI, err = NewPKI(c.file("pki")); err != nil {
		return err
	}
	ports, err := freePorts(4)
	if err != nil {
		return err
	}
	c.apiPort, c.peerPort, c.etcdPort, c.etcdPeerPort = ports[0], ports[1], ports[2], ports[3]
	c.Server = fmt.Sprintf("https://127.0.0.1:%d", c.apiPort)
	for _, name := range []string{"etcd", "apiserver"} {
		if err := c.PKI.Server(name); err != nil {
			return err
		}
	}
	if err := WriteFile(c.file("audit-policy.yaml"), auditPolicy, 0o644); err != nil {
		return err
	}
	for name, id := range map[string]Identity{
		"admin":              {User: "admin", Groups: []string{"system:masters"}},
		"controller-manager": {User: "system:kube-controller-manager"},
		"scheduler":          {User: "system:kube-scheduler"},
	} {
		base := c.file("pki/" + name)
		if err := c.PKI.Client(base, id); err != nil {
			return err
		}
		if err := c.PKI.Kubeconfig(c.file(name+".kubeconfig"), c.Server, Credential{CertBase: base}); err != nil {
			return err
		}
	}
	return nil
}

func (c *ControlPlane) AdminKubeconfig() string { return c.file("admin.kubeconfig") }

// AdminKubeconfigAt writes one to path, for whoever reaches the API server at another address.
func (c *ControlPlane) AdminKubeconfigAt(path, server string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return c.PKI.Kubeconfig(path, server, Credential{CertBase: c.file("pki/admin")})
}

func (c *ControlPlane) file(name string) string { return filepath.Join(c.Dir, name) }
func (c *ControlPlane) logDir() string          { return c.file("logs") }

func (c *ControlPlane) part(name string, args ...string) (*Process, error) {
	argv := append([]string{filepath.Join(c.opts.Bin, name)}, args...)
	return StartProcess(name, c.logDir(), nil, argv...)
}

// StartEtcd starts it on its data directory, which outlives StopEtcd.
func (c *ControlPlane) StartEtcd() error {
	peer := fmt.Sprintf("http://127.0.0.1:%d", c.etcdPeerPort)
	var err error
	c.etcd, err = c.part("etcd", "--name=etcd", "--data-dir="+c.EtcdData(),
		"--listen-client-urls="+c.EtcdURL(), "--advertise-client-urls="+c.EtcdURL(),
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=etcd="+peer, "--unsafe-no-fsync", "--log-level=warn",
		"--cert-file="+c.file("pki/etcd.crt"), "--key-file="+c.file("pki/etcd.key"),
		"--trusted-ca-file="+c.PKI.CAFile(), "--client-cert-auth")
	return err
}

// CompactEtcd forgets all versions but the present ones: nobody can resume a watch from an earlier one.
func (c *ControlPlane) CompactEtcd(ctx context.Context) error {
	answer, err := c.request(ctx, http.MethodPost, c.EtcdURL(), "/v3/kv/range", "etcd", `{"key":"AA=="}`)
	if err != nil {
		return err
	}
	var head struct {
		Header struct{ Revision string }
	}
	if err := json.Unmarshal(answer, &head); err != nil {
		return err
	}
	_, err = c.request(ctx, http.MethodPost, c.EtcdURL(), "/v3/kv/compaction", "etcd",
		fmt.Sprintf(`{"revision":%q,"physical":true}`, head.Header.Revision))
	return err
}

// StopEtcd ends etcd in order, so that its data directory may be copied.
func (c *ControlPlane) StopEtcd() { c.etcd.Stop() }

func (c *ControlPlane) EtcdData() string { return c.file("etcd") }

func (c *ControlPlane) EtcdURL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.etcdPort) }

// Etcd is the process, to be measured, or stopped and continued.
func (c *ControlPlane) Etcd() *Process { return c.etcd }

func (c *ControlPlane) EtcdMetrics(ctx context.Context) (string, error) {
	text, err := c.request(ctx, http.MethodGet, c.EtcdURL(), "/metrics", "etcd", "")
	return string(text), err
}

// StartAPIServer returns when /readyz says ok. The further flags hold until it is started again.
func (c *ControlPlane) StartAPIServer(ctx context.Context, more ...string) error {
	api, err := c.startAPI(ctx, "kube-apiserver", c.apiPort, more...)
	if api != nil {
		c.api = api
	}
	return err
}

// StartPeer starts a second API server on the same etcd, and returns its URL, which stays.
func (c *ControlPlane) StartPeer(ctx context.Context) (string, error) {
	peer, err := c.startAPI(ctx, "kube-apiserver-peer", c.peerPort)
	if peer != nil {
		c.peer = peer
	}
	return fmt.Sprintf("https://127.0.0.1:%d", c.peerPort), err
}

func (c *ControlPlane) Peer() *Process { return c.peer }

func (c *ControlPlane) startAPI(ctx context.Context, name string, port int, more ...string) (*Process, error) {
	args := append([]string{
		"--etcd-servers=" + c.EtcdURL(), "--etcd-cafile=" + c.PKI.CAFile(),
		"--etcd-certfile=" + c.file("pki/etcd.crt"), "--etcd-keyfile=" + c.file("pki/etcd.key"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + c.file("pki/apiserver.crt"),
		"--tls-private-key-file=" + c.file("pki/apiserver.key"),
		"--client-ca-file=" + c.PKI.CAFile(),
		"--service-account-issuer=" + serviceAccountIssuer,
		"--service-account-key-file=" + c.file("pki/sa.pub"),
		"--service-account-signing-key-file=" + c.file("pki/sa.key"),
		"--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--audit-policy-file=" + c.file("audit-policy.yaml"), "--audit-log-path=" + c.AuditLog(),
		"--audit-log-mode=blocking", "--audit-log-maxsize=4096", // one file: Audit reads no other
		// Keeps the lease's newest fields: the cases show that our agents leave them alone.
		"--feature-gates=CoordinatedLeaderElection=true", "--runtime-config=coordination.k8s.io/v1beta1=true",
		// A test that stops the server must not wait for its long watches.
		"--shutdown-delay-duration=0s",
		"--feature-gates=" + c.opts.Gates,
	}, append(c.opts.APIArgs, more...)...)
	api, err := StartProcess(name, c.logDir(), nil, append([]string{filepath.Join(c.opts.Bin, "kube-apiserver")}, args...)...)
	if err != nil {
		return nil, err
	}
	return api, Poll(ctx, 90*time.Second, 100*time.Millisecond, name+" /readyz", func() error {
		if !api.Alive() {
			return Final(fmt.Errorf("%s ended with status %d", name, api.ExitCode()))
		}
		_, err := c.request(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d", port), "/readyz", "admin", "")
		return err
	})
}

// KillAPIServer ends the API server as a crash would: every connection is cut.
func (c *ControlPlane) KillAPIServer() { c.api.Kill() }

// APIServer is the process, for tests that stop and continue it.
func (c *ControlPlane) APIServer() *Process { return c.api }

func (c *ControlPlane) AuditLog() string { return c.file("logs/audit.log") }

func (c *ControlPlane) startControllers(ctx context.Context) error {
	config := func(name string) string { return c.file(name + ".kubeconfig") }
	var err error
	kcm := config("controller-manager")
	c.kcm, err = c.part("kube-controller-manager", "--kubeconfig="+kcm,
		"--authentication-kubeconfig="+kcm, "--authorization-kubeconfig="+kcm,
		"--secure-port=0", "--leader-elect=false", "--use-service-account-credentials",
		"--service-account-private-key-file="+c.file("pki/sa.key"),
		"--cluster-signing-cert-file="+c.PKI.CAFile(), "--cluster-signing-key-file="+c.PKI.CAKeyFile(),
		"--root-ca-file="+c.PKI.CAFile(), "--node-monitor-period=1s",
		"--feature-gates="+c.opts.Gates)
	if err != nil {
		return err
	}
	c.sch, err = c.part("kube-scheduler", "--kubeconfig="+config("scheduler"),
		"--authentication-kubeconfig="+config("scheduler"),
		"--authorization-kubeconfig="+config("scheduler"),
		"--secure-port=0", "--leader-elect=false", "--feature-gates="+c.opts.Gates)
	if err != nil {
		return err
	}
	return Poll(ctx, 60*time.Second, 100*time.Millisecond, "the first service account", func() error {
		_, err := c.request(ctx, http.MethodGet, c.Server, "/api/v1/namespaces/default/serviceaccounts/default", "admin", "")
		return err
	})
}

// Namespace is where the leases are.
const Namespace = "ovn-kubernetes"

// PrepareNamespace makes the namespace, and applies the manifests in folder rbac ("" for none).
func (c *ControlPlane) PrepareNamespace(ctx context.Context, rbac string) error {
	if _, err := c.Kubectl(ctx, "create", "namespace", Namespace); err != nil || rbac == "" {
		return err
	}
	return c.Apply(ctx, rbac)
}

// Apply is kubectl apply of a file or a folder, as the admin.
func (c *ControlPlane) Apply(ctx context.Context, path string) error {
	_, err := c.Kubectl(ctx, "apply", "-f", path)
	return err
}

// Kubectl runs the cluster's kubectl as the admin and returns what it said.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.opts.Bin, "kubectl"),
		append([]string{"--kubeconfig", c.AdminKubeconfig()}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// Admin returns a client that may do everything, without client-side limits.
func (c *ControlPlane) Admin() (*kubernetes.Clientset, error) { return ClientFor(c.AdminKubeconfig()) }

// ClientFor returns a client for a kubeconfig, each request bounded.
func ClientFor(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst, config.Timeout = -1, -1, 30*time.Second
	config.WarningHandler = rest.NoWarnings{}
	return kubernetes.NewForConfig(config)
}

// request makes one request with the client certificate of that name.
func (c *ControlPlane) request(ctx context.Context, method, server, path, name, body string) ([]byte, error) {
	base := c.file("pki/" + name)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server, Timeout: 10 * time.Second,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.PKI.CAFile(), CertFile: base + ".crt", KeyFile: base + ".key"}})
	if err != nil {
		return nil, err
	}
	return client.RESTClient().Verb(method).AbsPath(path).Body([]byte(body)).DoRaw(ctx)
}

// Stop ends everything, last started first.
func (c *ControlPlane) Stop() {
	c.sch.Kill()
	c.kcm.Kill()
	c.peer.Kill()
	c.api.Kill()
	c.etcd.Kill()
}

func (c *ControlPlane) Diagnostics(lines int) string {
	return Tails(lines, c.etcd, c.api, c.peer, c.kcm, c.sch)
}

// AuditEvent is what the tests need of one line of the API server's audit log.
type AuditEvent struct {
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	URI   string `json:"requestURI"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time       `json:"requestReceivedTimestamp"`
	Request  json.RawMessage `json:"requestObject"`
}

// Audit returns what user asked for in [since, until), each request once, in the order of the answers: a watch when it
// was answered, any other when it is done.
func (c *ControlPlane) Audit(user string, since, until time.Time) ([]AuditEvent, error) {
	f, err := os.Open(c.AuditLog())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var events []AuditEvent
	name := fmt.Appendf(nil, "%q", user)
	lines := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return events, nil // what follows the last newline is still being written
		}
		if err != nil {
			return nil, err
		}
		if !bytes.Contains(line, name) {
			continue // the file is that of every test: to parse it whole takes seconds
		}
		var e AuditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		counted := "ResponseComplete"
		if e.Verb == "watch" && e.Response.Code == 200 {
			counted = "ResponseStarted"
		}
		if e.User.Username == user && e.Stage == counted &&
			!e.Received.Before(since) && e.Received.Before(until) {
			events = append(events, e)
		}
	}
}
