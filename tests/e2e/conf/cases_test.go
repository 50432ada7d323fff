// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"fmt"
	"math/rand"
	"strings"
)

// piece is one way to write one part of a kubeconfig. What differs on purpose is said here, and nowhere else:
type piece struct {
	name string
	text string // lines of the mapping; {NAME} is the world's
	// refused is what our refusal names, of something that client-go takes.
	refused string
	// lenient is why we take something that client-go does not.
	lenient string
	// differs is why we show another Authorization.
	differs string
}

func (p piece) isOnPurpose() bool { return p.refused != "" || p.lenient != "" || p.differs != "" }

var servers = []piece{
	{name: "address", text: "server: https://127.0.0.1:{TLS}"},
	{name: "IPv6 address", text: `server: "https://[::1]:{TLS6}"`},
	{name: "name", text: "server: https://localhost:{TLS}"},
	{name: "slash", text: "server: https://127.0.0.1:{TLS}/"},
	{name: "prefix", text: "server: 'https://127.0.0.1:{TLS}/a/b.c'"},
	{name: "prefix and slash", text: "server: https://127.0.0.1:{TLS}/a/"},
	{name: "upper-case scheme", text: "server: HTTPS://127.0.0.1:{TLS}"},
	{name: "block", text: "server: >-\n        https://127.0.0.1:{TLS}"},
	{name: "newline", text: `server: "https://127.0.0.1:{TLS}\n"`},
	{name: "bracketed IPv4", text: `server: "https://[127.0.0.1]:{TLS}"`},
	{name: "IPv6 without brackets", text: `server: "https://::1:{TLS6}"`},
	{name: "no scheme", text: "server: 127.0.0.1:{TLS}"},
	{name: "another scheme", text: "server: ftp://127.0.0.1:{TLS}"},
	{name: "no host", text: "server: https://:{TLS}", refused: "server"},
	{name: "no port", text: "server: https://127.0.0.1:x"},
	{name: "large port", text: "server: https://127.0.0.1:65536"},
	{name: "empty", text: "server: ''"},
	{name: "null", text: "server:"},
	{name: "a list", text: "server: [https://127.0.0.1:{TLS}]"},
	{name: "none", text: "extensions: []"},
	{name: "a user", text: "server: https://u:p@127.0.0.1:{TLS}", refused: "server"},
	{name: "a query", text: "server: https://127.0.0.1:{TLS}/a?b", refused: "server"},
	{name: "empty segment", text: "server: https://127.0.0.1:{TLS}/a//b", refused: "server"},
	{name: "dots", text: "server: https://127.0.0.1:{TLS}/a/../b", refused: "server"},
}

// An IPv6 address is refused beside a SOCKS proxy alone, where libcurl mistakes it for the server's.
var names = []piece{
	{name: "none", text: ""},
	{name: "a name", text: "tls-server-name: api.example"},
	{name: "an address", text: "tls-server-name: 10.0.0.1"},
	{name: "an IPv6 address", text: `tls-server-name: "::1"`, refused: "tls-server-name"},
	{name: "an IPv6 address in brackets", text: `tls-server-name: "[::1]"`, refused: "tls-server-name"},
	{name: "upper case", text: "tls-server-name: API.example"},
	{name: "empty", text: "tls-server-name: ''"},
	{name: "null", text: "tls-server-name: ~"},
	{name: "another", text: "tls-server-name: other.example"},
	{name: "with a port", text: `tls-server-name: "api.example:443"`, refused: "tls-server-name"},
	{name: "with a path", text: "tls-server-name: api.example/x", refused: "tls-server-name"},
}

var authorities = []piece{
	{name: "relative file", text: "certificate-authority: ca.crt"},
	{name: "absolute file", text: "certificate-authority: '{DIR}/ca.crt'"},
	{name: "file up and down", text: "certificate-authority: sub/../ca.crt"},
	{name: "data", text: "certificate-authority-data: {CA}"},
	{name: "data in lines", text: "certificate-authority-data: |\n        {CA_LINES}"},
	{name: "bundle", text: "certificate-authority-data: {BUNDLE}"},
	{name: "data and empty file", text: "certificate-authority-data: {CA}\n      certificate-authority: ''"},
	{name: "not to be proven", text: "insecure-skip-tls-verify: true"},
	{name: "yes", text: "insecure-skip-tls-verify: yes"},
	{name: "On", text: "insecure-skip-tls-verify: On"},
	{name: "y", text: "insecure-skip-tls-verify: y"},
	{name: "No", text: "insecure-skip-tls-verify: No\n      certificate-authority: ca.crt"},
	{name: "null", text: "insecure-skip-tls-verify: null\n      certificate-authority: ca.crt"},
	{name: "quoted", text: `insecure-skip-tls-verify: "true"`, lenient: "a quoted truth is one"},
	{name: "maybe", text: "insecure-skip-tls-verify: maybe"},
	{name: "1", text: "insecure-skip-tls-verify: 1"},
	{name: "both", text: "insecure-skip-tls-verify: true\n      certificate-authority: ca.crt"},
	{name: "none", text: ""},
	{name: "another", text: "certificate-authority: other.crt"},
	{name: "missing", text: "certificate-authority: none.crt"},
	{name: "empty file", text: "certificate-authority: empty"},
	{name: "garbage file", text: "certificate-authority: garbage"},
	{name: "garbage", text: "certificate-authority-data: {GARBAGE}"},
	{name: "half", text: "certificate-authority-data: {HALF}"},
	{name: "no base64", text: "certificate-authority-data: '%%%'"},
	{name: "data and file", text: "certificate-authority-data: {CA}\n      certificate-authority: other.crt",
		lenient: "the data counts, as it did before client-go 1.2x refused both"},
	{name: "and half a one", text: "certificate-authority-data: {AND_HALF}", refused: "certificate-authority-data"},
	{name: "after a broken one", text: "certificate-authority-data: {AFTER_BROKEN}", refused: "certificate-authority-data"},
}

var proxies = []piece{
	{name: "none", text: ""},
	{name: "empty", text: "proxy-url: ''"},
	{name: "http", text: "proxy-url: http://127.0.0.1:{PROXY}"},
	{name: "http with a slash", text: "proxy-url: http://127.0.0.1:{PROXY}/"},
	{name: "http with a password", text: "proxy-url: http://me:pa%40ss@127.0.0.1:{PROXY}"},
	{name: "https", text: "proxy-url: https://127.0.0.1:{SPROXY}"},
	{name: "socks5", text: "proxy-url: socks5://127.0.0.1:{SOCKS}"},
	{name: "upper case", text: "proxy-url: HTTP://127.0.0.1:{PROXY}"},
	{name: "no scheme", text: "proxy-url: 127.0.0.1:{PROXY}"},
	{name: "another scheme", text: "proxy-url: socks4://127.0.0.1:{PROXY}"},
	{name: "no port", text: "proxy-url: http://127.0.0.1:x"},
}

var users = []piece{
	{name: "token", text: "token: abc"},
	{name: "quoted token", text: `token: "abc"`},
	{name: "token with signs", text: "token: 'a.b-c_d~e+f/g='"},
	{name: "token and newline", text: `token: "abc\n"`, lenient: "the newline is cut off"},
	{name: "token in a block", text: "token: |\n        abc", lenient: "the newline is cut off"},
	{name: "token in a cut block", text: "token: |-\n        abc"},
	{name: "token and blanks", text: "token: ' abc '", differs: "blanks around a token are cut off"},
	{name: "token of two lines", text: `token: "abc\ndef"`},
	{name: "token with a NUL", text: `token: "a\0b"`},
	{name: "token beyond ASCII", text: "token: äbc", refused: "token"},
	{name: "tokenFile", text: "tokenFile: token"},
	{name: "tokenFile below", text: "tokenFile: ./sub/token"},
	{name: "tokenFile with an empty line", text: "tokenFile: token-first-empty"},
	{name: "tokenFile with blanks", text: "tokenFile: token-blanks"},
	{name: "tokenFile of two lines", text: "tokenFile: token-two"},
	{name: "token and tokenFile", text: "token: abc\n      tokenFile: token"},
	{name: "token and missing tokenFile", text: "token: abc\n      tokenFile: none"},
	{name: "token and empty tokenFile", text: "token: abc\n      tokenFile: empty"},
	{name: "token and tokenFile of two lines", text: "token: abc\n      tokenFile: token-two",
		lenient: "a file that cannot be sent leaves the token in force"},
	{name: "missing tokenFile", text: "tokenFile: none"},
	{name: "empty tokenFile", text: "tokenFile: empty"},
	{name: "files", text: "client-certificate: client.crt\n      client-key: client.key"},
	{name: "data", text: "client-certificate-data: {CERT}\n      client-key-data: {KEY}"},
	{name: "file and data", text: "client-certificate: client.crt\n      client-key-data: {KEY}"},
	{name: "one file for both", text: "client-certificate: both.pem\n      client-key: both.pem"},
	{name: "certificate and token", text: "token: abc\n      client-certificate: client.crt\n      client-key: client.key"},
	{name: "certificate alone", text: "client-certificate: client.crt"},
	{name: "key alone", text: "client-key: client.key", refused: "client-certificate"},
	{name: "another key", text: "client-certificate: client.crt\n      client-key: second.key"},
	{name: "another key as data", text: "client-certificate-data: {CERT}\n      client-key-data: {KEY2}"},
	{name: "garbage certificate", text: "client-certificate: garbage\n      client-key: client.key"},
	{name: "empty key", text: "client-certificate: client.crt\n      client-key: empty"},
	{name: "missing key", text: "client-certificate: client.crt\n      client-key: none"},
	{name: "key twice", text: "client-certificate: client.crt\n      client-key: second.key\n      client-key-data: {KEY}",
		lenient: "the data counts"},
	{name: "empty", text: "{}"},
	{name: "nulls", text: "token: null\n      exec: null\n      auth-provider: ~\n      username:\n      tokenFile: NULL"},
	{name: "empty texts", text: "token: ''\n      username: ''\n      password: ''\n      client-key: ''"},
	{name: "exec", text: "exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false', interactiveMode: Never}",
		refused: "exec"},
	{name: "empty exec", text: "exec: {}"},
	{name: "auth-provider", text: "auth-provider: {name: gcp}"},
	{name: "name and password", text: "username: me\n      password: pw", refused: "username"},
	{name: "password", text: "password: pw", refused: "password"},
	{name: "token and password", text: "token: abc\n      username: me"},
	{name: "number", text: "token: 123", lenient: "each scalar is a text"},
	{name: "tagged number", text: "token: !!str 123"},
	{name: "tagged null", text: "token: !!str null"},
	{name: "binary", text: "token: !!binary YWJj", refused: "token"},
	{name: "date", text: "token: 2026-01-02"},
	{name: "list", text: "token: [abc]"},
	{name: "anchor", text: "token: &t abc"},
	{name: "unknown member", text: "token: abc\n      extensions: [{name: x, extension: {a: b}}]\n      later: {c: [d]}"},
	{name: "duplicate", text: "token: abc\n      token: def", refused: "token"},
}

var impersonations = []piece{
	{name: "none", text: ""},
	{name: "user", text: "as: 'system:node:w1'"},
	{name: "all", text: "as: u\n      as-uid: '7'\n      as-groups: [a, 'b c']\n      as-user-extra: {example.org/Why: [x, 'y'], z: ['%']}"},
	{name: "empty", text: "as: ''\n      as-groups: []\n      as-user-extra: {}\n      as-uid: ~"},
	{name: "groups alone", text: "as-groups: [a]"},
	{name: "uid alone", text: "as-uid: '7'"},
	{name: "one group", text: "as: u\n      as-groups: a"},
	{name: "number", text: "as: u\n      as-uid: 7", lenient: "each scalar is a text"},
	{name: "newline", text: `as: "a\nb"`},
	{name: "empty group", text: "as: u\n      as-groups: ['']", refused: "as-groups"},
}

// whole is a file of other words than the form's.
var wholes = []struct {
	piece
	edit func(text string) string
}{
	{piece{name: "as it is"}, func(t string) string { return t }},
	{piece{name: "begins with a mark"}, func(t string) string { return "---\n" + t }},
	{piece{name: "ends with a mark"}, func(t string) string { return t + "...\n" }},
	{piece{name: "a second document"}, func(t string) string { return t + "---\nkind: Other\ncurrent-context: no\n" }},
	{piece{name: "a second document of garbage"}, func(t string) string { return t + "---\n[1, 2\n\t}\n" }},
	{piece{name: "an empty first document"}, func(t string) string { return "---\n---\n" + t }},
	{piece{name: "lines of DOS"}, func(t string) string { return strings.ReplaceAll(t, "\n", "\r\n") }},
	{piece{name: "a byte order mark"}, func(t string) string { return "\xef\xbb\xbf" + t }},
	{piece{name: "comments"}, func(t string) string { return "# a\n" + strings.ReplaceAll(t, "users:", "# b: c\nusers:") + "# d" }},
	{piece{name: "nothing"}, func(string) string { return "" }},
	{piece{name: "a list"}, func(string) string { return "[]" }},
	{piece{name: "half"}, func(t string) string { return t[:len(t)/2] }},
	{piece{name: "a tab"}, func(t string) string { return strings.Replace(t, "    user:", "\tuser:", 1) }},
	{piece{name: "no current-context"}, func(t string) string { return strings.Replace(t, "current-context: a", "current-context:", 1) }},
	{piece{name: "another current-context"}, func(t string) string { return strings.Replace(t, "current-context: a", "current-context: b", 1) }},
	{piece{name: "no cluster"}, func(t string) string { return strings.Replace(t, "cluster: c,", "", 1) }},
	{piece{name: "another cluster"}, func(t string) string { return strings.Replace(t, "cluster: c,", "cluster: d,", 1) }},
	{piece{name: "no user"}, func(t string) string { return strings.Replace(t, ", user: u", "", 1) }},
	{piece{name: "null user"}, func(t string) string { return strings.Replace(t, ", user: u", ", user: ~", 1) }},
	{piece{name: "a namespace"}, func(t string) string { return strings.Replace(t, ", user: u", ", user: u, namespace: ns", 1) }},
	{piece{name: "another user", refused: "users"}, func(t string) string { return strings.Replace(t, ", user: u", ", user: v", 1) }},
	{piece{name: "no users", refused: "users"}, func(t string) string { return t[:strings.Index(t, "users:")] + "users: null\n" }},
	{piece{name: "an alias", refused: "token"}, func(t string) string {
		return "later: &t abc\n" + strings.Replace(t, "token: abc", "token: *t", 1)
	}},
	{piece{name: "a merge key", refused: "<<"}, func(t string) string {
		return "later: &t {token: abc}\n" + strings.Replace(t, "token: abc", "<<: *t", 1)
	}},
	{piece{name: "a cluster twice"}, func(t string) string {
		return strings.Replace(t, "users:", "- name: c\n  cluster: {server: 'https://127.0.0.1:1'}\nusers:", 1)
	}},
	{piece{name: "another version", lenient: "apiVersion and kind do not count"}, func(t string) string {
		return strings.Replace(t, "apiVersion: v1", "apiVersion: v2", 1)
	}},
	{piece{name: "no version"}, func(t string) string { return strings.Replace(t, "apiVersion: v1\n", "", 1) }},
}

// choice is a kubeconfig; the zero one is what somebody would write.
type choice struct {
	server, name, authority, proxy, user, impersonation, whole int
}

func (c choice) pieces() []piece {
	return []piece{
		servers[c.server], names[c.name], authorities[c.authority], proxies[c.proxy], users[c.user],
		impersonations[c.impersonation], wholes[c.whole].piece,
	}
}

func (c choice) String() string {
	p := c.pieces()
	return fmt.Sprintf("server: %s, tls-server-name: %s, CA: %s, proxy: %s, user: %s, as: %s, file: %s",
		p[0].name, p[1].name, p[2].name, p[3].name, p[4].name, p[5].name, p[6].name)
}

func (c choice) text() string {
	p := c.pieces()
	indent := func(pieces ...piece) string {
		var out strings.Builder
		for _, p := range pieces {
			if p.text != "" && p.text != "{}" {
				out.WriteString("      " + p.text + "\n")
			}
		}
		if out.Len() == 0 {
			return " {}\n"
		}
		return "\n" + out.String()
	}
	return wholes[c.whole].edit("apiVersion: v1\nkind: Config\ncurrent-context: a\n" +
		"contexts:\n  - name: a\n    context: {cluster: c, user: u}\n" +
		"clusters:\n  - name: c\n    cluster:" + indent(p[0], p[1], p[2], p[3]) +
		"users:\n  - name: u\n    user:" + indent(p[4], p[5]))
}

// choices are each piece alone, then so many mixtures. Three of four parts of a mixture are the usual ones or others
// that both take, so that most of them get through.
func choices(seed int64, mixtures int) []choice {
	var all []choice
	add := func(n int, set func(*choice, int)) {
		for i := range n {
			var c choice
			set(&c, i)
			all = append(all, c)
		}
	}
	add(len(servers), func(c *choice, i int) { c.server = i })
	add(len(names), func(c *choice, i int) { c.name = i })
	add(len(authorities), func(c *choice, i int) { c.authority = i })
	add(len(proxies), func(c *choice, i int) { c.proxy = i })
	add(len(users), func(c *choice, i int) { c.user = i })
	add(len(impersonations), func(c *choice, i int) { c.impersonation = i })
	add(len(wholes), func(c *choice, i int) { c.whole = i })
	random := rand.New(rand.NewSource(seed))
	pick := func(usual, all int) int {
		if random.Intn(16) == 0 {
			return random.Intn(all)
		}
		return random.Intn(usual)
	}
	add(mixtures, func(c *choice, _ int) {
		*c = choice{
			server: pick(8, len(servers)), name: pick(8, len(names)), authority: pick(13, len(authorities)),
			proxy: pick(8, len(proxies)), user: pick(3, len(users)), impersonation: pick(4, len(impersonations)),
			whole: pick(5, len(wholes)),
		}
		if random.Intn(2) == 0 {
			c.user = random.Intn(len(users))
		}
	})
	return all
}
