# SPDX-License-Identifier: Apache-2.0
"""The stage of the demo: the world of the integration suite, OVS and OVN as on a DPU, an API server
that can be taken away, and a thread that keeps looking."""

import json
import os
import threading
import time
import urllib.parse
from datetime import datetime

from dpu_testing import kubeconfig
from dpu_testing.ovn import Ovn, Ovnkube
from dpu_testing.wait import boottime_ns
from front import Front
from target import RealTarget, StandinTarget
from world import World

SAMPLE_EVERY_S = 0.1
# Of the shipped patience and pauses about the share that 3 s are of a lease of 40 s.
PROBE = "interval=700ms,timeout=2s,refused=400ms,silent=4s,missing=4s,wrong=9s;ovn-kubernetes"


class StandinApi(StandinTarget):
    title = "stand-in API server"

    def refuse(self):
        self.standin.refuse()

    def accept(self):
        self.standin.accept()


class RealApi(RealTarget):
    """A cluster behind a front: it is taken away from the agents alone."""

    title = "real API server"

    def __init__(self, path, node, directory):
        super().__init__(path, node)
        tree = kubeconfig.load(path)
        cluster, user = kubeconfig.current(tree)
        server = urllib.parse.urlsplit(cluster["server"])
        front = Front(cluster["server"])
        self.refuse, self.accept = front.close, front.open
        for section in (cluster, user):
            for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
                if section.get(key):
                    section[key] = os.path.join(os.path.dirname(self.path), section[key])
        cluster["server"] = front.url + server.path
        if server.scheme == "https":
            cluster.setdefault("tls-server-name", server.hostname)
        self.path = os.path.join(directory, "kubeconfig")
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(tree, file)


class Setting(World):
    """Everything the story acts on."""

    def __init__(self, binaries, api, directory, tell):
        super().__init__(binaries, api, directory)
        self.interval_ms, self.duration_s = 500, 3
        self.tell = tell
        self.dpu_agent = self.host_agent = self.services = self.ovnkube = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(self.gate,), daemon=True)
        self._thread.start()

    def start_services(self):
        self.services = Ovn()
        self.services.start_all()
        self.ovnkube = Ovnkube(self.services)

    def start_dpu(self):
        self.dpu_agent = self.dpu(ovs_rundir=self.services.run_dir, probe=PROBE)

    def start_host(self):
        self.host_agent = self.host()

    def record_delay_ms(self):
        """From the DPU's stamp to the host's observation, in ms. Both clocks are this machine's."""
        seen = self.record()
        if not seen or not seen["lease"].get("renewTime"):
            return None
        stamp = datetime.fromisoformat(seen["lease"]["renewTime"].replace("Z", "+00:00"))
        wall_minus_boot_ns = time.time_ns() - boottime_ns()
        stamped_ns = round(stamp.timestamp() * 1e6) * 1000 - wall_minus_boot_ns
        return (seen.observed_ns - stamped_ns) / 1e6

    def _look(self, gate):
        """Tells each change of what the host and the gate say."""
        told = None
        while not self._ended.wait(SAMPLE_EVERY_S):
            answer = gate.status()
            status = "ok" if answer.ok else f"code {answer.code}: {answer.msg}"
            said = f"readiness {self.verdict() or 'no record'}; CNI STATUS {status}"
            if said != told:
                self.tell(said)
                told = said

    def cleanup(self):
        self._ended.set()
        self._thread.join(5)
        super().cleanup()
        if self.ovnkube:
            self.ovnkube.stop()
        if self.services:
            self.services.cleanup()
        self.target.cleanup()
