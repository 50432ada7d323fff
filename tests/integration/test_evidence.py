# SPDX-License-Identifier: Apache-2.0
"""What counts as evidence: broken watches, odd answers, a server that takes no writes."""

import threading
import time
from contextlib import contextmanager

import pytest
from dpu_testing.wait import never, until
from world import SOON_S

pytestmark = pytest.mark.standin_only

LATE_S = 1.0  # one interval, a read, and a busy machine


def timed(world, interval_ms, duration_s):
    world.interval_ms = interval_ms
    world.duration_s = duration_s
    return world


def not_ready_in_time(world, since_ns, late_s=LATE_S):
    """From the last observed renewal on, whatever stands in the way."""
    limit_s = world.duration_s + late_s
    seen = world.wait_state("NotReady", limit_s - (world.boottime_ns() - since_ns) / 1e9)
    assert seen["admit"] is False
    return seen


# ---- a broken watch is no lost contact ----------------------------------------------------------


@contextmanager
def broken_watch(standin, how):
    stop = threading.Event()
    thread = None
    if how == "500":
        standin.fault("status", verb="watch", user="host", code=500)
        standin.watches("cut", user="host")
    elif how == "hanging":
        standin.fault("hang", verb="watch", user="host")
        standin.watches("cut", user="host")
    else:

        def cut():
            while not stop.wait(1):
                standin.watches("cut", user="host")

        thread = threading.Thread(target=cut)
        thread.start()
    yield
    stop.set()
    if thread:
        thread.join()


@pytest.mark.parametrize("timers", [(1000, 4), (200, 2)], ids=str)
@pytest.mark.parametrize("how", ["500", "hanging", "accepted and cut"])
def test_a_dead_dpu_is_found_in_time_behind_a_broken_watch(world, target, how, timers):
    timed(world, *timers)
    _, dpu = world.both()
    world.wait_renewals()
    with broken_watch(target.standin, how):
        world.wait_renewals(3)  # by reads
        assert world.state() == "Ready"
        dpu.kill()
        not_ready_in_time(world, world.record().observed_ns)
        requests = len(target.standin.audit(user="host", verb="get"))
        assert requests < 12 * world.duration_s * 1000 / world.interval_ms
        world.dpu()
        world.wait_state("Ready", world.interval_ms / 1000 * 3 + 3)


# ---- an answer is an answer ---------------------------------------------------------------------


@pytest.mark.parametrize("text", ["\x00", "a\x00b", "x" * 1_000_000], ids=["NUL", "text", "large"])
def test_no_annotation_blinds_the_host(world, target, text):
    _, dpu = world.both()
    world.wait_renewals()
    key = "dpu.k8s.ovn.org/health-message"
    target.put_lease(lambda l: l["metadata"].setdefault("annotations", {}).update({key: text}))
    world.wait_renewals(5)
    assert world.state() == "Ready"
    dpu.kill()
    target.put_lease(lambda l: l["metadata"].setdefault("annotations", {}).update({key: text}))
    assert not_ready_in_time(world, world.record().observed_ns)["reason"] == "LeaseExpired"


def garbage_lease(target, body):
    """In place of this one lease, for the host only."""
    match = {"user": "host", "resource": "leases", "name": target.lease_name()}
    target.standin.control(
        "POST", "/faults", {"action": "answer", "match": {**match, "verb": ["get", "patch"]}, "body": body}
    )
    target.standin.fault("status", verb=["list", "watch"], user="host", code=500)
    target.standin.watches("cut", user="host")


@pytest.mark.parametrize(
    "body",
    ['{"kind":"Lease"', '{"kind":"Table"}', "[" * 100000],
    ids=["cut", "another kind", "deep"],
)
def test_answers_that_cannot_be_read_condemn_nobody(world, target, body):
    world.both()
    world.wait_renewals()
    garbage_lease(target, body)
    held = world.wait_verdict("Unknown/ApiServerUnreachable", world.duration_s + SOON_S)
    assert held["admit"] is True
    target.standin.clear_faults()
    world.wait_state("Ready")


# ---- silence is proven by a write ----------------------------------------------------------------


def no_writes(standin):
    standin.fault("status", verb=["update", "create", "patch"], code=500, reason="InternalError")


@pytest.mark.parametrize("timers", [(1000, 4), (200, 2)], ids=str)
def test_a_server_that_takes_no_writes_condemns_nobody(world, target, timers):
    timed(world, *timers)
    world.both()
    world.wait_renewals()
    no_writes(target.standin)
    never(lambda: world.state() == "NotReady" and world.record(), world.duration_s * 3, "NotReady")
    seen = world.wait_verdict("Unknown/ApiServerNotWriting")
    assert seen["admit"] is True
    assert world.gate.status().ok and world.gate.add().ok
    target.standin.clear_faults()
    end = time.monotonic() + SOON_S
    while world.verdict() != "Ready/LeaseRenewed":
        assert world.state() != "NotReady", world.record()
        assert time.monotonic() < end, world.record()
        time.sleep(0.005)


def test_a_dead_dpu_is_found_by_a_few_writes_on_its_lease(world, target):
    timed(world, 1000, 4)
    _, dpu = world.both()
    world.wait_renewals()
    since_ns = world.boottime_ns()
    dpu.kill()
    not_ready_in_time(world, world.record().observed_ns)
    asked = [e for e in target.standin.audit(user="host", resource="leases") if e["bootNs"] > since_ns]
    assert 1 <= len([e for e in asked if e["verb"] == "patch"]) <= 3
    assert "dpu.k8s.ovn.org/host-checked" in target.lease()["metadata"]["annotations"]


@pytest.mark.parametrize("code, reason", [(403, "Forbidden"), (422, "Invalid")])
def test_writes_that_are_forbidden_to_all_condemn_nobody_for_a_duration(world, target, code, reason):
    timed(world, 1000, 4)
    world.both()
    world.wait_renewals()
    target.standin.fault("status", verb=["update", "patch"], resource="leases", code=code, reason=reason)
    seen = world.wait_verdict("Unknown/ApiServerNotWriting", world.duration_s + SOON_S)
    assert seen["admit"] is True
    never(lambda: world.state() == "NotReady" and world.record(), world.duration_s / 2, "NotReady")
    target.standin.clear_faults()
    world.wait_state("Ready")


def test_a_dead_dpu_is_found_although_the_hosts_writes_are_forbidden(world, target):
    timed(world, 1000, 4)
    _, dpu = world.both()
    world.wait_renewals()
    match = {"user": "host", "resource": "leases", "verb": "patch"}
    target.standin.control(
        "POST", "/faults", {"action": "status", "match": match, "code": 403, "reason": "Forbidden"}
    )
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


def test_a_dpu_that_dies_with_the_writes_is_found_when_they_are_taken_again(world, target):
    _, dpu = world.both()
    world.wait_renewals()
    no_writes(target.standin)
    dpu.kill()
    world.wait_verdict("Unknown/ApiServerNotWriting")
    target.standin.clear_faults()
    world.wait_verdict("NotReady/LeaseExpired")


def test_the_hold_on_a_mute_server_is_bounded(world, target):
    world.host(api_outage_hold="2s")
    world.dpu()
    world.wait_state("Ready")
    no_writes(target.standin)
    held = world.wait_verdict("Unknown/ApiServerNotWriting")
    assert held["admit"] is True
    world.wait_record(lambda r: r["admit"] is False, what="the end of the hold")
    assert world.verdict() == "Unknown/ApiServerNotWriting"


# ---- reads run to their deadline ----------------------------------------------------------------


@pytest.mark.parametrize("timers", [(1000, 10), (200, 2)], ids=str)
def test_a_hanging_server_neither_condemns_nor_holds_for_ever(world, target, timers):
    timed(world, *timers)
    hold_s = 3
    world.host(api_outage_hold=f"{hold_s}s")
    world.dpu()
    world.wait_state("Ready")
    world.wait_renewals(2)
    target.standin.fault("hang", user="host", resource=None)
    target.standin.freeze_connections()
    end = time.monotonic() + world.duration_s + hold_s - 0.5
    while time.monotonic() < end:
        assert world.state() != "NotReady", world.record()
        assert "was stopped" not in world.record()["message"]
        time.sleep(0.01)
    world.wait_record(lambda r: r["admit"] is False, 2 + LATE_S, "the end of the hold")
    assert world.verdict() == "Unknown/ApiServerUnreachable"


def test_a_dpu_that_returns_behind_a_half_open_watch_is_seen_in_an_interval(world, target):
    timed(world, 1000, 10)
    _, dpu = world.both()
    dpu.kill()
    world.wait_state("NotReady")
    target.standin.watches("mute", user="host")
    world.dpu()
    until(lambda: world.state() == "Ready", 3.5, "Ready within an interval of the first renewals")


@pytest.mark.parametrize("timers", [(1000, 4)], ids=str)
def test_a_black_hole_that_swallows_connections_for_good_condemns_nobody(world, target, timers):
    timed(world, *timers)
    world.both()
    for phase in (0.1, 0.5, 0.9):
        world.wait_renewals(1)
        time.sleep(phase * world.interval_ms / 1000)
        target.standin.fault("hang", resource=None)
        target.standin.freeze_connections()
        never(
            lambda: world.state() == "NotReady" and world.record(), world.duration_s * 1.2, "black"
        )
        target.standin.clear_faults()  # what hangs, hangs on
        end = time.monotonic() + SOON_S
        while world.verdict() != "Ready/LeaseRenewed":
            assert world.state() != "NotReady", world.record()
            assert time.monotonic() < end, world.record()
            time.sleep(0.005)


def test_a_renewal_made_unseen_is_not_dated_at_first_sight(world, target):
    timed(world, 1000, 10)
    _, dpu = world.both()
    world.wait_renewals(2)
    target.standin.fault("status", user="host", resource=None, code=503)
    target.standin.watches("cut", user="host")
    seen = target.lease()["spec"]["renewTime"]
    until(lambda: target.lease()["spec"]["renewTime"] != seen, 3, "a renewal that nobody sees")
    dpu.kill()
    died_ns = world.boottime_ns()
    time.sleep(7)
    target.standin.clear_faults()
    world.wait_record(lambda r: r["lease"]["renewTime"] != seen, what="the late renewal")
    assert world.record().observed_ns < died_ns + 1e9
    late_s = (world.boottime_ns() - died_ns) / 1e9 - world.duration_s
    world.wait_state("NotReady", max(world.duration_s, late_s + 5))
    assert (world.boottime_ns() - died_ns) / 1e9 < world.duration_s + 4
