# SPDX-License-Identifier: Apache-2.0
"""A watch can end, lie, stammer and fall silent. None of it is seen from outside."""

import json
import time

import pytest
from dpu_testing.wait import until
from world import SOON_S

pytestmark = pytest.mark.standin_only


def survives(world, disturb):
    """Applies `disturb` to a world at rest: the node must stay Ready and renewals must go on."""
    world.both()
    disturb()
    world.never_state("NotReady", world.interval_ms * 3 / 1000)
    world.stays_ready()


def test_half_an_event_and_a_cut_are_no_renewal(world, target):
    _, dpu = world.both()
    dpu.kill()
    last_ns = world.record().observed_ns
    target.standin.watches("raw", text='{"type":"MODIFIED","object":{"metadata":{"name":"ovn')
    target.standin.watches("cut")
    seen = world.wait_verdict("NotReady/LeaseExpired")
    assert seen.observed_ns == last_ns or seen.observed_ns - last_ns < 3e8


def test_an_event_of_a_foreign_lease_is_no_renewal(world, target):
    _, dpu = world.both()
    dpu.kill()
    until(lambda: world.boottime_ns() - world.record().observed_ns > 5e8, SOON_S, "quiet")
    last_ns = world.record().observed_ns
    lease = target.lease()
    lease["metadata"]["name"] = "ovn-dpu-other"
    count = 0
    while world.state() == "Ready":
        count += 1
        lease["spec"]["renewTime"] = f"2030-01-01T00:00:00.{count:06d}Z"
        text = json.dumps({"type": "MODIFIED", "object": lease}) + "\n"
        target.standin.watches("raw", text=text)
        time.sleep(0.1)
        assert count < 60
    assert world.record().observed_ns == last_ns


@pytest.mark.parametrize("via", ["event", "http"])
def test_a_compacted_history_is_listed_anew(world, target, via):
    def disturb():
        target.standin.control("POST", "/compact", {"via": via})
        target.standin.watches("cut", user="host")

    survives(world, disturb)


def test_a_watch_that_never_works_is_no_storm(world, target):
    world.dpu()
    target.standin.fault("status", verb="watch", user="host", code=410, reason="Expired")
    world.host()
    world.wait_state("Ready")
    time.sleep(5)  # a rate
    sent = [a for a in target.standin.audit(user="host") if a["verb"] in ("list", "watch")]
    assert 4 <= len(sent) <= 15, len(sent)
    target.standin.clear_faults()
    world.wait_renewals(5)


def test_one_agent_sends_a_burst_and_then_one_per_second(world, target):
    """Whatever it is that fails: here all at once."""
    target.standin.fault("status", user="host", code=410, reason="Expired", resource=None)
    start = time.monotonic()
    host = world.host(node_condition="on")
    time.sleep(5)  # a rate
    entries = target.standin.audit(user="host")
    # Confirming reads are the only ones that pass by the limit.
    sent = len([a for a in entries if (a["verb"], a["resource"]) != ("get", "leases")])
    assert sent <= 10 + (time.monotonic() - start) + 1, sent
    assert host.is_running()


def test_duplicate_and_older_events_are_harmless(world, target):
    _, dpu = world.both()
    old = target.lease()
    world.wait_renewals(3)
    dpu.kill()
    until(lambda: world.boottime_ns() - world.record().observed_ns > 4e8, SOON_S, "quiet")
    last_ns = world.record().observed_ns
    for lease in (target.lease(), old, target.lease(), old):
        target.standin.watches("raw", text=json.dumps({"type": "MODIFIED", "object": lease}) + "\n")
    seen = world.wait_verdict("NotReady/LeaseExpired")
    assert seen.observed_ns == last_ns


def test_a_server_restored_from_a_backup_is_followed(world, target):
    """resourceVersion goes back; a watch from the future hears nothing: the confirming read sees
    that the DPU lives."""
    world.both()
    target.standin.control("POST", "/snapshot")
    world.wait_renewals(10)
    target.standin.control("POST", "/restore")
    target.standin.drop_connections()
    world.never_state("NotReady", world.duration_s * 1.5)
    world.wait_renewals(3)
    assert world.state() == "Ready"


def test_a_version_too_large_is_listed_anew(world, target):
    members = {"reason": "Timeout", "message": "Too large resource version: 99, current: 1"}

    def disturb():
        target.standin.fault(
            "status", verb="watch", user="host", code=504, retryAfter=1, count=1, **members
        )
        target.standin.watches("cut", user="host")

    survives(world, disturb)


def test_a_forbidden_watch_is_replaced_by_polling(world, target):
    target.without_right("host", ["watch", "list"])
    host, dpu = world.both()
    said = host.wait_log(SOON_S, msg="poll")
    assert "watch" in said["msg"] or "list" in said["msg"]
    world.stays_ready(2)
    assert len([l for l in host.lines(msg="poll") if l.get("level") in ("warn", "info")]) <= 2
    dpu.kill()
    world.wait_verdict("NotReady/LeaseExpired")
    assert target.standin.audit(user="host", verb="get", resource="leases")


def test_a_server_that_denies_while_it_starts_is_watched_again_soon(world, target):
    """One that restarts answers 403 until it has read its rules."""
    host, _ = world.both()
    reads = ["get", "list", "watch"]  # a mark that is denied is told of at once
    target.standin.fault("status", user="host", verb=reads, code=403, reason="Forbidden", resource=None)
    target.standin.drop_connections()
    until(lambda: target.standin.audit(user="host", code=403), SOON_S, "a denial")
    time.sleep(0.5)
    target.standin.clear_faults()
    target.standin.count_anew()
    until(lambda: target.standin.requests().get("host watch leases 200"), 4, "a watch")
    world.wait_state("Ready")
    assert not host.lines(msg="grant")


def test_a_denied_watch_costs_one_read_per_interval(world, target):
    world.interval_ms, world.duration_s = 1000, 4
    world.both()
    target.without_right("host", ["watch", "list"])
    target.standin.watches("cut", user="host")
    until(lambda: target.standin.audit(user="host", code=403), SOON_S, "a denial")
    started_ns = world.boottime_ns()
    world.never_state("NotReady", 3.5)
    entries = target.standin.audit(user="host", verb="get", name=target.lease_name())
    reads = [entry for entry in entries if entry["bootNs"] > started_ns]
    assert 2 <= len(reads) <= 4, len(reads)


def test_a_lease_that_is_gone_is_made_anew_at_once_where_the_watch_is_denied(world, target):
    target.without_right("host", ["watch", "list"])
    world.both()
    world.wait_renewals(5)
    gone_ns = world.boottime_ns()
    target.admin.delete(f"{target.leases_path()}/{target.lease_name()}")
    until(target.lease, SOON_S, "the lease is there again")
    assert (world.boottime_ns() - gone_ns) / 1e9 < 1.2
    world.never_state("NotReady", 1)


def test_a_watch_that_is_silent_from_the_start_is_seen_through(world, target):
    target.standin.control("POST", "/watches/new", {"mute": True})
    world.host()
    world.dpu()
    world.wait_state("Ready")
    world.never_state("NotReady", world.duration_s * 1.5)
    world.wait_renewals(2)
