# SPDX-License-Identifier: Apache-2.0
"""ovn-kubernetes' own DPU health check, as far as its neighbours see it."""

import contextlib
import threading

from dpu_testing.kube import ApiError, micro_time

HOLDER = "ovnkube-dpu-node"
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


def bump_by(target, name):
    """A renewTime from a machine of that name, which is its User-Agent's first word."""

    def bump(lease):
        lease["spec"]["renewTime"] = micro_time()
        lease["metadata"]["managedFields"] = [
            {"manager": "dpu-heartbeat", "operation": "Update", "fieldsV1": {"f:spec": {"f:acquireTime": {}}}},
            {"manager": name, "operation": "Update", "fieldsV1": {"f:spec": {"f:renewTime": {}}}},
        ]

    target.put_lease(bump)


class UpstreamDpu(threading.Thread):
    """Its DPU side in short: knows the Node's UID of its start, makes a missing lease, adds its owner
    reference where it is missing, reads and writes the lease once an interval."""

    def __init__(self, target, interval_s, duration_s=2):
        super().__init__()
        self.target = target
        self.interval_s = interval_s
        self.duration_s = duration_s
        self.owner = owner(target, controller=True, blockOwnerDeletion=True)
        self.ended = threading.Event()
        self.sent = set()
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
        stamp = micro_time()
        self.sent.add(stamp)
        if not lease:
            self.target.new_lease(
                owners=[self.owner], holderIdentity=HOLDER, renewTime=stamp,
                leaseDurationSeconds=self.duration_s,
            )  # fmt: skip
            return
        lease["spec"]["renewTime"] = stamp
        owners = lease["metadata"].setdefault("ownerReferences", [])
        if self.owner["uid"] not in [o["uid"] for o in owners]:
            owners.append(self.owner)
        self.target.admin.update(self.target.lease_path(), lease)

    def stop(self):
        self.ended.set()
        self.join()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
