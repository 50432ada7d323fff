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
from dpu_testing.kube import Kube
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


class Setting:
    """Everything the story acts on."""

    def __init__(self, api, binaries, directory, tell):
        self.api = api
        self.binaries = binaries
        self.directory = directory
        self.tell = tell
        self.interval_ms, self.duration_s = 500, 3
        self.readiness_file = os.path.join(directory, "run", "readiness.json")
        self.gate = Gate(binaries.path("dpu-gate"), directory, self.readiness_file)
        self.dpu = self.host = self.services = self.ovnkube = None
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

    def _look(self):
        """Tells each change of what the host and the gate say."""
        told = None
        while not self._ended.wait(SAMPLE_EVERY_S):
            answer = self.gate.status()
            status = "ok" if answer.ok else f"code {answer.code}: {answer.msg}"
            said = f"readiness {self.verdict()}; CNI STATUS {status}"
            if said != told:
                self.tell(said)
                told = said

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
