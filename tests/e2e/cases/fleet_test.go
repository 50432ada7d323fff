// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dpu-heartbeat.test/e2e/harness"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	fleetNamespace = "fleet"
	fleetSize      = 10
	// Timers are the chart's own: a DPU that dies is noticed after its lease.
	fleetLease = 40 * time.Second
)

// simulatedNode is a Node without a machine: its kubelet is played here. The agents are real.
type simulatedNode struct {
	name     string
	dir      string
	noImage  bool                        // its pods cannot start
	hosts    map[string]*harness.Process // by pod: in an update there are two
	dpu      *harness.Process
	healthy  string // a file: the probe passes while it is there
	hostFlag []string
}

type simulatedFleet struct {
	*world
	t     *testing.T
	dir   string
	nodes []*simulatedNode
	env   []string
}

func newFleet(t *testing.T, w *world) *simulatedFleet {
	f := &simulatedFleet{world: w, t: t, dir: logDir("fleet")}
	must(t, os.RemoveAll(f.dir))
	must(t, os.MkdirAll(filepath.Join(f.dir, "bin"), 0o755))
	must(t, os.MkdirAll(filepath.Join(f.dir, "build"), 0o755))
	deploy, err := filepath.Abs(deployDir)
	must(t, err)
	must(t, os.Symlink(deploy, filepath.Join(f.dir, "deploy")))
	must(t, os.Symlink(ours(t, "dpuctl"), filepath.Join(f.dir, "bin", "kubectl-dpu")))
	var names []string
	for i := range fleetSize {
		n := &simulatedNode{name: fmt.Sprintf("fleet-%d", i), dir: filepath.Join(f.dir, fmt.Sprintf("node-%d", i))}
		n.hosts = map[string]*harness.Process{}
		n.healthy = filepath.Join(n.dir, "healthy")
		must(t, os.MkdirAll(n.dir, 0o755))
		must(t, harness.WriteFile(n.healthy, "", 0o644))
		f.nodes = append(f.nodes, n)
		names = append(names, n.name)
		t.Cleanup(func() {
			for _, host := range n.hosts {
				host.Kill()
			}
			n.dpu.Kill()
		})
		f.register(n)
	}
	host, port, _ := strings.Cut(strings.TrimPrefix(f.control.Server, "https://"), ":")
	f.env = append(os.Environ(), "KUBECONFIG="+f.control.AdminKubeconfig(), "NODES="+strings.Join(names, " "),
		"NAMESPACE="+fleetNamespace, "REGISTRY=registry.example", "API_SERVER_HOST="+host, "API_SERVER_PORT="+port,
		"HELM_CACHE_HOME="+f.dir, "HELM_CONFIG_HOME="+f.dir, "HELM_DATA_HOME="+f.dir,
		"PATH="+filepath.Join(f.dir, "bin")+":"+f.parts+":"+os.Getenv("PATH"))
	return f
}

// register makes the Node as a kubelet does, and the Lease that it would renew.
func (f *simulatedFleet) register(n *simulatedNode) {
	room := core.ResourceList{core.ResourceCPU: resource.MustParse("4"), core.ResourceMemory: resource.MustParse("8Gi"),
		core.ResourcePods: resource.MustParse("10")}
	_, err := f.admin.CoreV1().Nodes().Create(f.t.Context(), &core.Node{ObjectMeta: meta.ObjectMeta{Name: n.name},
		Status: core.NodeStatus{Capacity: room, Allocatable: room,
			Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue, Reason: "Simulated"}},
			NodeInfo:   core.NodeSystemInfo{KubeletVersion: "v1.36.0", ContainerRuntimeVersion: "containerd://2.1.4"}}}, meta.CreateOptions{})
	must(f.t, err)
	_, err = f.admin.CoordinationV1().Leases("kube-node-lease").Create(f.t.Context(),
		&coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: n.name}}, meta.CreateOptions{})
	must(f.t, err)
}

// live plays the kubelets until ctx ends.
func (f *simulatedFleet) live(ctx context.Context) {
	for beat := 0; ctx.Err() == nil; beat++ {
		for _, n := range f.nodes {
			if beat%20 == 0 {
				f.renew(ctx, n)
			}
			f.sync(ctx, n)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (f *simulatedFleet) renew(ctx context.Context, n *simulatedNode) {
	leases := f.admin.CoordinationV1().Leases("kube-node-lease")
	if lease, err := leases.Get(ctx, n.name, meta.GetOptions{}); err == nil {
		lease.Spec.RenewTime = &meta.MicroTime{Time: time.Now()}
		lease.Spec.HolderIdentity = &n.name
		_, _ = leases.Update(ctx, lease, meta.UpdateOptions{})
	}
}

// sync does with our pods on n what a kubelet does. The agent runs with the arguments and the environment of its pod,
// by a token like the pod's.
func (f *simulatedFleet) sync(ctx context.Context, n *simulatedNode) {
	pods := f.admin.CoreV1().Pods(fleetNamespace)
	list, err := pods.List(ctx, meta.ListOptions{FieldSelector: "spec.nodeName=" + n.name})
	if err != nil {
		return
	}
	for _, pod := range list.Items {
		switch {
		case pod.DeletionTimestamp != nil:
			n.hosts[pod.Name].Stop()
			delete(n.hosts, pod.Name)
			now := int64(0)
			_ = pods.Delete(ctx, pod.Name, meta.DeleteOptions{GracePeriodSeconds: &now})
		case n.noImage || pod.Status.Phase == core.PodRunning:
		default:
			if f.start(n, &pod) {
				pod.Status.Phase = core.PodRunning
				pod.Status.Conditions = append(pod.Status.Conditions, core.PodCondition{Type: core.PodReady, Status: core.ConditionTrue})
				_, _ = pods.UpdateStatus(ctx, &pod, meta.UpdateOptions{})
			}
		}
	}
}

// start says whether the pod's container runs. One that only looks on needs no process.
func (f *simulatedFleet) start(n *simulatedNode, pod *core.Pod) bool {
	c := pod.Spec.Containers[0]
	if len(c.Command) > 0 {
		return true
	}
	if n.hostFlag == nil {
		dir := filepath.Join(n.dir, "host")
		cmd := exec.Command(filepath.Join(deployDir, "dpu-kubeconfig"), n.name, dir, "--host", "--duration", "1",
			"--namespace", fleetNamespace, "--release", "dpu")
		cmd.Env = f.env
		if cmd.Run() != nil {
			return false // the account is not there yet
		}
		n.hostFlag = []string{"--kubeconfig", filepath.Join(dir, "kubeconfig"), "--node-name", n.name,
			"--readiness-file", filepath.Join(n.dir, "readiness.json"), "--http-bind-address", "127.0.0.1:0", "--cni-sync=false"}
	}
	var env []string
	for _, variable := range c.Env {
		if variable.ValueFrom == nil {
			env = append(env, variable.Name+"="+variable.Value)
		}
	}
	argv := append([]string{harness.FindOurs("dpu-host-agent")}, n.hostFlag...)
	process, err := harness.StartProcess("dpu-host-agent-"+pod.Name, n.dir, env, append(argv, c.Args...)...)
	if err == nil {
		n.hosts[pod.Name] = process
	}
	return err == nil
}

// startDPU runs the agent with what dpu-kubeconfig made for this DPU.
func (f *simulatedFleet) startDPU(n *simulatedNode) {
	made := filepath.Join(f.dir, "build", n.name)
	process, err := harness.StartProcess("dpu-agent", n.dir, nil, ours(f.t, "dpu-agent"), "--config", filepath.Join(made, "dpu-agent.yaml"),
		"--kubeconfig", filepath.Join(made, "kubeconfig"), "--http-bind-address", "127.0.0.1:0",
		"--probe=interval=500ms;exec:test -e "+n.healthy)
	must(f.t, err)
	n.dpu = process
}

// page returns the commands of the documentation that are marked as run here.
func page(t *testing.T) []string {
	block := regexp.MustCompile("(?ms)^<!-- run: tests/e2e/cases/fleet_test.go -->\n```sh\n(.*?)^```$")
	var found []string
	for _, m := range block.FindAllStringSubmatch(readFile(t, "../../../docs/install.md"), -1) {
		found = append(found, m[1])
	}
	return found
}

// say runs commands as they stand, in a folder with nothing but deploy/.
func (f *simulatedFleet) say(commands string, env ...string) (string, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env = f.dir, append(slices.Clone(f.env), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (f *simulatedFleet) do(commands string) string {
	f.t.Helper()
	out, err := f.say(commands)
	if err != nil {
		f.t.Fatalf("%s\n%s: %v", commands, out, err)
	}
	return out
}

// everything is the names of all objects in the cluster, but for what is written all the time.
func (f *simulatedFleet) everything() map[string]bool {
	f.t.Helper()
	kinds := kubectl(f.t, f.control, "api-resources", "--verbs=list", "-o", "name")
	var wanted []string
	for _, kind := range strings.Fields(kinds) {
		if !strings.HasPrefix(kind, "events") && kind != "componentstatuses" {
			wanted = append(wanted, kind)
		}
	}
	out := kubectl(f.t, f.control, "get", strings.Join(wanted, ","), "-A", "--ignore-not-found", "--no-headers",
		"-o", `custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name`)
	found := map[string]bool{}
	for _, line := range strings.Split(out, "\n") {
		found[strings.Join(strings.Fields(line), " ")] = true
	}
	return found
}

// leaves waits until nothing is in the cluster that was not there before.
func (f *simulatedFleet) leaves(before map[string]bool) {
	f.t.Helper()
	waitFor(f.t, 2*soon, "nothing is left", func() error {
		var left []string
		for object := range f.everything() {
			if !before[object] {
				left = append(left, object)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%q", left)
		}
		return nil
	})
}

// shows waits until `kubectl dpu nodes` shows all nodes, first those with these states and reasons, and the counts.
func (f *simulatedFleet) shows(limit time.Duration, look, counts string, first ...string) {
	f.t.Helper()
	waitFor(f.t, limit, counts, func() error {
		whole, _ := f.say(strings.SplitAfter(look, "\n")[0]) // its status is that of the worst DPU
		var rows []string
		for _, line := range strings.Split(whole, "\n") {
			if words := strings.Fields(line); len(words) > 3 && strings.HasPrefix(words[0], "fleet-") {
				rows = append(rows, strings.Join(words[:3], " "))
			}
		}
		if len(rows) != fleetSize || !slices.Equal(rows[:len(first)], first) || !strings.Contains(whole, counts) {
			return fmt.Errorf("%s", whole)
		}
		return nil
	})
}

// waitFor is poll at the pace of a person: each look starts programs.
func waitFor(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	must(t, harness.Poll(t.Context(), limit, time.Second, what, check))
}

// As a new admin, by the documentation's own commands.
func TestGivenTenNodesOfWhichThreeAreBrokenWhenAnAdminFollowsTheDocsThenTheThreeAreNamedAndMended(t *testing.T) {
	t.Parallel()
	helm(t, "version")
	w, err := newWorld(shared.parts, "-fleet", false, harness.ControlPlaneOptions{})
	must(t, err)
	createNamespace(t, w.admin, fleetNamespace)
	commands := page(t)
	if len(commands) != 5 {
		t.Fatalf("docs/install.md has %d blocks of this test", len(commands))
	}
	install, look, gate, uninstall, undo := commands[0], commands[1], commands[2], commands[3], commands[4]
	f := newFleet(t, w)
	dead, sick, bare := f.nodes[3], f.nodes[5], f.nodes[8]
	bare.noImage = true
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.live(ctx) }()
	defer func() { cancel(); <-done }()
	// The namespace's own objects are there a moment after it.
	waitFor(t, soon, "the namespace is complete", func() error {
		if all := f.everything(); !all["ConfigMap "+fleetNamespace+" kube-root-ca.crt"] || !all["ServiceAccount "+fleetNamespace+" default"] {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	before := f.everything()

	f.do(install)
	for _, n := range f.nodes {
		f.startDPU(n)
	}
	f.shows(2*soon, look, "0 NotReady, 1 Unknown, 9 Ready", bare.name+" Unknown LeaseNotFound")
	dead.dpu.Kill()
	must(t, os.Remove(sick.healthy))
	f.shows(fleetLease+2*soon, look, "2 NotReady, 1 Unknown, 7 Ready", sick.name+" NotReady DPUReportedUnhealthy",
		dead.name+" NotReady LeaseExpired", bare.name+" Unknown LeaseNotFound")
	doctor := strings.SplitAfter(look, "\n")[1]
	for _, c := range []struct{ node, mend string }{
		{sick.name, "-> repair the service that the probe names"},
		{dead.name, "-> check the DPU's power and network, and run 'systemctl status dpu-agent' there"},
		{bare.name, "check that dpu-host-agent, which creates the lease, runs on the host with this namespace"},
	} {
		if out, err := f.say(doctor, "NODE="+c.node); err == nil || !strings.Contains(out, c.mend) || !strings.Contains(out, "broken; begin with") {
			t.Fatalf("the doctor on %s does not say %q: %v\n%s", c.node, c.mend, err, out)
		}
	}

	must(t, harness.WriteFile(sick.healthy, "", 0o644))
	f.startDPU(dead)
	bare.noImage = false
	f.shows(2*soon, look, "0 NotReady, 0 Unknown, 10 Ready") // mended as the doctor says
	f.do(gate)
	wide := f.do("kubectl dpu nodes -n " + fleetNamespace + " -o wide")
	for _, n := range f.nodes {
		if !regexp.MustCompile(`(?m)^` + n.name + ` .* 0\.1\.0 +0\.1\.0 +yes +yes$`).MatchString(wide) {
			t.Fatalf("%s does not show both versions and its gate:\n%s", n.name, wide)
		}
	}
	f.do(uninstall)
	f.leaves(before)

	// And by somebody who only then reads that the gate was left behind: the release is made once more, to take it out.
	f.do(undo)
	f.leaves(before)
}
