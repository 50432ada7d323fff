# SPDX-License-Identifier: Apache-2.0
"""What counts as evidence: odd answers, a server that takes no writes."""

import time

import pytest
from dpu_testing.wait import never
from world import SOON_S

pytestmark = pytest.mark.standin_only

LATE_S = 1.0  # one interval, a read, and a busy machine


def not_ready_in_time(world, since_ns, late_s=LATE_S):
    """From the last observed renewal on, whatever stands in the way."""
    limit_s = world.duration_s + late_s
    seen = world.wait_state("NotReady", limit_s - (world.boottime_ns() - since_ns) / 1e9)
    assert seen["admit"] is False
    return seen


# ---- an answer is an answer ---------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a\x00b", "x" * 1_000_000], ids=["NUL", "large"])
def test_no_annotation_blinds_the_host(world, target, text):
    _, dpu = world.both()
    key = "dpu.k8s.ovn.org/health-message"
    target.put_lease(lambda l: l["metadata"].setdefault("annotations", {}).update({key: text}))
    world.wait_renewals(3)
    assert world.state() == "Ready"
    dpu.kill()
    target.put_lease(lambda l: l["metadata"].setdefault("annotations", {}).update({key: text}))
    assert not_ready_in_time(world, world.record().observed_ns)["reason"] == "LeaseExpired"


def test_answers_that_cannot_be_read_condemn_nobody(world, target):
    """In place of this one lease, for the host only."""
    world.both()
    host = {"user": "host", "resource": "leases"}
    match = {**host, "name": target.lease_name(), "verb": ["get", "patch"]}
    answer = {"action": "answer", "match": match, "body": '{"kind":"Table"}'}
    target.standin.control("POST", "/faults", answer)
    target.standin.fault("status", verb=["list", "watch"], user="host", code=500)
    target.standin.watches("cut", user="host")
    held = world.wait_verdict("Unknown/ApiServerUnreachable", world.duration_s + SOON_S)
    assert held["admit"] is True
    target.standin.clear_faults()
    world.wait_state("Ready")


# ---- silence is proven by a write ----------------------------------------------------------------


def test_a_server_that_takes_no_writes_condemns_nobody(world, target):
    world.both()
    verbs = ["update", "create", "patch"]
    target.standin.fault("status", verb=verbs, code=500, reason="InternalError")
    never(lambda: world.state() == "NotReady" and world.record(), world.duration_s * 2, "NotReady")
    seen = world.wait_verdict("Unknown/ApiServerNotWriting")
    assert seen["admit"] is True
    assert world.gate.status().ok and world.gate.add().ok
    target.standin.clear_faults()
    world.ready_again()


def test_a_dead_dpu_is_found_although_the_hosts_writes_are_forbidden(world, target):
    _, dpu = world.both()
    target.standin.fault("status", verb="patch", user="host", code=403, reason="Forbidden")
    dpu.kill()
    world.wait_verdict("Unknown/ApiServerNotWriting", world.duration_s + SOON_S)
    world.wait_verdict("NotReady/LeaseExpired", world.duration_s + SOON_S)


def test_a_host_that_may_not_write_finds_a_dead_dpu_by_reads_in_time(world, target):
    target.without_right("host", ["patch"], "leases")
    host, dpu = world.both()
    host.wait_log(SOON_S, msg="grant patch on leases")
    world.wait_renewals()
    dpu.kill()
    not_ready_in_time(world, world.record().observed_ns)


# ---- reads run to their deadline ----------------------------------------------------------------


def test_a_hanging_server_neither_condemns_nor_holds_for_ever(world, target):
    hold_s = 3
    world.host(api_outage_hold=f"{hold_s}s")
    world.dpu()
    world.wait_state("Ready")
    target.standin.fault("hang", user="host", resource=None)
    target.standin.freeze_connections()
    end = time.monotonic() + world.duration_s + hold_s - 0.5
    while time.monotonic() < end:
        assert world.state() != "NotReady", world.record()
        assert "was stopped" not in world.record()["message"]
        time.sleep(0.01)
    world.wait_record(lambda r: r["admit"] is False, 2 + LATE_S, "the end of the hold")
    assert world.verdict() == "Unknown/ApiServerUnreachable"
