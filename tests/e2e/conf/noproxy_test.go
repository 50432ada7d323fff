// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"fmt"
	"math/rand"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/http/httpproxy"
)

const lists = 20000

var hosts = []string{
	"api.example", "API.Example", "example", "api.example.", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	"localhost", "LOCALHOST", "localhost.", "localhost.example", "a-b.c_d.example", "10.0.0.1", "10.96.0.1", "11.0.0.1",
	"127.0.0.1", "127.255.0.9", "192.0.2.77", "[::1]", "[2001:db8::1]", "[2001:DB8:0::1]", "[fd00:1:2::3]",
	"[::ffff:10.0.0.1]", "[::ffff:127.0.0.1]", "[fe80::1%25eth0]", "[::]", "0.0.0.0", "255.255.255.255",
}

var entries = []string{
	"", " ", "*", "*.", ".", "..", ":", ":443", "::", "*x", "*.example", ".example", "example", "EXAMPLE", "api.example", "pi.example",
	"*.api.example", ".api.example", "..example", "example.", "svc", "*.svc", ".svc", "cluster.local", "localhost", "local",
	"10.0.0.1", "10.0.0.0", "010.0.0.1", "10.0.0", "10", "0.0.1", "127.0.0.1", "192.0.2.77", "::1", "[::1]", "2001:db8::1",
	"2001:db8:0:0:0:0:0:1", "2001:DB8::1", "[2001:db8::1]", "[2001:db8::1", "2001:db8::1]", "::ffff:10.0.0.1", "fe80::1",
	"fe80::1%eth0", "fe80::/10", "10.0.0.0/8", "10.0.0.1/8", "10.0.0.1/32", "10.0.0.0/33", "10.0.0.0/0", "10.0.0.0/", "10.0.0.0/-1",
	"10.0.0.0/08", "10.0.0.0/+8", "10.0.0.0/8/8", "010.0.0.0/8", "10.0.0/8", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:db8::/31",
	"fd00::/8", "fd00:1:2::/48", "::ffff:10.0.0.0/104", "::ffff:10.0.0.0/96", "::ffff:10.0.0.0/95", "::ffff:0:0/90", "::10.0.0.1/128",
	"fe80::1%eth0/64", "example/8", "https://example", "a b", "a\u00a0b", "x,y", "[10.0.0.1]", "[example]", "[]", "[",
	"]", "*.*", "**", "a_b", "c_d.example",
}

var ports = []string{"", "", "", ":443", ":6443", ":80", ":0443", ":", ":*", ":https", "::443", ":443:443"}

// draw is a server and a list, seldom of one entry and often of several.
func draw(random *rand.Rand) (string, string) {
	scheme := []string{"https", "http"}[random.Intn(2)]
	server := fmt.Sprintf("%s://%s%s", scheme, hosts[random.Intn(len(hosts))], []string{"", ":443", ":6443", ":80", ":"}[random.Intn(5)])
	var list []string
	for range 1 + random.Intn(3) {
		entry := entries[random.Intn(len(entries))] + ports[random.Intn(len(ports))]
		switch random.Intn(8) {
		case 0:
			entry = "[" + entry + "]" + ports[random.Intn(len(ports))]
		case 1:
			entry = " " + entry + "\t"
		case 2: // damage it
			if n := len(entry); n > 0 {
				at := random.Intn(n)
				entry = entry[:at] + string(".:*/[]0%"[random.Intn(8)]) + entry[at:]
			}
		}
		list = append(list, entry)
	}
	return server, strings.Join(list, ",")
}

// compileOurs makes the program that answers for the agents' own reader.
func compileOurs(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "no_proxy")
	args := []string{"-O1", "-D_GNU_SOURCE", "-I" + root, "-I" + root + "/common", "-o", out, root + "/tests/e2e/conf/noproxy/no_proxy.c"}
	for _, name := range []string{"kube/kube_url", "base/err", "base/mem", "base/text"} {
		args = append(args, root+"/common/"+name+".c")
	}
	if said, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return out
}

func TestGivenAnyNoProxyWhenGoAndWeReadItThenTheSameServersAreReachedDirectly(t *testing.T) {
	random := rand.New(rand.NewSource(seed))
	var input strings.Builder
	var asked [][2]string
	for _, host := range hosts { // each with each, then mixtures
		for _, entry := range entries {
			asked = append(asked, [2]string{"https://" + host + ":6443", entry})
		}
	}
	for range lists {
		server, list := draw(random)
		asked = append(asked, [2]string{server, list})
	}
	for _, a := range asked {
		fmt.Fprintf(&input, "%s\t%s\n", a[0], a[1])
	}
	ours := exec.Command(compileOurs(t))
	ours.Stdin = strings.NewReader(input.String())
	said, err := ours.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := strings.Fields(string(said))
	if len(answers) != len(asked) {
		t.Fatalf("%d answers to %d questions", len(answers), len(asked))
	}
	count := map[string]int{}
	for i, a := range asked {
		parsed, err := url.Parse(a[0])
		if err != nil {
			t.Fatal(err)
		}
		proxy := &httpproxy.Config{HTTPProxy: "http://p:1", HTTPSProxy: "http://p:1", NoProxy: a[1]}
		where, err := proxy.ProxyFunc()(parsed)
		if err != nil {
			t.Fatal(err)
		}
		theirs := "proxy"
		if where == nil {
			theirs = "direct"
		}
		if theirs != answers[i] {
			t.Errorf("NO_PROXY=%q and %s: %s in Go, %s here", a[1], a[0], theirs, answers[i])
		}
		count[theirs]++
	}
	t.Logf("%d lists: %v", len(asked), count)
	if count["direct"] < 2000 || count["proxy"] < 2000 {
		t.Errorf("too little was looked at: %v", count)
	}
}
