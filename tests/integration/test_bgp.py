# SPDX-License-Identifier: Apache-2.0
"""A DPU whose uplinks are routed, as with HBN: FRR's bgpd is asked on its own socket. Two real ones,
in a network namespace of their own."""

import os
import shutil
import socket
import tempfile

import pytest
from dpu_testing.process import Process
from dpu_testing.wait import never, until
from test_ovn_probes import message, wait_message, wait_renewed
from world import SOON_S

BGPD = "/usr/lib/frr/bgpd"
QUICK = "interval=200ms,timeout=1s,failures=2"
ADDRESSES = {"dpu": "127.0.0.1", "leaf1": "127.0.0.2", "leaf2": "127.0.0.3"}

pytestmark = [
    pytest.mark.standin_only,
    pytest.mark.skipif(not os.path.exists(BGPD) or os.geteuid() != 0, reason="frr, as root"),
]


class Routers:
    """The DPU's bgpd, and those of two leaf switches."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="bgp", dir="/tmp")
        shutil.chown(self.directory, "frr", "frr")
        hold = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec sleep 3600"]
        self.processes = {"namespace": Process(hold, self._path("namespace.log"))}
        own = os.readlink("/proc/self/ns/net")
        until(lambda: self._namespace() != own, SOON_S, "a namespace")
        for name in ADDRESSES:
            os.mkdir(self._path(name))
            shutil.chown(self._path(name), "frr", "frr")
            self.start(name)
        until(lambda: self._summary().count('"Established"') == 2, 40, "both peers")

    def start(self, name):
        number = list(ADDRESSES).index(name)
        with open(self._path(name, "bgpd.conf"), "w", encoding="utf-8") as config:
            config.write(self._config(name, number))
        command = [
            "nsenter", f"--net=/proc/{self.processes['namespace'].pid}/ns/net",
            BGPD, "--no_zebra", "--no_kernel", "--skip_runas", "--config_file",
            self._path(name, "bgpd.conf"), "--pid_file", self._path(name, "pid"), "--vty_socket",
            self._path(name), "--vty_port", "0", "--bgp_port", str(1790 + number), "--listenon",
            ADDRESSES[name],
        ]  # fmt: skip
        self.processes[name] = Process(command, self._path(f"{name}.log"), name=f"bgpd {name}")
        until(lambda: os.path.exists(self._path(name, "bgpd.vty")), SOON_S, f"bgpd {name}")

    def kill(self, name):
        self.processes[name].kill()

    @property
    def socket(self):
        return self._path("dpu", "bgpd.vty")

    def _summary(self):
        seen = b""
        with socket.socket(socket.AF_UNIX) as vty:
            vty.settimeout(SOON_S)
            vty.connect(self.socket)
            vty.send(b"show bgp summary json\0")
            while seen[-4:-1] != b"\0\0\0":
                seen += vty.recv(65536)
        return seen.decode()

    def cleanup(self):
        for process in self.processes.values():
            if process.is_running():
                process.kill()
        shutil.rmtree(self.directory)

    def _namespace(self):
        return os.readlink(f"/proc/{self.processes['namespace'].pid}/ns/net")

    def _path(self, *names):
        return os.path.join(self.directory, *names)

    @staticmethod
    def _config(name, number):
        peers = [other for other in ADDRESSES if "dpu" in (name, other) and other != name]
        lines = [f"router bgp {65000 + number}", f" bgp router-id 10.0.0.{number + 1}"]
        for other in peers:
            its_number = list(ADDRESSES).index(other)
            for words in (
                f"remote-as {65000 + its_number}",
                f"port {1790 + its_number}",
                f"update-source {ADDRESSES[name]}",
                "ebgp-multihop 2",
                "disable-connected-check",
                "timers 1 3",
                "timers connect 1",
            ):
                lines.append(f" neighbor {ADDRESSES[other]} {words}")
        return "\n".join(lines) + "\n"


@pytest.fixture
def routers():
    built = Routers()
    yield built
    built.cleanup()


def start(world, target, probe):
    target.new_lease()
    world.dpu(probe=[probe])
    until(lambda: target.lease()["spec"].get("renewTime"), 40, "a renewal: BGP is established")


def test_a_lost_peer_is_named_unless_others_are_enough(world, target, routers):
    start(world, target, f"{QUICK};bgp:{routers.socket}")
    routers.kill("leaf1")
    wait_message(target, "1 of 2 BGP peers is established, but not '127.0.0.2'")
    routers.start("leaf1")
    wait_renewed(target, 40)


def test_one_uplink_of_two_is_enough_where_one_is_asked_for(world, target, routers):
    start(world, target, f"{QUICK},least=1;bgp:{routers.socket}")
    routers.kill("leaf1")
    never(lambda: message(target), 5, "a report: one peer is left")
    routers.kill("leaf2")
    wait_message(target, "0 of 2 BGP peers are established")
    routers.start("leaf2")
    wait_renewed(target, 40)


def test_a_bgpd_that_is_killed_or_frozen_is_named(world, target, routers):
    start(world, target, f"{QUICK},least=1;bgp:{routers.socket}")
    routers.processes["dpu"].pause()
    wait_message(target, "no answer to 'show bgp summary json'")
    routers.processes["dpu"].resume()
    wait_renewed(target, 40)
    routers.kill("dpu")
    wait_message(target, "Connection refused")
