# SPDX-License-Identifier: Apache-2.0
"""dpu-host-agent keeps the lease: creates it, repairs it, and never gives a sign of life itself."""

import contextlib
import os
import threading

from dpu_testing.kube import ApiError, micro_time
from dpu_testing.wait import never, until
from target import HOLDER
from world import SOON_S

TRIES = 5  # after a conflict, at once


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


class UpstreamDpu(threading.Thread):
    """Its DPU side in short: knows the Node's UID of its start, adds its owner reference where it is
    missing, reads and writes the lease once an interval."""

    def __init__(self, target, interval_s):
        super().__init__()
        self.target = target
        self.interval_s = interval_s
        self.owner = owner(target, controller=True, blockOwnerDeletion=True)
        self.ended = threading.Event()
        self.refused = 0  # intervals without a renewal

    def run(self):
        while not self.ended.wait(self.interval_s):
            for _ in range(TRIES):
                with contextlib.suppress(ApiError):
                    self.renew()
                    break
            else:
                self.refused += 1

    def renew(self):
        lease = self.target.lease()
        lease["spec"]["renewTime"] = micro_time()
        owners = lease["metadata"].setdefault("ownerReferences", [])
        if self.owner["uid"] not in [o["uid"] for o in owners]:
            owners.append(self.owner)
        self.target.admin.update(self.target.lease_path(), lease)


def test_upstreams_dpu_side_renews_beside_a_host_that_came_back_as_a_new_node(world, target):
    """It knows the UID of before, and adds an owner that is a controller."""
    upstream = UpstreamDpu(target, world.interval_ms / 1000)
    target.delete_node()
    target.create_node()
    target.new_lease(owners=[owner(target, controller=True)], holderIdentity=HOLDER)
    world.host()
    wait_lease(target, lambda l: l["metadata"]["ownerReferences"] == [owner(target)], "our reference")
    upstream.start()
    try:
        world.wait_state("Ready")
    finally:
        upstream.ended.set()
        upstream.join()
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
