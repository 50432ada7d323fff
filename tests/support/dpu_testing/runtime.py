# SPDX-License-Identifier: Apache-2.0
"""A container runtime of sandboxes alone, as ill as a test wants (its gRPC:
tests/support/cri_stage.c), and the /proc of a made-up host that they live in."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

from .process import clean_env
from .wait import until

DEV = "Inter-|   Receive\n face |bytes\n    lo:       0\n"
ETH0 = "  eth0:     100       1\n"
NOT_FOUND, UNAVAILABLE, NEVER = 5, 14, -1  # what a call ends with; 0 is fine


def varint(number):
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number // 128)


def message(*fields):
    """Of protobuf: numbers, and texts or messages. The numbers of the fields are CRI's."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number * 8) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number * 8 + 2) + varint(len(value)) + value
    return out


class Runtime:
    """Sandboxes by their id. `root` is for --host-root; both paths are short, for the socket.
    `moods` are those of its methods that do not just serve: "hangs", "slow" (0.2 s each),
    "refuses". `trouble` is what it says of its network."""

    def __init__(self, binaries):
        self.root = tempfile.mkdtemp(prefix="host")
        self.socket = os.path.join(self.root, "cri.sock")
        self.pids = itertools.count(1000)
        self.sandboxes = {}  # those that ended, too
        self.ended = []  # in the order of their ends
        self.moods = {}
        self.trouble = ""
        self.popen = subprocess.Popen(
            [binaries.path("cri-stage"), self.socket],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_env(),
        )
        assert self.popen.stdout.readline() == b"started\n"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        with contextlib.suppress(BrokenPipeError):
            for line in self.popen.stdout:
                method, length = line.decode().split()
                status, answer = self._answer(method, self.popen.stdout.read(int(length)))
                self.popen.stdin.write(b"%d %d\n%s" % (status, len(answer), answer))
                self.popen.stdin.flush()

    def _answer(self, method, request):
        mood = self.moods.get(method)
        if mood == "slow":
            time.sleep(0.2)
        elif mood:
            return (NEVER, b"") if mood == "hangs" else (UNAVAILABLE, f"{method} is refused".encode())
        if method == "Version":
            return 0, message((2, "containerd"), (3, "v2.1.9"))
        if method == "Status":
            trouble = [(3, "NetworkPluginNotReady"), (4, self.trouble)] if self.trouble else []
            network = message((1, "NetworkReady"), (2, int(not self.trouble)), *trouble)
            return 0, message((1, message((1, network))))
        if method == "ListPodSandbox":
            alive = [s for s in list(self.sandboxes.values()) if s["is_alive"]]
            return 0, b"".join(message((1, s["listed"])) for s in alive)
        name = request[2 : 2 + request[1]].decode()  # its first field, which is short
        sandbox = self.sandboxes.get(name, {"is_alive": False})
        if method == "PodSandboxStatus":
            return (0, sandbox["told"]) if sandbox["is_alive"] else (NOT_FOUND, b"no such sandbox")
        if sandbox["is_alive"]:
            sandbox["is_alive"] = False
            self.ended.append(name)
        return 0, b""

    def stop(self):
        self.popen.kill()
        self.popen.wait()
        self.thread.join()
        with contextlib.suppress(BrokenPipeError):
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
        space = {"type": "network", **({"path": netns} if netns else {})}
        info = {"image": "pause", **({"pid": pid} if netns is None else {})}
        info["runtimeSpec"] = {"linux": {"namespaces": [{"type": "ipc"}, space]}}
        pod = message((1, name), (2, uid or f"{name}-uid"), (3, namespace))
        status = message((6, message((1, message((2, message((1, 2 if network == "host" else 0))))))))
        self.sandboxes[sandbox] = {
            "is_alive": True,
            "pid": pid,
            "listed": message((1, sandbox), (2, pod), (4, made)),
            "told": message((1, status), (2, message((1, "info"), (2, json.dumps(info))))),
        }
        return sandbox

    def _set_interfaces(self, sandbox, text):
        self.write(f"proc/{self.sandboxes[sandbox]['pid']}/net/dev", DEV + text)

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

    def wait_stopped(self, count, timeout_s=20):
        until(
            lambda: len(self.ended) >= count,
            timeout_s,
            lambda: f"{count} sandboxes are stopped; so far {self.ended}",
        )
        return self.ended
