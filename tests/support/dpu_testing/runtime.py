# SPDX-License-Identifier: Apache-2.0
"""A container runtime of sandboxes alone (tests/support/cri_stage.c), and the /proc of a made-up
host that they live in."""

import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading

from .process import clean_env
from .wait import until

DEV = "Inter-|   Receive\n face |bytes\n    lo:       0\n"
ETH0 = "  eth0:     100       1\n"


class Runtime:
    """Sandboxes by their id. `root` is for --host-root; both paths are short, for the socket."""

    def __init__(self, binaries):
        self.binary = binaries.path("cri-stage")
        self.root = tempfile.mkdtemp(prefix="host")
        self.socket = os.path.join(self.root, "cri.sock")
        self.pids = itertools.count(1000)
        self.sandboxes = {}  # id: (line, pid)
        self.said = []
        self.popen = None
        self.start()

    def start(self):
        self.popen = subprocess.Popen(
            [self.binary, self.socket],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_env(),
            text=True,
            bufsize=1,
        )
        for line, _ in self.sandboxes.values():
            self.order(line)
        self.order("listen")
        assert self.popen.stdout.readline() == "started\n"
        threading.Thread(target=self._read, args=(self.popen.stdout,), daemon=True).start()

    def _read(self, lines):
        for line in lines:
            self.said.append(line.rstrip("\n"))

    def order(self, line):
        self.popen.stdin.write(line + "\n")

    def stop(self):
        """As when a runtime is restarted; what it ran goes on."""
        self.popen.kill()
        self.popen.wait()
        self.popen.stdin.close()

    def cleanup(self):
        self.stop()
        shutil.rmtree(self.root)

    # Sandboxes.

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + ".new", path)

    def add(
        self,
        name,
        made=1,
        network="pod",
        namespace="default",
        sandbox=None,
        uid=None,
        netns=None,
        interface=True,
    ):
        """A pod's sandbox with its interface. Returns its id. With `netns` the runtime tells no
        process, but the path of that namespace ("": not even that)."""
        pid = next(self.pids)
        sandbox = sandbox or f"{name}-sandbox"
        self.write(f"proc/{pid}/stat", f"{pid} (pause) S " + "0 " * 18 + "77 0\n")
        self.write(f"proc/{pid}/net/dev", DEV + (ETH0 if interface else ""))
        told = pid if netns is None else 0
        line = f"add {sandbox} {namespace} {name} {uid or name + '-uid'} {told} {made} {network}"
        line += f" {netns}" if netns else ""
        self.sandboxes[sandbox] = (line, pid)
        self.order(line)
        return sandbox

    def _set_interfaces(self, sandbox, text):
        self.write(f"proc/{self.sandboxes[sandbox][1]}/net/dev", DEV + text)

    def lose(self, *sandboxes):
        for sandbox in sandboxes:
            self._set_interfaces(sandbox, "")

    def give_back(self, sandbox):
        self._set_interfaces(sandbox, ETH0)

    def set_device(self, sandbox, device, moved=True):
        """What CNI remembers to have given it: its netdev, too, or the device alone."""
        given = {
            "kind": "cniCacheV1",
            "containerId": sandbox,
            "ifName": "eth0",
            "capabilityArgs": {"deviceID": device},
            "result": {"interfaces": [{"name": "eth0", "sandbox": "/run/netns/x"}] if moved else []},
        }
        self.write(f"var/lib/cni/results/ovn-{sandbox}-eth0", json.dumps(given))
        self.write(f"sys/bus/pci/devices/{device}/vendor", "0x15b3\n")

    def reset_device(self, sandbox, device):
        """Its netdev is made anew on the host."""
        self.lose(sandbox)
        self.write(f"sys/bus/pci/devices/{device}/net/enp3s0f0v0/ifindex", "8\n")

    def stopped(self):
        """In the order of their ends."""
        return [line.split()[1] for line in self.said if line.startswith("stop ")]

    def wait_stopped(self, count, timeout_s=20):
        until(
            lambda: len(self.stopped()) >= count,
            timeout_s,
            lambda: f"{count} sandboxes are stopped; so far {self.stopped()}",
        )
        return self.stopped()
