# SPDX-License-Identifier: Apache-2.0
"""Watches that are denied or silent, and the rate of requests."""

import time

import pytest
from dpu_testing.wait import until
from world import SOON_S

pytestmark = pytest.mark.standin_only


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
    world.wait_renewals(2)  # past the marks of a start, which may meet conflicts
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
    target.standin.control("mute", True)
    world.host()
    world.dpu()
    world.wait_state("Ready")
    world.never_state("NotReady", world.duration_s * 1.5)
    world.wait_renewals(2)
