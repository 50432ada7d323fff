# SPDX-License-Identifier: Apache-2.0
"""A DPU that reboots is noticed, however short the reboot: its boot id stands on the lease."""

import time
import uuid

from dpu_testing.kube import micro_time
from dpu_testing.process import run
from test_events import events, wait_event
from test_http import Page
from world import SOON_S

BOOT_ID = "dpu.k8s.ovn.org/boot-id"


def renew(target, boot):
    """As dpu-agent does, of a boot of its own: that of this machine is one and the same."""

    def change(lease):
        lease["spec"]["renewTime"] = micro_time()
        lease["metadata"].setdefault("annotations", {})[BOOT_ID] = boot

    target.put_lease(change)


def reboots(host):
    return Page(host).metrics()["dpu_heartbeat_dpu_reboots_total"]


def test_a_renewal_says_which_boot_it_is_and_a_restart_is_none(world, target):
    host, agent = world.both()
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        ours = file.read().strip()
    assert target.lease()["metadata"]["annotations"][BOOT_ID] == ours
    world.wait_record(lambda r: r.get("dpuBootId") == ours)
    agent.kill()
    world.dpu()
    world.wait_renewals(3)
    assert "dpuRebootTime" not in world.record() and reboots(host) == 0


def test_a_reboot_shorter_than_the_lease_is_told_everywhere(world, target):
    world.duration_s = 20
    target.new_lease(leaseDurationSeconds=20)
    boots = [str(uuid.uuid4()) for _ in range(2)]
    renew(target, boots[0])  # what the host sees first is no renewal
    host = world.host()
    world.wait_record(lambda r: r["lease"]["renewTime"], what="the first look")
    renew(target, boots[0])
    first = world.wait_record(lambda r: r.get("dpuBootId") == boots[0] and r.state == "Ready")
    assert "dpuRebootTime" not in first
    assert "dpu_heartbeat_dpu_reboot_timestamp_seconds" not in Page(host).metrics()
    since = time.time()
    renew(target, boots[1])
    seen = world.wait_record(lambda r: r.get("dpuRebootTime"))
    assert (seen.verdict(), seen["dpuBootId"]) == ("Ready/LeaseRenewed", boots[1])
    event = wait_event(target, "DPURebooted")
    assert event["type"] == "Warning" and "rebooted" in event["note"]
    at = Page(host).metrics()["dpu_heartbeat_dpu_reboot_timestamp_seconds"]
    assert abs(at - since) < 10
    host.wait_log(SOON_S, level="warn", msg="the DPU has rebooted")
    command = [world.binaries.path("dpuctl"), "status", f"--readiness-file={world.readiness_file}"]
    assert f"boot {boots[1]}, rebooted " in run(command).stdout
    renew(target, boots[1])
    world.wait_record(lambda r: r.observed_ns > seen.observed_ns, what="another renewal")
    assert len(events(target, "DPURebooted")) == 1 and reboots(host) == 1
