# SPDX-License-Identifier: Apache-2.0
"""Watches that are denied, and their connections."""

import time

import pytest
from dpu_testing.wait import until
from front import Front
from world import SOON_S

pytestmark = pytest.mark.standin_only
OLD_S = 3  # an idle connection is by then


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


def test_a_watch_has_a_connection_just_left_or_a_new_one(world, target, tmp_path):
    """An old one may be half open. The host is at rest, with nothing but its watch for a while."""
    front = Front(target.standin.url)
    world.interval_ms, world.duration_s = 1000, 10  # a renewal that is late makes the host look
    world.dpu()
    world.host(kubeconfig=front.kubeconfig(tmp_path, "host"))
    world.wait_state("Ready")
    until(lambda: front.is_asked("/events"), SOON_S, lambda: str(front.asked))
    for action, first in (("expire", "fieldSelector"), ("end", "/leases")):
        time.sleep(OLD_S)
        before, watches = len(front.asked), len(front.watches())
        target.standin.watches(action)
        until(lambda n=watches: len(front.watches()) == n + 1, SOON_S, lambda: str(front.asked))
        asked = front.watches(before)[0]
        assert first in asked[0] and "watch=true" in asked[-1]
    front.close()
