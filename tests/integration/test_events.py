# SPDX-License-Identifier: Apache-2.0
"""Events about the Node for each change of readiness, and the condition DPUReady."""

import copy
import re
import time
import urllib.request

import pytest
from dpu_testing.kube import micro_time
from dpu_testing.wait import never, until
from world import SOON_S

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
NODE = "/api/v1/nodes"
SETTLE_S = 3


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
    assert last["note"] == world.record()["message"]
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


def test_a_dpu_that_comes_and_goes_is_told_each_time(world, target):
    _, dpu = world.both()
    wait_settled(target)
    for _ in range(2):
        dpu.kill()
        world.wait_verdict("NotReady/LeaseExpired")
        dpu = world.dpu()
        world.wait_verdict("Ready/LeaseRenewed")
    wanted = ["LeaseRenewed", "LeaseExpired"] * 2 + ["LeaseRenewed"]
    until(lambda: reasons(target) == wanted, SOON_S, lambda: f"{wanted}; there are {reasons(target)}")


def metric(address, result):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
        text = page.read().decode()
    found = re.search(rf'dpu_heartbeat_events_total{{result="{result}"}} (\d+)', text)
    return int(found[1])


def test_the_page_counts_what_was_written(world, target):
    host, dpu = world.both()
    wait_settled(target)
    dpu.kill()
    wait_event(target, "LeaseExpired")
    port = re.search(r"127\.0\.0\.1:0', port (\d+)", host.text())[1]
    address = f"127.0.0.1:{port}"
    until(lambda: metric(address, "created") == 2, SOON_S, "two Events on the page")
    for other in ("suppressed", "failed"):
        assert metric(address, other) == 0


def test_a_restart_that_changes_nothing_makes_no_event(world, target):
    host, _ = world.both()
    wait_settled(target)
    host.stop()
    world.host()
    world.wait_renewals()
    never(lambda: len(events(target)) > 1, SETTLE_S + 2, "another Event")


def test_a_restart_tells_what_changed_meanwhile(world, target):
    host, dpu = world.both()
    wait_settled(target)
    host.stop()
    dpu.kill()
    world.host()
    wait_event(target, "LeaseExpired")
    assert reasons(target) == ["LeaseRenewed", "LeaseExpired"]


def test_what_the_dpu_says_is_in_the_note(world, target):
    world.host()
    dpu = world.dpu(announce_shutdown=True)
    world.wait_state("Ready")
    wait_settled(target)
    dpu.stop()
    assert "shutdown" in wait_event(target, "DPUShutdown")["note"]


def test_events_can_be_switched_off(world, target):
    world.host(events="off")
    dpu = world.dpu()
    world.wait_state("Ready")
    dpu.kill()
    world.wait_state("NotReady")
    never(lambda: events(target), SETTLE_S + 1, "an Event")


@pytest.mark.standin_only
def test_a_missing_right_is_said_once_with_its_mend_and_disturbs_nothing(world, target):
    target.without_right("host", ["create"], "events")
    host, dpu = world.both()
    line = "rbac/host-agent-events.yaml gives that right"
    until(lambda: line in host.text(), SOON_S, "the missing right in the log")
    dpu.kill()
    world.wait_state("NotReady")
    world.dpu()
    world.wait_state("Ready")
    assert host.text().count(line) == 1
    assert len(target.standin.audit(user="host", resource="events")) == 1


@pytest.mark.standin_only
def test_a_server_without_the_api_of_events_is_told_and_asked_seldom(world, target):
    target.standin.fault("status", verb="create", resource="events", code=404)
    host, dpu = world.both()
    line = "does the server have events.k8s.io/v1?"
    until(lambda: line in host.text(), SOON_S, "the missing API in the log")
    dpu.kill()
    world.wait_state("NotReady")
    assert host.text().count(line) == 1
    assert len(target.standin.audit(user="host", resource="events")) == 1


@pytest.mark.standin_only
def test_a_lost_answer_makes_no_second_event(world, target):
    target.standin.fault("cut", verb="create", resource="events", after=True, count=1)
    _, dpu = world.both()
    until(
        lambda: target.standin.audit(user="host", verb="create", resource="events", code=409),
        SOON_S,
        "the second try",
    )
    dpu.kill()
    wait_event(target, "LeaseExpired")
    assert reasons(target) == ["LeaseRenewed", "LeaseExpired"]


@pytest.mark.standin_only
def test_after_an_api_outage_the_changes_are_written_with_their_own_times(world, target):
    world.both()
    wait_settled(target)
    target.standin.refuse()
    seen = world.wait_verdict("Unknown/ApiServerUnreachable")
    target.standin.accept()
    held = wait_event(target, "ApiServerUnreachable", 60)
    assert held["note"].endswith("; new pods are let in")
    assert held["eventTime"].startswith(seen["transitionTime"][:-1])
    until(
        lambda: reasons(target) == ["LeaseRenewed", "ApiServerUnreachable", "LeaseRenewed"],
        60,
        lambda: f"all three; there are {events(target)}",
    )


@pytest.mark.standin_only
@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_that_refuses_for_now_is_asked_again(world, target, code):
    target.standin.fault("status", verb="create", resource="events", code=code, count=2)
    world.both()
    wait_settled(target)
    assert len(events(target)) == 1


@pytest.mark.standin_only
def test_an_event_that_is_refused_for_good_is_not_repeated(world, target):
    target.standin.fault(
        "status", verb="create", resource="events", code=422, reason="Invalid", count=1
    )
    host, dpu = world.both()
    until(lambda: "was refused" in host.text(), SOON_S, "the refusal in the log")
    never(lambda: events(target), 2, "an Event")
    dpu.kill()
    told = wait_event(target, "LeaseExpired")
    assert told["note"].endswith("; changes before this one without an Event: 1")
    assert reasons(target) == ["LeaseExpired"]


@pytest.mark.standin_only
@pytest.mark.parametrize("action", ["hang", "delay"])
def test_slow_events_do_not_delay_the_verdict(world, target, action):
    """Requests about Events that hang are beside the confirming reads, not before them."""
    more = {"ms": 4000} if action == "delay" else {}
    _, dpu = world.both()
    wait_settled(target)
    target.standin.fault(action, user="host", resource=["events", "nodes"], **more)
    for _ in range(2):
        dpu.kill()
        last = world.record().observed_ns
        seen = world.wait_state("NotReady")
        late_s = (seen["writerUntilBoottimeNs"] - seen["validUntilBoottimeNs"]) / 1e9
        assert world.boottime_ns() - last < (world.duration_s + 2) * 1e9, late_s
        dpu = world.dpu()
        world.wait_state("Ready")


# The condition.


def test_the_condition_follows_the_verdict(world, target):
    world.host(node_condition=True)
    dpu = world.dpu()
    first = wait_condition(target, "True")
    assert first["reason"] == "LeaseRenewed"
    dpu.kill()
    last = wait_condition(target, "False")
    assert (last["reason"], last["message"]) == ("LeaseExpired", world.record()["message"])
    assert last["lastTransitionTime"] == world.record()["transitionTime"]
    assert last["lastHeartbeatTime"] >= last["lastTransitionTime"]


@pytest.mark.standin_only
def test_a_dpu_that_toggles_its_health_makes_few_writes_and_the_last_counts(world, target):
    world.host(node_condition="on")
    until(target.lease, SOON_S, "the lease")
    end = time.monotonic() + 6
    says = {"unhealthy": None}
    while time.monotonic() < end or says["unhealthy"] is not True:
        says["unhealthy"] = not says["unhealthy"]

        def report(lease):
            notes = {"dpu.k8s.ovn.org/health": "unhealthy"} if says["unhealthy"] else None
            lease["metadata"]["annotations"] = notes
            lease["spec"].update(holderIdentity="ovnkube-dpu-node", renewTime=micro_time())

        target.put_lease(report)
        time.sleep(0.02)
    until(
        lambda: (c := condition(target)) and c["reason"] == "DPUReportedUnhealthy",
        SOON_S,
        lambda: f"the last state wins; the condition is {condition(target)}",
    )
    written = [a for a in target.standin.audit(user="host") if a["verb"] in ("create", "patch")]
    assert len([a for a in written if a["resource"].startswith("nodes")]) <= 4, written
    assert len([a for a in written if a["resource"] == "events"]) <= 10, written


@pytest.mark.standin_only
def test_a_webhook_that_changes_the_condition_is_no_loop(world, target):
    patch = {"status": {"conditions": [{"type": "DPUReady", "status": "Unknown"}]}}
    target.standin.fault("patch", user="host", verb="patch", resource="nodes", patch=patch)
    world.host(node_condition="on")
    world.dpu()
    wait_condition(target, "Unknown")
    time.sleep(6)
    written = [a for a in target.standin.audit(user="host", verb="patch", resource="nodes")]
    assert 1 <= len(written) <= 2, written


def test_other_conditions_are_left_alone(world, target):
    other = {"type": "Ready", "status": "True", "reason": "Test", "message": "of the kubelet"}
    strategic_patch(target, other)
    before = condition(target, "Ready")
    world.host(node_condition=True)
    dpu = world.dpu()
    wait_condition(target, "True")
    dpu.kill()
    wait_condition(target, "False")
    assert condition(target, "Ready") == before


def strategic_patch(target, *conditions):
    return target.admin.do(
        "PATCH",
        f"{NODE}/{target.node}/status",
        {"status": {"conditions": list(conditions)}},
        content_type="application/strategic-merge-patch+json",
    )


def test_the_cleanup_command_removes_it(world, target):
    host = world.host(node_condition=True)
    world.dpu()
    wait_condition(target, "True")
    host.stop()
    strategic_patch(target, {"type": "DPUReady", "$patch": "delete"})
    assert condition(target) is None


def test_a_restart_keeps_condition_and_transition(world, target):
    host = world.host(node_condition=True)
    world.dpu()
    before = wait_condition(target, "True")
    host.stop()
    world.host(node_condition=True)
    never(lambda: condition(target) != before, SETTLE_S + 2, "another condition")


def test_without_the_option_the_node_is_not_written(world, target):
    world.both()
    wait_settled(target)
    assert condition(target) is None


@pytest.mark.standin_only
def test_the_condition_says_unknown_after_an_outage_that_outlasts_the_hold(world, target):
    world.host(node_condition=True)
    world.dpu()
    wait_condition(target, "True")
    target.standin.fault("status", user="dpu", code=503)
    target.standin.fault("status", user="host", resource="leases", code=503)
    target.standin.drop_connections()
    assert wait_condition(target, "Unknown", 30)["reason"] == "ApiServerUnreachable"


@pytest.mark.standin_only
def test_a_missing_right_to_set_the_condition_is_said_once_with_its_mend(world, target):
    rules = copy.deepcopy(target.standin.rules)
    rules["rules"] = [r for r in rules["rules"] if r.get("resources") != ["nodes/status"]]
    target.standin.set_rules(rules)
    host = world.host(node_condition=True)
    world.dpu()
    line = "rbac/host-agent-node-condition.yaml gives that right"
    until(lambda: line in host.text(), SOON_S, "the missing right in the log")
    world.wait_state("Ready")
    assert host.text().count(line) == 1


@pytest.mark.standin_only
def test_a_condition_that_is_refused_for_good_is_told_once(world, target):
    target.standin.fault("status", verb="patch", resource="nodes", code=422, reason="Invalid")
    host = world.host(node_condition=True)
    world.dpu()
    line = "--node-condition=off does without"
    until(lambda: line in host.text(), SOON_S, "the refusal in the log")
    world.wait_renewals(10)
    assert host.text().count(line) == 1
    assert len(target.standin.audit(user="host", verb="patch", resource="nodes")) == 1


@pytest.mark.standin_only
def test_a_node_that_is_created_again_gets_its_condition_with_the_next_change(world, target):
    world.host(node_condition=True)
    dpu = world.dpu()
    wait_condition(target, "True")
    target.delete_node()
    target.create_node()
    world.wait_state("Ready")
    dpu.kill()
    wait_condition(target, "False", 30)
