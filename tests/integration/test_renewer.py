# SPDX-License-Identifier: Apache-2.0
"""dpu-agent: one PUT per interval, no read, nothing else changed, never given up."""

import time
from datetime import datetime

import pytest
from dpu_testing.wait import never, until
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


@pytest.mark.standin_only
def test_the_steady_state_is_one_put_per_interval_and_no_read(world, target):
    target.new_lease()
    world.dpu()
    wait_renewed(target, 3)
    target.standin.count_anew()
    started_ns = world.boottime_ns()
    time.sleep(2)  # a rate
    seconds = (world.boottime_ns() - started_ns) / 1e9
    requests = {k: n for k, n in target.standin.requests().items() if k.startswith("dpu ")}
    assert list(requests) == ["dpu update leases 200"], requests
    expected = seconds * 1000 / world.interval_ms
    assert expected * 0.7 - 1 <= requests["dpu update leases 200"] <= expected * 1.15 + 1
    connections = {e["conn"] for e in puts(target, started_ns)}
    assert len(connections) == 1, "one kept-alive connection"


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
def test_a_conflict_costs_one_read(world, target):
    target.new_lease()
    world.dpu()
    wait_renewed(target, 3)
    target.standin.count_anew()
    target.put_lease(lambda l: l["metadata"].update(labels={"edited": "yes"}))
    wait_renewed(target, 4)
    requests = target.standin.requests()
    assert requests.get("dpu update leases 409") == 1, requests
    assert requests.get("dpu get leases 200") == 1, requests
    assert target.lease()["metadata"]["labels"] == {"edited": "yes"}


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


def grace_s(interval_s):
    """How long the host waits for the DPU after an outage: contract/lease.h."""
    deadline_s = min(max(2 * interval_s, 1), 5)
    return max(2 * interval_s, deadline_s + interval_s + 1)


@pytest.mark.standin_only
def test_after_a_black_hole_it_renews_within_the_grace_of_the_host(world, target):
    """Connections from before its end stay dead, also those made in between."""
    interval_s = 0.5
    target.new_lease()
    world.dpu(dpu_node_lease_renew_interval="500ms", dpu_node_lease_duration=2)
    wait_renewed(target, 2)
    for outage in (3.1, 4.3, 5.7):
        target.standin.freeze_connections()
        target.standin.fault("hang", user="dpu")
        time.sleep(outage * interval_s)
        target.standin.clear_faults()
        over_ns = world.boottime_ns()
        wait_renewed(target, 1, 3 * grace_s(interval_s))
        first = next(e for e in puts(target, over_ns) if e["code"] == 200)
        took_s = (first["bootNs"] - over_ns) / 1e9
        assert took_s < grace_s(interval_s), f"after {outage} intervals: {took_s} s"


def test_a_second_agent_on_the_same_lease_is_noticed(world, target):
    target.new_lease()
    first = world.dpu()
    wait_renewed(target, 2)
    second = world.start("dpu-agent", world.flags("dpu"))
    words = {"level": "warn", "msg": "another program also renews lease"}
    until(lambda: first.lines(**words) or second.lines(**words), SOON_S, "a warning")
    assert first.is_running() and second.is_running()
    never(lambda: len(first.lines(**words)) > 1, 1.0, "more than one warning")
    wait_renewed(target, 3)


def test_a_planned_stop_can_be_announced(world, target):
    world.host()
    dpu = world.dpu(announce_shutdown=True)
    world.wait_state("Ready")
    assert dpu.stop() == 0
    assert target.lease()["metadata"]["annotations"]["dpu.k8s.ovn.org/health"] == "shutdown"
    world.wait_verdict("NotReady/DPUShutdown", world.duration_s * 0.9)
    world.dpu()
    world.wait_state("Ready")
    assert "dpu.k8s.ovn.org/health" not in target.lease()["metadata"].get("annotations", {})


@pytest.mark.standin_only
def test_writes_that_take_long_renew_all_the_same(world, target):
    """Longer than any single deadline, but less than the duration leaves: for everybody, as behind a loaded etcd."""
    world.both()
    target.standin.fault("delay", verb=["update", "patch"], ms=1200)
    world.never_state("NotReady", 1.5 * world.duration_s)
    started_ns = world.boottime_ns()
    world.wait_renewals(1)
    assert len(puts(target, started_ns)) <= 3, "the server's time is known by now"
