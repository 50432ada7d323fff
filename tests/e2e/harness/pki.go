// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// PKI is the cluster's certificate authority and service-account key. With both, a test makes any identity with any
// lifetime: the API's own TokenRequest never goes below ten minutes.
type PKI struct {
	dir   string
	caKey *ecdsa.PrivateKey
	ca    *x509.Certificate
	saKey *ecdsa.PrivateKey
}

// Identity says who a client certificate is for and how long it is good.
type Identity struct {
	User   string
	Groups []string
	// Lifetime counts from now; 0 is a day.
	Lifetime time.Duration
}

// NewPKI makes a certificate authority and a service-account key pair in dir.
func NewPKI(dir string) (*PKI, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p := &PKI{dir: dir}
	var err error
	if p.caKey, err = newKey(p.CAKeyFile()); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "dpu-heartbeat e2e"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(7 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &p.caKey.PublicKey, p.caKey)
	if err != nil {
		return nil, err
	}
	if p.ca, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	if err := writePEM(p.CAFile(), "CERTIFICATE", der); err != nil {
		return nil, err
	}
	if p.saKey, err = newKey(p.file("sa.key")); err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&p.saKey.PublicKey)
	if err != nil {
		return nil, err
	}
	return p, writePEM(p.file("sa.pub"), "PUBLIC KEY", public)
}

func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func (p *PKI) CAFile() string { return p.file("ca.crt") }

// CAKeyFile is the path of its key: the controller manager signs with it.
func (p *PKI) CAKeyFile() string { return p.file("ca.key") }

func (p *PKI) file(name string) string { return filepath.Join(p.dir, name) }

// Server writes name.crt and name.key, for the loopback and the API server's names in a cluster.
func (p *PKI) Server(name string) error {
	return p.issue(p.file(name), &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		NotAfter:    time.Now().Add(24 * time.Hour),
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default.svc", name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
		// etcd dials itself with its serving certificate, hence both usages.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// Client writes base.crt and base.key, each by rename: a reader never meets half a file.
func (p *PKI) Client(base string, id Identity) error {
	return p.issue(base, &x509.Certificate{
		Subject:     pkix.Name{CommonName: id.User, Organization: id.Groups},
		NotAfter:    time.Now().Add(cmp.Or(id.Lifetime, 24*time.Hour)),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (p *PKI) issue(base string, template *x509.Certificate) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Minute)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := newKey(base + ".key")
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, &key.PublicKey, p.caKey)
	if err != nil {
		return err
	}
	return writePEM(base+".crt", "CERTIFICATE", der)
}

// TokenRequest is a service-account token as the API server would sign it.
type TokenRequest struct {
	Namespace, Name, UID string
	// NodeName and NodeUID bind the token to a Node; both empty: not bound.
	NodeName, NodeUID string
	// Lifetime counts until the API server refuses it, a minute after the token's own expiry.
	Lifetime time.Duration
}

// tokenLeeway is how long the API server still takes an expired token for good.
const tokenLeeway = time.Minute

// Token signs a bound service-account token.
func (p *PKI) Token(r TokenRequest) (string, error) {
	bound := map[string]any{
		"namespace":      r.Namespace,
		"serviceaccount": map[string]string{"name": r.Name, "uid": r.UID},
	}
	if r.NodeName != "" {
		bound["node"] = map[string]string{"name": r.NodeName, "uid": r.NodeUID}
	}
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": serviceAccountIssuer, "aud": []string{serviceAccountIssuer},
		"sub": fmt.Sprintf("system:serviceaccount:%s:%s", r.Namespace, r.Name),
		"iat": now.Add(-2 * tokenLeeway).Unix(), "nbf": now.Add(-2 * tokenLeeway).Unix(),
		"exp": now.Add(r.Lifetime - tokenLeeway).Unix(), "kubernetes.io": bound,
	})
	if err != nil {
		return "", err
	}
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","typ":"JWT"}`))
	signed := header + "." + base64.RawURLEncoding.EncodeToString(claims)
	digest := sha256.Sum256([]byte(signed))
	rr, ss, err := ecdsa.Sign(rand.Reader, p.saKey, digest[:])
	if err != nil {
		return "", err
	}
	// JWS wants r and s as two fixed 32-byte numbers, not as ASN.1.
	signature := make([]byte, 64)
	rr.FillBytes(signature[:32])
	ss.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// Credential is how a kubeconfig names the user: a file pair or a token file.
type Credential struct {
	CertBase  string // CertBase.crt and CertBase.key
	TokenFile string
}

// Kubeconfig writes, in the block style that every reader knows, one for server with that credential to path.
func (p *PKI) Kubeconfig(path, server string, c Credential) error {
	user := fmt.Sprintf("    client-certificate: %s.crt\n    client-key: %s.key\n", c.CertBase, c.CertBase)
	if c.TokenFile != "" {
		user = fmt.Sprintf("    tokenFile: %s\n", c.TokenFile)
	}
	return WriteFile(path, strings.Join([]string{
		"apiVersion: v1", "kind: Config", "current-context: e2e",
		"clusters:", "- name: e2e", "  cluster:",
		"    server: " + server, "    certificate-authority: " + p.CAFile(),
		"contexts:", "- name: e2e", "  context:", "    cluster: e2e", "    user: e2e",
		"users:", "- name: e2e", "  user:", user,
	}, "\n"), 0o600)
}

func writePEM(path, kind string, der []byte) error {
	return WriteFile(path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})), 0o600)
}

// WriteFile replaces path atomically: a temporary file beside it, then rename.
func WriteFile(path, content string, mode os.FileMode) error {
	temporary := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path)+"~")
	if err := os.WriteFile(temporary, []byte(content), mode); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
