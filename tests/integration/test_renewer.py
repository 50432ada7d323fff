# SPDX-License-Identifier: Apache-2.0
"""dpu-agent changes nothing else on the Lease, and never gives up."""

import time
from datetime import datetime

import pytest
from dpu_testing.wait import until
from world import SOON_S



def stamp_of(target):
    lease = target.lease()
    return lease and lease["spec"].get("renewTime")


def wait_renewed(target, times=1, timeout_s=SOON_S):
    for _ in range(times):
        before = stamp_of(target)
        until(lambda b=before: stamp_of(target) not in (None, b), timeout_s, "a renewal")


def puts(target, since_ns=0):
    return [e for e in target.standin.audit(user="dpu", verb="update") if e["bootNs"] > since_ns]


@pytest.mark.parametrize("odd", ["a\0b\x7f\x01\\\"", "\U0001f600" * 50_000], ids=["controls", "200 kB"])
def test_it_changes_nothing_but_the_renewal_and_its_boot(world, target, odd):
    made = target.new_lease(leaseTransitions=4, strategy="OldestEmulationVersion")
    notes = {"note": "mine", "example.com/odd": odd}
    old = {"dpu.k8s.ovn.org/health-message": "old"}
    target.put_lease(
        lambda l: l["metadata"].update(labels={"a": "b"}, annotations={**notes, **old}, finalizers=["test.io/x"])
    )
    dpu = world.dpu(dpu_node_lease_duration=9)
    wait_renewed(target, 2)
    lease = target.lease()
    if not target.standin:
        target.put_lease(lambda l: l["metadata"].update(finalizers=None))
    renewed = datetime.fromisoformat(lease["spec"].pop("renewTime").replace("Z", "+00:00"))
    assert abs(time.time() - renewed.timestamp()) < 2
    assert lease["spec"].pop("acquireTime")
    assert lease["spec"] == made["spec"]
    metadata = lease["metadata"]
    assert metadata["labels"] == {"a": "b"} and metadata["finalizers"] == ["test.io/x"]
    ours = {f"dpu.k8s.ovn.org/{word}" for word in ("agent-version", "boot-id", "probes")}
    assert set(metadata["annotations"]) == {*notes, *ours} and notes.items() <= metadata["annotations"].items()
    assert metadata["annotations"]["dpu.k8s.ovn.org/probes"] == "none"
    assert metadata["uid"] == made["metadata"]["uid"]
    assert len(dpu.lines(level="warn")) == len(dpu.lines(level="warn", msg="no probe")) == 1
    assert not dpu.lines(level="error")


@pytest.mark.standin_only
def test_conflicts_without_end_do_not_stop_the_renewals(world, target):
    """A controller that edits the lease all the time: each renewal may need a second try."""
    world.both()
    end = time.monotonic() + world.duration_s * 1.5
    count = 0
    while time.monotonic() < end:
        count += 1
        target.put_lease(lambda l, n=count: l["metadata"].update(labels={"n": str(n)}))
        time.sleep(0.03)
        assert world.state() == "Ready", world.record()


FAULTS = [
    {"action": "status", "code": 500},
    {"action": "status", "code": 503, "retryAfter": 30},
    {"action": "status", "code": 429, "retryAfter": 30},
    {"action": "cut"},
    {"action": "answer", "body": "nonsense"},
    {"action": "answer", "body": "<html/>", "contentType": "text/html"},
    {"action": "cut", "after": True},
    {"action": "status", "code": 504, "after": True},
]


@pytest.mark.standin_only
def test_a_few_failures_in_a_row_cost_no_readiness(world, target):
    world.both()
    transition = world.record()["transitionTime"]
    for fault in FAULTS:
        target.standin.fault(verb="update", user="dpu", count=2, **fault)
        until(lambda: target.standin.hits()[-1] == 2, SOON_S, str(fault))
        world.wait_renewals(2)
        assert world.record()["transitionTime"] == transition, (fault, world.record())


@pytest.mark.standin_only
def test_writes_that_take_long_renew_all_the_same(world, target):
    """Longer than any single deadline, but less than the duration leaves: for everybody, as behind a loaded etcd."""
    world.both()
    target.standin.fault("delay", verb=["update", "patch"], ms=1200)
    world.never_state("NotReady", 1.5 * world.duration_s)
    started_ns = world.boottime_ns()
    world.wait_renewals(1)
    assert len(puts(target, started_ns)) <= 3, "the server's time is known by now"
