# SPDX-License-Identifier: Apache-2.0
"""The condition DPUReady, the rules on it, and a DPU that reboots, however short the reboot."""

import pathlib
import re
import time
import uuid

import pytest
import yaml
from dpu_testing.kube import micro_time
from dpu_testing.process import run
from dpu_testing.wait import until
from test_http import Page
from world import SOON_S

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
NODE = "/api/v1/nodes"
BOOT_ID = "dpu.k8s.ovn.org/boot-id"
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


def renew(target, boot):
    """As dpu-agent does, of a boot of its own: that of this machine is one and the same."""

    def change(lease):
        lease["spec"]["renewTime"] = micro_time()
        lease["metadata"].setdefault("annotations", {})[BOOT_ID] = boot

    target.put_lease(change)


def reboots_told(target):
    """Our Events of one about the test's own Node. A cluster's controllers write others."""
    own = {"reason": "DPURebooted", "reportingController": "dpu-host-agent"}
    found = [e for e in target.admin.get(EVENTS)["items"] if own.items() <= e.items()]
    return [e for e in found if e["regarding"].get("name") == target.node]


def test_a_reboot_shorter_than_the_lease_is_told_everywhere(world, target):
    world.duration_s = 20
    target.new_lease(leaseDurationSeconds=20)
    boots = [str(uuid.uuid4()) for _ in range(2)]
    renew(target, boots[0])  # what the host sees first is no renewal
    host = world.host()
    world.wait_record(lambda r: r["lease"]["renewTime"], what="the first look")
    renew(target, boots[0])
    first = world.wait_record(lambda r: r.get("dpuBootId") == boots[0] and r.state == "Ready")
    assert "dpuRebootTime" not in first
    assert "dpu_heartbeat_dpu_reboot_timestamp_seconds" not in Page(host).metrics()
    since = time.time()
    renew(target, boots[1])
    seen = world.wait_record(lambda r: r.get("dpuRebootTime"))
    assert (seen.verdict(), seen["dpuBootId"]) == ("Ready/LeaseRenewed", boots[1])
    event = until(lambda: reboots_told(target), SOON_S, "the Event")[0]
    assert event["type"] == "Warning" and "rebooted" in event["note"]
    at = Page(host).metrics()["dpu_heartbeat_dpu_reboot_timestamp_seconds"]
    assert abs(at - since) < 10
    host.wait_log(SOON_S, level="warn", msg="the DPU has rebooted")
    command = [world.binaries.path("dpuctl"), "status", f"--readiness-file={world.readiness_file}"]
    assert f"boot {boots[1]}, rebooted " in run(command).stdout
    renew(target, boots[1])
    world.wait_record(lambda r: r.observed_ns > seen.observed_ns, what="another renewal")
    assert len(reboots_told(target)) == Page(host).metrics()["dpu_heartbeat_dpu_reboots_total"] == 1
