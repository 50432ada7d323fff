# SPDX-License-Identifier: Apache-2.0
"""The condition DPUReady, and the rules on it."""

import math
import pathlib
import re
import time

import pytest
import yaml
from dpu_testing.wait import until
from world import SOON_S

NODE = "/api/v1/nodes"
NODE_HEALTH = pathlib.Path(__file__).parents[2] / "deploy" / "node-health"


def condition(target, kind="DPUReady"):
    conditions = target.admin.get(f"{NODE}/{target.node}").get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), None)


def wait_condition(target, status, timeout_s=SOON_S):
    return until(
        lambda: (c := condition(target)) and c["status"] == status and c,
        timeout_s,
        lambda: f"DPUReady={status}; it is {condition(target)}",
    )


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


@pytest.mark.quick
def test_whatever_acts_on_the_condition_has_a_brake():
    """Many DPUs that fail at once have one cause, which is not on the nodes."""
    page = (NODE_HEALTH.parents[1] / "docs/monitoring.md").read_text("utf-8")
    for name in ("machine-health-check", "node-health-check"):
        percent = int(spec(name)["maxUnhealthy"].rstrip("%"))
        assert 0 < percent <= 40
        smallest = math.ceil(100 / percent)  # of which the percentage, rounded down, is one
        for text in ((NODE_HEALTH / f"{name}.yaml").read_text("utf-8"), page):
            assert f"fewer than {smallest} " in text, name
    values = yaml.safe_load((NODE_HEALTH / "nvsentinel-values.yaml").read_text())
    breaker = values["fault-quarantine"]["circuitBreaker"]
    assert breaker["enabled"] and 0 < breaker["percentage"] <= 50
    (policy,) = values["kubernetes-object-monitor"]["policies"]
    expression = policy["predicate"]["expression"]
    assert re.findall(r'== "(\w+)"', expression) == ["DPUReady", "False"], expression
    (rule,) = values["fault-quarantine"]["ruleSets"]
    assert policy["healthEvent"]["errorCode"][0] in rule["match"]["all"][0]["expression"]


def is_remediated(target):
    """As OpenShift's MachineHealthCheck and medik8s' NodeHealthCheck do, once the time is over: one such condition
    is enough. Both say the same."""
    said = set()
    for name, time_of in (("machine-health-check", "timeout"), ("node-health-check", "duration")):
        conditions = spec(name)["unhealthyConditions"]
        found = [condition(target, c["type"]) for c in conditions]
        assert all(re.fullmatch(r"\d+m", c[time_of]) for c in conditions)
        said.add(any(f and f["status"] == c["status"] for f, c in zip(found, conditions, strict=True)))
    assert len(said) == 1
    return said.pop()


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
