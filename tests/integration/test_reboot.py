# SPDX-License-Identifier: Apache-2.0
"""A DPU that reboots is noticed, however short the reboot: its boot id stands on the lease."""

import threading
import time
import uuid

import pytest
from dpu_testing.kube import micro_time
from dpu_testing.process import run
from test_events import events, wait_event
from test_http import Page
from world import SOON_S

BOOT_ID = "dpu.k8s.ovn.org/boot-id"


class Dpu(threading.Thread):
    """Renews as dpu-agent does, of a boot of its own: that of this machine is one and the same."""

    def __init__(self, world, target):
        super().__init__()
        self.target = target
        self.interval_s = world.interval_ms / 1000
        self.boot = str(uuid.uuid4())
        self.ended = threading.Event()

    def renew(self, lease):
        lease["spec"]["renewTime"] = micro_time()
        if self.boot:
            lease["metadata"].setdefault("annotations", {})[BOOT_ID] = self.boot

    def run(self):
        while not self.ended.wait(self.interval_s):
            self.target.put_lease(self.renew)

    def reboot(self):
        self.boot = str(uuid.uuid4())

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


@pytest.fixture
def dpu(world, target):
    target.new_lease()
    with Dpu(world, target) as running:
        yield running


def reboots(host):
    return Page(host).metrics()["dpu_heartbeat_dpu_reboots_total"]


def kernels_boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def boot_on_lease(target):
    return (target.lease()["metadata"].get("annotations") or {}).get(BOOT_ID)


def test_a_renewal_says_which_boot_it_is_and_a_restart_is_none(world, target):
    host, agent = world.both()
    assert boot_on_lease(target) == kernels_boot_id()
    world.wait_record(lambda r: r.get("dpuBootId") == kernels_boot_id())
    agent.kill()
    world.dpu()
    world.wait_renewals(3)
    assert "dpuRebootTime" not in world.record() and reboots(host) == 0


def test_a_reboot_shorter_than_the_lease_is_told_everywhere(world, target, dpu):
    host = world.host()
    world.wait_state("Ready")
    first = world.wait_record(lambda r: r.get("dpuBootId"))
    assert first["dpuBootId"] == dpu.boot and "dpuRebootTime" not in first
    assert "dpu_heartbeat_dpu_reboot_timestamp_seconds" not in Page(host).metrics()
    since = time.time()
    dpu.reboot()
    seen = world.wait_record(lambda r: r.get("dpuRebootTime"))
    assert seen.verdict() == "Ready/LeaseRenewed" and seen["dpuBootId"] == dpu.boot
    event = wait_event(target, "DPURebooted")
    assert event["type"] == "Warning" and "rebooted" in event["note"]
    metrics = Page(host).metrics()
    assert metrics["dpu_heartbeat_dpu_reboots_total"] == 1
    assert abs(metrics["dpu_heartbeat_dpu_reboot_timestamp_seconds"] - since) < 10
    host.wait_log(SOON_S, level="warn", msg="the DPU has rebooted")
    said = run(
        [world.binaries.path("dpuctl"), "status", f"--readiness-file={world.readiness_file}"],
    ).stdout
    assert f"boot {dpu.boot}, rebooted " in said, said
    world.wait_renewals(5)
    assert len(events(target, "DPURebooted")) == 1 and reboots(host) == 1
