# SPDX-License-Identifier: Apache-2.0
"""dpu-host-agent install-cni, uninstall-cni, and the conflist kept in step."""

import json
import os
import pathlib
import resource
import signal
import stat
import subprocess
import threading
import time

import pytest
from cni_node import CHAIN, OVN, Node, calls, plugins
from dpu_testing.wait import never, until
from world import SOON_S, in_own_mounts


@pytest.fixture
def node(binaries, tmp_path):
    return Node(binaries, tmp_path)


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_one_plugin_is_wrapped_under_its_own_network_name_and_a_second_install_writes_nothing(node):
    node.write("10-ovn-kubernetes.conf", OVN)
    node.install()
    conflist = node.conflist()
    assert conflist["cniVersion"] == "1.0.0" and conflist["cniVersions"] == ["1.0.0", "1.1.0"]
    assert conflist["name"] == "ovn-kubernetes"
    source = f"{node.conf}/10-ovn-kubernetes.conf"
    wanted = {"type": "dpu-gate", "delegateConf": source, "readinessFile": node.record}
    assert conflist["plugins"] == [{**wanted, "lastDelegate": json.loads(OVN)}]
    assert mode(f"{node.bin}/dpu-gate") == 0o755 and mode(f"{node.conf}/05-dpu-gate.conflist") == 0o600
    with open(node.gate, "rb") as gate, open(f"{node.bin}/dpu-gate", "rb") as installed:
        assert gate.read() == installed.read()
    assert sorted(os.listdir(node.conf)) == ["05-dpu-gate.conflist", "10-ovn-kubernetes.conf"]
    assert os.listdir(node.bin) == ["dpu-gate"]
    paths = [f"{node.bin}/dpu-gate", f"{node.conf}/05-dpu-gate.conflist"]
    before = [os.stat(path).st_ino for path in paths]
    assert node.install().count("is up to date") == 2
    assert [os.stat(path).st_ino for path in paths] == before


# One plugin of 1.1.0: a .conf, which Multus passes on whole.

NEW = '{"cniVersion":"1.1.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","capabilities":{"ips":true},"n":1.50}'
OWN = ("05-dpu-gate.conf", "05-dpu-gate.conflist")


def own(node):
    return [name for name in OWN if os.path.exists(f"{node.conf}/{name}")]


def test_one_plugin_of_1_1_0_gives_a_conf(node):
    plugins(node, "ovn-k8s-cni-overlay")
    node.write("10-ovn-kubernetes.conf", NEW)
    node.install()
    conf = json.loads(node.text("05-dpu-gate.conf"))
    assert own(node) == ["05-dpu-gate.conf"] and mode(f"{node.conf}/05-dpu-gate.conf") == 0o600
    assert conf == {
        "cniVersion": "1.1.0",
        "name": "ovn-kubernetes",
        "type": "dpu-gate",
        "delegateConf": f"{node.conf}/10-ovn-kubernetes.conf",
        "readinessFile": node.record,
        "capabilities": {"ips": True},
        "lastDelegate": json.loads(NEW),
    }
    assert node.call("DEL", conf) is None and calls(node) == ["DEL ovn-k8s-cni-overlay"]
    assert node.install().count("is up to date") == 2
    node.remove("10-ovn-kubernetes.conf")
    node.install()
    assert json.loads(node.text("05-dpu-gate.conf")) == conf, "it waits for its source in this form"
    node.run("uninstall-cni")
    assert own(node) == []


def test_the_form_follows_the_source_and_only_one_is_left(node):
    for source, wanted in ((OVN, OWN[1]), (NEW, OWN[0]), (CHAIN, OWN[1]), (NEW, OWN[0]), (OVN, OWN[1])):
        node.write("10-ovn-kubernetes.conf", source)
        node.install()
        assert own(node) == [wanted]
    node.write("10-ovn-kubernetes.conf", NEW)
    node.install("--cni-form=list")
    assert own(node) == [OWN[1]]


def test_a_file_of_ours_that_multus_names_stays_until_it_names_the_other(node):
    """Its daemon reads the name once, when it starts."""
    node.write("10-ovn-kubernetes.conf", OVN)
    node.install()
    node.write("00-multus.conf", '{"name":"m","type":"multus-shim","clusterNetwork":"%s/05-dpu-gate.conflist"}' % node.conf)
    node.write("10-ovn-kubernetes.conf", NEW)
    for _ in range(2):
        node.install()
        assert own(node) == list(OWN)
    node.write("00-multus.conf", '{"name":"m","type":"multus-shim","clusterNetwork":"%s/05-dpu-gate.conf"}' % node.conf)
    node.install()
    assert own(node) == [OWN[0]]


@pytest.mark.parametrize("name", OWN)
def test_uninstall_keeps_what_is_somebody_elses_in_either_form(node, name):
    node.write("10-ovn-kubernetes.conf", NEW)
    node.install()
    node.write(name, OVN if name == OWN[0] else CHAIN)
    before = own(node)
    assert name in node.run("uninstall-cni", status=1)
    assert own(node) == before


@pytest.mark.parametrize("source, file", [("10-ovn.conf", "05-dpu-gate"), ("01-own.conf", "00-dpu-gate")])
@pytest.mark.parametrize("text", [OVN, NEW], ids=["list", "conf"])
def test_the_pages_command_takes_out_a_gate_that_was_left_behind(node, source, file, text):
    page = (pathlib.Path(__file__).parents[2] / "docs" / "install.md").read_text(encoding="utf-8")
    command = "rm -f /etc/cni/net.d/0[05]-dpu-gate.conf /etc/cni/net.d/0[05]-dpu-gate.conflist"
    assert f"\n{command}\n" in page
    node.write(source, text)
    node.write("99-others.conf", OVN)
    node.install(f"--cni-source={source}")
    assert any(name.startswith(file) for name in os.listdir(node.conf))
    place = in_own_mounts(f"mkdir -p /etc/cni/net.d && mount --bind {node.conf} /etc/cni/net.d")
    subprocess.run([*place, "bash", "-c", command], check=True)
    assert sorted(os.listdir(node.conf)) == sorted([source, "99-others.conf"])


# What others do to the source, or add to ours: tests/integration/test_cni_neighbours.py plays some of them.


def behind(node):
    return [plugin["type"] for plugin in node.conflist()["plugins"][1:]]


def add_plugin(node, name, *types):
    """As an installer does it that writes with what it has."""
    conf = json.loads(node.text(name))
    conf = conf if "plugins" in conf else {"name": conf["name"], "cniVersion": "0.3.1", "plugins": [conf]}
    conf["plugins"] += [{"type": each} for each in types]
    if name == OWN[0]:
        node.remove(name)
    node.write(OWN[1], json.dumps(conf, indent=4, sort_keys=True))


@pytest.mark.parametrize("source", [OVN, NEW, CHAIN], ids=["old", "new", "chain"])
def test_what_somebody_added_behind_the_gate_stays_when_the_source_is_written_anew(node, source):
    own_plugins = [p["type"] for p in json.loads(source).get("plugins", [])]
    node.write("10-ovn-kubernetes.conf", source)
    node.install()
    add_plugin(node, own(node)[0], "mesh", "meter")
    node.install()
    assert own(node) == [OWN[1]] and behind(node) == [*own_plugins, "mesh", "meter"]
    assert node.conflist()["cniVersions"] == ["1.0.0", "1.1.0"], "STATUS is called"
    for changed in (CHAIN.replace("tuning", "bandwidth"), NEW, CHAIN, OVN):
        node.write("10-ovn-kubernetes.conf", changed)
        node.install()
        wanted = [p["type"] for p in json.loads(changed).get("plugins", [])]
        assert behind(node) == [*wanted, "mesh", "meter"]
    node.write("10-ovn-kubernetes.conf", CHAIN.replace("tuning", "mesh"))
    node.install()
    assert behind(node) == ["bridge", "mesh", "meter"], "once, and from now on the source's"
    node.write("10-ovn-kubernetes.conf", CHAIN)
    node.install()
    assert behind(node) == ["bridge", "tuning", "meter"]


def test_what_only_looks_different_is_left_alone(node):
    node.write("10-ovn-kubernetes.conf", CHAIN)
    node.install()
    node.write(OWN[1], json.dumps(node.conflist(), indent=7, sort_keys=True))
    os.chmod(f"{node.conf}/{OWN[1]}", 0o644)
    before = os.stat(f"{node.conf}/{OWN[1]}")
    assert node.install().count("is up to date") == 2
    after = os.stat(f"{node.conf}/{OWN[1]}")
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert mode(f"{node.conf}/{OWN[1]}") == 0o600, "it may hold what the source's mode protects"


RENAMED = json.loads(NEW)
LISTED = {"cniVersion": "0.3.1", "name": "k8s-pod-network", "plugins": [json.loads(NEW), {"type": "mesh"}]}


@pytest.mark.parametrize(
    "name, conf, wanted",
    [
        ("20-later.conf", RENAMED, []),
        ("10-ovn-kubernetes.conflist", {**LISTED, "name": "ovn-kubernetes"}, ["ovn-k8s-cni-overlay", "mesh"]),
        ("10-ovn-kubernetes.conflist", LISTED, ["ovn-k8s-cni-overlay", "mesh"]),
        ("10-ovn-kubernetes.conf.cilium_bak", RENAMED, []),
        ("20-other.conf", {**RENAMED, "name": "other"}, None),
        ("20-later.conf.bak", RENAMED, None),
        ("00-multus.conf", {**RENAMED, "type": "multus-shim"}, None),
    ],
)
def test_a_source_that_was_renamed_or_made_a_list_is_found_by_its_network(node, name, conf, wanted):
    plugins(node, "ovn-k8s-cni-overlay")
    node.write("10-ovn-kubernetes.conf", NEW)
    node.install()
    cached = json.loads(node.text(OWN[0]))
    node.remove("10-ovn-kubernetes.conf")
    node.write(name, json.dumps(conf))
    said = node.install()
    if wanted is None:
        assert "does not exist yet" in said and json.loads(node.text(OWN[0])) == cached
        return
    assert f"'{name}' configures the same network" in said
    if wanted:
        assert behind(node) == wanted and node.conflist()["name"] == conf["name"]
    else:
        assert json.loads(node.text(OWN[0]))["delegateConf"] == f"{node.conf}/{name}"
    if name.endswith(("conf", "conflist")):  # until then the gate names it itself
        refused = node.call("STATUS", {**cached, "readinessFile": "/none"})
        assert "RecordMissing" in refused["details"], "the record comes first"
    assert node.call("DEL", cached) is None and calls(node) == ["DEL ovn-k8s-cni-overlay"]
    node.write("10-ovn-kubernetes.conf", NEW)
    assert "configures the same network" not in node.install(), "its own name counts again"


@pytest.mark.needs_root
@pytest.mark.parametrize("change, has_source", [("owner", True), ("owner", False), ("mode", False)])
def test_what_others_own_or_may_write_is_made_anew(node, change, has_source):
    """Both run, or tell a runtime what to run, as root."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    node.write("10-ovn-kubernetes.conf", OVN)
    node.install()
    whole = node.text()
    paths = {f"{node.bin}/dpu-gate": 0o755, f"{node.conf}/05-dpu-gate.conflist": 0o600}
    for path, wanted in paths.items():
        if change == "owner":
            os.chown(path, 65534, -1)
        else:
            os.chmod(path, wanted | 0o022)
    if not has_source:
        node.remove("10-ovn-kubernetes.conf")
    node.install()
    for path, wanted in paths.items():
        assert os.stat(path).st_uid == 0 and mode(path) == wanted
    if has_source:
        assert node.text() == whole
    else:  # nobody knows any more what it said
        assert "lastDelegate" not in node.plugin()
        assert (node.conflist()["name"], node.plugin()["readinessFile"]) == ("ovn-kubernetes", node.record)


def test_without_a_source_the_network_is_not_ready_and_one_without_sense_leaves_what_stands(node):
    assert "not ready until another program writes it" in node.install()
    assert node.conflist()["name"] == "ovn-kubernetes"
    assert node.status()["code"] == 50
    node.write("10-ovn-kubernetes.conf", '{"name":"other","type":"t"}')
    node.install()
    before = node.text()
    assert node.conflist()["name"] == "other"
    node.write("10-ovn-kubernetes.conf", "{")
    assert "cannot be wrapped" in node.install(status=1)
    assert node.text() == before


def test_options_that_make_no_sense_are_refused(node):
    for flag, says in (
        ("--cni-conf-dir=net.d", "an absolute path"),
        ("--cni-source=a/b", "the name of a file"),
        ("--cni-source=00-dpu-gate.conflist", "sorts after"),
        ("--cni-bin-dir=bin", "absolute"),
        ("--nonsense", "nonsense"),
    ):
        assert says in node.install(flag, status=2)
    assert os.listdir(node.bin) == []


def test_what_cannot_be_written_is_named_and_nothing_is_lost(node, tmp_path):
    node.write("10-ovn-kubernetes.conf", OVN)
    assert "/none" in node.install("--cni-bin-dir=/none", status=1)
    assert "is not an executable program" in node.run(
        "install-cni", f"--gate-binary={node.conf}/10-ovn-kubernetes.conf", status=1
    )
    assert "/none" in node.run("install-cni", "--gate-binary=/none/dpu-gate", status=1)
    os.mkdir(f"{node.bin}/dpu-gate")
    assert "dpu-gate" in node.install(status=1)
    assert node.conflist() is None


def test_the_agents_configuration_file_holds_for_both(node, tmp_path):
    node.write("00-own.conf", OVN)
    path = tmp_path / "dpu-host-agent.yaml"
    path.write_text("kubeconfig: /x\ncni-source: 00-own.conf\n")
    node.install(f"--config={path}")
    assert json.loads(node.text("00-dpu-gate.conflist"))["name"] == "ovn-kubernetes"
    node.run("uninstall-cni", f"--config={path}")
    assert sorted(os.listdir(node.conf)) == ["00-own.conf"]


def test_a_configuration_before_ours_is_warned_of(node):
    node.write("10-ovn-kubernetes.conf", OVN)
    node.write("00-first.conf", OVN)
    assert "bypasses dpu-gate" in node.install()
    node.remove("00-first.conf")
    node.write(".hidden.conflist", OVN)  # which runtimes read like any other
    assert "bypasses dpu-gate" in node.install()
    node.remove(".hidden.conflist")
    os.mkdir(os.path.join(node.conf, "00-folder.conf"))  # no runtime looks into it
    assert "bypasses dpu-gate" not in node.install()
    node.write("00-multus.conf", OVN)
    said = node.install()
    assert "Multus" in said and "bypasses dpu-gate" not in said


def test_uninstall_reverses_it_and_leaves_the_program_for_its_pods(node):
    node.write("05-dpu-gate.conflist", CHAIN)
    assert "keeping that file" in node.run("uninstall-cni", status=1)
    assert node.text() == CHAIN, "it is somebody else's"
    node.remove("05-dpu-gate.conflist")
    node.write("10-ovn-kubernetes.conf", OVN)
    node.install()
    assert "--remove-binary" in node.run("uninstall-cni")
    assert os.listdir(node.conf) == ["10-ovn-kubernetes.conf"] and node.text("10-ovn-kubernetes.conf") == OVN
    assert os.listdir(node.bin) == ["dpu-gate"]
    for _ in range(2):
        node.run("uninstall-cni", "--remove-binary")
        assert os.listdir(node.bin) == []


def test_uninstall_takes_back_the_largest_that_can_be_installed(node):
    chain = CHAIN.replace("1e3]", '"%s"]' % ("x" * ((1 << 20) - len(CHAIN) + 1)))
    assert len(chain) == 1 << 20
    node.write("10-ovn-kubernetes.conf", chain)
    node.install()
    node.remove("10-ovn-kubernetes.conf")
    node.install()
    assert node.conflist()["name"] == "net" and len(node.conflist()["plugins"]) == 1
    node.write("10-ovn-kubernetes.conf", chain)
    node.install()
    node.run("uninstall-cni")
    assert os.listdir(node.conf) == ["10-ovn-kubernetes.conf"]


def test_uninstall_names_a_gate_that_is_left(node):
    node.write("10-ovn-kubernetes.conf", OVN)
    node.write("00-own.conf", OVN)
    node.install("--cni-source=00-own.conf")
    said = node.run("uninstall-cni", "--remove-binary", status=1)
    assert "00-dpu-gate.conflist' still calls dpu-gate" in said
    assert os.listdir(node.bin) == ["dpu-gate"], "or each pod would fail"
    node.run("uninstall-cni", "--remove-binary", "--cni-source=00-own.conf")
    assert os.listdir(node.bin) == []


def test_a_full_disk_leaves_the_old_file_whole(node):
    node.write("10-ovn-kubernetes.conf", OVN)
    node.install()
    whole = node.text()
    node.write("10-ovn-kubernetes.conf", OVN.replace("ovn-kubernetes", "n" * 200))

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    command = node.words("install-cni", f"--gate-binary={node.gate}")
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, preexec_fn=small_disk, check=False)
    assert done.returncode == 1 and "05-dpu-gate.conflist" in done.stderr
    assert node.text() == whole
    assert sorted(os.listdir(node.conf)) == ["05-dpu-gate.conflist", "10-ovn-kubernetes.conf"]


# DEL: whatever became of the source, a pod must not stay for ever.

LIST = """{"cniVersion": "1.0.0", "name": "ovn-kubernetes",
 "plugins": [{"type":"ovn-k8s-cni-overlay","n":1},{"type":"tuning"},{"type":"bandwidth"}]}"""


@pytest.mark.parametrize("is_synced", [False, True])
def test_del_does_not_need_the_source(node, is_synced):
    plugins(node, "ovn-k8s-cni-overlay")
    node.write("10-ovn-kubernetes.conf", OVN)
    node.install()
    cached = node.given()  # CRI-O's, from ADD
    for text in ("", "{", "[]", '{"name":"ovn-kubernetes"}', '{"name":"n","type":"dpu-gate"}', None):
        if text is None:
            os.rename(f"{node.conf}/10-ovn-kubernetes.conf", f"{node.conf}/20-renamed.conf")
        else:
            node.write("10-ovn-kubernetes.conf", text)
        if is_synced:
            node.install(status=0 if text is None else 1)
        for conf in (cached, node.given()):
            assert node.call("DEL", {**conf, "prevResult": {"ips": []}}) is None
            assert calls(node) == ["DEL ovn-k8s-cni-overlay"]
            with open(f"{node.bin}/stdin.ovn-k8s-cni-overlay", encoding="utf-8") as file:
                got = json.load(file)
            assert got == {**json.loads(OVN), "cniVersion": "1.1.0", "prevResult": {"ips": []}}
        assert node.call("STATUS", cached)["code"] == 50


def test_del_of_a_list_runs_its_plugins_backwards(node):
    plugins(node, "ovn-k8s-cni-overlay", "tuning", "bandwidth")
    node.write("10-ovn-kubernetes.conf", OVN)
    node.install()
    cached = node.given()
    node.write("10-ovn-kubernetes.conf", LIST)
    backwards = ["DEL bandwidth", "DEL tuning", "DEL ovn-k8s-cni-overlay"]
    assert (node.call("DEL", cached), calls(node)) == (None, backwards)
    with open(f"{node.bin}/stdin.tuning", encoding="utf-8") as file:
        assert json.load(file) == {"type": "tuning", "name": "ovn-kubernetes", "cniVersion": "1.1.0"}
    node.install()
    node.remove("10-ovn-kubernetes.conf")
    node.install()  # the chain makes room for one that waits
    assert (node.call("DEL", node.given()), calls(node)) == (None, backwards)


def test_del_of_a_list_ends_with_the_plugin_that_fails(node):
    plugins(node, "ovn-k8s-cni-overlay", "bandwidth", script="echo noise")
    plugins(node, "tuning", script='echo \'{"code":123,"msg":"busy"}\'; exit 1')
    node.write("10-ovn-kubernetes.conf", OVN)
    node.install()
    node.write("10-ovn-kubernetes.conf", LIST)
    assert node.call("DEL", node.given()) == {"code": 123, "msg": "busy"}
    assert calls(node) == ["DEL bandwidth", "DEL tuning"]
    os.unlink(f"{node.bin}/tuning")
    assert 'failed to find plugin "tuning"' in node.call("DEL", node.given())["msg"]


# In step while the agent runs.


@pytest.fixture
def synced(node, world):
    node.write("10-ovn-kubernetes.conf", OVN)
    node.install()
    node.remove("05-dpu-gate.conflist")
    options = {"cni_conf_dir": node.conf, "cni_bin_dir": node.bin, "readiness_file": node.record}
    agent = world.host(cni_sync=True, events="on", **options)
    until(node.conflist, SOON_S, "the conflist, which it watches by then")
    return agent


def test_one_file_of_settings_serves_the_agent_and_its_commands(node, world, tmp_path):
    settings = {"cni-conf-dir": node.conf, "cni-bin-dir": node.bin, "gate-binary": node.gate, "remove-binary": True, "readiness-file": node.record}
    path = tmp_path / "settings.yaml"
    path.write_text(json.dumps(settings))  # which is YAML
    node.write("10-ovn-kubernetes.conf", OVN)
    done = subprocess.run([node.program, "install-cni", f"--config={path}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and os.access(f"{node.bin}/dpu-gate", os.X_OK) and node.conflist(), done.stderr
    agent = world.host(config=path, readiness_file=None)
    agent.wait_log(mod="main", msg=f"record '{node.record}'")


def test_no_configuration_is_written_that_calls_a_program_that_is_not_there(node, world):
    """As where cni-sync is on before install-cni ran: a runtime would fail each ADD of the node."""
    node.write("10-ovn-kubernetes.conf", OVN)
    options = {"cni_conf_dir": node.conf, "cni_bin_dir": node.bin, "readiness_file": node.record}
    agent = world.host(cni_sync=True, **options)
    agent.wait_log(mod="cni", level="warn", msg="'dpu-host-agent install-cni' installs")
    node.write("20-other.conf", OVN)  # another look
    time.sleep(1)
    assert os.listdir(node.bin) == [] and node.conflist() is None
    node.install()
    until(node.conflist, SOON_S, "the gate")
    node.remove("05-dpu-gate.conflist")
    until(node.conflist, SOON_S, "it is kept in sync from then on")


def test_whatever_becomes_of_the_source_is_followed(node, synced, tmp_path):
    def wait_name(name):
        until(lambda: node.conflist()["name"] == name, SOON_S, f"the name {name}")

    node.write("10-ovn-kubernetes.conf", '{"name":"renamed","type":"t","capabilities":{"ips":true}}')
    wait_name("renamed")
    assert node.plugin()["capabilities"] == {"ips": True}
    assert node.plugin()["lastDelegate"]["type"] == "t"
    inode = os.stat(f"{node.conf}/05-dpu-gate.conflist").st_ino
    node.write("00-first.conf", OVN)
    synced.wait_log(mod="cni", level="warn", msg="bypasses dpu-gate")
    node.remove("00-first.conf")
    node.write("10-ovn-kubernetes.conf", '{"name":')
    synced.wait_log(mod="cni", level="warn", msg="cannot be wrapped")
    assert os.stat(f"{node.conf}/05-dpu-gate.conflist").st_ino == inode, "nothing was written"
    node.write("10-ovn-kubernetes.conf", OVN.replace("ovn-kubernetes", "mended"))
    wait_name("mended")
    whole = node.text()
    node.remove("10-ovn-kubernetes.conf")
    synced.wait_log(mod="cni", msg="is gone")
    assert node.text() == whole
    (tmp_path / "linked").write_text(OVN.replace("ovn-kubernetes", "linked"))
    os.symlink(tmp_path / "linked", f"{node.conf}/10-ovn-kubernetes.conf")
    wait_name("linked")


def test_what_others_undo_is_done_again(node, synced):
    """However busy the directory is meanwhile."""
    whole = node.text()
    node.write("05-dpu-gate.conflist", CHAIN)
    until(lambda: node.text() == whole, SOON_S, "it is ours again")
    end = threading.Event()

    def write_on():
        while not end.wait(0.02):
            node.write("99-busy.conf", OVN)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        time.sleep(1.2)  # past our own write
        node.remove("05-dpu-gate.conflist")
        until(lambda: node.conflist() and node.text() == whole, SOON_S, "it is back")
    finally:
        end.set()
        writer.join()


def test_a_converted_source_is_followed_within_moments(node, synced):
    listed = {"name": "k8s-pod-network", "cniVersion": "0.3.1", "plugins": [json.loads(OVN), {"type": "mesh"}]}
    node.write("10-ovn-kubernetes.conflist", json.dumps(listed))
    node.remove("10-ovn-kubernetes.conf")
    until(lambda: behind(node) == ["ovn-k8s-cni-overlay", "mesh"], SOON_S, "the list is chained")
    synced.wait_log(mod="cni", level="warn", msg="configures the same network")


def contest_event(target):
    events = target.admin.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return next((e for e in events if e["reason"] == "CNIConfigurationContested"), None)


@pytest.mark.parametrize("way", ["removed", "renamed", "replaced"])
def test_whoever_undoes_it_all_the_time_is_named_and_yielded_to(node, synced, target, way):
    path, told = f"{node.conf}/05-dpu-gate.conflist", f"{node.record}.cni"
    whole = node.text()
    words = {"removed": "was removed", "renamed": "renamed to '05-dpu-gate.conflist.bak7'", "replaced": "calls bridge, tuning"}

    def undo():
        if way == "removed":
            node.remove("05-dpu-gate.conflist")
        elif way == "renamed":
            os.rename(path, path + ".bak7")
        else:
            node.write("05-dpu-gate.conflist", CHAIN)

    node.write("07-mesh.conflist", CHAIN.replace("bridge", "mesh-cni"))
    for _ in range(3):
        undo()
        until(lambda: os.path.exists(path) and node.text() == whole, SOON_S, "it is restored")
        assert not os.path.exists(told)
    undo()
    synced.wait_log(mod="cni", level="warn", msg="another program undoes")
    message = json.loads(until(lambda: os.path.exists(told) and open(told, encoding="utf-8").read(), SOON_S, "for dpuctl"))["message"]
    assert words[way] in message and "'07-mesh.conflist' (mesh-cni, tuning)" in message and "3 times" in message
    event = until(lambda: contest_event(target), SOON_S, "the Node's Event")
    assert event["note"] == message and event["type"] == "Warning" and event["regarding"]["kind"] == "Node"
    time.sleep(3)  # three looks
    assert not os.path.exists(path) or node.text() != whole, "it yields"
    node.write("10-ovn-kubernetes.conf", OVN.replace("ovn-kubernetes", "renamed"))
    until(lambda: os.path.exists(path) and node.conflist()["name"] == "renamed", SOON_S, "a new source is followed")


def test_an_agent_that_keeps_nothing_in_sync_forgets_a_contest(node, world):
    """Else the doctor would name it until the host boots, with the gate taken out for long."""
    told = f"{node.record}.cni"
    pathlib.Path(told).write_text('{"message": "another program undoes it"}', encoding="utf-8")
    world.host(readiness_file=node.record)
    until(lambda: os.path.exists(node.record) and not os.path.exists(told), SOON_S, "it is over")


def test_a_file_that_cannot_be_written_accuses_nobody(node, synced):
    """As on a full disk, or one that became read-only: nobody undoes it, and it is back with the disk."""
    whole, path = node.text(), f"{node.conf}/05-dpu-gate.conflist"
    node.remove("05-dpu-gate.conflist")
    os.mkdir(path)  # which no file replaces
    synced.wait_log(mod="cni", level="warn", msg="moving '")
    time.sleep(1)
    tried = os.stat(node.conf).st_mtime_ns
    never(lambda: os.stat(node.conf).st_mtime_ns != tried, 3, "a try because of the last one")
    for number in range(4):  # more looks than a contest has tries
        node.write(f"{number}.txt", "")
        time.sleep(1.2)
    os.rmdir(path)
    until(lambda: os.path.exists(path) and node.text() == whole, SOON_S, "it is restored")
    assert not os.path.exists(f"{node.record}.cni") and "another program" not in synced.text()


def test_of_two_agents_one_keeps_the_configuration(node, synced, world):
    """As where the first one's cni-sync was copied to a second DPU: the gate would ask both in turn."""
    whole = node.text()
    record, lease = f"{world.directory}/other.json", f"{world.target.lease_name()}-other"
    options = {"readiness_file": record, "lease_name": lease, "cni_sync": True, "cni_conf_dir": node.conf, "cni_bin_dir": node.bin}
    second = world.host(**options)
    second.wait_log(mod="cni", msg="another dpu-host-agent")
    node.write("10-ovn-kubernetes.conf", OVN.replace("ovn-kubernetes", "renamed"))
    until(lambda: node.conflist()["name"] == "renamed", SOON_S, "the first one follows")
    assert node.text() == whole.replace("ovn-kubernetes\"", "renamed\""), "not the second one's record"
    synced.kill()
    node.remove("05-dpu-gate.conflist")
    until(lambda: node.conflist() and record in node.text(), SOON_S, "the second one takes over")
