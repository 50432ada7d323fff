// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dpu-heartbeat.test/e2e/harness"
)

const (
	aliveIntervals = 4
	starts         = 5
)

// aliveResult is one agent at its daily work.
type aliveResult struct {
	Name     string    `json:"name"`
	Scheme   string    `json:"scheme"`
	Private  float64   `json:"anonymous_kib"`
	Share    float64   `json:"proportional_kib"`
	WakeUps  float64   `json:"wake_ups_per_min"`
	CPU      float64   `json:"cpu_ms_per_interval"`
	Syscalls float64   `json:"system_calls_per_interval"`
	Up       float64   `json:"bytes_sent_per_interval"`
	Down     float64   `json:"bytes_received_per_interval"`
	Program  float64   `json:"program_kib"`
	First    []float64 `json:"start_to_first_renewal_ms"` // of DPUs, sorted
}

// putResult is the least that a renewal costs on the wire: no header and no member too many.
type putResult struct {
	Up   float64 `json:"bytes_sent"`
	Down float64 `json:"bytes_received"`
}

// agent is one whole process with a connection that is counted.
type agent struct {
	out   aliveResult
	argv  []string
	relay *relay
	side  *side
	log   *os.File
}

func (m *measure) newAgent(scheme, name string) (*agent, error) {
	a := &agent{out: aliveResult{Name: name, Scheme: scheme}}
	var err error
	if a.relay, err = newRelay(strings.TrimPrefix(m.plane.Server, "https://")); err != nil {
		return nil, err
	}
	kubeconfig, err := m.through(scheme+name, a.relay.url())
	if err != nil {
		return nil, err
	}
	records := filepath.Join(m.dir, scheme+name)
	if err := os.Mkdir(records, 0o755); err != nil {
		return nil, err
	}
	if scheme == "upstream" {
		a.argv = []string{os.Args[0], "upstream-" + name, kubeconfig, "theirs", "1", interval.String(),
			duration.String(), "0s", records}
		return a, nil
	}
	program := map[string]string{"dpu": "dpu-agent", "host": "dpu-host-agent"}[name]
	a.argv = []string{filepath.Join(os.Getenv("DPU_BIN_DIR"), program), "--kubeconfig=" + kubeconfig,
		"--node-name=ours-0", "--http-bind-address=127.0.0.1:0"} // others may have the port
	if name == "host" {
		a.argv = append(a.argv, "--readiness-file="+filepath.Join(records, "readiness.json"), "--dra=off")
	}
	return a, nil
}

func (a *agent) start(m *measure) error {
	var err error
	if a.log, err = os.Create(filepath.Join(m.dir, a.out.Scheme+a.out.Name+".log")); err == nil {
		a.side, err = startSide(a.argv, a.log)
	}
	return err
}

func (a *agent) pid() int { return a.side.cmd.Process.Pid }

func (a *agent) kill() {
	_ = a.side.cmd.Process.Kill()
	_ = a.side.cmd.Wait()
	_ = a.log.Close()
}

func (a *agent) failed(why error) error {
	return fmt.Errorf("%s: %w: %s", a.argv[0], why, harness.TailFile(a.log.Name(), 5))
}

// counts are of the process, all of its threads.
func (a *agent) counts() (wakeUps, cpuMS float64) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", a.pid()))
	for _, task := range tasks {
		status, _ := os.ReadFile(task + "/status")
		for line := range strings.Lines(string(status)) {
			if rest, found := strings.CutPrefix(line, "voluntary_ctxt_switches:"); found {
				n, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
				wakeUps += n
			}
		}
		stat, _ := os.ReadFile(task + "/schedstat")
		if fields := strings.Fields(string(stat)); len(fields) > 0 {
			ns, _ := strconv.ParseFloat(fields[0], 64)
			cpuMS += ns / 1e6
		}
	}
	return wakeUps, cpuMS
}

func (a *agent) memory(key string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", a.pid()))
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, key+":"); found {
			kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib
		}
	}
	return 0
}

var straceTotal = regexp.MustCompile(`(?m)^100\.00\s+\S+\s+(?:\S+\s+)?(\d+)\s+(?:\d+\s+)?total$`)

// countCalls lets strace count for a while. It slows the process down, so nothing else is measured then.
func (a *agent) countCalls(m *measure, span time.Duration) error {
	file := filepath.Join(m.dir, "strace-"+a.out.Scheme+a.out.Name)
	strace, err := harness.StartProcess("strace", m.dir, nil, "strace", "-f", "-c", "-o", file, "-p", strconv.Itoa(a.pid()))
	if err != nil {
		return err
	}
	time.Sleep(span)
	_ = strace.Signal(syscall.SIGINT)
	if err := strace.Wait(5 * time.Second); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	found := straceTotal.FindSubmatch(text)
	if found == nil {
		return fmt.Errorf("strace counted nothing: %s", text)
	}
	calls, _ := strconv.ParseFloat(string(found[1]), 64)
	a.out.Syscalls = calls / (span.Seconds() / interval.Seconds())
	return nil
}

// alive measures one pair of agents of each scheme, all at the same time.
func (m *measure) alive() error {
	for _, node := range []string{"ours-0", "theirs-0"} {
		if err := m.makeNode(node); err != nil {
			return err
		}
	}
	var agents []*agent
	for _, scheme := range schemes {
		for _, name := range []string{"host", "dpu"} {
			a, err := m.newAgent(scheme, name)
			if err != nil {
				return err
			}
			defer a.relay.close()
			if name == "dpu" {
				if err := m.timeStarts(a); err != nil {
					return err
				}
			}
			if err := a.start(m); err != nil {
				return err
			}
			defer a.kill()
			agents = append(agents, a)
		}
	}
	time.Sleep(2 * interval) // whatever belongs to the start
	m.weigh(agents)
	for _, a := range agents {
		if a.out.Share == 0 {
			return a.failed(errors.New("it ended"))
		}
	}
	errs := make(chan error, len(agents))
	for _, a := range agents {
		go func() { errs <- a.countCalls(m, aliveIntervals*interval) }()
	}
	for range agents {
		if err := <-errs; err != nil {
			return err
		}
	}
	for _, a := range agents {
		m.out.Alive = append(m.out.Alive, a.out)
	}
	return m.barePut()
}

func (m *measure) weigh(agents []*agent) {
	type before struct{ wakeUps, cpu, up, down float64 }
	var from []before
	for _, a := range agents {
		b := before{up: float64(a.relay.up.Load()), down: float64(a.relay.down.Load())}
		b.wakeUps, b.cpu = a.counts()
		from = append(from, b)
	}
	time.Sleep(aliveIntervals * interval)
	for i, a := range agents {
		wakeUps, cpu := a.counts()
		a.out.WakeUps = (wakeUps - from[i].wakeUps) / (aliveIntervals * interval).Minutes()
		a.out.CPU = (cpu - from[i].cpu) / aliveIntervals
		a.out.Up = (float64(a.relay.up.Load()) - from[i].up) / aliveIntervals
		a.out.Down = (float64(a.relay.down.Load()) - from[i].down) / aliveIntervals
		a.out.Private, a.out.Share = a.memory("Anonymous"), a.memory("Pss")
		if info, err := os.Stat(a.argv[0]); err == nil {
			a.out.Program = float64(info.Size()) / 1024
		}
	}
}

// timeStarts starts a DPU some times until its renewal is there. Before, nobody has renewed: ours finds the lease that
// its host has made, upstream's makes its own.
func (m *measure) timeStarts(a *agent) error {
	leases := m.admin.CoordinationV1().Leases(harness.Namespace)
	name := "ovn-dpu-ours-0"
	if a.out.Scheme == "upstream" {
		name = "ovn-dpu-theirs-0"
	}
	wait := func(what string, accept func(*coordination.Lease) bool) error {
		return harness.Poll(m.ctx, time.Minute, time.Millisecond, name+" is "+what, func() error {
			lease, err := leases.Get(m.ctx, name, metav1.GetOptions{})
			if err == nil && !accept(lease) {
				err = errors.New("it is not")
			}
			return err
		})
	}
	for range starts {
		_ = leases.Delete(m.ctx, name, metav1.DeleteOptions{}) // there may be none
		if a.out.Scheme == "ours" {
			if err := wait("made", func(*coordination.Lease) bool { return true }); err != nil {
				return err
			}
		}
		began := time.Now()
		if err := a.start(m); err != nil {
			return err
		}
		err := wait("renewed", func(lease *coordination.Lease) bool { return lease.Spec.RenewTime != nil })
		a.out.First = append(a.out.First, float64(time.Since(began).Microseconds())/1000)
		a.kill()
		if err != nil {
			return a.failed(err)
		}
	}
	slices.Sort(a.out.First)
	return nil
}

// barePut renews our lease by hand, some times over one connection. The counted relay has the
// handshake before it counts.
func (m *measure) barePut() error {
	const path = "/apis/coordination.k8s.io/v1/namespaces/" + harness.Namespace + "/leases/ovn-dpu-ours-0"
	counter, err := newRelay(strings.TrimPrefix(m.plane.Server, "https://"))
	if err != nil {
		return err
	}
	defer counter.close()
	ca, err := os.ReadFile(m.plane.PKI.CAFile())
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	address := strings.TrimPrefix(counter.url(), "https://")
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots})
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	headers := "Host: " + address + "\r\nAuthorization: Bearer " + m.token + "\r\n"
	ask := func(request string) (map[string]any, error) {
		if _, err := io.WriteString(conn, request); err != nil {
			return nil, err
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", answer.Status, body)
		}
		lease := map[string]any{}
		if err == nil {
			err = json.Unmarshal(body, &lease)
		}
		return lease, err
	}
	lease, err := ask("GET " + path + " HTTP/1.1\r\n" + headers + "\r\n")
	for i := 0; err == nil && i < aliveIntervals; i++ {
		up, down := counter.up.Load(), counter.down.Load()
		delete(lease["metadata"].(map[string]any), "managedFields") // the server keeps them
		lease["spec"].(map[string]any)["renewTime"] = time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
		body := &bytes.Buffer{}
		if err := json.NewEncoder(body).Encode(lease); err != nil {
			return err
		}
		lease, err = ask(fmt.Sprintf("PUT %s HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			path, headers, body.Len(), body))
		m.out.Put = putResult{Up: float64(counter.up.Load() - up), Down: float64(counter.down.Load() - down)}
	}
	return err
}
