# SPDX-License-Identifier: Apache-2.0
"""The API server by a name: several addresses, others than before, name servers that are slow."""

import ctypes
import json
import os
import random

import pytest
from dpu_testing import kubeconfig
from dpu_testing.names import NameServer, asking, asking_nobody
from dpu_testing.process import run
from dpu_testing.wait import never, until
from front import Front
from world import SOON_S, World

pytestmark = [pytest.mark.standin_only, pytest.mark.needs_root]


class Network:
    """Two name servers, and addresses for the API server behind one name and port."""

    def __init__(self, url, directory):
        self.net = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}"  # no other test's
        self.url = url
        self.servers = [NameServer(f"{self.net}.53"), NameServer(f"{self.net}.54")]
        self.fronts = []
        self.wrapper = asking(directory, self.servers)
        self.port = 0

    def front(self):
        """One more address of the API server; the name does not have it yet."""
        built = Front(self.url, f"{self.net}.{len(self.fronts) + 1}", self.port)
        self.port = built.port
        self.fronts.append(built)
        return built

    def name(self, *fronts):
        for server in self.servers:
            server.addresses = [front.address for front in fronts]

    def kubeconfig(self, directory, user):
        path = os.path.join(str(directory), f"{user}-by-name.kubeconfig")
        with open(path, "w", encoding="utf-8") as file:
            file.write(kubeconfig.dump(f"http://api.example.test:{self.port}", f"{user}-token"))
        return path

    def close(self):
        for part in (*self.servers, *self.fronts):
            part.close()


class NamedWorld(World):
    """Both agents reach the API server by its name."""

    def __init__(self, binaries, target, directory):
        super().__init__(binaries, target, directory)
        self.network = Network(target.standin.url, directory)
        self.interval_ms, self.duration_s = 300, 4

    def start(self, name, words, env=None, wrapper=()):
        return super().start(name, words, env, self.network.wrapper)

    def flags(self, user, **options):
        options.setdefault("kubeconfig", self.network.kubeconfig(self.directory, user))
        return super().flags(user, **options)


@pytest.fixture
def named(binaries, target, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    built = NamedWorld(binaries, target, tmp_path)
    yield built
    built.cleanup()
    built.network.close()


@pytest.mark.by_name
@pytest.mark.parametrize("how", ["silent", "failing"])
def test_renewals_go_on_while_no_name_can_be_resolved(named, how):
    """To the address that answered last."""
    net = named.network
    front = net.front()
    net.name(front)
    named.both()
    for server in net.servers:
        setattr(server, how, True)
    front.cut()
    named.stays_ready(4)


@pytest.mark.by_name
def test_the_api_server_moves_to_another_address(named):
    net = named.network
    old, new = net.front(), net.front()
    net.name(old)
    named.both()
    old.vanish()
    net.name(new)
    named.stays_ready(4)


def test_a_dead_dpu_is_found_beside_an_api_server_that_hangs(world, target, tmp_path):
    """To which a balancer sends every second new connection, beginning with the next: the reads that
    prove it do not wait for that one."""
    front = Front(target.standin.url)
    world.duration_s = 4
    world.host(kubeconfig=front.kubeconfig(tmp_path, "host"))
    dpu = world.dpu(kubeconfig=front.kubeconfig(tmp_path, "dpu"))
    world.wait_state("Ready")
    until(lambda: front.is_asked("/events"), SOON_S, lambda: str(front.asked))
    first = len(front.asked) + 1
    front.hangs = lambda number: number >= first and (number - first) % 2 == 0
    world.wait_renewals(1)
    renewed_ns = world.record().observed_ns
    dpu.kill()
    seen = world.wait_state("NotReady")
    late_s = (world.boottime_ns() - renewed_ns) / 1e9 - world.duration_s
    assert late_s < 1.2, seen.verdict()
    front.close()


@pytest.mark.by_name
def test_an_address_that_accepts_and_hangs_keeps_nobody_out(named, target):
    net = named.network
    living, hung = net.front(), net.front()
    hung.is_frozen = True
    net.name(hung, living)
    target.new_lease(leaseDurationSeconds=named.duration_s)
    named.dpu()
    until(lambda: target.standin.audit(user="dpu", verb="update", code=200), SOON_S)


def libcurl_version():
    """Of the library that the programs run with, too."""
    library = ctypes.CDLL("libcurl.so.4")
    library.curl_version.restype = ctypes.c_char_p
    name, _, version = library.curl_version().decode().split()[0].partition("/")
    assert name == "libcurl"
    return tuple(int(part) for part in version.split(".")[:2])


@pytest.mark.parametrize("key", ["server", "proxy-url"])
def test_a_name_is_refused_where_libcurl_would_wait_for_it(world, tmp_path, key):
    """With a sentence and at once; an address is not, and neither is a name where nothing waits."""
    path = tmp_path / "kubeconfig"
    tree = json.loads(kubeconfig.dump("http://127.0.0.1:1", "token"))
    tree["clusters"][0]["cluster"][key] = "http://name.example.test:1"
    path.write_text(json.dumps(tree))
    words = world.flags("dpu", kubeconfig=path)
    dpu = world.start("dpu-agent", words, wrapper=asking_nobody(tmp_path))
    doctor = run([*asking_nobody(tmp_path), world.binaries.path("dpuctl"), "doctor", f"--kubeconfig={path}",
                  "--node-name=worker-1", "--api-timeout=300ms"])  # fmt: skip
    if libcurl_version() >= (7, 87):
        dpu.wait_log(SOON_S, msg="dpu-agent")
        never(lambda: not dpu.is_running(), 0.5)
        assert "libcurl" not in doctor.stdout
        return
    assert dpu.wait(SOON_S) != 0
    for said in (dpu.text(), doctor.stdout):
        assert key in said and "has a host's name: give its address" in said
    assert "reject a kubeconfig whose server" in doctor.stdout
