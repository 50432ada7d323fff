// SPDX-License-Identifier: Apache-2.0

// Package conf holds our reading of kubeconfigs and of NO_PROXY against the real thing: client-go and the package
// behind Go's net/http. It needs no cluster: servers and proxies on the loopback write down who came, and how.
package conf

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// visit is what a server learns of who asks.
type visit struct {
	path, host, serverName, authorization, client string
	impersonate                                   []string
	via                                           string // the proxy: how, for whom, by whose word
}

// world is a set of servers, of which one pair of clients after the other is seen.
type world struct {
	dir    string
	values map[string]string // what stands for {NAME} in a case

	mu     sync.Mutex
	visits []visit
	via    map[string]string // of a connection, by the address that it comes from
}

func (w *world) take() []visit {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.visits
	w.visits = nil
	return seen
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	v := visit{path: r.URL.Path, host: r.Host, authorization: r.Header.Get("Authorization")}
	if r.TLS != nil {
		v.serverName = strings.ToLower(r.TLS.ServerName)
		if len(r.TLS.PeerCertificates) > 0 {
			v.client = r.TLS.PeerCertificates[0].Subject.CommonName
		}
	}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			for _, value := range values {
				v.impersonate = append(v.impersonate, strings.ToLower(name)+": "+value)
			}
		}
	}
	slices.Sort(v.impersonate)
	w.mu.Lock()
	v.via = w.via[r.RemoteAddr]
	w.visits = append(w.visits, v)
	w.mu.Unlock()
	out.Header().Set("Content-Type", "application/json")
	fmt.Fprint(out, `{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{},"items":[]}`)
}

// relay connects the client with a server of ours, whatever it asked for, and remembers how it came.
func (w *world) relay(client net.Conn, from io.Reader, server, how string) {
	defer client.Close()
	there, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer there.Close()
	w.mu.Lock()
	w.via[there.LocalAddr().String()] = how
	w.mu.Unlock()
	go func() {
		_, _ = io.Copy(there, from)
		_ = there.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, there)
}

// connectProxy answers CONNECT.
func (w *world) connectProxy(client net.Conn, kind, server string) {
	reader := bufio.NewReader(client)
	request, err := http.ReadRequest(reader)
	if err != nil {
		client.Close()
		return
	}
	if request.Method != http.MethodConnect {
		fmt.Fprint(client, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		client.Close()
		return
	}
	fmt.Fprint(client, "HTTP/1.1 200 OK\r\n\r\n")
	w.relay(client, reader, server, kind+" "+request.Host+" "+request.Header.Get("Proxy-Authorization"))
}

// socksProxy speaks what RFC 1928 calls CONNECT, without a password.
func (w *world) socksProxy(client net.Conn, server string) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(client, head); err != nil || head[0] != 5 {
		client.Close()
		return
	}
	_, _ = io.ReadFull(client, make([]byte, head[1]))
	_, _ = client.Write([]byte{5, 0})
	request := make([]byte, 4)
	_, _ = io.ReadFull(client, request)
	size := map[byte]int{1: 4, 4: 16}[request[3]]
	if request[3] == 3 {
		_, _ = io.ReadFull(client, head[:1])
		size = int(head[0])
	}
	host := make([]byte, size+2)
	_, _ = io.ReadFull(client, host)
	name := string(host[:size])
	if request[3] != 3 {
		name = net.IP(host[:size]).String()
	}
	_, _ = client.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	w.relay(client, client, server, fmt.Sprintf("socks5 %s:%d", name, binary.BigEndian.Uint16(host[size:])))
}

func (w *world) listen(t *testing.T, address string, tlsConfig *tls.Config, serve func(net.Conn)) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if tlsConfig != nil {
		l = tls.NewListener(l, tlsConfig)
	}
	t.Cleanup(func() { l.Close() })
	if serve != nil {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go serve(c)
			}
		}()
	}
	return l
}

// newWorld makes authorities, certificates and files, and starts everything.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), via: map[string]string{}}
	ca, other := newPair(t, "ca", nil), newPair(t, "other", nil)
	server, client, second := newPair(t, "server", ca), newPair(t, "client", ca), newPair(t, "second", ca)
	w.values = map[string]string{
		"DIR": w.dir, "CA": b64(ca.cert), "OTHER": b64(other.cert), "CERT": b64(client.cert), "KEY": b64(client.key),
		"CA_LINES": strings.Join(split(b64(ca.cert), 64), "\n        "), "BUNDLE": b64(other.cert + ca.cert),
		"HALF": b64(ca.cert[:len(ca.cert)/2]), "AND_HALF": b64(ca.cert + other.cert[:len(other.cert)/2]),
		"AFTER_BROKEN": b64("-----BEGIN CERTIFICATE-----\n@@\n-----END CERTIFICATE-----\n" + ca.cert),
		"KEY2":         b64(second.key), "GARBAGE": b64("no PEM"),
	}
	for name, text := range map[string]string{
		"ca.crt": ca.cert, "sub/ca.crt": ca.cert, "other.crt": other.cert, "client.crt": client.cert,
		"client.key": client.key, "both.pem": client.key + client.cert, "second.key": second.key, "empty": "",
		"garbage": "no PEM\n", "token": "from-file\n", "token-first-empty": "\n\nfrom-file\n",
		"token-two": "from\nfile\n", "token-blanks": " \tfrom-file \r\n", "sub/token": "from-sub",
	} {
		w.write(t, name, text)
	}
	pair, err := tls.X509KeyPair([]byte(server.cert), []byte(server.key))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	quiet := &http.Server{Handler: w, ErrorLog: log.New(io.Discard, "", 0)}
	t.Cleanup(func() { quiet.Close() })
	v4 := w.listen(t, "127.0.0.1:0", config, nil)
	v6 := w.listen(t, "[::1]:0", config, nil)
	plain := w.listen(t, "127.0.0.1:0", nil, nil)
	for _, l := range []net.Listener{v4, v6, plain} {
		go func() { _ = quiet.Serve(l) }()
	}
	to := v4.Addr().String()
	for name, l := range map[string]net.Listener{
		"TLS": v4, "TLS6": v6, "PLAIN": plain,
		"PROXY":  w.listen(t, "127.0.0.1:0", nil, func(c net.Conn) { w.connectProxy(c, "http", to) }),
		"SPROXY": w.listen(t, "127.0.0.1:0", config, func(c net.Conn) { w.connectProxy(c, "https", to) }),
		"SOCKS":  w.listen(t, "127.0.0.1:0", nil, func(c net.Conn) { w.socksProxy(c, to) }),
	} {
		_, w.values[name], _ = net.SplitHostPort(l.Addr().String())
	}
	return w
}

func (w *world) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// fill puts the world's values into a text.
func (w *world) fill(text string) string {
	for name, value := range w.values {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

type pair struct {
	cert, key string // PEM
	parsed    *x509.Certificate
	private   *ecdsa.PrivateKey
}

// newPair makes a certificate, signed by ca or by itself.
func newPair(t *testing.T, name string, ca *pair) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: ca == nil,
		DNSNames:    []string{"localhost", "api.example"},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("::1"), net.ParseIP("10.0.0.1")},
	}
	parent, signer := template, key
	if ca != nil {
		parent, signer = ca.parsed, ca.private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{
		cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		key:  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})), parsed: parsed, private: key,
	}
}

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// split cuts a text into lines.
func split(text string, width int) []string {
	var lines []string
	for len(text) > width {
		lines, text = append(lines, text[:width]), text[width:]
	}
	return append(lines, text)
}
