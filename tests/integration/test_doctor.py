# SPDX-License-Identifier: Apache-2.0
"""dpuctl doctor: each known way in which the chain breaks is named, with its mend."""

import json
import os
import pathlib
import re
import shutil
import socket
import time

import pytest
import yaml
from dpu_testing import kubeconfig
from dpu_testing.dpuctl import Node, home_of
from dpu_testing.kube import micro_time
from dpu_testing.process import clean_env, run
from dpu_testing.wait import until
from target import NODES
from world import SANITIZER, SOON_S

BROKEN = 1
RECORD = "/run/dpu-heartbeat/readiness.json"  # below the root

OVN = '{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay"}'
GATE = """{"cniVersion":"1.0.0","cniVersions":["1.0.0","1.1.0"],"name":"ovn-kubernetes","plugins":[
  {"type":"dpu-gate","delegateConf":"/etc/cni/net.d/10-ovn-kubernetes.conf","readinessFile":"%s"}]}"""


class Patient(Node):
    """A whole node's files, and what the doctor says of them."""

    def __init__(self, world, directory):
        super().__init__(world.binaries, directory)
        self.world = world
        world.readiness_file = self.readiness_file
        os.makedirs(os.path.join(self.root, "opt/cni/bin"))
        self.program_file("opt/cni/bin/ovn-k8s-cni-overlay")
        shutil.copy(world.binaries.path("dpu-gate"), os.path.join(self.root, "opt/cni/bin"))
        self.put("etc/cni/net.d/10-ovn-kubernetes.conf", OVN)
        self.put("etc/cni/net.d/05-dpu-gate.conflist", GATE % RECORD)

    def put(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def conf(self, name, text):
        self.put(f"etc/cni/net.d/{name}", text)

    def multus(self, members):
        self.conf("00-multus.conf", '{"name":"m","cniVersion":"1.1.0","type":"multus",%s}' % members)

    def gate(self, plugins):
        plugins = plugins.replace('"dpu-gate"', '"dpu-gate","readinessFile":"%s"' % RECORD)
        self.conf("05-dpu-gate.conflist", '{"name":"n","cniVersion":"1.1.0","plugins":[%s]}' % plugins)

    def largest(self):
        """As install-cni writes it of the largest source: with a copy of that."""
        copied = '"lastDelegate":{"type":"x","pad":"%s"}' % ("x" * (1 << 20))
        self.conf("05-dpu-gate.conflist", (GATE % RECORD).replace("}]}", f",{copied}}}]}}"))

    def single(self):
        """As install-cni writes it of one plugin."""
        conf = {"cniVersion": "1.1.0", "name": "ovn-kubernetes", "type": "dpu-gate", "readinessFile": RECORD}
        self.remove("etc/cni/net.d/05-dpu-gate.conflist")
        self.conf("05-dpu-gate.conf", json.dumps({**conf, "delegateConf": "/etc/cni/net.d/10-ovn-kubernetes.conf"}))

    def contest(self, message):
        self.put(RECORD.lstrip("/") + ".cni", json.dumps({"message": message}))

    def rename(self, path, to):
        os.rename(os.path.join(self.root, path), os.path.join(self.root, to))

    def remove(self, path):
        os.unlink(os.path.join(self.root, path))

    def program_file(self, path):
        shutil.copy("/bin/true", os.path.join(self.root, path))

    def speaks(self, version):
        """The plugin behind the gate, by its answer to VERSION."""
        path = "opt/cni/bin/ovn-k8s-cni-overlay"
        self.put(path, "#!/bin/sh\necho '{\"supportedVersions\":[\"0.4.0\",\"%s\"]}'\n" % version)
        os.chmod(os.path.join(self.root, path), 0o755)

    def run(self, *words, user="host", env=None):
        target = self.world.target
        flags = [
            f"--node-name={target.node}",
            f"--namespace={target.namespace}",
            f"--dpu-node-lease-duration={self.world.duration_s}",
            "--dpu-node-lease-renew-interval=200ms",
        ]
        if user:
            flags.append(f"--kubeconfig={target.kubeconfig(user)}")
        return self.call("doctor", *flags, *words, env=env)

    def examine(self, *words, **options):
        """(exit status, {link: [check, ...]})."""
        done = self.run("-o", "json", *words, **options)
        assert done.stderr == ""
        links = {}
        for check in json.loads(done.stdout)["checks"]:
            links.setdefault(check["link"], []).append(check)
        return done.returncode, links

    def expect(self, link, outcome, text, **options):
        _, links = self.examine(**options)
        found = [c for c in links.get(link, []) if c["outcome"] == outcome and text in c["found"]]
        assert found, links.get(link, links)
        assert outcome in ("pass", "skip") or found[0]["mend"]


@pytest.fixture
def patient(world, tmp_path):
    return Patient(world, tmp_path / "node")


def test_a_whole_chain(world, patient):
    world.both(probe="exec:true")
    world.wait_renewals(2)
    # Where a renewal comes between the record and the lease, nothing is said of the DPU.
    code, links = until(lambda: "DPU" in (found := patient.examine())[1] and found, SOON_S, "the DPU's link")
    assert code != BROKEN
    for link in ("record", "agent", "API", "lease", "DPU", "CNI"):
        assert [c["outcome"] for c in links[link] if "on a disk" not in c["found"]] == ["pass"], links[link]
    text = patient.run().stdout
    assert "nothing is broken" in text and "\033" not in text


def bump_by(target, name):
    """A renewTime from a machine of that name, which is its User-Agent's first word."""
    writer = target.admin.under(f"{name}/1.0")
    writer.patch(target.lease_path(), {"spec": {"renewTime": micro_time()}})


def test_a_dead_dpu_is_the_first_link(world, patient):
    _, dpu = world.both()
    patient.expect("DPU", "warn", "proves only that dpu-agent runs")  # it asks no service
    dpu.kill()
    world.wait_verdict("NotReady/LeaseExpired")
    code, links = patient.examine()
    assert code == BROKEN and "writes the record" in links["agent"][0]["found"]
    assert [links[link][0]["outcome"] for link in ("record", "DPU", "agent")] == ["fail", "fail", "pass"]
    assert "LeaseExpired" in links["record"][0]["found"] and "renewed the lease" in links["DPU"][0]["found"]
    assert "begin with the first, record" in patient.run().stdout
    bump_by(world.target, socket.gethostname())
    patient.expect("lease", "warn", "no renewal by the DPU")
    patient.expect("DPU", "fail", "renewed the lease")


@pytest.mark.standin_only
def test_a_dead_api_server_is_the_first_link(world, patient):
    """What the record says follows from it: the DPU may be well."""
    world.host()
    world.wait_verdict("Unknown/AwaitingFirstRenewal")
    world.target.standin.refuse()
    world.target.standin.drop_connections()
    done = patient.run()
    assert "begin with the first, API" in done.stdout, done.stdout
    code, links = patient.examine()
    assert code == BROKEN and links["record"][0]["outcome"] == "fail"
    assert next(iter(links)) == "API"


def test_a_dpu_that_never_came(world, patient):
    world.host()
    world.wait_verdict("Unknown/AwaitingFirstRenewal")
    until(lambda: patient.examine()[1]["lease"][0]["outcome"] == "pass", SOON_S, "the lease")
    patient.expect("record", "fail", "AwaitingFirstRenewal")
    patient.expect("DPU", "fail", "never renewed")


def test_a_dpu_whose_clock_is_ahead(world, target, patient):
    target.new_lease(renewTime=micro_time(time.time() + 3600))
    world.host()
    world.wait_record(lambda r: r["lease"]["renewTime"], what="the first look")
    target.put_lease(lambda l: l["spec"].update(renewTime=micro_time(time.time() + 3601)))
    world.wait_state("Ready")
    patient.expect("clocks", "warn", "ahead of this host's")


def test_an_unhealthy_dpu_and_then_a_dead_agent(world, patient):
    host = world.host()
    world.dpu(probe="interval=100ms,failures=1;exec:echo no bridge >&2; false")
    world.wait_verdict("NotReady/DPUReportedUnhealthy")
    patient.expect("DPU", "fail", "no bridge")
    host.kill()
    def failed():
        return [check for check in patient.examine()[1]["agent"] if check["outcome"] == "fail"]

    agent = until(failed, SOON_S, "the agent is overdue")[0]
    assert "overdue" in agent["found"] and "systemctl" in agent["mend"]


@pytest.mark.standin_only  # a kubelet says it again
def test_a_node_that_says_nothing(world, target, patient):
    status = {"status": {"conditions": [{"type": "Other", "status": "True"}]}}
    target.admin.patch(f"/api/v1/nodes/{target.node}/status", status)
    patient.expect("node", "skip", "has no condition Ready")


@pytest.mark.parametrize("label", [None, "k8s.ovn.org/dpu-host", "network.operator.openshift.io/dpu-host"])
def test_the_label_of_a_dpus_host(world, target, patient, label):
    node = target.admin.get(f"{NODES}/{target.node}")
    others = {k: v for k, v in node["metadata"].get("labels", {}).items() if not k.endswith("/dpu-host")}
    node["metadata"]["labels"] = {**others, label: ""} if label else others
    target.admin.update(f"{NODES}/{target.node}", node)
    _, links = patient.examine()
    found = [c["outcome"] for c in links["node"] if "has no label" in c["found"]]
    assert found == ([] if label else ["warn"]), links["node"]


def test_nothing_at_all(patient):
    code, links = patient.examine(user=None)
    assert code == BROKEN and "No such file" in links["record"][0]["found"]
    assert "get pods -A -l app.kubernetes.io/name=dpu-host-agent" in links["record"][0]["mend"], "in any namespace"
    assert links["API"][0]["outcome"] == "skip" and "--kubeconfig" in links["API"][0]["mend"]


@pytest.mark.standin_only
@pytest.mark.parametrize(
    "age_s, left_s, outcome, words",
    [(9500, 500, "warn", "expires in"), (100, -20, "fail", "expired 2"), (100, 100, None, "")],
)
def test_a_credential_that_ends(target, patient, age_s, left_s, outcome, words):
    path = target.standin.dated_kubeconfig("host", left_s > 0, age_s=age_s, left_s=left_s)
    _, links = patient.examine(f"--kubeconfig={path}", user=None)
    said = [c for c in links["API"] if "the credential" in c["found"]]
    assert [c["outcome"] for c in said] == ([outcome] if outcome else []), links["API"]
    assert all(words in c["found"] and c["mend"] for c in said)


@pytest.mark.standin_only
def test_a_credential_file_that_cannot_be_used(target, patient, tmp_path):
    """Told by the field, and what an agent that runs does meanwhile."""
    (tmp_path / "half.crt").write_text("-----BEGIN CERTIFICATE-----\nMIIB")
    text = kubeconfig.dump(target.standin.url, token="t", ca_file=tmp_path / "half.crt")
    (tmp_path / "kubeconfig").write_text(text)
    _, links = patient.examine(f"--kubeconfig={tmp_path}/kubeconfig", user=None)
    assert links["API"][0]["outcome"] == "fail"
    assert f"certificate-authority '{tmp_path}/half.crt' is not usable" in links["API"][0]["found"]
    assert "uses the last good credential" in links["API"][0]["mend"]


def test_nothing_but_kubectls_kubeconfig(world, target, patient):
    world.both()
    world.wait_renewals(2)
    env = patient.env(HOME=home_of(patient.root, target.kubeconfig("admin")))
    _, links = patient.examine(user=None, env=env)
    assert links["API"][0]["outcome"] == "pass" and links["lease"][0]["outcome"] == "pass"
    assert [c["outcome"] for c in links["rights"]] == ["skip"] and links["rights"][0]["mend"]


@pytest.mark.standin_only
def test_an_api_server_out_of_reach(world, target, patient):
    world.both()
    target.standin.refuse()
    patient.expect("API", "fail", "kubeconfig")
    target.standin.accept()


@pytest.mark.parametrize(
    "flags, outcomes, text",
    [
        (["--dpu-node-lease-duration=30"], ["pass", "warn"], "30 s"),
        (["--holder-identity=somebody"], ["fail"], "not by 'somebody'"),
        (["--dpu-node-lease-duration=30", "--dpu-node-lease-renew-interval=20s"], ["pass", "warn", "warn"], "each 20s"),
        (["--dpu-node-lease-duration=0"], ["pass"], "is held by"),  # no timers to differ
        (["--dpu-node-lease-renew-interval=0"], ["pass"], "is held by"),
    ],
)
def test_settings_that_differ(world, patient, flags, outcomes, text):
    world.both()
    world.wait_renewals(1)
    _, links = patient.examine(*flags)
    assert [c["outcome"] for c in links["lease"]] == outcomes, links["lease"]
    assert any(text in c["found"] for c in links["lease"]), links["lease"]


def test_a_dpu_that_renews_less_often_than_this_side_expects(world, patient):
    world.host()
    world.dpu(dpu_node_lease_renew_interval="1900ms")
    world.wait_renewals(1)

    def slow():
        found = [c for c in patient.examine()[1].get("DPU", []) if "each 200ms" in c["found"]]
        return found and found[0]

    seen = until(slow, SOON_S, "a renewal that is late for this side")
    assert seen["outcome"] == "warn" and "--dpu-node-lease-renew-interval" in seen["mend"]


GATE_FILE, OVN_FILE = "05-dpu-gate.conflist", "10-ovn-kubernetes.conf"
CONF, PLUGIN = "etc/cni/net.d/", "opt/cni/bin/ovn-k8s-cni-overlay"


@pytest.mark.parametrize(
    "change, outcome, text",
    [
        (lambda p: p.conf("00-first.conf", OVN), "fail", "bypasses dpu-gate"),
        (lambda p: p.conf(".hidden.conf", OVN), "fail", ".hidden.conf sorts before"),
        (lambda p: p.speaks("1.0.0"), "warn", "ovn-k8s-cni-overlay' does not speak CNI 1.1.0"),
        (lambda p: p.speaks("1.0.0") or p.gate('{"type":"dpu-gate"},{"type":"ovn-k8s-cni-overlay"}'), "warn", "does not speak CNI 1.1.0"),
        (lambda p: p.speaks("1.1.0") or p.largest(), "pass", "then /etc/cni/net.d/10-ovn-kubernetes.conf"),
        (lambda p: p.conf("00-multus.conf", '{"name":"m","cniVersion":"0.3.1","type":"multus"}'), "warn", "does not pass STATUS on"),
        (lambda p: p.multus('"delegates":[%s]' % OVN), "fail", "calls ovn-k8s-cni-overlay instead of dpu-gate"),
        (lambda p: p.multus('"delegates":[{"plugins":[{"type":"x"}]}]'), "fail", "calls x instead of dpu-gate"),
        (lambda p: p.remove(CONF + GATE_FILE) or p.multus('"delegates":[%s]' % (GATE % "/r")), "warn", "calls dpu-gate"),
        (lambda p: p.multus('"clusterNetwork":"/host/etc/cni/net.d/10-ovn-kubernetes.conf"'), "fail", "instead of dpu-gate"),
        (lambda p: p.multus('"clusterNetwork":"/x","delegates":[%s]' % OVN), "warn", "calls its cluster network /x"),
        (lambda p: p.multus('"clusterNetwork":"/host/etc/cni/net.d/05-dpu-gate.conflist"'), "fail", "names the list"),
        (lambda p: p.gate('{"type":"dpu-gate"},{"type":"x"}') or p.multus('"clusterNetwork":"/c/05-dpu-gate.conflist"'), "warn", "get no more than their type"),
        (lambda p: p.single() or p.multus('"clusterNetwork":"/c/05-dpu-gate.conf"'), "warn", "calls its cluster network"),
        (lambda p: p.single() or p.multus('"clusterNetwork":"/c/05-dpu-gate.conflist"'), "fail", "which is not there"),
        (lambda p: p.single(), "pass", "05-dpu-gate.conf comes first"),
        (lambda p: p.multus('"x":1'), "warn", "does not name"),
        (lambda p: p.conf("01-broken.conf", "{"), "warn", "01-broken.conf"),
        (lambda p: p.remove(CONF + GATE_FILE), "warn", "not installed"),
        (lambda p: p.conf(GATE_FILE, '{"plugins":[{"type":"dpu-gate"}]}'), "fail", "names no network"),
        (lambda p: p.conf(GATE_FILE, ""), "fail", "05-dpu-gate.conflist: not valid JSON"),
        (lambda p: p.remove(CONF + OVN_FILE), "fail", "behind dpu-gate"),
        (lambda p: p.rename(CONF + OVN_FILE, CONF + "20-ovn.conf"), "fail", "'20-ovn.conf' configures the same network"),
        (lambda p: p.remove(CONF + OVN_FILE) or p.conf("10-k8s.conflist", '{"name":"k8s","plugins":[%s]}' % OVN), "fail", "'10-k8s.conflist' configures the same network"),
        (lambda p: p.contest("'x' was removed"), "fail", "'x' was removed"),
        (lambda p: p.conf(OVN_FILE, OVN.replace("ovn-kubernetes", "other")), "fail", "names network 'other'"),
        (lambda p: p.conf(OVN_FILE, "{"), "fail", "10-ovn-kubernetes.conf"),
        (lambda p: p.conf(GATE_FILE, GATE % "/elsewhere.json"), "fail", "'/elsewhere.json'"),
        (lambda p: p.conf(GATE_FILE, (GATE % RECORD).replace(',"1.1.0"', "")), "warn", "only ADD is gated"),
        (lambda p: p.conf(OVN_FILE, OVN.replace("ovn-k8s-cni-overlay", "dpu-gate")), "fail", "is dpu-gate itself"),
        (lambda p: p.conf(OVN_FILE, OVN.replace("ovn-k8s-cni-overlay", "../bin/ovn-k8s-cni-overlay")), "fail", "is not an executable program"),
        (lambda p: p.conf(OVN_FILE, '{"name":"ovn-kubernetes","plugins":[%s,{"type":"portmap"}]}' % OVN), "fail", "lists 2 plugins"),
        (lambda p: p.gate('{"type":"dpu-gate"}'), "fail", "no plugin to call"),
        (lambda p: p.gate('{"type":"dpu-gate"},{"type":"ovn-k8s-cni-overlay"}'), "pass", "then ovn-k8s"),
        (lambda p: p.gate('{"type":"dpu-gate"},{"type":"ovn-k8s-cni-overlay"},{"type":"portmap"}'), "fail", "portmap' is not an executable program"),
        (lambda p: p.gate('{"type":"dpu-gate","delegate":{"type":"x"}}'), "fail", "x' is not an executable program"),
        (lambda p: p.program_file("opt/cni/bin/dpu-gate"), "fail", "answer to VERSION"),
        (lambda p: p.remove("opt/cni/bin/dpu-gate"), "fail", "dpu-gate' is not an executable program"),
        (lambda p: p.remove(PLUGIN) or os.mkfifo(f"{p.root}/{PLUGIN}"), "fail", "ovn-k8s-cni-overlay' is not an executable program"),
        (lambda p: shutil.rmtree(p.root + "/etc/cni/net.d"), "fail", "net.d"),
    ],
)  # fmt: skip
def test_cni_wiring(patient, change, outcome, text):
    change(patient)
    patient.expect("CNI", outcome, text, user=None)


def test_the_nodes_own_settings_count_below_a_root(world, patient):
    settings = "holder-identity: somebody\nkubeconfig: /etc/nowhere\ncni-sync: true\n"
    patient.put("etc/dpu-heartbeat/dpu-host-agent.yaml", settings)
    world.both()
    patient.expect("lease", "fail", "not by 'somebody'")
    patient.expect("API", "skip", "there is no kubeconfig", user=None)  # /etc/nowhere is the node's
    done = run([patient.program, "status"], env=clean_env(DPU_HEARTBEAT_ROOT=patient.root, **SANITIZER))
    assert "there is no kubeconfig" in done.stdout and "nowhere" not in done.stderr
    patient.put("etc/dpu-heartbeat/dpu-host-agent.yaml", "holder-identity: ''\n")
    for words in (["--root", patient.root], [f"--root={patient.root}"]):
        done = run([patient.program, "status", *words], env=clean_env(**SANITIZER))
        assert done.returncode == 64 and f"file '{patient.root[:60]}" in done.stderr


@pytest.mark.standin_only  # a kubelet says which runtime it has
def test_what_keeps_new_pods_away_is_named(target, patient):
    status = {"status": {"nodeInfo": {"containerRuntimeVersion": "containerd://2.1.0"}}}
    target.admin.patch(f"{NODES}/{target.node}/status", status)
    patient.expect("scheduling", "pass", "the runtime polls STATUS")
    _, links = patient.examine(f"--kubeconfig={patient.root}/none", user=None)
    assert "scheduling" not in links  # the API server is the first thing to mend


def test_kubelet_sockets(world, patient):
    base = os.path.join(patient.root, "var/lib/kubelet")
    os.makedirs(f"{base}/plugins_registry")
    patient.expect("kubelet", "pass", "not offered", user=None)
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(f"{base}/plugins_registry")  # the whole path is too long for a socket
        try:
            made.bind("dpu.k8s.ovn.org-reg.sock")
        finally:
            os.chdir(here)
    patient.expect("kubelet", "warn", "the service socket of driver", user=None)
    patient.expect("kubelet", "warn", "nobody listens on 1 of 1 sockets", user=None)  # the test is gone from it


RESTART = ("--cri-socket=/cri.sock", "--on-lost-network=restart")


@pytest.mark.standin_only
@pytest.mark.parametrize(
    "words, verb, resource, outcome, text, file",
    [
        (("--node-condition",), "patch", "nodes/status", "warn", "dpu-host-agent may not patch nodes/status: with --node-condition", "host-agent-node-condition"),
        ((), "patch", "nodes/status", None, "", ""),
        (("--events=off",), "create", "events", None, "", ""),
        ((), "list", "leases", "warn", "dpu-host-agent may not list leases.coordination.k8s.io in ovn-kubernetes: the host polls the lease", "host-agent"),
        ((), "patch", "leases", "warn", "reports a living DPU as dead while the API server takes no writes", "host-agent"),
        ((), "get", "leases", "fail", "the host can never prove that the DPU is dead", "host-agent"),
        (RESTART, "list", "pods", "warn", "dpu-host-agent may not list pods: with --on-lost-network=restart", "host-agent-pods"),
        (RESTART[:1], "list", "pods", None, "", ""),
        (RESTART[1:], "list", "pods", None, "", ""),
        (RESTART[:1], "create", "events", "warn", "dpu-host-agent may not create events.events.k8s.io: with --cri-socket", "host-agent-pods"),
    ],
)  # fmt: skip
def test_each_right_that_an_option_needs_is_asked_for(target, patient, words, verb, resource, outcome, text, file):
    _, links = patient.examine(*words)
    assert [c["outcome"] for c in links["rights"]] == ["pass"], links["rights"]
    target.without_right("host", [verb], resource)
    _, links = patient.examine(*words)
    said = [c for c in links["rights"] if resource.split("/")[0] in c["found"] and c["outcome"] != "pass"]
    assert bool(said) == bool(outcome), links["rights"]
    assert not outcome or any(
        c["outcome"] == outcome and text in c["found"] and c["mend"].endswith(f"rbac/{file}.yaml") for c in said
    ), said


# Not asked for: agents of before repaired a lease by it.
UNASKED = {("update", "leases.coordination.k8s.io", "ovn-kubernetes", "host-agent")}


def granted(path):
    """(verb, resource, namespace or "", name of the file) for all that it gives."""
    with open(path, encoding="utf-8") as file:
        objects = [o for o in yaml.safe_load_all(file) if o["kind"] in ("Role", "ClusterRole")]
    return {
        (verb, f"{resource}.{group}".rstrip("."), o["metadata"].get("namespace", ""), path.stem)
        for o in objects
        for rule in o["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.standin_only
def test_the_doctor_asks_for_all_that_rbac_grants_and_for_no_more(target, patient):
    target.standin.set_rules({**target.standin.rules, "rules": []})
    rbac = pathlib.Path(__file__).parents[2] / "rbac"
    for program, words, files in (
        ("dpu-host-agent", (*RESTART, "--node-condition"), "host-agent*.yaml"),
        ("dpu-dra-driver", ("--dra", "--dra-claim-conditions"), "dra-driver*.yaml"),
    ):
        _, links = patient.examine(*words)
        said = [re.match(rf"{program} may not (\S+) (\S+?)(?: in (\S+))?: ", c["found"]).groups("") for c in links["rights"]]
        asked = {(*s, pathlib.Path(c["mend"]).stem) for s, c in zip(said, links["rights"], strict=True)}
        assert asked == set().union(*map(granted, rbac.glob(files))) - UNASKED


@pytest.mark.parametrize(
    "version, path, text, link, outcome, found",
    [
        ("containerd://2.1.0", "etc/containerd/config.toml", "[x.cni]\nconf_dir = '/var/cni'\n", "runtime", "warn", "'/var/cni'"),
        ("containerd://2.1.0", "etc/containerd/config.toml", 'bin_dir = "/usr/lib/cni"\n', "runtime", "warn", "'/usr/lib/cni'"),
        ("cri-o://1.36.3", "etc/crio/crio.conf", 'cni_status_grace_period = "5s"\n', "runtime", "pass", "polls STATUS"),
        ("cri-o://1.36.3", "etc/crio/crio.conf.d/10-x.conf", 'network_dir = "/x/"\n', "runtime", "warn", "'/x'"),
        # What keeps new Pods away.
        ("containerd://2.1.0", "etc/x", "", "scheduling", "warn", "nothing keeps new Pods away"),  # CNI 1.0.0
        ("cri-o://1.36.3", "etc/x", "", "scheduling", "warn", "nothing keeps new Pods away"),
        ("odd://1", "etc/x", "", "scheduling", "skip", "STATUS does so if the runtime polls it"),
        # Which version it calls a plugin with.
        ("containerd://1.7.30", "etc/x", "", "CNI", "warn", "ovn-k8s-cni-overlay' does not speak CNI 1.1.0"),
        ("cri-o://1.34.0", "etc/x", "", "CNI", "fail", "ovn-k8s-cni-overlay' does not speak CNI 1.1.0"),
    ],
)  # fmt: skip
def test_runtimes(target, patient, version, path, text, link, outcome, found):
    patient.put(path, text)
    if link != "scheduling" or version.startswith("containerd"):
        patient.speaks("1.0.0")
    status = {"status": {"nodeInfo": {"containerRuntimeVersion": version}}}
    target.admin.patch(f"{NODES}/{target.node}/status", status)
    patient.expect(link, outcome, found)
