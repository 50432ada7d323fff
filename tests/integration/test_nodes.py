# SPDX-License-Identifier: Apache-2.0
"""dpuctl nodes, and status and doctor of another node: what can be said from outside."""

import copy
import json
import os
import re
import time

import pytest
from dpu_testing.kube import micro_time
from dpu_testing.process import Process, clean_env, run
from dpu_testing.standin import RULES
from dpu_testing.wait import until
from target import NODES, StandinTarget
from world import SANITIZER, SOON_S

READY, NOT_READY, UNKNOWN = 0, 1, 2

# rbac/viewer.yaml
VIEWER = {
    "users": ["viewer"],
    "verbs": ["get", "list"],
    "resources": ["leases", "nodes", "resourceslices", "pods"],
}


def expire_pages(standin, times=1):
    """The second page of the leases comes too late, so often."""
    for _ in range(times):
        standin.fault("delay", verb="list", ms=0, count=1)  # the first one comes
        standin.fault("status", verb="list", code=410, reason="Expired", count=1)


class Cluster:
    """A stand-in with a reader's rights for us, filled by hand."""

    def __init__(self, binaries, directory):
        rules = copy.deepcopy(RULES)
        rules["users"].append({"name": "viewer", "token": "viewer-token"})
        rules["rules"].append(VIEWER)
        self.target = StandinTarget(binaries, directory, rules=rules)
        self.admin = self.target.admin
        self.program = binaries.path("dpuctl")

    def node(self, name, labels=(), conditions=()):
        metadata = {"name": name, "labels": dict(labels)}
        status = {"conditions": list(conditions)}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        return self.admin.create(NODES, node)

    def lease(self, node, age_s=1, **more):
        renewed = micro_time(time.time() - age_s)
        return self.target.new_lease(node=node, leaseDurationSeconds=40, renewTime=renewed, **more)

    def command(self, *words):
        flags = [f"--kubeconfig={self.target.kubeconfig('viewer')}"]
        return [self.program, *words, *flags]

    def run(self, *words):
        return run(self.command(*words), env=clean_env(**SANITIZER))

    def rows(self, *words, code):
        """What -o json says of each node."""
        done = self.run("nodes", "-o", "json", *words)
        assert (done.returncode, done.stderr) == (code, "")
        return json.loads(done.stdout)


@pytest.fixture
def cluster(binaries, tmp_path):
    built = Cluster(binaries, tmp_path)
    yield built
    built.target.cleanup()


pytestmark = pytest.mark.standin_only  # sees every DPU of the cluster, also those of other tests


def broken_cluster(cluster):
    """worker-1 (the stand-in's own) has no DPU."""
    label = {"k8s.ovn.org/dpu-host": "", "rack": "a"}
    cluster.node("fine", label)
    said = {"dpu.k8s.ovn.org/boot-id": "boot-1", "dpu.k8s.ovn.org/agent-version": "9.8"}
    cluster.lease("fine", annotations=said)
    cluster.node("dead", label)
    cluster.lease("dead", age_s=100)
    cluster.node("sick", {"k8s.ovn.org/dpu-host": ""})
    cluster.lease("sick", annotations={"dpu.k8s.ovn.org/health": "unhealthy"})
    cluster.node("bare", {"network.operator.openshift.io/dpu-host": ""})
    said = {"reason": "ApiServerUnreachable", "message": "said so"}
    said["lastTransitionTime"] = "2026-11-20T10:00:00Z"
    cluster.node("lost", label, [{"type": "DPUReady", "status": "Unknown", **said}])
    cluster.lease("lost")
    cluster.lease("nodeless")


def test_whatever_holder_somebody_wrote_is_shown_on_its_line(cluster):
    cluster.node("held")
    cluster.lease("held", holderIdentity="x\033[31m\n\ay" + "\u00e9" * 200)
    [row] = cluster.rows(code=NOT_READY)["nodes"]
    assert row["reason"] == "LeaseInvalid" and row["holder"][0] == "x"
    for words in (["nodes", "-o", "wide"], ["status", "held"]):
        done = cluster.run(*words)
        assert done.returncode == NOT_READY
        assert not set(done.stdout) & {"\033", "\a"} and "x\n" not in done.stdout


def test_table_filters_and_names(cluster):
    broken_cluster(cluster)
    lines = cluster.run("nodes").stdout.splitlines()
    assert lines[0].split() == ["NODE", "STATE", "REASON", "SINCE", "RENEWED"]
    assert lines[1].split()[:3] == ["sick", "NotReady", "DPUReportedUnhealthy"]
    assert lines[-1] == "6 with a DPU: 2 NotReady, 2 Unknown, 2 Ready"
    broken = cluster.run("nodes", "--state=broken", "-o", "name").stdout.split()
    assert broken == ["node/sick", "node/dead", "node/lost", "node/bare"]
    done = cluster.run("nodes", "-l", "rack=a", "--state=Ready", "-o", "name")
    assert (done.stdout, done.returncode) == ("node/fine\n", READY)
    wide = cluster.run("nodes", "-o", "wide").stdout.splitlines()
    fine = dict(zip(wide[0].split(), next(l for l in wide if l.startswith("fine")).split()))
    assert (fine["BOOT"], fine["DPU-AGENT"], fine["HOST-AGENT"]) == ("boot-1", "9.8", "-")
    assert "dpu-agent 9.8" in cluster.run("status", "fine").stdout
    assert '- node: "sick"' in cluster.run("nodes", "-o", "yaml").stdout


def test_another_context_of_the_kubeconfig(cluster):
    broken_cluster(cluster)
    with open(cluster.target.kubeconfig("viewer"), encoding="utf-8") as file:
        tree = json.load(file)
    tree["contexts"].append({"name": "elsewhere", "context": {"cluster": "gone", "user": "test"}})
    tree["clusters"].append({"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}})
    tree["current-context"] = "elsewhere"
    path = os.path.join(cluster.target.standin.directory, "two-contexts")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(tree, file)
    for words in (["nodes"], ["status", "dead"], ["doctor", "dead"]):
        command = [cluster.program, *words, f"--kubeconfig={path}"]
        done = run([*command, "--context=test"], env=clean_env(**SANITIZER))
        assert done.returncode == NOT_READY and "LeaseExpired" in done.stdout, done
        done = run([*command, "--context=nowhere"], env=clean_env(**SANITIZER))
        assert "no entry 'nowhere' in 'contexts'" in done.stdout + done.stderr, done
        done = run(command, env=clean_env(**SANITIZER))
        assert "Failed to connect" in done.stdout + done.stderr, done


def test_a_further_dpu_of_a_node_has_a_row_and_that_nodes_labels(cluster):
    cluster.node("a--b", {"rack": "a", "k8s.ovn.org/dpu-host": ""})
    for name in ("a--b", "a--b--dpu1", "a--c"):
        cluster.lease(name, age_s=100 if name == "a--b--dpu1" else 1)
    rows = cluster.rows("-l", "rack=a", code=NOT_READY)["nodes"]
    assert [(n["node"], n["state"]) for n in rows] == [("a--b--dpu1", "NotReady"), ("a--b", "Ready")]
    assert cluster.run("nodes", "--state=broken", "-o", "name").stdout == "node/a--b\n"


def test_a_node_that_was_asked_for_and_is_not_there_is_no_good_news(cluster):
    cluster.lease("there")
    assert cluster.run("nodes", "there").returncode == READY
    for command in (["nodes"], ["nodes", "-o", "json"], ["status"]):
        done = cluster.run(command[0], "nobody", *command[1:])
        assert done.returncode == UNKNOWN and "Node 'nobody' has neither a lease nor" in done.stderr, done
    assert cluster.run("nodes", "there", "--state=broken").returncode == READY
    done = cluster.run("nodes", "there", "-l", "rack=elsewhere")
    assert done.returncode == UNKNOWN and "or not those of --selector" in done.stderr, done


def test_what_the_host_says_of_a_further_dpu_counts_before_its_lease(cluster):
    said = {"reason": "HostProbeFailed", "message": "it is off the bus", "lastTransitionTime": "2026-11-20T10:00:00Z"}
    further = {"type": "b.dpu.k8s.ovn.org/DPUReady", "status": "False", **said}
    cluster.node("two", {"k8s.ovn.org/dpu-host": ""}, [further, {"type": ".dpu.k8s.ovn.org/DPUReady", "status": "True"}])
    for name in ("two", "two--b", "two--c"):
        cluster.lease(name)
    rows = {n["node"]: n for n in cluster.rows(code=NOT_READY)["nodes"]}
    assert [rows[n]["state"] for n in ("two", "two--b", "two--c")] == ["Ready", "NotReady", "Ready"]
    assert (rows["two--b"]["toldBy"], rows["two--b"]["reason"]) == ("condition", "HostProbeFailed")
    assert cluster.run("status", "two--b").returncode == NOT_READY
    assert "Ready (LeaseRenewed)" in cluster.run("status", "two--c").stdout


def test_a_further_dpu_asked_for_by_its_name_is_one_of_its_node(cluster):
    ready = {"type": "Ready", "status": "True"}
    cluster.node("two--dpus", {"k8s.ovn.org/dpu-host": ""}, [ready])
    for name in ("two--dpus", "two--dpus--b"):
        cluster.lease(name)
    cluster.node("two")  # is another Node
    of_all = {n["node"]: n for n in cluster.rows(code=READY)["nodes"]}["two--dpus--b"]
    [row] = json.loads(cluster.run("nodes", "two--dpus--b", "-o", "json").stdout)["nodes"]
    assert (row["node"], row["nodeName"], row["hasNode"]) == ("two--dpus--b", "two--dpus", True)
    assert of_all["nodeName"] == "two--dpus"
    assert "debug node/two--dpus -it" in cluster.run("status", "two--dpus--b").stdout
    done = cluster.run("doctor", "two--dpus--b")
    assert "the Node is Ready" in done.stdout and "does not exist" not in done.stdout, done
    assert "lease ovn-kubernetes/ovn-dpu-two--dpus--b" in " ".join(done.stdout.split()), done
    assert "debug node/two--dpus -it" in done.stdout and "FAIL" not in done.stdout, done


RBAC = "/apis/rbac.authorization.k8s.io/v1"


def grant(cluster, name, subject, cluster_wide=False, **rule):
    """A role of that name with this rule, bound to the subject."""
    group = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    kind = "ClusterRole" if cluster_wide else "Role"
    where = RBAC if cluster_wide else f"{RBAC}/namespaces/{cluster.target.namespace}"
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"], **rule}
    role = {**group, "kind": kind, "metadata": {"name": name}, "rules": [rule]}
    cluster.admin.create(f"{where}/{kind.lower()}s", role)
    binding = {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": name}}
    binding = {**group, "kind": f"{kind}Binding", **binding, "subjects": [subject]}
    cluster.admin.create(f"{where}/{kind.lower()}bindings", binding)


def may_look(cluster, *resources):
    rules = copy.deepcopy(cluster.target.standin.rules)
    rules["rules"][-1]["resources"] += resources
    cluster.target.standin.set_rules(rules)


def test_the_doctor_names_an_account_that_all_dpus_share(cluster):
    cluster.node("fine", {"k8s.ovn.org/dpu-host": ""})
    cluster.lease("fine")

    def account(namespace, name):
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}

    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    own = account(cluster.target.namespace, "dpu-agent-fine")
    grant(cluster, "dpu-agent", {"kind": "Group", "name": "dpu-heartbeat:dpus"})
    grant(cluster, "dpu-agent-fine", own, resourceNames=["ovn-dpu-fine"])
    grant(cluster, "release-dpu", account("dpf", "reads"), verbs=["get", "list"])
    grant(cluster, "harmless", account("dpf", "shared"))
    grant(cluster, "wide", {"kind": "Group", "name": "system:ovn-nodes"}, cluster_wide=True, **everything)
    assert "another's lease" not in cluster.run("doctor", "fine").stdout  # may not look
    may_look(cluster, "rolebindings", "roles", "clusterroles")  # half of it
    said = cluster.run("doctor", "fine").stdout
    assert "not all can be read" in said and "'dpf/shared'" in said and "ovn-nodes" not in said, said
    may_look(cluster, "roles", "clusterroles", "rolebindings", "clusterrolebindings")
    said = cluster.run("doctor", "fine").stdout
    assert said.count("another's lease") == 2, said
    assert "'dpf/shared' may renew any lease" in said and "Group 'system:ovn-nodes'" in said, said


def test_the_doctor_names_upstreams_check_that_is_off_and_stops_pods(cluster):
    cluster.node("fine", {"k8s.ovn.org/dpu-host": ""})
    cluster.lease("fine")
    namespace = cluster.target.namespace
    image = "ghcr.io/ovn-kubernetes/ovn-kubernetes/ovn-kube-ubuntu:v1.3.0"
    pod = {"containers": [{"name": "ovnkube-node", "image": image}]}
    daemons = {"kind": "DaemonSet", "metadata": {"name": "ovnkube-node-dpu-host"}}
    daemons = {"apiVersion": "apps/v1", **daemons, "spec": {"template": {"spec": pod}}}
    cluster.admin.create(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", daemons)
    file = "[ovnkubenode]\ndpu-node-lease-renew-interval=0\n"
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ovnkube-config"}}
    settings["data"] = {"ovnkube.conf": file}
    cluster.admin.create(f"/api/v1/namespaces/{namespace}/configmaps", settings)
    assert "0fe6e3d96" not in cluster.run("doctor", "fine").stdout  # may not look
    may_look(cluster, "daemonsets", "configmaps")
    said = cluster.run("doctor", "fine").stdout
    assert "ends with EOF" in said and "0fe6e3d96" in said, said


def test_missing_rights_are_said_and_only_leases_are_needed(cluster):
    broken_cluster(cluster)
    rules = copy.deepcopy(cluster.target.standin.rules)
    rules["rules"][-1]["resources"] = ["leases"]
    cluster.target.standin.set_rules(rules)
    done = cluster.run("nodes")
    assert "sick" in done.stdout and "bare" not in done.stdout
    assert len(re.findall("not checked: listing [a-z]+: HTTP 403", done.stderr)) == 3
    assert cluster.run("nodes", "sick--b").stderr.count("listing nodes") == 1
    done = cluster.run("nodes", "-l", "rack=a")
    assert done.returncode == UNKNOWN and "--selector" in done.stderr
    rules["rules"][-1]["resources"] = ["nodes"]
    cluster.target.standin.set_rules(rules)
    done = cluster.run("nodes")
    assert done.returncode == UNKNOWN and "HTTP 403" in done.stderr and done.stdout == ""


def test_a_list_without_an_end_costs_the_timeout_and_no_more(cluster):
    page = json.dumps({"metadata": {"continue": "more"}, "items": []})
    cluster.target.standin.fault("answer", resource="leases", verb="list", body=page)
    for command in (["nodes"], ["status", "worker-1"]):
        done = cluster.run(*command, "--api-timeout=500ms")
        assert (done.returncode, "leases" in done.stderr) == (UNKNOWN, True), done.stderr
        assert 0.4 < done.seconds < 3


@pytest.mark.parametrize(
    "items",
    ("{}", '"none"', "7", "[7]", "[null]", '[{"metadata": {}}]', '[{"metadata": {"name": 1}}]', None),
)
def test_a_list_that_makes_no_sense_is_not_taken_for_an_empty_one(cluster, items):
    cluster.node("fine", {"k8s.ovn.org/dpu-host": ""})
    cluster.lease("fine")
    page = '{"kind": "List", "metadata": {}' + (f', "items": {items}' if items else "") + "}"
    cluster.target.standin.fault("answer", resource="leases", verb="list", body=page)
    done = cluster.run("nodes")
    assert (done.returncode, done.stdout) == (UNKNOWN, "")
    assert "listing leases: the answer" in done.stderr, done.stderr
    cluster.target.standin.clear_faults()
    cluster.target.standin.fault("answer", resource="nodes", verb="list", body=page)
    done = cluster.run("nodes")
    assert "1 with a DPU: 0 NotReady, 0 Unknown, 1 Ready" in done.stdout
    assert "not checked: listing nodes: the answer" in done.stderr, done.stderr


def test_a_list_without_items_is_an_empty_one(cluster):
    page = '{"kind": "LeaseList", "metadata": {}, "items": null}'  # as Go writes a nil slice
    cluster.target.standin.fault("answer", resource="leases", verb="list", body=page)
    assert cluster.rows(code=READY)["total"] == 0


def test_lists_begin_anew_where_a_page_has_expired(cluster):
    names = [f"n{i:03}" for i in range(520)]
    for name in names:
        cluster.lease(name)
    expire_pages(cluster.target.standin)
    done = cluster.run("nodes", "-o", "name")
    assert done.returncode == READY and len(done.stdout.splitlines()) == 520
    assert done.stderr.count("HTTP 410") == 1 and "anew" in done.stderr, done.stderr
    cluster.target.standin.clear_faults()
    expire_pages(cluster.target.standin)
    [note] = json.loads(cluster.run("nodes", "-o", "json").stdout)["notes"]
    assert "listed anew" in note


def test_what_was_deleted_before_a_list_began_anew_is_not_shown(cluster):
    for i in range(520):
        cluster.lease(f"n{i:03}")
    standin = cluster.target.standin
    expire_pages(standin)
    standin.fault("delay", resource="pods", ms=1500, count=1)  # before any second page
    nodes = Process(cluster.command("nodes", "-o", "name"), os.path.join(standin.directory, "log"))
    until(lambda: standin.audit(user="viewer", verb="list", resource="leases"), SOON_S)
    cluster.admin.delete(f"{cluster.target.leases_path()}/ovn-dpu-n003")
    assert nodes.wait() == READY
    assert "node/n003" not in nodes.text() and "node/n004" in nodes.text()


def test_pages_that_always_expire_end_in_an_error(cluster):
    for i in range(520):
        cluster.lease(f"n{i:03}")
    expire_pages(cluster.target.standin, times=3)
    done = cluster.run("nodes")
    assert (done.returncode, done.stdout) == (UNKNOWN, "")
    assert "listing leases: HTTP 410" in done.stderr, done.stderr
    pages = cluster.target.standin.audit(user="viewer", verb="list", resource="leases")
    assert len(pages) == 6, "three times, two pages each"


def test_the_doctor_waits_no_longer_for_many_answers_than_for_one(cluster):
    cluster.target.standin.fault("delay", resource=None, ms=400)
    done = cluster.run("doctor", "worker-1", "--api-timeout=600ms")
    assert "no answer within 600ms" in done.stdout
    assert done.seconds < 1.5


def test_watch_tells_who_has_changed(cluster):
    broken_cluster(cluster)
    path = os.path.join(cluster.target.standin.directory, "watch.log")
    watch = Process(cluster.command("nodes", "-w", "--interval=1s"), path)
    lines = lambda: watch.text().splitlines()  # noqa: E731
    until(lambda: len(lines()) == 6, SOON_S, lines)
    renewed = {"spec": {"renewTime": micro_time()}}
    cluster.admin.patch(f"{cluster.target.leases_path()}/ovn-dpu-dead", renewed)
    until(lambda: len(lines()) == 7, SOON_S, lines)
    assert "dead  Ready  LeaseRenewed" in lines()[6]
    assert lines()[6].endswith("was NotReady LeaseExpired")
    assert watch.stop() == 0


def test_many_nodes_in_pages(cluster):
    names = [f"n{i:03}" for i in range(520)]
    for i, name in enumerate(names):
        cluster.lease(name, age_s=100 if i in (7, 507) else -600)
    seen = cluster.rows(code=NOT_READY)
    assert seen["counts"] == {"NotReady": 2, "Unknown": 0, "Ready": 518}
    assert sorted(n["node"] for n in seen["nodes"]) == names
    assert [n["node"] for n in seen["nodes"][:2]] == ["n007", "n507"]
    pages = cluster.target.standin.audit(user="viewer", verb="list", resource="leases")
    assert len(pages) == 2, "500 to a page"
