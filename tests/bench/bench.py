# SPDX-License-Identifier: Apache-2.0
"""Measures what we claim, as ratios and spreads: run it where you care.

  gate      one call of dpu-gate, process start included, against starting a program that does
            nothing (/bin/true), in turn; and the same before a plugin, against the plugin alone
  latency   renewal written -> readiness record changed; lease run out -> record says NotReady;
            verdict -> health report read from the plugin's socket, by `dpuctl dra watch`
  memory    what an agent holds after some heartbeats (anonymous, and its share of everything)
  cpu       CPU time of an agent per heartbeat
  growth    CPU time of dpu-host-agent per event of its watch, by the lease's size and by the rate; per
            call of a kubelet and per change of health, by the claims that are prepared; of a look at
            the pods and of giving all a new sandbox, by their number
  nodes     `dpuctl nodes` of a whole cluster, and what of it is dpuctl's own CPU time

The agents speak TLS to the API server, with client certificates, as they do in a cluster.
"""

import argparse
import http.client
import json
import os
import resource
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from dpu_testing import kubeconfig, record, wait  # noqa: E402
from dpu_testing.authority import Authority  # noqa: E402
from dpu_testing.binaries import Binaries  # noqa: E402
from dpu_testing.kube import Kube, micro_time  # noqa: E402
from dpu_testing.process import Process, clean_env, run  # noqa: E402
from dpu_testing.runtime import Runtime  # noqa: E402
from dpu_testing.standin import NAMESPACE, Standin  # noqa: E402

INTERVAL_S = 0.5
DURATION_S = 3
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/ovn-dpu-worker-1"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"


def spread(values, unit):
    values = sorted(values)
    p99 = values[min(len(values) - 1, int(len(values) * 0.99))]
    return (
        f"median {statistics.median(values):.2f} {unit}, min {values[0]:.2f}, "
        f"p99 {p99:.2f} (n={len(values)})"
    )


class Cluster:
    """The stand-in, and its users' certificates, in a directory of their own."""

    def __init__(self, directory, **options):
        self.directory = directory
        self.stages = Binaries(os.path.join("build", "dev"))
        self.authority = Authority(directory)
        cert, key = self.authority.issue("server", "kube-apiserver")
        self.standin = Standin(
            self.stages.path("dpu-standin"), directory,
            tls_cert=cert, tls_key=key, client_ca=self.authority.file, **options,
        )  # fmt: skip

    def kubeconfig(self, user):
        """One with a client certificate."""
        path = os.path.join(self.directory, f"{user}.kubeconfig")
        if not os.path.exists(path):
            cert, key = self.authority.issue(user, user)
            with open(path, "w", encoding="utf-8") as file:
                file.write(
                    kubeconfig.dump(
                        self.standin.url, ca_file=self.authority.file,
                        client_certificate=cert, client_key=key,
                    )
                )  # fmt: skip
        return path

    def create_all(self, wanted):
        """(path, object) each, over one connection. Returns what the server made of them."""
        url = urllib.parse.urlsplit(self.standin.url)
        kept = http.client.HTTPSConnection(
            url.hostname, url.port, context=ssl.create_default_context(cafile=self.authority.file)
        )
        headers = {"Content-Type": "application/json", "Authorization": "Bearer admin-token"}
        made = []
        for path, body in wanted:
            kept.request("POST", path, json.dumps(body), headers)
            answer = kept.getresponse()
            made.append(json.load(answer))
            if answer.status != 201:
                raise SystemExit(f"{path}: {answer.status}")
        kept.close()
        return made

    def fill(self, size):
        """So many Nodes with a lease each."""
        names = [f"n{i:05}" for i in range(size)]
        self.create_all(("/api/v1/nodes", node_of(name)) for name in names)
        self.create_all((os.path.dirname(LEASE), lease_of(name)) for name in names)

    def cleanup(self):
        self.standin.cleanup()


class Bench(Cluster):
    """Both agents, and the DRA driver, beside the stand-in."""

    def __init__(self, directory):
        super().__init__(directory)
        self.release = Binaries(os.path.join("build", "release"))
        self.admin = Kube(
            self.standin.url, "admin-token", ssl.create_default_context(cafile=self.authority.file)
        )
        self.readiness_file = os.path.join(directory, "run", "readiness.json")
        self.host = None
        self.dpu = None
        self.driver = None

    def start_agent(self, name, user, *flags):
        return Process(
            [
                self.release.path(name),
                "--kubeconfig=" + self.kubeconfig(user),
                "--node-name=worker-1",
                f"--dpu-node-lease-renew-interval={INTERVAL_S}",
                f"--dpu-node-lease-duration={DURATION_S}",
                *flags,
            ],
            os.path.join(self.directory, f"{name}.log"),
        )

    def start(self):
        self.start_host()
        self.start_dpu()

    def start_host(self, *flags):
        self.host = self.start_agent(
            "dpu-host-agent", "host", f"--readiness-file={self.readiness_file}", *flags
        )

    def start_driver(self):
        self.driver = Process(
            [
                self.release.path("dpu-dra-driver"), "--kubeconfig=" + self.kubeconfig("dra"),
                "--node-name=worker-1", f"--readiness-file={self.readiness_file}",
                f"--kubelet-root-dir={self.kubelet_root()}", "--http-bind-address=",
            ],
            os.path.join(self.directory, "dpu-dra-driver.log"),
        )  # fmt: skip
        words = ["dra", "watch", "--once", "--register", f"--kubelet-root-dir={self.kubelet_root()}"]
        wait.until(lambda: run([self.release.path("dpuctl"), *words]).stdout, 10, "the driver serves")

    def start_dpu(self, *flags):
        self.dpu = self.start_agent("dpu-agent", "dpu", *flags)
        wait.until(lambda: self.state() == "Ready", 10, "the DPU is ready")

    def state(self):
        found = record.read(self.readiness_file)
        return found.state if found else None

    def kubelet_root(self):
        root = os.path.join(self.directory, "kubelet")
        for name in ("plugins", "plugins_registry"):
            os.makedirs(os.path.join(root, name), exist_ok=True)
        return root

    def cleanup(self):
        for process in (self.driver, self.dpu, self.host):
            if process:
                process.cleanup()
        super().cleanup()


def time_ms(command, **kw):
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, **kw)
    return (time.perf_counter() - begin) * 1000


def children_cpu_s():
    """Of the programs that have ended so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def status_call(readiness_file):
    """Input and environment of dpu-gate for STATUS."""
    config = {"cniVersion": "1.1.0", "name": "n", "type": "dpu-gate", "readinessFile": readiness_file}
    return {
        "input": json.dumps(config).encode(),
        "env": clean_env(CNI_COMMAND="STATUS", CNI_PATH="/nonexistent"),
    }


def bench_gate(bench, runs):
    gate = bench.release.path("dpu-gate")
    call = status_call(bench.readiness_file)
    floor, calls, ratios = [], [], []
    for _ in range(runs):
        floor.append(time_ms(["/bin/true"], input=b""))
        calls.append(time_ms([gate], **call))
        ratios.append(calls[-1] / floor[-1])
    print(f"gate: starting /bin/true            {spread(floor, 'ms')}")
    print(f"gate: STATUS of a ready DPU         {spread(calls, 'ms')}")
    print(f"gate: ratio, pair by pair           {spread(ratios, 'x')}")


PLUGIN = """#!/bin/sh
cat >/dev/null
[ "$CNI_COMMAND" != VERSION ] || echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}'
"""


def bench_plugin(bench, runs):
    """What the gate adds to a plugin behind it, here one that does nothing."""
    gate = bench.release.path("dpu-gate")
    plugin = os.path.join(bench.directory, "plugin")
    with open(plugin, "w", encoding="ascii") as file:
        file.write(PLUGIN)
    os.chmod(plugin, 0o755)
    config = json.dumps(
        {"cniVersion": "1.1.0", "name": "n", "type": "dpu-gate", "delegate": {"type": "plugin"},
         "readinessFile": bench.readiness_file}
    ).encode()  # fmt: skip
    ids = {"CNI_CONTAINERID": "c", "CNI_NETNS": "/proc/self/ns/net", "CNI_IFNAME": "eth0"}
    for verb in ("ADD", "DEL", "STATUS", "GC"):
        env = clean_env(CNI_COMMAND=verb, CNI_PATH=bench.directory, **ids)
        pairs = [
            (time_ms([plugin], input=config, env=env), time_ms([gate], input=config, env=env))
            for _ in range(runs)
        ]
        print(f"gate: {verb:<6} against the plugin alone {spread([b / a for a, b in pairs], 'x')}")


def bench_renewals(bench, count):
    """Renewals of our own, each timed until the record shows it."""
    bench.dpu.kill()
    delays = []
    for i in range(count):
        lease = bench.admin.get(LEASE)
        stamp = f"2030-01-01T00:00:00.{i:06d}Z"
        lease["spec"]["renewTime"] = stamp
        bench.admin.update(LEASE, lease)
        begin = time.perf_counter()
        while record.read(bench.readiness_file).get("lease", {}).get("renewTime") != stamp:
            if time.perf_counter() - begin > 5:
                raise SystemExit("the record never showed a renewal")
        delays.append((time.perf_counter() - begin) * 1000)
    print(f"latency: renewal to record          {spread(delays, 'ms')}")


def bench_expiry(bench, count):
    delays = []
    for _ in range(count):
        bench.start_dpu()
        bench.dpu.kill()
        last = record.read(bench.readiness_file)
        while True:
            now = record.read(bench.readiness_file)
            if now.state == "Ready":
                last = now
                time.sleep(0.0002)
                continue
            delays.append((wait.boottime_ns() - last.lease_until_ns) / 1e6)
            break
    print(f"latency: run out to NotReady        {spread(delays, 'ms')}")


def smaps_kib(pid, key):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            if line.startswith(key + ":"):
                return int(line.split()[1])
    return 0


def cpu_ms(pid):
    """Time on a processor; /proc/PID/stat counts in ticks of 10 ms, which is too coarse."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e6


def bench_weight(bench, seconds):
    bench.start_dpu()
    bench.start_driver()
    pids = {"dpu-agent": bench.dpu.pid, "dpu-host-agent": bench.host.pid, "dpu-dra-driver": bench.driver.pid}
    before = {name: cpu_ms(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    beats = seconds / INTERVAL_S
    for name, pid in pids.items():
        used_ms = cpu_ms(pid) - before[name]
        print(
            f"memory: {name:<15}             anonymous {smaps_kib(pid, 'Anonymous')} KiB, "
            f"proportional {smaps_kib(pid, 'Pss')} KiB, resident {smaps_kib(pid, 'Rss')} KiB"
        )
        print(f"cpu: {name:<15}                {used_ms / beats:.2f} ms a heartbeat (of {beats:.0f})")
    bench.driver.cleanup()


def renew(bench, changes):
    """A renewal by hand, with annotations; None removes one."""
    patch = {"metadata": {"annotations": changes}, "spec": {"renewTime": micro_time()}}
    bench.admin.patch(LEASE, patch)


def bench_growth(bench, events):
    """Renewals by hand, as fast as they go or at a rate, of leases that carry a long annotation."""
    bench.start_dpu()
    bench.dpu.kill()
    for kib, per_s in ((0, 0), (8, 0), (32, 0), (0, 5), (0, 50)):
        before, began = cpu_ms(bench.host.pid), time.monotonic()
        for i in range(events):
            renew(bench, {"example.com/long": "x" * (kib << 10)})
            if per_s:
                time.sleep(max(0, began + (i + 1) / per_s - time.monotonic()))
        used_ms = (cpu_ms(bench.host.pid) - before) / events
        rate = events / (time.monotonic() - began)
        print(f"growth: lease of {kib:>2} KiB more, {rate:5.1f} events/s  {used_ms:.3f} ms of CPU an event")
    renew(bench, {"example.com/long": None})


def report(bench, health):
    """A renewal by hand that says how the DPU is; None: well."""
    prefix = "dpu.k8s.ovn.org/health"
    renew(bench, {prefix: health, f"{prefix}-renew-time": health and micro_time()})


def claim_of(name):
    """A share of the DPU, for one pod."""
    ours = {"request": "dpu", "driver": "dpu.k8s.ovn.org", "pool": "worker-1", "device": "dpu0",
            "shareID": "a671734a-e8e5-11e4-8fde-42010af09327"}  # fmt: skip
    status = {"reservedFor": [{"resource": "pods", "name": name, "uid": name}],
              "allocation": {"devices": {"results": [ours]}}}  # fmt: skip
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name}, "spec": {}, "status": status,
    }  # fmt: skip


def call_plugin(bench, verb, claims):
    """As a kubelet does: "Prepare" or "Unprepare"."""

    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value

    ids = [(c["metadata"]["uid"].encode(), c["metadata"]["name"].encode()) for c in claims]
    message = b"".join(
        field(1, field(1, b"default") + field(2, uid) + field(3, name)) for uid, name in ids
    )
    answer = subprocess.run(
        ["curl", "-sS", "--http2-prior-knowledge", "--data-binary", "@-",
         "-H", "Content-Type: application/grpc", "-H", "TE: trailers",
         "--unix-socket", f"{bench.kubelet_root()}/plugins/dpu.k8s.ovn.org/dra.sock",
         f"http://dra/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/Node{verb}Resources"],
        input=struct.pack(">xI", len(message)) + message, stdout=subprocess.PIPE, check=True,
    ).stdout  # fmt: skip
    devices = len(ids) if verb == "Prepare" else 0
    if any(uid not in answer for uid, _ in ids) or answer.count(b"dpu0") != devices:
        raise SystemExit(f"{verb}: {answer}")


def bench_claims(bench, sizes, calls):
    """One claim is given back and prepared anew, among others. Then the DPU's health changes, of
    which pod after pod is told."""
    bench.host.kill()
    bench.start_host("--dpu-node-lease-duration=600")
    bench.start_dpu()
    bench.start_driver()
    bench.dpu.kill()
    claims = []
    for size in sizes:
        more = bench.create_all((CLAIMS, claim_of(f"c{i}")) for i in range(len(claims), size))
        for at in range(0, len(more), 100):
            call_plugin(bench, "Prepare", more[at : at + 100])
        claims += more
        used_ms = {"Unprepare": 0, "Prepare": 0}
        for i in range(calls):
            for verb in used_ms:
                before = cpu_ms(bench.driver.pid)
                call_plugin(bench, verb, [claims[i % size]])
                used_ms[verb] += (cpu_ms(bench.driver.pid) - before) / calls
        before = cpu_ms(bench.driver.pid)
        report(bench, "unhealthy" if bench.state() == "Ready" else None)
        time.sleep(3)
        change_ms = cpu_ms(bench.driver.pid) - before
        print(f"growth: {size:>4} claims prepared      Prepare {used_ms['Prepare']:.2f}, "
              f"Unprepare {used_ms['Unprepare']:.2f} ms of CPU a call; "
              f"a change of health {change_ms:.1f} in 3 s")  # fmt: skip


def pod_of(name):
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": "Always", "nodeName": "worker-1"}, "status": {"phase": "Running"},
    }  # fmt: skip


def bench_sandboxes(bench, size):
    """All pods lose their network. Shorter times than a node has, but of the same ratios."""
    times = ("--dpu-node-lease-renew-interval=0.2", "--dpu-node-lease-duration=2")
    runtime = Runtime(bench.stages)
    try:
        for i, pod in enumerate(bench.create_all((PODS, pod_of(f"p{size}-{i}")) for i in range(size))):
            about = pod["metadata"]
            sandbox = runtime.add(about["name"], made=i, uid=about["uid"])
            given = {"containerId": sandbox, "ifName": "eth0"}
            runtime.write(f"var/lib/cni/results/ovn-{sandbox}-eth0", json.dumps(given))
        for process in (bench.host, bench.dpu):
            process.kill()
        bench.start_host(*times, f"--cri-socket={runtime.socket}", f"--host-root={runtime.root}",
                         "--on-lost-network=restart")  # fmt: skip
        bench.start_dpu(*times)
        time.sleep(1)
        first_ms = cpu_ms(bench.host.pid)
        time.sleep(2)
        look_ms = (cpu_ms(bench.host.pid) - first_ms) / 20  # each half an interval
        before, began = cpu_ms(bench.host.pid), time.monotonic()
        runtime.lose(*runtime.sandboxes)
        runtime.wait_stopped(size, 60)
        used_ms, took_s = cpu_ms(bench.host.pid) - before, time.monotonic() - began
        print(f"growth: {size:>4} sandboxes            start {first_ms:.0f}, a look {look_ms:.2f} ms of CPU; "
              f"all stopped {took_s:.1f} s after their loss, {used_ms / size:.2f} ms of CPU each")  # fmt: skip
    finally:
        runtime.cleanup()


def node_of(name):
    """Of the size that a kubelet gives it: most of it is the list of its images."""
    images = [{"names": [f"registry.example/{'i' * 60}@sha256:{i:064x}"], "sizeBytes": i} for i in range(50)]
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"k8s.ovn.org/dpu-host": ""}},
        "status": {"images": images, "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def lease_of(name):
    spec = {"holderIdentity": "ovnkube-dpu-node", "leaseDurationSeconds": 3600, "renewTime": micro_time()}
    return {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": f"ovn-dpu-{name}"}, "spec": spec,
    }  # fmt: skip


def bench_nodes(bench, size, runs):
    """All of a cluster in one table: leases, Nodes, slices and pods, listed in pages."""
    bench.fill(size)
    command = [bench.release.path("dpuctl"), "nodes", f"--kubeconfig={bench.kubeconfig('admin')}"]
    whole, own = [], []
    for _ in range(runs):
        before = children_cpu_s()
        whole.append(time_ms(command) / 1000)
        own.append(children_cpu_s() - before)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(f"nodes: {done.stdout.splitlines()[-1]}")
    print(f"nodes: dpuctl nodes                 {spread(whole, 's')}")
    print(f"nodes: CPU time of dpuctl           {spread(own, 's')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="calls of dpu-gate")
    parser.add_argument("--deaths", type=int, default=5, help="deaths of the DPU to time")
    parser.add_argument("--seconds", type=float, default=30, help="of weighing the agents")
    parser.add_argument("--nodes", type=int, default=5000, help="of the cluster that dpuctl lists")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dpu-bench-", dir="/dev/shm") as directory:
        bench = Bench(directory)
        try:
            bench.start()
            bench_gate(bench, args.runs)
            bench_plugin(bench, args.runs // 3)
            bench_renewals(bench, args.runs)
            bench_expiry(bench, args.deaths)
            bench_weight(bench, args.seconds)
            bench_growth(bench, args.runs)
            bench_nodes(bench, args.nodes, 10)
            bench_claims(bench, (1, 10, 100, 1000), 20)
            for size in (10, 100, 500):
                bench_sandboxes(bench, size)
        finally:
            bench.cleanup()


if __name__ == "__main__":
    main()
