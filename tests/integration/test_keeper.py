# SPDX-License-Identifier: Apache-2.0
"""dpu-host-agent keeps the lease: creates it, repairs it, and never gives a sign of life itself."""

import contextlib
import os
import time

import pytest
from dpu_testing.kube import ApiError, micro_time
from dpu_testing.wait import never, until
from upstream import HOLDER, UpstreamDpu, owner
from world import SOON_S

def wait_lease(target, fits, what):
    return until(
        lambda: (lease := target.lease()) and fits(lease) and lease,
        SOON_S,
        lambda: f"{what}; the lease is {target.lease()}",
    )


def test_a_missing_lease_is_created_without_a_renew_time(world, target):
    world.host()
    lease = wait_lease(target, lambda _: True, "a lease")
    assert lease["spec"]["holderIdentity"] == HOLDER
    assert lease["spec"]["leaseDurationSeconds"] == world.duration_s
    assert not lease["spec"].get("renewTime")
    assert not lease["spec"].get("acquireTime")
    assert lease["metadata"]["ownerReferences"] == [owner(target)]


def test_holder_name_and_duration_come_from_the_options(world, target):
    world.host(holder_identity="somebody", dpu_node_lease_duration=7, lease_name="my-lease")
    path = f"{target.leases_path()}/my-lease"
    lease = until(lambda: target.admin.find(path), SOON_S, "the lease 'my-lease'")
    assert lease["spec"]["holderIdentity"] == "somebody"
    assert lease["spec"]["leaseDurationSeconds"] == 7


def test_a_deleted_lease_is_created_again_and_the_living_dpu_stays_ready(world, target):
    world.both()
    before = target.lease()["metadata"]["uid"]
    target.admin.delete(target.lease_path())
    world.never_state("NotReady", 0.5)
    wait_lease(target, lambda l: l["metadata"]["uid"] != before, "another lease")
    wait_lease(target, lambda l: l["spec"].get("renewTime"), "a renewal of it")
    world.never_state("NotReady", world.duration_s * 1.2)
    assert world.wait_state("Ready")["lease"]["uid"] != before


def test_a_changed_duration_is_repaired(world, target):
    world.both()
    target.put_lease(lambda l: l["spec"].update(leaseDurationSeconds=333))
    wait_lease(
        target, lambda l: l["spec"]["leaseDurationSeconds"] == world.duration_s, "the duration"
    )
    target.put_lease(lambda l: l["spec"].pop("leaseDurationSeconds"))
    wait_lease(
        target,
        lambda l: l["spec"].get("leaseDurationSeconds") == world.duration_s,
        "the duration again",
    )
    assert world.state() == "Ready"


@pytest.mark.parametrize("references", ["none", "blocking", "foreign controller"])
def test_the_owner_reference_is_repaired(world, target, references):
    world.both()
    wrong = {
        "none": None,
        "blocking": [owner(target, blockOwnerDeletion=True)],
        "foreign controller": [
            owner(target, "11111111-2222-3333-4444-555555555555", kind="ConfigMap", name="other", controller=True)
        ],
    }[references]
    if references == "foreign controller" and not target.standin:
        pytest.skip("a real garbage collector removes the lease with its missing owner")
    target.put_lease(lambda l: l["metadata"].update(ownerReferences=wrong))
    wait_lease(
        target,
        lambda l: owner(target) in l["metadata"].get("ownerReferences", []),
        "our owner reference",
    )
    assert world.state() == "Ready"


def test_an_empty_holder_is_filled_in(world, target):
    target.new_lease(leaseDurationSeconds=world.duration_s)
    world.host()
    wait_lease(target, lambda l: l["spec"].get("holderIdentity") == HOLDER, "the holder")


def test_a_foreign_holder_is_reported_and_left_alone(world, target):
    target.new_lease(
        leaseDurationSeconds=world.duration_s, holderIdentity="intruder", renewTime=micro_time()
    )
    host = world.host()
    host.wait_log(SOON_S, msg="intruder")
    seen = world.wait_verdict("NotReady/LeaseInvalid")
    assert "intruder" in seen["message"]
    assert target.lease()["spec"]["holderIdentity"] == "intruder"


def test_what_the_keeper_does_not_know_survives_its_repairs(world, target):
    world.both()
    # A field of a newer API version; a real server without it drops it.
    alien = {"strategy": "OldestEmulationVersion"} if target.standin else {}

    def decorate(lease):
        lease["metadata"]["labels"] = {"team": "net"}
        lease["metadata"]["annotations"] = {"note": "keep me"}
        lease["spec"]["leaseTransitions"] = 3
        lease["spec"].update(alien)
        lease["spec"]["leaseDurationSeconds"] = 99

    target.put_lease(decorate)
    lease = wait_lease(
        target, lambda l: l["spec"]["leaseDurationSeconds"] == world.duration_s, "the repair"
    )
    assert lease["metadata"]["labels"] == {"team": "net"}
    assert lease["metadata"]["annotations"]["note"] == "keep me"
    assert lease["spec"]["leaseTransitions"] == 3
    assert alien.items() <= lease["spec"].items()


def test_a_text_with_nul_survives_every_write(world, target):
    """The API server stores it; whoever could not read it would be blind to the whole lease."""
    world.both()
    odd = "a\0b\u2028\U0001f600"
    target.put_lease(lambda l: l["metadata"].update(annotations={"dpu.k8s.ovn.org/note": odd}))
    world.wait_renewals()
    target.put_lease(lambda l: l["spec"].update(leaseDurationSeconds=99))
    lease = wait_lease(
        target, lambda l: l["spec"]["leaseDurationSeconds"] == world.duration_s, "the repair"
    )
    assert lease["metadata"]["annotations"]["dpu.k8s.ovn.org/note"] == odd
    world.wait_renewals()
    assert target.lease()["metadata"]["annotations"]["dpu.k8s.ovn.org/note"] == odd
    assert world.state() == "Ready"


def test_a_holder_that_continues_after_nul_is_foreign(world, target):
    target.new_lease(leaseDurationSeconds=world.duration_s, holderIdentity=HOLDER + "\0x")
    host = world.host()
    host.wait_log(SOON_S, msg="is held by")
    assert target.lease()["spec"]["holderIdentity"] == HOLDER + "\0x"


def test_a_node_created_anew_gets_a_lease_with_its_new_uid(world, target):
    world.both()
    before = target.node_uid()
    target.delete_node()
    target.create_node()
    assert target.node_uid() != before
    lease = wait_lease(
        target,
        lambda l: [r["uid"] for r in l["metadata"].get("ownerReferences", [])]
        == [target.node_uid()],
        "a lease owned by the new Node",
    )
    # No loop of deletion and creation: the lease stays the same one.
    never(
        lambda: (now := target.lease()) and now["metadata"]["uid"] != lease["metadata"]["uid"],
        1.5,
        "another lease yet again",
    )
    world.wait_renewals()
    assert world.state() == "Ready"


def test_upstreams_dpu_side_renews_after_the_node_was_created_anew(world, target):
    with UpstreamDpu(target, world.interval_ms / 1000):
        world.host()
        world.wait_state("Ready")
        target.delete_node()
        target.create_node()
        wait_lease(
            target,
            lambda l: target.node_uid() in [r["uid"] for r in l["metadata"]["ownerReferences"]],
            "a lease owned by the new Node",
        )
        world.wait_state("Ready")
        world.never_state("NotReady", world.duration_s * 2)


@pytest.mark.parametrize("maker", ["our host", "upstream's host"])
def test_upstreams_dpu_side_renews_beside_a_host_that_came_back_as_a_new_node(world, target, maker):
    """It knows the UID of before, and adds an owner that is a controller."""
    upstream = UpstreamDpu(target, world.interval_ms / 1000, world.duration_s)
    target.delete_node()
    target.create_node()
    if maker != "our host":
        target.new_lease(owners=[owner(target, controller=True)], holderIdentity=HOLDER)
    world.host()
    wait_lease(target, lambda l: l["metadata"]["ownerReferences"] == [owner(target)], "our reference")
    with upstream:
        world.wait_state("Ready")
        assert upstream.refused == 0


def test_without_its_node_no_lease_is_created_until_the_node_exists(world, target):
    target.delete_node()
    host = world.host()
    host.wait_log(SOON_S, msg=target.node)
    never(target.lease, 0.7, "a lease without an owner")
    assert world.wait_record(lambda _: True).verdict() == "Unknown/AwaitingFirstRenewal"
    target.create_node()
    lease = wait_lease(target, lambda _: True, "a lease")
    assert lease["metadata"]["ownerReferences"] == [owner(target)]


def test_the_host_never_writes_a_renew_time(world, target):
    stamp = micro_time(1_700_000_000)
    target.new_lease(holderIdentity=HOLDER, renewTime=stamp, leaseDurationSeconds=44)
    first = world.host()
    wait_lease(
        target, lambda l: l["spec"]["leaseDurationSeconds"] == world.duration_s, "the repair"
    )
    first.stop()
    world.host()
    world.wait_state("NotReady")
    assert target.lease()["spec"]["renewTime"] == stamp


@pytest.mark.standin_only
def test_losing_the_race_to_create_is_no_error(world, target):
    target.standin.fault(
        "status", verb="create", user="host", code=409, reason="AlreadyExists", count=2
    )
    world.host()
    wait_lease(target, lambda _: True, "a lease in the end")


@pytest.mark.standin_only
def test_a_conflict_while_repairing_is_tried_again(world, target):
    world.both()
    target.standin.fault("status", verb="update", user="host", code=409, reason="Conflict", count=3)
    target.put_lease(lambda l: l["spec"].update(leaseDurationSeconds=333))
    wait_lease(
        target, lambda l: l["spec"]["leaseDurationSeconds"] == world.duration_s, "the repair"
    )


def host_writes(target):
    return [
        a
        for a in target.standin.audit(user="host")
        if a["resource"] == "leases" and a["verb"] in ("create", "update") and a["code"] < 300
    ]


@pytest.mark.standin_only
def test_two_agents_that_disagree_do_not_write_for_ever(world, target):
    """An update of a DaemonSet with a surge, which changes the duration."""
    first, _ = world.both()
    other = os.path.join(world.directory, "other", "readiness.json")
    second = world.host(dpu_node_lease_duration=3, readiness_file=other)
    time.sleep(10)
    assert 2 <= len(host_writes(target)) <= 10, host_writes(target)
    refused = [a for a in target.standin.audit(user="dpu") if a["code"] == 409]
    assert len(refused) <= 10, refused
    assert world.state() == "Ready"
    for host in (first, second):
        host.wait_log(SOON_S, msg="somebody takes our repairs back")
        assert len(host.lines(msg="somebody takes our repairs back")) == 1


@pytest.mark.standin_only
@pytest.mark.parametrize("what", ["duration", "owner"])
def test_a_webhook_that_changes_what_we_write_is_no_loop(world, target, what):
    patch = {
        "duration": {"spec": {"leaseDurationSeconds": 77}},
        "owner": {"metadata": {"ownerReferences": []}},
    }[what]
    target.standin.fault("patch", user="host", verb=["create", "update"], patch=patch)
    host = world.host()
    world.dpu()
    host.wait_log(SOON_S, msg="an admission")
    time.sleep(6)
    assert len(host_writes(target)) <= 3, host_writes(target)
    assert len(host.lines(msg="an admission")) == 1


@pytest.mark.standin_only
def test_a_lease_that_is_deleted_again_and_again_is_created_at_a_pace(world, target):
    world.host()
    end = time.monotonic() + 6
    while time.monotonic() < end:
        with contextlib.suppress(ApiError):
            target.admin.delete(target.lease_path())
        time.sleep(0.02)
    assert 2 <= len(host_writes(target)) <= 10, host_writes(target)
    wait_lease(target, lambda _: True, "a lease in the end")
