// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

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
func (c *ControlPlane) StopEtcd() { c.etcd.Stop() }

// EtcdData is its data directory.
func (c *ControlPlane) EtcdData() string { return c.file("etcd") }

// EtcdURL is where it serves.
func (c *ControlPlane) EtcdURL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.etcdPort) }

// Etcd is the process, to be measured, or stopped and continued.
func (c *ControlPlane) Etcd() *Process { return c.etcd }

// EtcdMetrics are its own.
func (c *ControlPlane) EtcdMetrics(ctx context.Context) (string, error) {
	return c.request(ctx, http.MethodGet, c.EtcdURL()+"/metrics", "etcd", "")
}
