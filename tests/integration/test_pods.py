# SPDX-License-Identifier: Apache-2.0
"""Pods that lost their network: seen, told, and given new sandboxes."""

import json
import re

import pytest
from dpu_testing.dpuctl import Node
from dpu_testing.process import run
from dpu_testing.wait import never, until
from test_http import Page
from world import SOON_S

pytestmark = pytest.mark.standin_only  # pods without a kubelet, and short times

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
PODS = "/api/v1/namespaces/default/pods"
DEVICE = "0000:03:00.2"
CRI = "--cri-socket=/cri.sock"  # of dpuctl, below its root


def start(world, runtime, mode="report", **options):
    return world.host(
        cri_socket=runtime.socket, host_root=runtime.root, on_lost_network=mode, **options
    )


def given(sandbox):
    """CNI's cache: it gave the sandbox an interface."""
    interface = {"name": "eth0", "sandbox": "/var/run/netns/x"}
    result = {"interfaces": [interface]}
    return json.dumps({"containerId": sandbox, "ifName": "eth0", "result": result})


def create_pod(target, name, containers):
    """Known to the API server. Returns its uid."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Always", "nodeName": target.node, "containers": containers},
        "status": {"phase": "Running"},
    }
    return target.admin.create(PODS, pod)["metadata"]["uid"]


def pod_events(target):
    return [e for e in target.admin.get(EVENTS)["items"] if e["regarding"]["kind"] == "Pod"]


def metrics(host):
    page = Page(host).metrics()
    return {name.removeprefix("dpu_heartbeat_"): value for name, value in page.items()}


def wait_metric(host, name, value):
    until(
        lambda: metrics(host)[name] == value,
        SOON_S,
        lambda: f"{name} is {value}; it is {metrics(host)[name]}",
    )


def wait_looked(host):
    """At least once at everything."""
    until(lambda: metrics(host)['pod_network_scans_total{result="done"}'] > 1, SOON_S, "a look")


# Report.


def test_restarted_agent_tells_no_step_twice(world, target, runtime):
    runtime.set_device(runtime.add("web"), DEVICE)
    runtime.reset_device("web-sandbox", DEVICE)
    for _ in range(2):
        host = start(world, runtime)
        wait_metric(host, "pod_network_lost", 1)
        until(lambda: pod_events(target), SOON_S, "an Event on the pod")
        host.kill()
    assert len(pod_events(target)) == 1
    assert "back on the host as enp3s0f0v0" in pod_events(target)[0]["note"]


# Status.


def test_lost_pods_refuse_new_ones_with_code_51(world, runtime):
    lost = runtime.add("web")
    runtime.set_device(lost, DEVICE)
    host = start(world, runtime, "status")
    world.dpu()
    world.wait_state("Ready")
    wait_looked(host)
    assert world.gate.status().ok
    runtime.reset_device(lost, DEVICE)
    seen = world.wait_verdict("NotReady/PodNetworkLost")
    assert "default/web" in seen["message"]
    assert (world.gate.status().code, world.gate.add().code) == (51, 11)
    host.kill()
    start(world, runtime, "status")  # which never saw its interface: CNI's cache and the record did
    never(lambda: world.verdict() != "NotReady/PodNetworkLost", 2, "another verdict")
    runtime.give_back(lost)
    world.wait_state("Ready")
    assert world.gate.status().ok


# What is no loss.


def test_network_that_nobody_can_look_at_is_no_pass(world, runtime, node):
    runtime.add("web", netns="")
    runtime.add("cached", netns="/run/netns/not-mounted")
    runtime.write("run/netns/not-mounted", "")
    runtime.add("hosts", netns="", network="host")
    host = start(world, runtime)
    wait_metric(host, "pod_network_unseen", 2)
    host.wait_log(level="warn", msg="cannot check the networks of 2 of 3 Pods, such as")
    code, tree = pods(node)
    assert (code, tree["lost"], tree["unseen"]) == (2, 0, 2)
    by_name = {p["name"]: p for p in tree["pods"]}
    assert [by_name[n]["network"] for n in ("web", "cached", "hosts")] == ["Unknown", "Unknown", "Host"]
    assert "names neither its process nor its network namespace" in by_name["web"]["seen"]
    assert "entering '/run/netns/not-mounted'" in by_name["cached"]["seen"]
    node.record("state=Ready", "reason=LeaseRenewed")
    assert network_checks(node)["pods"]["outcome"] == "warn"
    text = node.call("status", CRI).stdout
    assert "0 of 3 Pods have lost their network; 2 could not be inspected" in text


def test_what_a_result_alone_names_counts_for_sandboxes_that_are_older_than_the_agent(world, runtime):
    """A younger one may not be whole yet: its interface has to be seen first."""
    done = 'pod_network_scans_total{result="done"}'
    runtime.write("var/lib/cni/results/ovn-old-sandbox-eth0", given("old-sandbox"))
    runtime.add("old", interface=False)
    host = start(world, runtime)
    wait_metric(host, "pod_network_lost", 1)
    runtime.write("var/lib/cni/results/ovn-young-sandbox-eth0", given("young-sandbox"))
    young = runtime.add("young", interface=False)
    looks = metrics(host)[done]
    until(lambda: metrics(host)[done] > looks + 5, SOON_S, "some looks")
    assert metrics(host)["pod_network_lost"] == 1
    runtime.give_back(young)
    looks = metrics(host)[done]
    until(lambda: metrics(host)[done] > looks + 1, SOON_S, "a look")
    runtime.lose(young)
    wait_metric(host, "pod_network_lost", 2)


# Restart.


def test_large_pods_of_a_tenant_end_no_agent(world, target, runtime):
    """A megabyte each, which makes twenty as a tree."""
    world.dpu()
    containers = [{"name": "c", "env": [{"name": f"N{i}"} for i in range(60000)]}]
    uids = [create_pod(target, f"large-{i}", containers) for i in range(3)]
    large = [runtime.add(f"large-{i}", made=i, uid=uids[i]) for i in range(3)]
    host = start(world, runtime, "restart")
    wait_looked(host)
    runtime.lose(*large)
    assert runtime.wait_stopped(3, 60) == large  # the oldest first
    with open(f"/proc/{host.popen.pid}/status", encoding="ascii") as file:
        peak_kib = int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1])
    limit_kib = 64 << 10 if "asan" in str(world.binaries.path("dpu-host-agent")) else 24 << 10
    assert peak_kib < limit_kib


def test_missing_right_is_named(world, target, runtime):
    world.dpu()
    lost = runtime.add("web")
    target.without_right("host", ["get", "list"], "pods")
    host = start(world, runtime, "restart")
    wait_looked(host)
    runtime.lose(lost)
    host.wait_log(msg="apply rbac/host-agent-pods.yaml")
    never(lambda: runtime.ended, 2, "a sandbox of an unknown pod is stopped")


# dpuctl.


@pytest.fixture
def node(binaries, runtime):
    """The made-up host as dpuctl's --root sees it."""
    return Node(binaries, runtime.root)


def pods(node, *flags):
    """(exit status, the tree)"""
    done = node.call("pods", CRI, "-o", "json", *flags)
    assert done.stderr == "", done.stderr
    return done.returncode, json.loads(done.stdout)


def test_dpuctl_shows_who_lost_the_network(node, runtime):
    runtime.add("young", made=2 * 10**18)
    runtime.add("old", made=10**18)
    runtime.lose(runtime.add("hosts", made=10**17, network="host"))
    code, tree = pods(node)
    assert (code, tree["lost"], tree["onLostNetwork"]) == (0, 0, "report")
    seen = [(p["name"], p["network"]) for p in tree["pods"]]
    assert seen == [("hosts", "Host"), ("old", "There"), ("young", "There")]
    assert tree["pods"][1]["madeTime"] == "2001-09-09T01:46:40Z"
    runtime.set_device("old-sandbox", DEVICE)
    runtime.reset_device("old-sandbox", DEVICE)
    code, tree = pods(node, "--on-lost-network=restart")
    assert (code, tree["lost"], tree["onLostNetwork"]) == (1, 1, "restart")
    assert tree["pods"][1]["network"] == "Lost" and "enp3s0f0v0" in tree["pods"][1]["seen"]
    names = node.call("pods", CRI, "-o", "name")
    assert (names.returncode, names.stdout) == (1, "default/old\n")
    text = node.call("pods", CRI, "--on-lost-network=restart").stdout
    assert "gets a new sandbox, unless its restartPolicy is Never" in text
    runtime.write("var/lib/cni/results/ovn-young-sandbox-eth0", given("young-sandbox"))
    runtime.lose("young-sandbox")  # without a device: it may have been the pod
    text = node.call("pods", CRI, "--on-lost-network=status").stdout
    assert text.count("new Pods are rejected until it is gone") == 1
    assert "network namespace; reported" in text
    node.record("state=Ready", "reason=LeaseRenewed")
    assert "network" not in node.call("status").stdout
    assert "2 of 3 Pods have lost their network: run dpuctl pods" in node.call("status", CRI).stdout
    assert node.status(CRI)[1]["pods"] == {"count": 3, "lost": 2, "unseen": 0}
    assert node.call("status", "--output=name").returncode == 64


def test_dpuctl_in_the_agents_pod_looks_where_the_agent_does(node, runtime):
    """As deploy/kustomize/pods has it: the host's /proc is below /host, all else in its place."""
    runtime.add("there")
    runtime.lose(runtime.add("lost"))
    runtime.set_device("lost-sandbox", DEVICE)
    runtime.reset_device("lost-sandbox", DEVICE)
    settings = {"CRI_SOCKET": runtime.socket, "HOST_ROOT": runtime.root, "READINESS_FILE": node.readiness_file}
    env = node.env(NODE_NAME="worker-1", **{f"DPU_HEARTBEAT_{key}": value for key, value in settings.items()})
    done = run([node.program, "pods", "-o", "json"], env=env)
    tree = json.loads(done.stdout)
    assert (done.returncode, {p["name"]: p["network"] for p in tree["pods"]}) == (1, {"there": "There", "lost": "Lost"})
    node.record("state=Ready", "reason=LeaseRenewed")
    assert "1 of 2 Pods have lost their network" in run([node.program, "status"], env=env).stdout


def test_dpuctl_tells_pods_from_before_the_reboot(node, runtime):
    runtime.add("old", made=10**18)
    runtime.add("young", made=2 * 10**18)
    assert [p["madeBeforeReboot"] for p in pods(node)[1]["pods"]] == [None, None]
    node.record("state=Ready", "reason=LeaseRenewed", "rebooted=1500000000")
    assert [p["madeBeforeReboot"] for p in pods(node)[1]["pods"]] == [True, False]
    text = node.call("pods", CRI).stdout
    assert "made before the DPU's reboot" in text and "made after the DPU's reboot" in text


def test_dpuctl_without_a_runtime_does_not_know(node, runtime):
    done = node.call("pods")
    assert (done.returncode, "set --cri-socket=FILE" in done.stderr) == (2, True)
    runtime.add("web")
    runtime.moods["PodSandboxStatus"] = "hangs"
    done = node.call("pods", CRI, "--api-timeout=200ms")
    assert (done.returncode, "waiting for" in done.stderr) == (2, True)
    runtime.stop()
    done = node.call("pods", CRI)
    assert (done.returncode, "connecting to" in done.stderr) == (2, True)


def test_dpuctl_waits_no_longer_for_many_pods_than_for_one(node, runtime):
    for i in range(12):
        runtime.add(f"web-{i}")
    runtime.moods["PodSandboxStatus"] = "slow"
    done = node.call("pods", CRI, "--api-timeout=500ms")
    assert (done.returncode, "waiting for" in done.stderr) == (2, True)
    assert done.seconds < 1.5
    node.record("state=Ready", "reason=LeaseRenewed")
    done = node.call("status", CRI, "--api-timeout=500ms")
    assert done.returncode == 0 and done.seconds < 1.5


def network_checks(node):
    done = node.call("doctor", "-o", "json", CRI)
    checks = json.loads(done.stdout)["checks"]
    return {c["link"]: c for c in checks if c["link"] in ("network", "pods", "runtime")}


def test_doctor_asks_the_runtime_itself(node, runtime):
    runtime.add("web")
    node.record("state=Ready", "reason=LeaseRenewed")
    checks = network_checks(node)
    assert (checks["network"]["outcome"], checks["pods"]["outcome"]) == ("pass", "pass")
    assert checks["runtime"]["found"] == "containerd v2.1.9 polls STATUS"
    runtime.trouble = "Network plugin returns error: DPU Not Ready: because"
    found = network_checks(node)["network"]
    assert found["outcome"] == "fail"
    assert found["found"].endswith("plugin returns error: DPU Not Ready: because")
    assert "dpu-gate answers" in found["mend"]
    runtime.trouble = "cni plugin not initialized"
    assert "another plugin answers" in network_checks(node)["network"]["mend"]
    runtime.trouble = ""
    node.record("state=NotReady", "reason=LeaseExpired")
    assert network_checks(node)["network"]["outcome"] == "warn"
    runtime.moods["Status"] = "refuses"
    found = network_checks(node)["network"]
    assert (found["outcome"], "Status is refused" in found["found"]) == ("warn", True)


def test_a_path_that_no_socket_can_have_is_refused(world, node, runtime):
    longest = "/cri.sock".rjust(107 - len(node.root), "/")
    assert node.call("pods", f"--cri-socket={longest}").returncode == 0
    for length in (107, 108):  # the former below the root of the node
        done = node.call("pods", f"--cri-socket=/{'x' * (length - 1)}")
        assert done.returncode == 64 and "more than the allowed 107" in done.stderr
    host = world.host(cri_socket=f"/{'x' * 107}")
    assert host.wait() == 2 and "is 108 bytes long, more than the allowed 107" in host.text()
