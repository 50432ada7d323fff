// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http/httpproxy"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

const (
	seed     = 44
	mixtures = 300
	workers  = 4
	leases   = "/apis/coordination.k8s.io/v1/namespaces/ovn-kubernetes/leases"
)

// outcome is what came of a kubeconfig: it was refused, or the request failed (with an error), or a server saw it.
type outcome struct {
	refused bool
	err     string
	seen    *visit
}

func (o outcome) String() string {
	switch {
	case o.seen != nil:
		return fmt.Sprintf("%+v", *o.seen)
	case o.refused:
		return "refused: " + o.err
	}
	return "failed: " + o.err
}

// first is the visit to the leases: dpuctl asks for more.
func first(visits []visit) *visit {
	for i := range visits {
		if strings.HasSuffix(visits[i].path, leases) {
			return &visits[i]
		}
	}
	return nil
}

// byClientGo asks as kubectl would. list: paths as in KUBECONFIG; else there is one, as of --kubeconfig.
func byClientGo(w *world, paths string, isList bool, env map[string]string) outcome {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: paths}
	if isList {
		rules = &clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(paths)}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return outcome{refused: true, err: err.Error()}
	}
	if config.Proxy == nil { // net/http reads the environment once in a process
		choose := (&httpproxy.Config{
			HTTPProxy: env["HTTP_PROXY"], HTTPSProxy: env["HTTPS_PROXY"], NoProxy: env["NO_PROXY"],
		}).ProxyFunc()
		config.Proxy = func(r *http.Request) (*url.URL, error) { return choose(r.URL) }
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return outcome{refused: true, err: err.Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = client.Get().AbsPath(leases).MaxRetries(0).Do(ctx).Error()
	seen := first(w.take())
	if seen == nil && err != nil {
		return outcome{err: err.Error()}
	}
	return outcome{seen: seen}
}

// byUs asks with dpuctl, whose reader is that of the agents.
func byUs(t *testing.T, w *world, paths string, isList bool, env map[string]string) outcome {
	t.Helper()
	cmd := exec.Command(dpuctl(t), "nodes", "--api-timeout=5s")
	cmd.Env = []string{"HOME=" + w.dir, "PATH=/usr/bin:/bin"}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if isList {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+paths)
	} else {
		cmd.Args = append(cmd.Args, "--kubeconfig="+paths)
	}
	said, err := cmd.CombinedOutput()
	seen := first(w.take())
	if seen == nil && err == nil {
		t.Fatalf("dpuctl says nothing of a failure: %s", said)
	}
	text := string(said)
	return outcome{seen: seen, refused: seen == nil && !strings.Contains(text, "listing leases: GET"), err: text}
}

// dpuctl is the one under test: of an installation, or of a build.
func dpuctl(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("DPU_BIN_DIR")
	for _, name := range []string{"bin/dpuctl", "dpuctl/dpuctl", "dpuctl"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); dir != "" && err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	if os.Getenv("DPU_E2E") == "required" {
		t.Fatalf("no dpuctl in DPU_BIN_DIR=%s", dir)
	}
	t.Skip("set DPU_BIN_DIR to where dpuctl is; tests/e2e/run.sh conf does")
	return ""
}

// counts is what was looked at.
type counts struct {
	agreed, refusedByBoth, failedByBoth, refusedByUs, lenient int
}

func (c *counts) add(o counts) {
	c.agreed += o.agreed
	c.refusedByBoth += o.refusedByBoth
	c.failedByBoth += o.failedByBoth
	c.refusedByUs += o.refusedByUs
	c.lenient += o.lenient
}

// judge compares what came of one kubeconfig; "" if all is as it should be.
func judge(c *counts, pieces []piece, theirs, ours outcome) string {
	var refused, lenient, differs bool
	for _, p := range pieces {
		refused = refused || (p.refused != "" && ours.refused && strings.Contains(ours.err, p.refused))
		lenient = lenient || p.lenient != ""
		differs = differs || p.differs != ""
	}
	switch {
	case theirs.seen != nil && ours.seen != nil:
		a, b := *theirs.seen, *ours.seen
		if differs {
			b.authorization = a.authorization
		}
		if !reflect.DeepEqual(a, b) {
			return "they differ"
		}
		c.agreed++
	case refused:
		c.refusedByUs++
	case theirs.seen != nil:
		return "what client-go takes is neither taken nor refused by the table"
	case ours.seen != nil:
		if !lenient {
			return "we take what client-go does not, and the table does not say why"
		}
		c.lenient++
	case ours.refused:
		c.refusedByBoth++
	case theirs.refused:
		return "what client-go refuses is tried in vain"
	default:
		c.failedByBoth++
	}
	return ""
}

// silence ends what client-go logs of each wrong certificate.
func silence(t *testing.T) {
	t.Helper()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for _, words := range [][2]string{{"logtostderr", "false"}, {"stderrthreshold", "FATAL"}} {
		if err := flags.Set(words[0], words[1]); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(io.Discard)
}

func TestGivenAnyKubeconfigWhenClientGoAndWeReadItThenTheSameServerSeesTheSame(t *testing.T) {
	began := time.Now()
	dpuctl(t)
	silence(t)
	all := choices(seed, mixtures)
	results := make([]counts, workers)
	stale := make([]map[string]bool, workers) // pieces of the table that made a difference when they stood alone
	t.Run("shards", func(t *testing.T) {
		for i := range workers {
			stale[i] = map[string]bool{}
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				for j := i; j < len(all); j += workers {
					path := w.write(t, "kubeconfig", w.fill(all[j].text()))
					theirs, ours := byClientGo(w, path, false, nil), byUs(t, w, path, false, nil)
					if why := judge(&results[i], all[j].pieces(), theirs, ours); why != "" {
						t.Errorf("%s\n  %s\n  client-go: %s\n  dpuctl: %s", all[j], why, theirs, ours)
					}
					for _, p := range all[j].pieces() {
						if p.isOnPurpose() && (p.differs != "" || (theirs.seen == nil) != (ours.seen == nil) || theirs.refused != ours.refused) {
							stale[i][fmt.Sprint(p)] = true
						}
					}
				}
			})
		}
	})
	var sum counts
	seen := map[string]bool{}
	for i := range workers {
		sum.add(results[i])
		for p := range stale[i] {
			seen[p] = true
		}
	}
	for _, c := range all {
		for _, p := range c.pieces() {
			if p.isOnPurpose() && !seen[fmt.Sprint(p)] {
				t.Errorf("%s (%s): the table says that it differs, and it never did", p.name, p.text)
				seen[fmt.Sprint(p)] = true
			}
		}
	}
	t.Logf("%d kubeconfigs in %.1f s: %+v", len(all), time.Since(began).Seconds(), sum)
	if sum.agreed < 200 || sum.refusedByBoth < 40 || sum.failedByBoth < 2 || sum.refusedByUs < 10 {
		t.Errorf("too little was looked at: %+v", sum)
	}
}

// special is what does not fit into the form: several files, another scheme, the environment.
var special = []struct {
	name  string
	files map[string]string // the rest of a kubeconfig; {NAME} is the world's
	paths string            // as in KUBECONFIG if isList, else one
	list  bool
	env   map[string]string
	piece
}{
	{name: "context and user in two files", list: true, paths: "{DIR}/a:{DIR}/b",
		files: map[string]string{"a": current + contexts + clusters, "b": users1}},
	{name: "the same in the other order", list: true, paths: "{DIR}/b:{DIR}/a",
		files: map[string]string{"a": current + contexts + clusters, "b": users1}},
	{name: "missing files and empty names", list: true, paths: ":{DIR}/none::{DIR}/a:{DIR}/none2:",
		files: map[string]string{"a": current + contexts + clusters + users1}},
	{name: "all are missing", list: true, paths: "{DIR}/none:{DIR}/none2"},
	{name: "the first user counts", list: true, paths: "{DIR}/a:{DIR}/b",
		files: map[string]string{"a": contexts + clusters + users1, "b": current + users2}},
	{name: "the first current-context counts", list: true, paths: "{DIR}/a:{DIR}/b",
		files: map[string]string{"a": "current-context: ''\n" + contexts, "b": current + "\n", "c": ""}},
	{name: "nothing is merged within a user", list: true, paths: "{DIR}/a:{DIR}/b", files: map[string]string{
		"a": current + contexts + clusters + "users: [{name: u, user: {as: x}}]\n", "b": users1}},
	{name: "files beside the file that names them", list: true, paths: "{DIR}/a:{DIR}/sub/b", files: map[string]string{
		"a": current + contexts + clusters, "sub/b": "users: [{name: u, user: {tokenFile: token}}]\n"}},
	{name: "an empty file", list: true, paths: "{DIR}/empty:{DIR}/a",
		files: map[string]string{"a": current + contexts + clusters + users1}},
	{name: "a broken file", list: true, paths: "{DIR}/a:{DIR}/b",
		files: map[string]string{"a": current + contexts + clusters + users1, "b": "a: ["}},
	{name: "the same file twice", list: true, paths: "{DIR}/a:{DIR}/a",
		files: map[string]string{"a": current + contexts + clusters + users1}},
	{name: "a colon in the name of one file", paths: "{DIR}/a:b",
		files: map[string]string{"a:b": current + contexts + clusters + users1}},
	{name: "one file of a list", paths: "{DIR}/a:{DIR}/b",
		files: map[string]string{"a": current + contexts + clusters + users1, "b": ""}},
	{name: "http", paths: "{DIR}/a", piece: piece{differs: "a token is sent over http, too, as to kubectl proxy"},
		files: map[string]string{"a": current + contexts + users1 +
			"clusters: [{name: c, cluster: {server: 'http://127.0.0.1:{PLAIN}'}}]\n"}},
	{name: "http and another name", paths: "{DIR}/a", piece: piece{differs: "the same"},
		files: map[string]string{"a": current + contexts + users1 +
			"clusters: [{name: c, cluster: {server: 'http://127.0.0.1:{PLAIN}/x', tls-server-name: api.example}}]\n"}},
	{name: "HTTPS_PROXY for a name", paths: "{DIR}/a", files: far, env: map[string]string{"HTTPS_PROXY": "http://127.0.0.1:{PROXY}"}},
	{name: "HTTPS_PROXY without a scheme", paths: "{DIR}/a", files: far, env: map[string]string{"HTTPS_PROXY": "127.0.0.1:{PROXY}"}},
	{name: "HTTPS_PROXY with a password", paths: "{DIR}/a", files: far, env: map[string]string{"HTTPS_PROXY": "http://a:b@127.0.0.1:{PROXY}"}},
	{name: "HTTPS_PROXY of SOCKS", paths: "{DIR}/a", files: far, env: map[string]string{"HTTPS_PROXY": "socks5://127.0.0.1:{SOCKS}"}},
	{name: "HTTPS_PROXY of https", paths: "{DIR}/a", files: far, env: map[string]string{"HTTPS_PROXY": "https://127.0.0.1:{SPROXY}"}},
	{name: "NO_PROXY of others", paths: "{DIR}/a", files: far,
		env: map[string]string{"HTTPS_PROXY": "http://127.0.0.1:{PROXY}", "NO_PROXY": "example:444,10.0.0.0/8,.api.example"}},
	{name: "HTTPS_PROXY and the loopback", paths: "{DIR}/a", env: map[string]string{"HTTPS_PROXY": "http://127.0.0.1:{PROXY}"},
		files: map[string]string{"a": current + contexts + clusters + users1}},
	{name: "curl's own variable", paths: "{DIR}/a", env: map[string]string{"ALL_PROXY": "http://127.0.0.1:{PROXY}"},
		files: map[string]string{"a": current + contexts + clusters + users1}},
	{name: "proxy-url in spite of NO_PROXY", paths: "{DIR}/a", env: map[string]string{"NO_PROXY": "*", "no_proxy": "*"},
		files: map[string]string{"a": current + contexts + users1 + "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:{TLS}', " +
			"certificate-authority: ca.crt, proxy-url: 'http://127.0.0.1:{PROXY}'}}]\n"}},
	{name: "proxy-url before HTTPS_PROXY", paths: "{DIR}/a", env: map[string]string{"HTTPS_PROXY": "socks5://127.0.0.1:{SOCKS}"},
		files: map[string]string{"a": current + contexts + users1 + "clusters: [{name: c, cluster: {server: 'https://api.example:6443', " +
			"certificate-authority: ca.crt, proxy-url: 'http://127.0.0.1:{PROXY}'}}]\n"}},
	{name: "JSON", paths: "{DIR}/a", piece: piece{lenient: "client-go's YAML knows no '\\/', which JSON has"}, files: map[string]string{"a": "{\n\t\"current-context\": \"a\",\n\t\"contexts\": [{\"name\": \"a\", " +
		"\"context\": {\"cluster\": \"c\", \"user\": \"u\"}}],\n\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"https:\\/\\/127.0.0.1:{TLS}\"," +
		"\"certificate-authority\":\"ca.crt\"}}],\"users\":[{\"name\":\"u\",\"user\":{\"token\":\"\\u0061bc\"}}]}"}},
}

const (
	current  = "current-context: a\n"
	contexts = "contexts: [{name: a, context: {cluster: c, user: u}}]\n"
	clusters = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:{TLS}', certificate-authority: '{DIR}/ca.crt'}}]\n"
	users1   = "users: [{name: u, user: {token: one}}]\n"
	users2   = "users: [{name: u, user: {token: two}}]\n"
)

// far is a server that only a proxy reaches.
var far = map[string]string{"a": current + contexts + users1 +
	"clusters: [{name: c, cluster: {server: 'https://api.example:6443', certificate-authority: ca.crt}}]\n"}

func TestGivenListsSchemesAndProxiesWhenClientGoAndWeReadThemThenTheSameServerSeesTheSame(t *testing.T) {
	dpuctl(t)
	w := newWorld(t)
	var sum counts
	for _, c := range special {
		for name, text := range c.files {
			w.write(t, name, w.fill(text))
		}
		env := map[string]string{}
		for name, value := range c.env {
			env[name] = w.fill(value)
		}
		theirs, ours := byClientGo(w, w.fill(c.paths), c.list, env), byUs(t, w, w.fill(c.paths), c.list, env)
		if why := judge(&sum, []piece{c.piece}, theirs, ours); why != "" {
			t.Errorf("%s\n  %s\n  client-go: %s\n  dpuctl: %s", c.name, why, theirs, ours)
		}
		for name := range c.files {
			if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d cases: %+v", len(special), sum)
	if sum.agreed < 15 || sum.refusedByBoth < 3 {
		t.Errorf("too little was looked at: %+v", sum)
	}
}
