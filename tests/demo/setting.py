# SPDX-License-Identifier: Apache-2.0
"""The stage of the demo: an API server (stand-in or real), OVS and OVN as on a DPU, the two agents,
the CNI binary, and a thread that keeps looking at all of them."""

import json
import os
import secrets
import threading
import time
import urllib.parse
from datetime import datetime

from dpu_testing import kubeconfig, record
from dpu_testing.gate import Gate
from dpu_testing.kube import LEASES, Kube
from dpu_testing.ovn import Ovn, Ovnkube
from dpu_testing.process import Process, clean_env
from dpu_testing.standin import Standin
from dpu_testing.wait import boottime_ns
from proxy import Proxy

SAMPLE_EVERY_S = 0.1
# Of the shipped patience and pauses about the share that 3 s are of a lease of 40 s.
PROBE = "interval=700ms,timeout=2s,refused=400ms,silent=4s,missing=4s,wrong=9s;ovn-kubernetes"


class StandinApi:
    """The stand-in, with a token per program."""

    title = "stand-in API server"

    def __init__(self, binaries, directory):
        self.node = "worker-1"
        self.namespace = "ovn-kubernetes"
        self.server = Standin(binaries.path("dpu-standin"), directory, nodes=[self.node])
        self.admin = self.server.admin
        self.refuse, self.accept = self.server.refuse, self.server.accept

    def kubeconfig(self, user):
        return self.server.kubeconfig(user)

    def cleanup(self):
        self.server.cleanup()


class RealApi:
    """A cluster behind a forwarder, in a namespace that is ours and goes away with us."""

    title = "real API server"

    def __init__(self, path, node, directory):
        tree = kubeconfig.load(path)
        cluster, user = kubeconfig.current(tree)
        base = os.path.dirname(os.path.abspath(path))
        self.node = node
        self.namespace = f"dpu-heartbeat-demo-{secrets.token_hex(3)}"
        self.admin = Kube.from_kubeconfig(path)
        self.admin.get(f"/api/v1/nodes/{node}")
        server = urllib.parse.urlsplit(cluster["server"])
        port = server.port or (443 if server.scheme == "https" else 80)
        self.proxy = Proxy((server.hostname, port))
        for section in (cluster, user):
            for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
                if section.get(key):
                    section[key] = os.path.join(base, section[key])
        cluster["server"] = f"{server.scheme}://127.0.0.1:{self.proxy.port}{server.path}"
        if server.scheme == "https":
            cluster.setdefault("tls-server-name", server.hostname)
        self.path = os.path.join(directory, "kubeconfig")
        with open(self.path, "w", encoding="utf-8", opener=_private) as file:
            json.dump(tree, file)
        self.refuse, self.accept = self.proxy.refuse, self.proxy.accept
        self.admin.create(
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
        )

    def kubeconfig(self, user):
        return self.path

    def cleanup(self):
        self.proxy.refuse()
        self.admin.delete(f"/api/v1/namespaces/{self.namespace}")


def _private(path, flags):
    return os.open(path, flags, 0o600)


class View:
    """One look at everything, for the screen."""

    state = ""
    verdict = "no record yet"
    message = ""
    age_text = "-"
    left_s = 0.0
    status_ok = add_ok = False
    status_text = add_text = "-"
    dpu_state = service_state = host_state = "not started"
    api_state = "running"

    def __init__(self, lease_name, duration_s):
        self.lease_name, self.duration_s = lease_name, duration_s


class Setting:
    """Everything the story acts on."""

    def __init__(self, api, binaries, directory, interval_ms, duration_s):
        self.api = api
        self.binaries = binaries
        self.directory = directory
        self.interval_ms, self.duration_s = interval_ms, duration_s
        self.readiness_file = os.path.join(directory, "run", "readiness.json")
        self.lease_name = f"ovn-dpu-{api.node}"
        self.lease_path = LEASES.format(ns=api.namespace) + "/" + self.lease_name
        self.gate = Gate(binaries.path("dpu-gate"), directory, self.readiness_file)
        self.dpu = self.host = self.services = self.ovnkube = None
        self.api_state = "running"
        self.verdicts = []  # (boottime_ns, verdict) at each change
        self.status_failures = []  # (boottime_ns, Answer)
        self._view = View(self.lease_name, duration_s)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    # The cast.

    def _start(self, name, user, *flags):
        command = [
            self.binaries.path(name),
            f"--kubeconfig={self.api.kubeconfig(user)}",
            f"--node-name={self.api.node}",
            f"--namespace={self.api.namespace}",
            f"--dpu-node-lease-renew-interval={self.interval_ms}ms",
            f"--dpu-node-lease-duration={self.duration_s}",
            "--http-bind-address=",
            *flags,
        ]
        return Process(command, os.path.join(self.directory, f"{name}.log"), env=clean_env())

    def start_services(self):
        self.services = Ovn()
        self.services.start_all()
        self.ovnkube = Ovnkube(self.services)

    def start_dpu(self):
        where = f"--ovs-rundir={self.services.run_dir}"
        self.dpu = self._start("dpu-agent", "dpu", where, f"--probe={PROBE}")

    def start_host(self):
        flag = f"--readiness-file={self.readiness_file}"
        self.host = self._start("dpu-host-agent", "host", flag)

    def api_down(self):
        self.api.refuse()
        self.api_state = "unreachable"

    def api_up(self):
        self.api.accept()
        self.api_state = "running"

    # What can be seen.

    def record(self):
        try:
            return record.read(self.readiness_file)
        except record.Torn:
            return None

    def verdict(self):
        seen = self.record()
        return seen.verdict() if seen else "no record"

    def record_delay_ms(self):
        """From the DPU's stamp to the host's observation, in ms. Both clocks are this machine's."""
        seen = self.record()
        if not seen or not seen["lease"].get("renewTime"):
            return None
        stamp = datetime.fromisoformat(seen["lease"]["renewTime"].replace("Z", "+00:00"))
        wall_minus_boot_ns = time.time_ns() - boottime_ns()
        stamped_ns = round(stamp.timestamp() * 1e6) * 1000 - wall_minus_boot_ns
        return (seen.observed_ns - stamped_ns) / 1e6

    def view(self):
        return self._view

    def _look(self):
        while not self._ended.wait(SAMPLE_EVERY_S):
            view = View(self.lease_name, self.duration_s)
            self._look_at_record(view)
            self._look_at_gate(view)
            view.dpu_state = _state(self.dpu)
            if self.services:
                view.service_state = _state(self.services.processes.get("ovn-controller"))
            view.host_state = _state(self.host)
            view.api_state = self.api_state
            self._view = view

    def _look_at_record(self, view):
        seen = self.record()
        if not seen:
            return
        now_ns = boottime_ns()
        view.state, view.verdict, view.message = seen.state, seen.verdict(), seen["message"]
        if seen.observed_ns:
            view.age_text = f"{(now_ns - seen.observed_ns) / 1e9:.1f} s"
            left_ns = seen.observed_ns + self.duration_s * 10**9 - now_ns
            view.left_s = left_ns / 1e9
        if not self.verdicts or self.verdicts[-1][1] != view.verdict:
            self.verdicts.append((now_ns, view.verdict))

    def _look_at_gate(self, view):
        status, add = self.gate.status(), self.gate.add()
        if not status.ok:
            self.status_failures.append((boottime_ns(), status))
        view.status_ok, view.status_text = status.ok, _answer_text(status)
        view.add_ok, view.add_text = add.ok, f"({add.ms:.1f} ms) {_answer_text(add)}"

    def cleanup(self):
        self._ended.set()
        self._thread.join(5)
        for process in (self.dpu, self.host):
            if process:
                process.cleanup()
        if self.ovnkube:
            self.ovnkube.stop()
        if self.services:
            self.services.cleanup()
        self.api.cleanup()


def _answer_text(answer):
    return "ok" if answer.ok else f"code {answer.code}: {answer.msg}"


def _state(process):
    if process is None:
        return "not started"
    if not process.is_running():
        return "dead"
    return "stopped" if process.is_paused() else "running"
