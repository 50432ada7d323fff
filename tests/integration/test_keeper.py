# SPDX-License-Identifier: Apache-2.0
"""dpu-host-agent keeps the lease: creates it, repairs it, and never gives a sign of life itself."""

import os
import time

import pytest
from dpu_testing.kube import micro_time
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
    spec = wait_lease(target, lambda _: True, "a lease")["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (HOLDER, world.duration_s)
    assert not spec.get("renewTime") and not spec.get("acquireTime")
    assert target.lease()["metadata"]["ownerReferences"] == [owner(target)]
    record = os.path.join(world.directory, "other", "readiness.json")
    own = {"holder_identity": "somebody", "dpu_node_lease_duration": 7, "lease_name": "my-lease"}
    world.host(readiness_file=record, **own)
    lease = until(lambda: target.admin.find(f"{target.leases_path()}/my-lease"), SOON_S, "the lease 'my-lease'")
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseDurationSeconds"]) == ("somebody", 7)


def test_a_deleted_lease_is_created_again_and_the_living_dpu_stays_ready(world, target):
    world.both()
    before = target.lease()["metadata"]["uid"]
    target.admin.delete(target.lease_path())
    world.never_state("NotReady", 0.5)
    wait_lease(target, lambda l: l["metadata"]["uid"] != before, "another lease")
    wait_lease(target, lambda l: l["spec"].get("renewTime"), "a renewal of it")
    world.never_state("NotReady", world.duration_s * 1.2)
    assert world.wait_state("Ready")["lease"]["uid"] != before


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
    """A text with NUL, too: whoever could not read it would be blind to the whole lease."""
    world.both()
    blocking = owner(target, blockOwnerDeletion=True)  # the owner reference is repaired, too
    # A field of a newer API version; a real server without it drops it.
    alien = {"strategy": "OldestEmulationVersion"} if target.standin else {}
    odd = "a\0b\u2028\U0001f600"

    def decorate(lease):
        lease["metadata"].update(labels={"team": "net"}, ownerReferences=[blocking])
        lease["metadata"]["annotations"] = {"note": "keep me", "dpu.k8s.ovn.org/note": odd}
        lease["spec"]["leaseTransitions"] = 3
        lease["spec"].update(alien)
        lease["spec"]["leaseDurationSeconds"] = 99

    target.put_lease(decorate)
    wait_lease(target, lambda l: l["spec"]["leaseDurationSeconds"] == world.duration_s, "the repair")
    world.wait_renewals()
    lease = wait_lease(target, lambda l: l["metadata"]["ownerReferences"] == [owner(target)], "our reference")
    assert lease["metadata"]["labels"] == {"team": "net"}
    assert {"note": "keep me", "dpu.k8s.ovn.org/note": odd}.items() <= lease["metadata"]["annotations"].items()
    assert lease["spec"]["leaseTransitions"] == 3
    assert alien.items() <= lease["spec"].items()
    assert world.state() == "Ready"


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


def test_upstreams_dpu_side_renews_beside_a_host_that_came_back_as_a_new_node(world, target):
    """It knows the UID of before, and adds an owner that is a controller."""
    upstream = UpstreamDpu(target, world.interval_ms / 1000, world.duration_s)
    target.delete_node()
    target.create_node()
    target.new_lease(owners=[owner(target, controller=True)], holderIdentity=HOLDER)
    world.host()
    wait_lease(target, lambda l: l["metadata"]["ownerReferences"] == [owner(target)], "our reference")
    with upstream:
        world.wait_state("Ready")
        assert upstream.refused == 0


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


def host_writes(target):
    return [
        a
        for a in target.standin.audit(user="host")
        if a["resource"] == "leases" and a["verb"] in ("create", "patch") and a["code"] < 300
    ]


@pytest.mark.standin_only
def test_two_agents_that_disagree_do_not_write_for_ever(world, target):
    """An update of a DaemonSet with a surge, which changes the duration."""
    first, _ = world.both()
    other = os.path.join(world.directory, "other", "readiness.json")
    second = world.host(dpu_node_lease_duration=3, readiness_file=other)
    for host in (first, second):
        host.wait_log(SOON_S, msg="another writer undoes the agent's repairs")
    before = len(host_writes(target))  # both of them begin with a few in a row
    time.sleep(3)  # a rate
    slowly = host_writes(target)[before:]
    assert 1 <= len(slowly) <= 4, slowly
    refused = [a for a in target.standin.audit(user="dpu") if a["code"] == 409]
    assert len(refused) <= 10, refused
    assert world.state() == "Ready"
    for host in (first, second):
        assert len(host.lines(msg="another writer undoes the agent's repairs")) == 1


@pytest.mark.standin_only
def test_a_webhook_that_changes_what_we_write_is_no_loop(world, target):
    patch = {"spec": {"leaseDurationSeconds": 77}, "metadata": {"ownerReferences": []}}
    target.standin.fault("patch", user="host", verb=["create", "patch"], patch=patch)
    host = world.host()
    world.dpu()
    host.wait_log(SOON_S, msg="check admission webhooks")
    time.sleep(3)  # a rate
    assert len(host_writes(target)) <= 3, host_writes(target)
    assert len(host.lines(msg="check admission webhooks")) == 1
