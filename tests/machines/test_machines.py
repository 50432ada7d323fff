# SPDX-License-Identifier: Apache-2.0
"""A host and its DPU as two machines with our Debian packages, and what happens to machines.

The API server is that of the real-cluster tier, on the loopback of who runs this; both machines
reach it, and nobody else, as 'kubernetes'. Its node worker-1 has the kubelet whose Lease is the control.
The tests share the two machines and go in the order of this file: each begins with a node that is Ready."""

import glob
import json
import os
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
sys.path.insert(0, os.path.dirname(__file__))

from dpu_testing.binaries import ROOT  # noqa: E402
from dpu_testing.kube import LEASES, Kube  # noqa: E402
from dpu_testing.wait import until  # noqa: E402
from machine import BOOT_S, COMMAND_S, SLOW, Machine  # noqa: E402

NODE = "worker-1"
LEASE = LEASES.format(ns="ovn-kubernetes") + f"/ovn-dpu-{NODE}"
DURATION_S = 40  # of the lease, by default
# Past the deadline: the last look at the API server, of a machine that is slow.
LATE_S = 3 * SLOW
IN_IMAGE = ["containernetworking-plugins", "openvswitch-switch"]

SET_UP = """
mount -r /dev/vdb /srv
apt-get update -q
apt-get install -q -y dpu-heartbeat-{side}
install -m 0600 /srv/{side}/kubeconfig /srv/{side}/ca.crt /srv/{side}/token /etc/dpu-heartbeat/
"""
SET_UP_HOST = """
systemctl disable -q --now openvswitch-switch
mkdir -p /etc/cni/net.d /opt/cni/bin && cp /usr/lib/cni/* /opt/cni/bin/
cat >/etc/cni/net.d/10-ovn-kubernetes.conf <<CONF
{"cniVersion": "1.0.0", "name": "ovn-kubernetes", "type": "bridge", "bridge": "pods",
 "ipam": {"type": "host-local", "subnet": "10.77.0.0/24"}}
CONF
sed -i 's/^#node-name: .*/node-name: worker-1/' /etc/dpu-heartbeat/dpu-host-agent.yaml
systemctl enable -q --now dpu-host-agent
dpu-host-agent install-cni
"""
# The node's name is the one that OVS has; of ovn-kubernetes' services the two that run here.
SET_UP_DPU = """
chown dpu-heartbeat: /etc/dpu-heartbeat/{kubeconfig,ca.crt,token}
ovs-vsctl --may-exist add-br br-int -- set Open_vSwitch . external_ids:host-k8s-nodename=worker-1
sed -i 's/^  - ovn-kubernetes/  - ovsdb\\n  - vswitchd/' /etc/dpu-heartbeat/dpu-agent.yaml
systemctl enable -q --now dpu-agent
"""


def call(command, timeout_s=600 * SLOW, **env):
    """Standard output of a command that has to succeed."""
    done = subprocess.run(
        command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"status {done.returncode} of {command}: {done.stdout}"
    return done.stdout.strip()


def make_repository(folder, debs):
    """What apt takes for one."""
    os.mkdir(folder)
    for deb in debs:
        call(["cp", deb, folder])
    with open(os.path.join(folder, "Packages"), "w", encoding="utf-8") as index:
        index.write(call(["env", "-C", folder, "dpkg-scanpackages", "-m", "."]) + "\n")


def make_srv(folder, debs, kubeconfig, path):
    """A file system with our packages in a repository, and both credentials."""
    tree = os.path.join(folder, "srv")
    os.mkdir(tree)
    make_repository(f"{tree}/packages", debs)
    port = Kube.from_kubeconfig(kubeconfig).url.port
    for side, more in (("dpu", []), ("host", ["--host"])):
        words = [f"{ROOT}/deploy/dpu-kubeconfig", NODE, f"{tree}/{side}", *more]
        call([*words, "--server", f"https://kubernetes:{port}"], PATH=path, KUBECONFIG=kubeconfig)
    call(["mke2fs", "-q", "-t", "ext4", "-d", tree, tree + ".img", "64M"])
    return tree + ".img"


class Pair:
    """A host and its DPU."""

    def __init__(self, folder, kubeconfig, path):
        debs = glob.glob(f"{ROOT}/build/packages/dpu-heartbeat-*_amd64.deb")
        assert len(debs) == 2, f"the two packages are not in build/packages: {debs}"
        needs = ", ".join(call(["dpkg-deb", "-f", deb, "Depends"]) for deb in debs)
        needs = sorted({word.split()[0] for word in needs.split(", ")})
        image = call([os.path.join(os.path.dirname(__file__), "image.sh"), *IN_IMAGE, *needs])
        srv = make_srv(folder, debs, kubeconfig, path)
        self.api = Kube.from_kubeconfig(kubeconfig)
        self.host, self.dpu = (Machine(name, image, srv, folder) for name in ("host", "dpu"))

    def set_up(self):
        for machine in (self.host, self.dpu):
            machine.power_on()
        for machine, more in ((self.host, SET_UP_HOST), (self.dpu, SET_UP_DPU)):
            machine.wait_boot()
            machine.sh(SET_UP.format(side=machine.name) + more, 60 * SLOW)
        self.wait_ready()

    def cleanup(self):
        for machine in (self.host, self.dpu):
            machine.power_cut()

    def cni(self, verb, version="1.1.0"):
        """(status, answer) of the installed gate, called as a runtime does."""
        conf = "/etc/cni/net.d/05-dpu-gate.conflist"
        pod = "" if verb == "STATUS" else "CNI_CONTAINERID=pod CNI_NETNS=/run/netns/pod CNI_IFNAME=eth0"
        plugin = f'"cniVersion": "{version}", "name": "ovn-kubernetes"'
        return self.host.run(
            f"sed -n 's/^    {{\"type\"/{{{plugin}, \"type\"/p' {conf} |"
            f" CNI_COMMAND={verb} CNI_PATH=/opt/cni/bin {pod} /opt/cni/bin/dpu-gate"
        )

    def record(self):
        return json.loads(self.host.sh("tr -d '\\0' </run/dpu-heartbeat/readiness.json"))

    def verdict(self):
        record = self.record()
        return f"{record['state']}/{record['reason']}"

    def wait_verdict(self, wanted, timeout_s):
        until(lambda: self.verdict() == wanted, timeout_s, wanted, every_s=0.5)

    def wait_ready(self, timeout_s=BOOT_S):
        self.wait_verdict("Ready/LeaseRenewed", timeout_s)
        until(lambda: self.cni("STATUS")[0] == 0, COMMAND_S, "STATUS admits", every_s=0.5)

    def renewal(self):
        return self.api.get(LEASE)["spec"].get("renewTime")


class Verdicts:
    """Holds what the gate says to what the API server had, by one clock: no refusal for silence
    before the lease ran out, no admission later than LATE_S after that."""

    def __init__(self, pair):
        self.pair = pair
        self.seen = pair.renewal()
        self.looked = time.monotonic()
        self.renewed_after = self.renewed_before = None
        until(self._look, DURATION_S, "a renewal", every_s=0.2)

    def _look(self):
        renewal, now = self.pair.renewal(), time.monotonic()
        if renewal != self.seen:
            self.seen, self.renewed_after, self.renewed_before = renewal, self.looked, now
        self.looked = now
        return self.renewed_before

    def sample(self):
        """(admitted, answer)"""
        self._look()
        renewed_after, asked = self.renewed_after, time.monotonic()
        status, answer = self.pair.cni("STATUS")
        answered = time.monotonic()
        self._look()  # the host may have heard of a renewal before we did
        if status == 0:
            late = asked - self.renewed_before - DURATION_S
            assert late < LATE_S, f"admitted {late:.1f} s after the lease ran out"
        elif "LeaseExpired" in answer:
            early = renewed_after + DURATION_S - answered
            assert early <= 0, f"refused {early:.1f} s before the lease ran out: {answer}"
        return status == 0, answer

    def until_refused(self, why, timeout_s=DURATION_S + 2 * LATE_S):
        """Seconds from the last renewal to the refusal."""
        admitted, answer = until(
            lambda: next((s for s in [self.sample()] if not s[0]), None), timeout_s, "a refusal", every_s=0.3
        )
        assert not admitted and why in answer, answer
        return time.monotonic() - self.renewed_before

    def until_admitted(self, timeout_s):
        until(lambda: self.sample()[0], timeout_s, "an admission", every_s=0.3)

    def stay_admitted(self, during_s):
        end = time.monotonic() + during_s
        while time.monotonic() < end:
            admitted, answer = self.sample()
            assert admitted, answer
            time.sleep(0.3)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    cluster = [f"{ROOT}/tests/e2e/run.sh", "cluster"]
    own = {"DPU_E2E": "required", "DPU_E2E_DIR": f"{ROOT}/build/machines"}
    own["DPU_BIN_DIR"] = f"{ROOT}/build/package-amd64"
    call([*cluster, "up"], **own)
    path = call([*cluster, "path"], **own) + ":" + os.environ["PATH"]
    built = None
    try:
        folder = str(tmp_path_factory.mktemp("machines"))
        built = Pair(folder, call([*cluster, "kubeconfig"], **own), path)
        built.set_up()
        yield built
    finally:
        if built:
            built.cleanup()
        call([*cluster, "down"], **own)


@pytest.fixture
def pair(both, request):
    """Ready before the test, whatever the one before left; no unit has failed after it."""
    for machine in (both.host, both.dpu):
        if not machine.process:
            machine.power_on()
            machine.wait_boot()
        machine.qmp("cont")
        machine.qmp("set_link", name="nic", up=True)
    both.wait_ready()
    failed_before = request.session.testsfailed
    yield both
    if request.session.testsfailed > failed_before:
        for title, text in [*both.host.evidence(), *both.dpu.evidence()]:
            print(f"---- {title}\n{text}")
        return
    for machine in (both.host, both.dpu):
        assert machine.sh("systemctl --failed --plain --no-legend") == "", machine.name


def test_a_pod_gets_in_on_a_node_whose_dpu_renews(pair):
    pair.host.sh("ip netns add pod")
    assert pair.cni("ADD", "1.0.0")[0] == 0
    assert "10.77.0." in pair.host.sh("ip -n pod -4 -o addr show eth0")
    assert pair.cni("DEL", "1.0.0")[0] == 0
    pair.host.sh("ip netns del pod")


def test_power_cut_of_the_dpu(pair):
    verdicts = Verdicts(pair)
    pair.dpu.power_cut()
    print(f"refused {verdicts.until_refused('LeaseExpired'):.1f} s after the last renewal")
    status, answer = pair.cni("ADD", "1.0.0")
    assert status != 0 and json.loads(answer)["code"] == 11, answer
    pair.dpu.power_on()
    pair.dpu.wait_boot()
    verdicts.until_admitted(BOOT_S)


def test_a_dpu_whose_processor_stands_still(pair):
    verdicts = Verdicts(pair)
    pair.dpu.qmp("stop")
    verdicts.until_refused("LeaseExpired")
    pair.dpu.qmp("cont")
    verdicts.until_admitted(DURATION_S + LATE_S)


def test_link_of_the_dpu_goes_down_and_up(pair):
    verdicts = Verdicts(pair)
    pair.dpu.qmp("set_link", name="nic", up=False)
    verdicts.until_refused("LeaseExpired")
    pair.dpu.qmp("set_link", name="nic", up=True)
    verdicts.until_admitted(DURATION_S + LATE_S)


def test_link_of_the_host_goes_down_and_nobody_is_accused(pair):
    verdicts = Verdicts(pair)
    pair.host.qmp("set_link", name="nic", up=False)
    verdicts.stay_admitted(DURATION_S + LATE_S)
    assert pair.verdict() == "Unknown/ApiServerUnreachable"
    pair.host.qmp("set_link", name="nic", up=True)
    pair.wait_verdict("Ready/LeaseRenewed", DURATION_S + LATE_S)


@pytest.mark.parametrize("name, unit", [("dpu", "dpu-agent"), ("host", "dpu-host-agent")])
def test_the_watchdog_ends_an_agent_that_hangs(pair, name, unit):
    machine = getattr(pair, name)
    verdicts = Verdicts(pair)
    main_pid = f"systemctl show -P MainPID {unit}"
    before = machine.sh(main_pid)
    machine.sh(f"systemctl kill --signal=STOP {unit}")
    began = time.monotonic()
    until(lambda: verdicts.sample() and machine.sh(main_pid) not in ("0", before), 20 + 4 * SLOW, "another process")
    print(f"{unit}: another one {time.monotonic() - began:.1f} s after it hung")
    assert "Watchdog timeout" in machine.sh(f"journalctl -b -o cat -u {unit}")
    verdicts.until_admitted(DURATION_S + LATE_S)


# What each unit's sandbox has to forbid, though root could: it is tried outside first.
ATTEMPTS = """touch /usr/attempt && rm /usr/attempt
touch /etc/dpu-heartbeat/attempt && rm /etc/dpu-heartbeat/attempt
touch /var/attempt && rm /var/attempt
head -c 1 /dev/vda
mount -t tmpfs none /mnt && umount /mnt
unshare --user true
unshare --mount true
hostname $(hostname)
date -s @$(date +%s)
dmesg
chrt --fifo 1 true
sysctl -w kernel.sysrq=$(sysctl -n kernel.sysrq)
mkdir /sys/fs/cgroup/attempt && rmdir /sys/fs/cgroup/attempt
touch /tmp/attempt && chown 1:1 /tmp/attempt && rm /tmp/attempt
""".strip().splitlines()


@pytest.mark.parametrize("name, unit", [("dpu", "dpu-agent"), ("host", "dpu-host-agent")])
def test_what_the_sandbox_forbids_fails(pair, name, unit):
    machine = getattr(pair, name)
    print(machine.sh(f"systemd-analyze security --no-pager {unit} | tail -n 1"))
    for attempt in ATTEMPTS:
        machine.sh(f"({attempt}) >/dev/null")
    script = "".join(f"if ({a}) >/dev/null 2>&1; then echo '<4>allowed: {a}'; fi\n" for a in ATTEMPTS)
    machine.sh(
        f"mkdir -p /run/systemd/system/{unit}.service.d; cd /run/systemd/system/{unit}.service.d\n"
        f"cat >/run/attempts <<'END'\n{script}echo '<4>all tried by' $(id -un)\nEND\n"
        "printf '[Service]\\nExecStartPre=/bin/bash /run/attempts\\n' >attempts.conf\n"
        f"systemctl daemon-reload; systemctl restart {unit}; rm attempts.conf; systemctl daemon-reload",
        20 * SLOW,
    )
    said = machine.sh(f"journalctl -b -o cat -u {unit} -p 4").splitlines()
    print([line for line in said if "all tried by" in line])
    assert any("all tried by" in line for line in said)
    assert [line for line in said if "allowed:" in line] == []


def test_users_and_modes(pair):
    modes = pair.host.sh("stat -c '%n %a %U' / /run/dpu-heartbeat /run/dpu-heartbeat/*").splitlines()
    assert "/ 755 root" in modes and "/run/dpu-heartbeat 755 root" in modes
    assert "/run/dpu-heartbeat/readiness.json 644 root" in modes, modes
    assert not [line for line in modes if int(line.split()[1], 8) & 0o022], modes
    pair.host.sh("systemd-tmpfiles --create dpu-heartbeat.conf")
    pair.dpu.sh("systemd-sysusers dpu-heartbeat.conf")
    user = pair.dpu.sh("getent passwd dpu-heartbeat").split(":")
    assert user[5:] == ["/nonexistent", "/usr/sbin/nologin"]
    assert pair.dpu.sh("stat -c %U /proc/$(systemctl show -P MainPID dpu-agent)") == "dpu-heartbeat"