// SPDX-License-Identifier: Apache-2.0

// Package fakekubelet plays the kubelet's part against the DRA plugin with the kubelet's own gRPC
// library and its own generated clients: what breaks a plugin are details of the wire.
package fakekubelet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
)

const (
	driver = "dpu.example.com"
	node   = "node1"
	claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
)

// binary finds a program in DPU_BUILD_DIR; without that the tests are skipped.
func binary(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("DPU_BUILD_DIR")
	if dir == "" {
		t.Skip("DPU_BUILD_DIR is not set; run ./run.sh")
	}
	return filepath.Join(dir, name)
}

// api is the stand-in API server.
type api struct{ url, control string }

func startAPI(t *testing.T) *api {
	t.Helper()
	cmd := exec.Command(binary(t, "tests/standin/dpu-standin"), "--node="+node)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var ready struct{ URL, ControlURL string }
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatal(err)
	}
	return &api{url: ready.URL, control: ready.ControlURL}
}

// do sends a request and returns status and body.
func (a *api) do(t *testing.T, method, url string, body any) (int, map[string]any) {
	t.Helper()
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		in = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, url, in)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	out := map[string]any{}
	_ = json.Unmarshal(text, &out)
	return response.StatusCode, out
}

// createClaim makes a claim that has been given our device, or this share of it, and returns its UID.
func (a *api) createClaim(t *testing.T, name, pool, share string) string {
	t.Helper()
	ours := map[string]any{"request": "dpu/first", "driver": driver, "pool": pool, "device": "dpu0"}
	if share != "" {
		ours["shareID"] = share
	}
	theirs := map[string]any{"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": "gpu0"}
	claim := map[string]any{
		"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     map[string]any{},
		"status": map[string]any{"reservedFor": []any{},
			"allocation": map[string]any{"devices": map[string]any{"results": []any{ours, theirs}}}},
	}
	code, out := a.do(t, "POST", a.url+claims, claim)
	if code != 201 {
		t.Fatalf("creating the claim: %d %v", code, out)
	}
	return out["metadata"].(map[string]any)["uid"].(string)
}

func (a *api) addFault(t *testing.T, fault map[string]any) {
	t.Helper()
	if code, out := a.do(t, "POST", a.control+"/faults", fault); code >= 300 {
		t.Fatalf("fault: %d %v", code, out)
	}
}

func (a *api) clearFaults(t *testing.T) {
	t.Helper()
	a.do(t, "DELETE", a.control+"/faults", nil)
}

// stage is the plugin, its kubelet directory and what it is told.
type stage struct {
	api     *api
	root    string
	kubecfg string
	cmd     *exec.Cmd
	in      io.WriteCloser
	lines   chan string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	// Not t.TempDir(): the paths of sockets are short.
	root, err := os.MkdirTemp("", "fk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	for _, dir := range []string{"plugins", "plugins_registry"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &stage{api: startAPI(t), root: root}
	s.kubecfg = filepath.Join(root, "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
`, s.api.url)
	if err := os.WriteFile(s.kubecfg, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// started is a stage with its plugin, and a kubelet that has registered it.
func started(t *testing.T, options ...grpc.DialOption) (*stage, *kubelet) {
	t.Helper()
	s := newStage(t)
	s.start(t)
	return s, register(t, s, options...)
}

func (s *stage) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(binary(t, "host-agent/dra/dra-stage"), s.kubecfg, s.root, node, "30")
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.in = in
	s.lines = make(chan string, 16)
	lines := s.lines
	go func() {
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
		close(lines)
	}()
	cmd := s.cmd
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s.expectLine(t, "started")
}

func (s *stage) expectLine(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-s.lines:
		if got != want {
			t.Fatalf("the plugin said %q, not %q", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("the plugin did not say %q", want)
	}
}

func (s *stage) tell(t *testing.T, format string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(s.in, format+"\n", args...); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) stop(t *testing.T) {
	t.Helper()
	s.tell(t, "Stop")
	s.expectLine(t, "stopped")
	if err := s.cmd.Wait(); err != nil {
		t.Fatalf("the plugin ended with: %v", err)
	}
}

func (s *stage) registrySocket() string {
	return filepath.Join(s.root, "plugins_registry", driver+"-reg.sock")
}

// eventually polls until the condition holds.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
