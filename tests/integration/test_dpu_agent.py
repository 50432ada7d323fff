# SPDX-License-Identifier: Apache-2.0
"""dpu-agent proves the service, not the process, changes nothing else on the Lease, and never gives up."""

import os
import time
from datetime import datetime

import pytest
from dpu_testing.authority import Authority, HttpsServer
from dpu_testing.wait import never, until
from world import SOON_S

HEALTH = "dpu.k8s.ovn.org/health"
QUICK = {
    "probe_interval": "100ms",
    "probe_timeout": "1s",
    "probe_failure_threshold": 2,
}


class FileProbe:
    """Healthy while a file exists."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "healthy")
        self.text = f"exec:test -e {self.path}"
        self.heal()

    def heal(self):
        with open(self.path, "w", encoding="utf-8"):
            pass

    def hurt(self):
        os.unlink(self.path)

    def close(self):
        pass


class HttpsProbe:
    """Well with 204 alone; its authority is in the setting "ca"."""

    def __init__(self, directory):
        authority = Authority(directory)
        self.server = HttpsServer(authority, 204)
        self.text = f"status=204,ca={authority.file};{self.server.url}/healthz"

    def heal(self):
        self.server.code = 204

    def hurt(self):
        self.server.code = 200

    def close(self):
        self.server.close()


@pytest.fixture(params=[FileProbe, HttpsProbe], ids=["exec", "https"])  # the others: tests/unit
def probe(request, tmp_path):
    built = request.param(str(tmp_path))
    yield built
    built.close()


def health(target):
    return (target.lease()["metadata"].get("annotations") or {}).get(HEALTH)


def stamp(target):
    return target.lease()["spec"].get("renewTime")


def test_a_failing_probe_flips_the_node_at_once_and_recovery_flips_it_back(world, target, probe):
    world.host()
    world.dpu(probe=[probe.text], **QUICK)
    world.wait_state("Ready")
    probe.hurt()
    seen = world.wait_verdict("NotReady/DPUReportedUnhealthy")
    assert health(target) == "unhealthy"
    message = target.lease()["metadata"]["annotations"]["dpu.k8s.ovn.org/health-message"]
    assert message and message in seen["message"]
    stopped = stamp(target)
    never(lambda: stamp(target) != stopped, 0.8, "a renewal while the probe fails")
    assert world.state() == "NotReady"
    probe.heal()
    world.wait_verdict("Ready/LeaseRenewed")
    assert health(target) is None
    left = {f"dpu.k8s.ovn.org/{word}" for word in ("renew-time", "boot-id", "agent-version")}
    assert set(target.lease()["metadata"]["annotations"]) == left


def test_a_probe_that_makes_no_sense_is_refused_at_the_start(world):
    wrong = ["color=red;exec:true"], ["foo"], ["unix:relative"], ["exec:true"] * 17
    for agent in [*(world.dpu(probe=probes) for probes in wrong), world.host(probe=["ovsdb"])]:
        assert agent.wait() == 2
        assert "probe" in agent.text()


@pytest.mark.parametrize("odd", ["a\0b\x7f\x01\\\"", "\U0001f600" * 50_000], ids=["controls", "200 kB"])
def test_it_changes_nothing_but_the_renewal_and_its_boot(world, target, odd):
    made = target.new_lease(leaseTransitions=4, strategy="OldestEmulationVersion")
    notes = {"note": "mine", "example.com/odd": odd}
    old = {"dpu.k8s.ovn.org/health-message": "old"}
    target.put_lease(
        lambda l: l["metadata"].update(labels={"a": "b"}, annotations={**notes, **old}, finalizers=["test.io/x"])
    )
    dpu = world.dpu(dpu_node_lease_duration=9)
    for _ in range(2):
        before = stamp(target)
        until(lambda b=before: stamp(target) not in (None, b), SOON_S, "a renewal")
    lease = target.lease()
    if not target.standin:
        target.put_lease(lambda l: l["metadata"].update(finalizers=None))
    renew_time = lease["spec"].pop("renewTime")
    renewed = datetime.fromisoformat(renew_time.replace("Z", "+00:00"))
    assert abs(time.time() - renewed.timestamp()) < 2
    assert lease["spec"].pop("acquireTime")
    assert lease["spec"] == made["spec"]
    metadata = lease["metadata"]
    assert metadata["labels"] == {"a": "b"} and metadata["finalizers"] == ["test.io/x"]
    assert metadata["annotations"]["dpu.k8s.ovn.org/renew-time"] == renew_time
    assert not metadata.get("managedFields")
    ours = {f"dpu.k8s.ovn.org/{word}" for word in ("renew-time", "agent-version", "boot-id", "probes")}
    assert set(metadata["annotations"]) == {*notes, *ours} and notes.items() <= metadata["annotations"].items()
    assert metadata["annotations"]["dpu.k8s.ovn.org/probes"] == "none"
    assert metadata["uid"] == made["metadata"]["uid"]
    assert len(dpu.lines(level="warn")) == len(dpu.lines(level="warn", msg="no probe")) == 1
    assert not dpu.lines(level="error")


@pytest.mark.standin_only
def test_writes_that_take_long_renew_all_the_same(world, target):
    """Longer than any single deadline, but less than the duration leaves: for everybody, as behind a loaded etcd."""
    world.both()
    target.standin.fault("delay", verb=["update", "patch"], ms=1200)
    world.never_state("NotReady", 1.5 * world.duration_s)
    started_ns = world.boottime_ns()
    world.wait_renewals(1)
    sent = [e for e in target.standin.audit(user="dpu", verb="update") if e["bootNs"] > started_ns]
    assert len(sent) <= 3, "the server's time is known by now"
