# SPDX-License-Identifier: Apache-2.0
"""The host's own eyes: probes of dpu-host-agent, which only take away."""

import os
import time

import pytest
from dpu_testing.dpuctl import Node
from dpu_testing.wait import until
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


@pytest.mark.standin_only
def test_function_that_leaves_the_bus_is_refused_within_a_second(world, bus):
    world.dpu()
    start(world, bus)
    assert says(world) == {PCI: "well"}
    bus.detach()
    gone = time.monotonic()
    until(lambda: not world.gate.add().ok, SOON_S, "the gate refuses")
    assert time.monotonic() - gone < 2  # a look each second; the kernel's word comes sooner
    missing = f"a host probe fails: probe '{PCI}': there is no PCI function '{FUNCTION}'"
    assert world.wait_verdict(FAILED)["message"] == missing
    assert (world.gate.add().code, world.gate.status().code) == (11, 50)
    world.wait_renewals()
    assert world.verdict() == FAILED  # the DPU renews, and that does not help
    bus.attach()
    world.wait_verdict("Ready/LeaseRenewed")


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
    assert "netdev:no-such: has not passed since" in shown
    assert "the host probe 'netdev:no-such' has not passed" in node.call("doctor").stdout
    bus.detach()
    world.wait_verdict(FAILED)
    assert f"{PCI}: failed" in node.call("status").stdout
    assert "lspci" in node.call("doctor").stdout
