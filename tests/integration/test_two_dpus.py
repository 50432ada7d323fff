# SPDX-License-Identifier: Apache-2.0
"""Two DPUs in one host: a pair of agents each, side by side, and what happens if they are not told apart."""

import os

import pytest
from dpu_testing import record
from dpu_testing.gate import Gate
from dpu_testing.process import run
from dpu_testing.wait import never, until
from test_dra import SLICES
from test_http import Page
from world import SOON_S

NODE = "/api/v1/nodes"
WITHDRAWN = "withdrawn"  # the device, by a server that knows no taints


class Dpu:
    """One DPU of the node, as the template unit names what is its own."""

    def __init__(self, world, kubelet_root, name):
        self.world = world
        self.kubelet_root = kubelet_root
        self.name = name
        self.driver = f"{name}.dpu.k8s.ovn.org" if name else "dpu.k8s.ovn.org"
        self.lease = world.target.lease_name() + (f"--{name}" if name else "")
        self.readiness_file = os.path.join(world.directory, "run", f"{name or 'readiness'}.json")
        directory = os.path.join(world.directory, f"gate-{name}")
        os.mkdir(directory)
        self.gate = Gate(world.binaries.path("dpu-gate"), directory, self.readiness_file)
        self.host = None
        self.driver_program = None
        self.dpu = None

    def start_host(self, **options):
        own = {"node_condition": True, "lease_name": self.lease, "readiness_file": self.readiness_file}
        self.host = self.world.host(**{**own, **options})
        return self.host

    def start_driver(self, **options):
        own = {"dra_driver_name": self.driver, "readiness_file": self.readiness_file}
        self.driver_program = self.world.driver(self.kubelet_root, **{**own, **options})
        return self.driver_program

    def start_dpu(self):
        self.dpu = self.world.dpu(lease_name=self.lease)

    def state(self):
        seen = record.read(self.readiness_file)
        return seen.state if seen else None

    def taint(self):
        """"": there is a slice, and it has none. WITHDRAWN: it has no device, either."""
        found = self.world.target.admin.find(f"{SLICES}/{self.driver}-{self.world.target.node}")
        if not found:
            return None
        if not found["spec"].get("devices"):
            return WITHDRAWN
        taints = found["spec"]["devices"][0].get("taints") or [{"key": "", "value": ""}]
        assert taints[0]["key"] in ("", f"{self.driver}/unhealthy")
        return taints[0]["value"]

    def condition(self):
        kind = f"{self.driver}/DPUReady" if self.name else "DPUReady"
        status = self.world.target.admin.get(f"{NODE}/{self.world.target.node}").get("status", {})
        return next((c["status"] for c in status.get("conditions", []) if c["type"] == kind), None)

    def health(self):
        """What a kubelet that registers it is told."""
        watch = self.world.dra_watch(self.kubelet_root, "--once", "--register", f"--driver={self.driver}")
        return run(watch).stdout.split(" ")[0]

    def seen(self):
        return (self.state(), self.gate.status().ok, self.taint(), self.condition(), self.health())

    def wait(self, state):
        told = "LeaseExpired" if self.world.target.knows_taints else WITHDRAWN
        wanted = {
            "Ready": ("Ready", True, "", "True", "Healthy"),
            "NotReady": ("NotReady", False, told, "False", "Unhealthy"),
        }[state]
        until(lambda: self.seen() == wanted, 2 * SOON_S, lambda: f"{wanted}, not {self.seen()}")


@pytest.fixture
def two(world, kubelet_root):
    return Dpu(world, kubelet_root, ""), Dpu(world, kubelet_root, "dpu1")


def test_each_is_judged_by_its_own_lease_and_shown_by_its_own_names(two):
    for dpu in two:
        dpu.start_host()
        dpu.start_driver()
        dpu.start_dpu()
    for dpu in two:
        dpu.wait("Ready")
    first, second = two
    well = ("Ready", True, "", "True", "Healthy")
    second.dpu.kill()
    second.wait("NotReady")
    first.wait("Ready")
    second.start_dpu()
    second.wait("Ready")
    for dpu in two:
        page = Page(dpu.driver_program)
        assert page.metrics()["dpu_heartbeat_dra_registered"] == 1
        assert len(dpu.driver_program.lines(mod="dra", msg="writing it again")) == 0, "they fight"
        assert "removed or broken" not in dpu.host.text()
    second.host.kill()
    second.dpu.kill()
    never(lambda: first.seen() != well, 2, "anything else")


def refused(host, *words):
    assert host.wait(SOON_S) == 1
    said = host.wait_log(mod="main", level="error")["msg"]
    assert all(word in said for word in words), said


def test_one_driver_name_or_one_record_for_two_is_an_error_at_the_start(two):
    first, second = two
    first.start_host()
    first.start_driver()
    until(lambda: first.taint() is not None, SOON_S, "the first one's slice")
    third = second.start_driver(dra_driver_name=first.driver, is_registered=False)
    refused(third, f"'{first.driver}'", "--dra-driver-name")
    third = second.start_host(lease_name="ovn-dpu-x", readiness_file=first.readiness_file)
    refused(third, f"'{first.readiness_file}'"[:60], first.lease, "--readiness-file")
    assert first.host.is_running() and "removed or broken" not in first.host.text()
    slices = first.world.target.admin.get(SLICES)["items"]
    ours = [s["spec"]["driver"] for s in slices if s["spec"].get("nodeName") == first.world.target.node]
    assert ours == [first.driver]
