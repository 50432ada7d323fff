# SPDX-License-Identifier: Apache-2.0
"""dpu-host-agent keeps the lease: creates it, repairs it, and never gives a sign of life itself."""

import os

from dpu_testing.kube import micro_time
from dpu_testing.wait import never, until
from target import HOLDER
from world import SOON_S


def owner(target, uid=None, **more):
    """The reference that we write."""
    reference = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": target.node,
        "uid": uid or target.node_uid(),
        "controller": False,
        "blockOwnerDeletion": False,
    }
    return {**reference, **more}


def wait_lease(target, fits, what, within_s=SOON_S, every_s=0.01):
    return until(
        lambda: (lease := target.lease()) and fits(lease) and lease,
        within_s,
        lambda: f"{what}; the lease is {str(target.lease())[:4000]}",
        every_s,
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


def test_what_the_keeper_does_not_know_survives_its_repairs(world, target):
    """A text with NUL and a large one, too: whoever could not read them would be blind to the whole lease."""
    _, dpu = world.both()
    blocking = owner(target, blockOwnerDeletion=True)  # the owner reference is repaired, too
    # A field of a newer API version; a real server without it drops it.
    alien = {"strategy": "OldestEmulationVersion"} if target.standin else {}
    notes = {"note": "keep me", "dpu.k8s.ovn.org/note": "a\0b\u2028\U0001f600", "large": "<\x01" * 100_000}

    def decorate(lease):
        lease["metadata"].update(labels={"team": "net"}, ownerReferences=[blocking])
        lease["metadata"]["annotations"] = notes
        lease["spec"]["leaseTransitions"] = 3
        lease["spec"].update(alien)
        lease["spec"]["leaseDurationSeconds"] = 99

    target.put_lease(decorate)
    # Each look is more than a megabyte, of a server that the agents share, and the DPU renews five times a
    # second: a repair meets conflicts, and pauses after each.
    patience = {"within_s": 4 * SOON_S, "every_s": 0.5}
    wait_lease(target, lambda l: l["spec"]["leaseDurationSeconds"] == world.duration_s, "the repair", **patience)
    world.wait_renewals()
    lease = wait_lease(target, lambda l: l["metadata"]["ownerReferences"] == [owner(target)], "our reference", **patience)
    assert lease["metadata"]["labels"] == {"team": "net"}
    assert notes.items() <= lease["metadata"]["annotations"].items()
    assert lease["spec"]["leaseTransitions"] == 3
    assert alien.items() <= lease["spec"].items()
    assert world.state() == "Ready"
    dpu.kill()
    world.wait_verdict("NotReady/LeaseExpired")


def test_a_node_created_anew_gets_a_lease_with_its_new_uid(world, target):
    world.both()
    before = target.node_uid()
    target.admin.delete(f"/api/v1/nodes/{target.node}")
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
