// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
)

// etcdMember is one of them, where it serves, and where the other members reach it.
type etcdMember struct {
	name    string // and that of its data directory and log
	url     string
	peerURL string
	process *Process // nil before it is started
}

// etcdMembers are as many as there are pairs of ports.
func etcdMembers(ports []int) []*etcdMember {
	var members []*etcdMember
	for pair := range slices.Chunk(ports, 2) {
		name := "etcd"
		if len(members) > 0 {
			name = fmt.Sprintf("etcd-%d", len(members))
		}
		members = append(members, &etcdMember{name: name, url: fmt.Sprintf("https://127.0.0.1:%d", pair[0]),
			peerURL: fmt.Sprintf("http://127.0.0.1:%d", pair[1])})
	}
	return members
}

// StartEtcd starts every member that does not run, on its data directory, which outlives StopEtcd.
func (c *ControlPlane) StartEtcd() error {
	var cluster []string
	for _, m := range c.etcd {
		cluster = append(cluster, m.name+"="+m.peerURL)
	}
	for _, m := range c.etcd {
		if m.process != nil && m.process.Alive() {
			continue
		}
		var err error
		m.process, err = StartProcess(m.name, c.logDir(), nil, filepath.Join(c.opts.Bin, "etcd"),
			"--name="+m.name, "--data-dir="+c.file(m.name),
			"--listen-client-urls="+m.url, "--advertise-client-urls="+m.url,
			"--listen-peer-urls="+m.peerURL, "--initial-advertise-peer-urls="+m.peerURL,
			"--initial-cluster="+strings.Join(cluster, ","), "--unsafe-no-fsync", "--log-level=warn",
			"--cert-file="+c.file("pki/etcd.crt"), "--key-file="+c.file("pki/etcd.key"),
			"--trusted-ca-file="+c.PKI.CAFile(), "--client-cert-auth")
		if err != nil {
			return err
		}
	}
	return nil
}

// EtcdLeader is the member that the others follow.
func (c *ControlPlane) EtcdLeader(ctx context.Context) (*Process, error) {
	for _, m := range c.etcd {
		text, err := c.request(ctx, http.MethodGet, m.url+"/metrics", "etcd", "")
		if err == nil && strings.Contains(text, "\netcd_server_is_leader 1\n") {
			return m.process, nil
		}
	}
	return nil, errors.New("no member of etcd says that it leads")
}

// etcdURLs is what an API server takes them by.
func (c *ControlPlane) etcdURLs() string {
	var urls []string
	for _, m := range c.etcd {
		urls = append(urls, m.url)
	}
	return strings.Join(urls, ",")
}

// CompactEtcd forgets every version of every object but the present ones, so
// that nobody can resume a watch from an earlier one.
func (c *ControlPlane) CompactEtcd(ctx context.Context) error {
	answer, err := c.request(ctx, http.MethodPost, c.EtcdURL()+"/v3/kv/range", "etcd", `{"key":"AA=="}`)
	if err != nil {
		return err
	}
	var head struct {
		Header struct{ Revision string }
	}
	if err := json.Unmarshal([]byte(answer), &head); err != nil {
		return err
	}
	_, err = c.request(ctx, http.MethodPost, c.EtcdURL()+"/v3/kv/compaction", "etcd",
		fmt.Sprintf(`{"revision":%q,"physical":true}`, head.Header.Revision))
	return err
}

// StopEtcd ends etcd in order, so that its data directory may be copied.
func (c *ControlPlane) StopEtcd() {
	for _, m := range c.etcd {
		m.process.Stop()
	}
}

// EtcdData is the first member's data directory.
func (c *ControlPlane) EtcdData() string { return c.file(c.etcd[0].name) }

// EtcdURL is where the first member serves.
func (c *ControlPlane) EtcdURL() string { return c.etcd[0].url }

// Etcd is the first member's process, to be measured, or stopped and continued.
func (c *ControlPlane) Etcd() *Process { return c.etcd[0].process }

// EtcdMetrics are the first member's own.
func (c *ControlPlane) EtcdMetrics(ctx context.Context) (string, error) {
	return c.request(ctx, http.MethodGet, c.EtcdURL()+"/metrics", "etcd", "")
}
