# SPDX-License-Identifier: Apache-2.0
"""What other installers do to the CNI directory, in steps of our own, with dpu-gate beside them.

Each neighbour is played without us first: what a runtime then calls is what it has to call with us,
behind the gate. The table in docs/cni.md says the same for people.
"""

import json
import os
import threading
import time

import pytest
from cni_node import Node, calls, plugins
from dpu_testing.wait import until
from world import SOON_S

PLUGIN = {"cniVersion": "1.1.0", "name": "ovn-kubernetes", "type": "ovn-k8s-cni-overlay"}
PROGRAMS = ("ovn-k8s-cni-overlay", "istio-cni", "linkerd-cni", "cilium-cni", "calico", "portmap", "kube-ovn")
ANSWER = """case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}' ;;
ADD) echo '{"cniVersion":"1.0.0","ips":[]}' ;;
esac"""


# ---- a runtime ----


def configurations(node):
    """(name, list of plugins' configurations) of those that can be taken, in the order of a runtime."""
    found = []
    for name in sorted(os.listdir(node.conf)):
        try:
            conf = json.loads(node.text(name))
            if name.endswith(".conflist") and conf["plugins"][0]["type"]:
                versions = [conf.get("cniVersion", "0.1.0"), *conf.get("cniVersions", [])]
                shared = {"name": conf["name"], "cniVersion": max(versions)}
                found.append((name, [{**p, **shared} for p in conf["plugins"]]))
            elif name.endswith(".conf") and conf["name"] and conf["type"]:
                found.append((name, [conf]))
        except (OSError, ValueError, KeyError):
            pass
    return found


class Pod:
    """What became of one ADD: the plugins that were called, the first error, whether the gate was asked."""

    def __init__(self, node):
        self.error, self.gated = None, False
        calls(node)
        taken = configurations(node)
        self.add(node, taken[0][1] if taken else [])
        self.called = [line.split()[1] for line in calls(node) if line.startswith("ADD ")]

    def add(self, node, chain):
        result = None
        for conf in chain:
            if self.error:
                return
            if conf["type"].startswith("multus"):
                self.add(node, behind_multus(node, conf))
                continue
            self.gated = self.gated or conf["type"] == "dpu-gate"
            result = node.call("ADD", {**conf, **({"prevResult": result} if result else {})}, conf["type"])
            if not result or "code" in result:
                self.error = result


def behind_multus(node, conf):
    """The cluster network: a file by its path, or a text."""
    given = [conf["delegates"][0]] if "delegates" in conf else []
    for name, chain in configurations(node):
        if os.path.join(node.conf, name) == conf.get("clusterNetwork"):
            return chain
    if given and "plugins" in given[0]:
        return [{**p, "name": given[0]["name"], "cniVersion": given[0]["cniVersion"]} for p in given[0]["plugins"]]
    return given


# ---- the neighbours ----


def put(node, name, conf, mode=0o644):
    node.write(name, json.dumps(conf, indent=1, sort_keys=True))
    os.chmod(os.path.join(node.conf, name), mode)


def read(node, name):
    try:
        return json.loads(node.text(name))
    except (OSError, ValueError):
        return None


def to_list(conf, plugin, version):
    """A mesh's: one plugin becomes a list of another name, in a list its own entry is made anew."""
    if "type" in conf:
        first = {k: v for k, v in conf.items() if k != "cniVersion"}
        return {"name": "k8s-pod-network", "cniVersion": version, "plugins": [first, plugin]}
    others = [p for p in conf["plugins"] if p["type"] != plugin["type"]]
    return {**conf, "plugins": [*others, plugin]}


class Neighbour:
    """Looks at the directory when something has changed there, as its watch does."""

    def look(self, node):
        raise NotImplementedError


class Istio(Neighbour):
    """Adds its plugin to the first configuration by name, unless that has it."""

    plugin = {"type": "istio-cni", "name": "istio-cni", "log_level": "info"}

    def look(self, node):
        taken = configurations(node)
        if not taken or any(p["type"] == "istio-cni" for p in taken[0][1]):
            return
        name = taken[0][0]
        conf = read(node, name)
        if conf is None:
            return
        put(node, name, to_list(conf, self.plugin, "0.3.1"))
        if name.endswith(".conf"):
            os.rename(os.path.join(node.conf, name), os.path.join(node.conf, name + "list"))


class IstioOwned(Istio):
    """Copies the first one that is not its own, with its plugin, into a file of its own."""

    own = "02-istio-cni.conflist"

    def look(self, node):
        first = next((name for name, _ in configurations(node) if name != self.own), None)
        conf = read(node, first) if first else None
        if conf:
            made = to_list(conf, self.plugin, "0.3.1")
            if made != read(node, self.own):
                put(node, self.own, made)


class Linkerd(Neighbour):
    """Adds its plugin to each file whose bytes are not what it wrote there last."""

    plugin = {"type": "linkerd-cni", "name": "linkerd-cni", "log_level": "info"}

    def __init__(self):
        self.wrote = {}

    def look(self, node):
        for name in sorted(os.listdir(node.conf)):
            if not name.endswith((".conf", ".conflist")) or name.startswith("."):
                continue
            try:
                text = node.text(name)
                conf = json.loads(text)
            except (OSError, ValueError):
                continue
            if self.wrote.get(name) == text:
                continue
            target = name + "list" if name.endswith(".conf") else name
            self.wrote[target] = json.dumps(to_list(conf, self.plugin, "0.3.0"), indent=2)
            node.write(target, self.wrote[target])
            if target != name:
                node.remove(name)


class Cilium(Neighbour):
    """Writes its own file and, where it is exclusive, puts all others aside at each change."""

    own = "05-cilium.conflist"
    plugin = {"type": "cilium-cni", "enable-debug": False}

    def __init__(self, exclusive, chained_to=None, custom=None):
        self.exclusive, self.chained_to, self.custom = exclusive, chained_to, custom

    def wanted(self, node):
        if self.custom:
            return self.custom
        if not self.chained_to:
            return {"cniVersion": "0.3.1", "name": "cilium", "plugins": [self.plugin]}
        for name in sorted(os.listdir(node.conf)):
            is_one = name.endswith((".conf", ".conflist", ".json", ".cilium_bak"))
            conf = read(node, name) if is_one and name != self.own else None
            if conf and conf.get("name") == self.chained_to:
                if "plugins" not in conf:
                    conf = {"name": conf["name"], "cniVersion": conf["cniVersion"], "plugins": [conf]}
                others = [p for p in conf["plugins"] if p["type"] != "cilium-cni"]
                return {**conf, "plugins": [*others, {**self.plugin, "chaining-mode": "generic-veth"}]}
        return None

    def look(self, node):
        conf = self.wanted(node)
        if conf is None:
            return
        if conf != read(node, self.own):
            put(node, self.own, conf)
        for name in sorted(os.listdir(node.conf)) if self.exclusive else []:
            if name != self.own and name.endswith((".conf", ".conflist", ".json")) and not name.startswith("."):
                os.rename(os.path.join(node.conf, name), os.path.join(node.conf, name + ".cilium_bak"))


class Calico(Neighbour):
    """Writes its file once, in place; a later version of it, under another name."""

    conf = {
        "name": "k8s-pod-network",
        "cniVersion": "0.3.1",
        "plugins": [{"type": "calico", "mtu": 1500}, {"type": "portmap", "snat": True}],
    }

    def __init__(self, name="10-calico.conflist", former=None):
        self.name, self.former, self.is_done = name, former, False

    def look(self, node):
        if self.is_done:
            return
        self.is_done = True
        text = json.dumps(self.conf, indent=2)
        with open(os.path.join(node.conf, self.name), "w", encoding="utf-8") as file:
            file.write(text[:40])
            file.flush()
            time.sleep(0.3)  # a reader meets half of it
            file.write(text[40:])
        if self.former:
            node.remove(self.former)


class KubeOVN(Neighbour):
    """Writes its file if there is none, and takes back its mode."""

    conf = {
        "name": "kube-ovn",
        "cniVersion": "0.3.1",
        "plugins": [{"type": "kube-ovn", "server_socket": "/run/x"}, {"type": "portmap"}],
    }

    def __init__(self, name="01-kube-ovn.conflist"):
        self.name = name

    def look(self, node):
        path = os.path.join(node.conf, self.name)
        if not os.path.exists(path):
            put(node, self.name, self.conf, 0o600)
        elif os.stat(path).st_mode & 0o777 != 0o600:
            os.chmod(path, 0o600)


class ThickMultus(Neighbour):
    """Names the first file by its path, and writes in place when that is written."""

    own = "00-multus.conf"

    def __init__(self):
        self.primary, self.seen = None, None

    def look(self, node):
        names = sorted(n for n in os.listdir(node.conf) if n.endswith((".conf", ".conflist")))
        names = [n for n in names if not n.startswith((".", "00-multus"))]
        if not self.primary and names:
            self.primary = names[0]
        conf = read(node, self.primary) if self.primary else None
        if conf is None or conf == self.seen:
            return
        self.seen = conf
        made = {"cniVersion": "1.1.0", "name": "multus-cni-network", "type": "multus-shim"}
        made["clusterNetwork"] = os.path.join(node.conf, self.primary)
        with open(os.path.join(node.conf, self.own), "w", encoding="utf-8") as file:
            file.write(json.dumps(made))


class ThinMultus(Neighbour):
    """Copies the first file's text as its delegate; may rename that file."""

    def __init__(self, renames=False):
        self.renames, self.primary, self.seen = renames, None, None

    def look(self, node):
        names = sorted(n for n in os.listdir(node.conf) if n.endswith((".conf", ".conflist")))
        names = [n for n in names if not n.startswith((".", "00-multus"))]
        if not self.primary and names:
            self.primary = names[0]
        conf = read(node, self.primary) if self.primary else None
        if conf is None or conf == self.seen:
            return
        self.seen = conf
        multus = {"type": "multus", "delegates": [conf]}
        made = {"cniVersion": conf["cniVersion"], "name": "multus-cni-network", "plugins": [multus]}
        put(node, "00-multus.conflist", made)
        if self.renames:
            os.rename(os.path.join(node.conf, self.primary), os.path.join(node.conf, self.primary + ".old"))


class Watch:
    """Has a neighbour look whenever the directory has changed."""

    def __init__(self, node, neighbour):
        self.node, self.neighbour = node, neighbour
        self.end = threading.Event()
        self.failed = None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        before = None
        while not self.end.wait(0.05):
            entries = sorted((e.name, e.inode()) for e in os.scandir(self.node.conf))
            if entries != before:
                before = entries
                try:
                    self.neighbour.look(self.node)
                except FileNotFoundError:
                    before = None  # another one was faster: it looks again
                except Exception as error:  # pylint: disable=broad-except
                    self.failed = error
                    return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.end.set()
        self.thread.join()
        assert self.failed is None, self.failed


# ---- the cases ----

OVN_FILE = "10-ovn-kubernetes.conf"
STAYS = "behind the gate"
TOLD = "not behind the gate, and somebody is told"


def kube_ovn_in_cilium():
    chain = [*KubeOVN.conf["plugins"], Cilium.plugin]
    return Cilium(False, custom={"name": "generic-veth", "cniVersion": "0.3.1", "plugins": chain})


# Name, source, what writes it, neighbour, what becomes of the gate.
CASES = [
    ("istio", OVN_FILE, None, Istio, STAYS),
    ("istio-owned", OVN_FILE, None, IstioOwned, STAYS),
    ("linkerd", OVN_FILE, None, Linkerd, STAYS),
    ("cilium-chained", OVN_FILE, None, lambda: Cilium(True, "ovn-kubernetes"), STAYS),
    ("cilium-chained-shared", OVN_FILE, None, lambda: Cilium(False, "ovn-kubernetes"), STAYS),
    ("cilium-shared", "05-cilium.conflist", lambda: Cilium(False), lambda: Cilium(False), STAYS),
    ("cilium-exclusive", "05-cilium.conflist", lambda: Cilium(False), lambda: Cilium(True), TOLD),
    ("calico", "10-calico.conflist", Calico, Calico, STAYS),
    ("calico-renamed", "10-calico.conflist", Calico, lambda: Calico("20-calico.conflist", "10-calico.conflist"), STAYS),
    ("kube-ovn", "01-kube-ovn.conflist", KubeOVN, KubeOVN, STAYS),
    ("kube-ovn-in-cilium", "05-cilium.conflist", kube_ovn_in_cilium, lambda: KubeOVN("10-kube-ovn.conflist"), STAYS),
    ("multus-thick", OVN_FILE, None, ThickMultus, STAYS),
    ("multus-thin", OVN_FILE, None, ThinMultus, STAYS),
    ("multus-thin-renaming", OVN_FILE, None, lambda: ThinMultus(renames=True), STAYS),
]


def make(binaries, directory, source_writer):
    directory.mkdir()
    node = Node(binaries, directory)
    plugins(node, *PROGRAMS, script=ANSWER)
    if source_writer:
        source_writer().look(node)
    else:
        put(node, OVN_FILE, PLUGIN, 0o600)
    return node


def settled(node, still_s=1.5, limit_s=15):
    """Until nobody has changed anything for a while."""
    deadline = time.monotonic() + limit_s
    before, since = None, time.monotonic()
    while time.monotonic() < deadline and time.monotonic() - since < still_s:
        entries = sorted((e.name, e.inode(), e.stat().st_mtime_ns) for e in os.scandir(node.conf))
        if entries != before:
            before, since = entries, time.monotonic()
        time.sleep(0.05)
    assert time.monotonic() - since >= still_s, f"never at rest: {sorted(os.listdir(node.conf))}"


@pytest.mark.parametrize("name, source, writer, neighbour, gate", CASES, ids=[c[0] for c in CASES])
def test_beside_each_neighbour_a_node_is_never_worse_than_without_us(
    binaries, world, target, tmp_path, name, source, writer, neighbour, gate
):
    without = make(binaries, tmp_path / "without", writer)
    with Watch(without, neighbour()):
        time.sleep(0.2)
        settled(without)
        wanted = Pod(without)
    assert wanted.error is None and wanted.called, "the case itself has to work"

    node = make(binaries, tmp_path / "with", writer)
    node.install(f"--cni-source={source}")
    agent = world.host(cni_sync=True, cni_conf_dir=node.conf, cni_source=source, readiness_file=node.record, events="on")
    world.readiness_file = node.record
    dpu = world.dpu()
    world.wait_state("Ready")
    first = Pod(node)
    assert first.error is None and first.gated
    with Watch(node, neighbour()):
        until(lambda: Pod(node).called == wanted.called, 15, lambda: f"{name}: {vars(Pod(node))}")
        settled(node)
        for _ in range(3):
            pod = Pod(node)
            assert pod.error is None and pod.called == wanted.called, (name, vars(pod))
        assert pod.gated == (gate is STAYS), sorted(os.listdir(node.conf))
        if gate is STAYS:
            dpu.kill()
            world.wait_state("NotReady")
            assert Pod(node).error["code"] == 11
        else:
            agent.wait_log(mod="cni", level="warn", msg="another program undoes")
            until(lambda: contest_event(target), SOON_S, "the Node's Event")


def contest_event(target):
    events = target.admin.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return next((e for e in events if e["reason"] == "CNIConfigurationContested"), None)
