# SPDX-License-Identifier: Apache-2.0
"""Events about the Node for each change of readiness, and the condition DPUReady."""

import pathlib
import re
import time

import pytest
import yaml
from dpu_testing.wait import until
from world import SOON_S

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
NODE = "/api/v1/nodes"
NODE_HEALTH = pathlib.Path(__file__).parents[2] / "deploy" / "node-health"


def events(target, reason=None):
    """Our Events about the test's own Node, oldest first. A cluster's controllers write others."""
    found = [
        e
        for e in target.admin.get(EVENTS)["items"]
        if e["regarding"].get("name") == target.node
        and e.get("reportingController") == "dpu-host-agent"
        and reason in (None, e["reason"])
    ]
    return sorted(found, key=lambda e: e["eventTime"])


def reasons(target):
    return [e["reason"] for e in events(target)]


def wait_event(target, reason, timeout_s=SOON_S, fits=lambda _: True):
    return until(
        lambda: [e for e in events(target, reason) if fits(e)],
        timeout_s,
        lambda: f"an Event {reason}; there are {events(target)}",
    )[-1]


def wait_settled(target):
    """The first Event: from then on each change is told at once."""
    return wait_event(target, "LeaseRenewed")


def condition(target, kind="DPUReady"):
    conditions = target.admin.get(f"{NODE}/{target.node}").get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), None)


def wait_condition(target, status, timeout_s=SOON_S):
    return until(
        lambda: (c := condition(target)) and c["status"] == status and c,
        timeout_s,
        lambda: f"DPUReady={status}; it is {condition(target)}",
    )


# Events.


def test_each_change_gives_one_event(world, target):
    _, dpu = world.both()
    first = wait_settled(target)
    dpu.kill()
    last = wait_event(target, "LeaseExpired")
    assert reasons(target) == ["LeaseRenewed", "LeaseExpired"]
    assert (first["type"], last["type"]) == ("Normal", "Warning")
    assert first["note"] == "the DPU renews its lease"
    assert last["note"].startswith(world.record()["message"] + ". Next step: check the DPU's power")
    assert last["regarding"] == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": target.node,
        "uid": target.node,  # as in a kubelet's Events
    }
    lease = target.lease()["metadata"]
    assert last["related"] == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "namespace": lease["namespace"],
        "name": lease["name"],
        "uid": lease["uid"],
    }
    assert last["reportingController"] == "dpu-host-agent"
    assert last["reportingInstance"] == target.node
    assert re.fullmatch(re.escape(target.node) + r"\.[0-9a-f]+", last["metadata"]["name"])
    # The Event has the time of the change, not of the write.
    transition = world.record()["transitionTime"]
    assert last["eventTime"].startswith(transition[:-1])
    assert condition(target) is None  # which is off


# The condition.


def strategic_patch(target, *conditions):
    path, body = f"{NODE}/{target.node}/status", {"status": {"conditions": list(conditions)}}
    target.admin.do("PATCH", path, body, content_type="application/strategic-merge-patch+json")


def test_the_condition_follows_the_verdict_beside_others_and_goes_by_the_documented_command(world, target):
    strategic_patch(target, {"type": "Ready", "status": "True", "reason": "Test", "message": "of the kubelet"})
    before = condition(target, "Ready")
    host = world.host(node_condition=True)
    dpu = world.dpu()
    first = wait_condition(target, "True")
    assert first["reason"] == "LeaseRenewed"
    dpu.kill()
    last = wait_condition(target, "False")
    assert (last["reason"], last["message"]) == ("LeaseExpired", world.record()["message"])
    assert last["lastTransitionTime"] == world.record()["transitionTime"]
    assert last["lastHeartbeatTime"] >= last["lastTransitionTime"]
    assert condition(target, "Ready") == before
    host.stop()
    strategic_patch(target, {"type": "DPUReady", "$patch": "delete"})
    assert condition(target) is None


@pytest.mark.standin_only
def test_a_webhook_that_changes_the_condition_is_no_loop(world, target):
    patch = {"status": {"conditions": [{"type": "DPUReady", "status": "Unknown"}]}}
    target.standin.fault("patch", user="host", verb="patch", resource="nodes", patch=patch)
    world.host(node_condition="on")
    world.dpu()
    wait_condition(target, "Unknown")
    time.sleep(3)  # a rate
    written = [a for a in target.standin.audit(user="host", verb="patch", resource="nodes")]
    assert 1 <= len(written) <= 2, written


def spec(name):
    return yaml.safe_load((NODE_HEALTH / f"{name}.yaml").read_text())["spec"]


def is_tainted(target):
    """As node-readiness-controller does: each condition has to be there, with just that status."""
    rule = spec("node-readiness-rule")
    assert (rule["enforcementMode"], rule["taint"]["effect"]) == ("continuous", "NoSchedule")
    assert rule["taint"]["key"].startswith("readiness.k8s.io/")
    wanted = {c["type"]: c["requiredStatus"] for c in rule["conditions"]}
    return not all((c := condition(target, kind)) and c["status"] == wanted[kind] for kind in wanted)


def is_remediated(target):
    """As OpenShift's MachineHealthCheck does, once the timeout is over: one such condition is enough."""
    check = spec("machine-health-check")
    found = [condition(target, c["type"]) for c in check["unhealthyConditions"]]
    assert all(re.fullmatch(r"\d+m", c["timeout"]) for c in check["unhealthyConditions"])
    return any(f and f["status"] == c["status"] for f, c in zip(found, check["unhealthyConditions"], strict=True))


@pytest.mark.standin_only
@pytest.mark.parametrize("firm, held", [("off", "Unknown"), ("on", "True")])
def test_rules_on_the_condition_take_a_held_verdict_for_a_failure_unless_it_is_firm(world, target, firm, held):
    assert (is_tainted(target), is_remediated(target)) == (True, False)  # there is no condition yet
    world.host(node_condition=True, node_condition_firm=firm)
    dpu = world.dpu()
    wait_condition(target, "True")
    assert (is_tainted(target), is_remediated(target)) == (False, False)
    target.standin.fault("status", resource="leases", verb=["update", "create", "patch"], code=500)
    dpu.kill()
    until(lambda: condition(target)["reason"] == "ApiServerNotWriting", SOON_S + 5, "a held verdict")
    assert condition(target)["status"] == held
    assert (is_tainted(target), is_remediated(target)) == (firm == "off", False)
    target.standin.clear_faults()
    wait_condition(target, "False", SOON_S + 5)
    assert (is_tainted(target), is_remediated(target)) == (True, True)
