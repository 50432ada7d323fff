# SPDX-License-Identifier: Apache-2.0
"""The host's own eyes: probes of dpu-host-agent, which only take away."""

import os
import tempfile
import time

import pytest
from dpu_testing.dpuctl import Node
from dpu_testing.wait import never, until
from test_probes import HttpProbe
from world import SOON_S

FUNCTION = "0000:03:00.0"
PCI = f"pci:{FUNCTION}"
FAILED = "NotReady/HostProbeFailed"


class Bus:
    """The host's sysfs, made up."""

    def __init__(self, directory):
        self.root = os.path.join(directory, "host")
        self.path = os.path.join(self.root, "sys/bus/pci/devices", FUNCTION)
        self.attach()

    def attach(self):
        os.makedirs(self.path)

    def detach(self):
        os.rmdir(self.path)


@pytest.fixture
def bus(tmp_path):
    return Bus(str(tmp_path))


def says(world):
    return world.record().get("hostProbes")


def start(world, bus, *probes, state="Ready", **options):
    host = world.host(probe=list(probes) or [PCI], host_root=bus.root, **options)
    world.wait_state(state)
    return host


def test_function_that_leaves_the_bus_refuses_pods_and_then_the_lease_decides(world, bus):
    world.dpu()
    start(world, bus)
    assert says(world) == {PCI: "well"}
    bus.detach()
    seen = world.wait_verdict(FAILED)
    assert seen["message"] == (
        f"seen from the host: probe '{PCI}': there is no PCI function '{FUNCTION}'"
    )
    assert (world.gate.add().code, world.gate.status().code) == (11, 50)
    world.wait_renewals()
    assert world.verdict() == FAILED  # the DPU renews, and that does not help
    bus.attach()
    world.wait_verdict("Ready/LeaseRenewed")


@pytest.mark.standin_only
def test_function_that_leaves_the_bus_is_refused_within_a_second(world, bus):
    world.dpu()
    start(world, bus)
    bus.detach()
    gone = time.monotonic()
    until(lambda: not world.gate.add().ok, SOON_S, "the gate refuses")
    assert time.monotonic() - gone < 2  # a look each second; the kernel's word comes sooner


def test_wrong_name_never_condemns(world, bus):
    host = start(world, bus, "pci:0000:99:00.0", "netdev:no-such", state="Unknown")
    world.dpu()
    world.wait_state("Ready")
    assert set(says(world).values()) == {"none"}
    never(lambda: world.state() != "Ready", 4, "another state")
    assert len(host.lines(msg="pci:0000:99:00.0' has not been well since")) == 1  # told once
    assert len(host.lines(level="error", msg="sys/class/net' cannot be looked at")) == 1
    host.kill()
    host = start(world, bus, "pci:0000:99:00.0")
    never(lambda: world.state() != "Ready", 2, "another state")


def test_host_probe_never_vouches(world, bus):
    start(world, bus, state="Unknown")
    world.wait_record(lambda r: r["hostProbes"] == {PCI: "well"})
    dpu = world.dpu()
    world.wait_state("Ready")
    dpu.kill()
    world.wait_verdict("NotReady/LeaseExpired")
    assert says(world) == {PCI: "well"}


def test_accusation_survives_a_restart(world, bus):
    world.dpu()
    host = start(world, bus)
    bus.detach()
    world.wait_verdict(FAILED)
    for _ in range(2):
        host.kill()
        pid = world.record()["pid"]
        host = world.host(probe=[PCI], host_root=bus.root)
        world.wait_record(lambda r, pid=pid: r["pid"] != pid, what="a new writer")
        never(lambda: world.verdict() != FAILED, 1, "another verdict")
    host.kill()
    bus.attach()
    start(world, bus)
    world.wait_verdict("Ready/LeaseRenewed")


def test_function_that_leaves_while_the_agent_is_away_is_missed(world, bus):
    world.dpu()
    host = start(world, bus)
    host.kill()
    bus.detach()
    world.host(probe=[PCI], host_root=bus.root)
    world.wait_verdict(FAILED)


def test_accusation_ends_with_its_option(world, bus):
    world.dpu()
    host = start(world, bus)
    bus.detach()
    world.wait_verdict(FAILED)
    host.kill()
    world.host()
    world.wait_verdict("Ready/LeaseRenewed")
    assert says(world) is None


def test_probe_of_the_dpus_page_counts_after_its_failures(world, bus, tmp_path):
    page = HttpProbe(str(tmp_path))
    text = f"interval=100ms;{page.text}"
    world.dpu()
    start(world, bus, text)
    world.wait_record(lambda r: r["hostProbes"] == {text: "well"})
    page.hurt()
    seen = world.wait_verdict(FAILED)
    assert seen["message"] == f"seen from the host: probe '{page.text}': HTTP status 503"
    page.heal()
    world.wait_state("Ready")
    page.close()


@pytest.mark.standin_only
def test_host_that_was_stopped_accuses_nobody(world, bus):
    """Whatever the host probe answered meanwhile, nobody was there to hear it."""
    with tempfile.TemporaryDirectory(prefix="w") as directory:
        hung = os.path.join(directory, "hung")
        text = f"failures=1,timeout=2s,interval=100ms;exec:test ! -e {hung} || sleep 9"
        world.dpu()
        host = start(world, bus, text)
        world.wait_record(lambda r: r["hostProbes"][text] == "well")
        with open(hung, "w", encoding="utf-8"):
            pass
        time.sleep(0.5)  # a run has begun
        host.pause()
        os.unlink(hung)
        time.sleep(4)
        host.resume()
        never(lambda: world.verdict() == FAILED, 2, FAILED)


def test_without_a_health_check_nobody_is_asked(world, bus):
    host = world.host(probe=[PCI], host_root=bus.root, dpu_node_lease_renew_interval=0)
    world.wait_verdict("Ready/HealthCheckDisabled")
    bus.detach()
    never(lambda: world.state() != "Ready", 2, "another state")
    assert host.is_running()


def test_status_and_doctor_show_each_host_probe(binaries, world, bus, tmp_path):
    node = Node(binaries, tmp_path / "node")
    world.readiness_file = node.readiness_file
    world.dpu()
    start(world, bus, PCI, "netdev:no-such")
    assert node.status()[1]["record"]["hostProbes"] == [
        {"probe": PCI, "says": "well"},
        {"probe": "netdev:no-such", "says": "none"},
    ]
    shown = node.call("status").stdout
    assert f"{PCI}: well" in shown
    assert "netdev:no-such: has not been well since" in shown
    assert "the host's probe 'netdev:no-such' has not been well" in node.call("doctor").stdout
    bus.detach()
    world.wait_verdict(FAILED)
    assert f"{PCI}: failed" in node.call("status").stdout
    assert "lspci" in node.call("doctor").stdout


@pytest.mark.parametrize(
    "probe, words",
    [
        ("ovsdb", "is a service of the DPU, for dpu-agent"),
        ("pci:3:0.0", "no address as in /sys/bus/pci/devices"),
        ("carrier=down;netdev:p0", "has no other value"),
    ],
)
def test_host_probe_that_makes_no_sense_is_refused_at_the_start(world, probe, words):
    host = world.host(probe=[probe])
    assert host.wait() != 0
    assert words in host.text()
