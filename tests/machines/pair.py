# SPDX-License-Identifier: Apache-2.0
"""A host and its DPU as two machines with our Debian packages, and the judge of what the gate says there.

The API server is that of the real-cluster tier, on the loopback of who runs this; both machines
reach it, and nobody else, as 'kubernetes'. Its node is worker-1."""

import glob
import json
import os
import re
import subprocess
import time

from dpu_testing.binaries import ROOT
from dpu_testing.kube import LEASES, Kube
from dpu_testing.wait import until
from machine import BOOT_S, COMMAND_S, SLOW, Machine

NODE = "worker-1"
LEASE = LEASES.format(ns="ovn-kubernetes") + f"/ovn-dpu-{NODE}"
DURATION_S = 40  # of the lease, by default
# Past the deadline: the last look at the API server, of a machine that is slow.
LATE_S = 3 * SLOW
AGENTS = {"host": "dpu-host-agent", "dpu": "dpu-agent"}
IN_IMAGE = {"host": ["containernetworking-plugins"], "dpu": ["openvswitch-switch"]}

INSTALL = """
apt-get update -q
apt-get install -q -y dpu-heartbeat-{side}
install -m 0600 /srv/{side}/kubeconfig /srv/{side}/ca.crt /srv/{side}/token /etc/dpu-heartbeat/
"""
SET_UP = {
    "host": """
mkdir -p /etc/cni/net.d /opt/cni/bin && cp /usr/lib/cni/* /opt/cni/bin/
cat >/etc/cni/net.d/10-ovn-kubernetes.conf <<CONF
{"cniVersion": "1.0.0", "name": "ovn-kubernetes", "type": "bridge", "bridge": "pods",
 "ipam": {"type": "host-local", "subnet": "10.77.0.0/24"}}
CONF
sed -i 's/^#node-name: .*/node-name: worker-1/' /etc/dpu-heartbeat/dpu-host-agent.yaml
systemctl enable -q --now dpu-host-agent
dpu-host-agent install-cni
""",
    # The node's name is the one that OVS has; of ovn-kubernetes' services the two that run here.
    "dpu": """
chown dpu-heartbeat: /etc/dpu-heartbeat/{kubeconfig,ca.crt,token}
ovs-vsctl --may-exist add-br br-int -- set Open_vSwitch . external_ids:host-k8s-nodename=worker-1
sed -i 's/^  - ovn-kubernetes/  - ovsdb\\n  - vswitchd/' /etc/dpu-heartbeat/dpu-agent.yaml
systemctl enable -q --now dpu-agent
""",
}


def call(command, timeout_s=600 * SLOW, **env):
    """Standard output of a command that has to succeed."""
    done = subprocess.run(
        command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"status {done.returncode} of {command}: {done.stdout}"
    return done.stdout.strip()


def own_arch():
    return call(["dpkg", "--print-architecture"])


def find_deb(side, arch):
    (deb,) = glob.glob(f"{ROOT}/build/packages/dpu-heartbeat-{side}_*_{arch}.deb")
    return deb


def make_repository(folder, debs):
    """What apt takes for one."""
    os.mkdir(folder)
    for deb in debs:
        call(["cp", deb, folder])
    with open(os.path.join(folder, "Packages"), "w", encoding="utf-8") as index:
        index.write(call(["env", "-C", folder, "dpkg-scanpackages", "-m", "."]) + "\n")


def make_next(deb, folder):
    """The same package as its next version."""
    tree = os.path.join(folder, os.path.basename(deb)[:-4])
    call(["dpkg-deb", "-R", deb, tree])
    call(["sed", "-i", "s/^Version: .*/&+next/", f"{tree}/DEBIAN/control"])
    call(["dpkg-deb", "--root-owner-group", "-b", tree, tree + ".next.deb"])
    return tree + ".next.deb"


def make_srv(folder, debs, kubeconfig, path):
    """A file system with our packages in a repository, the next ones in another, and both credentials."""
    tree = os.path.join(folder, "srv")
    os.mkdir(tree)
    make_repository(f"{tree}/packages", debs)
    make_repository(f"{tree}/next", [make_next(deb, folder) for deb in debs])
    port = Kube.from_kubeconfig(kubeconfig).url.port
    for side, more in (("dpu", []), ("host", ["--host"])):
        words = [f"{ROOT}/deploy/dpu-kubeconfig", NODE, f"{tree}/{side}", *more]
        call([*words, "--server", f"https://kubernetes:{port}"], PATH=path, KUBECONFIG=kubeconfig)
    call(["mke2fs", "-q", "-t", "ext4", "-d", tree, tree + ".img", "64M"])
    return tree + ".img"


def make_machine(side, arch, srv, folder):
    needs = call(["dpkg-deb", "-f", find_deb(side, arch), "Depends"]).split(", ")
    needs = sorted({word.split()[0] for word in needs})
    script = os.path.join(os.path.dirname(__file__), "image.sh")
    return Machine(side, arch, call([script, arch, *IN_IMAGE[side], *needs]), srv, folder)


class Pair:
    """A host of this machine's own architecture and a DPU, of $DPU_MACHINES_DPU if that is set."""

    def __init__(self, folder, kubeconfig, path):
        sides = {"host": own_arch(), "dpu": os.environ.get("DPU_MACHINES_DPU") or own_arch()}
        srv = make_srv(folder, [find_deb(*side) for side in sides.items()], kubeconfig, path)
        self.api = Kube.from_kubeconfig(kubeconfig)
        self.duration_s = DURATION_S
        self.host, self.dpu = (make_machine(*side, srv, folder) for side in sides.items())

    def __iter__(self):
        return iter((self.host, self.dpu))

    def set_up(self):
        for machine in self:
            machine.power_on()
        for machine in self:
            machine.wait_boot()
            self.install(machine)
        self.wait_ready()

    def install(self, machine):
        """Our package, its credential, its configuration: it runs."""
        machine.sh(INSTALL.format(side=machine.name) + SET_UP[machine.name], 60 * SLOW)

    def cleanup(self):
        for machine in self:
            machine.power_cut()

    def gate(self, verb, version="1.1.0"):
        """The command that calls the installed gate as a runtime does."""
        conf = "/etc/cni/net.d/05-dpu-gate.conflist"
        pod = "" if verb == "STATUS" else "CNI_CONTAINERID=pod CNI_NETNS=/run/netns/pod CNI_IFNAME=eth0"
        plugin = f'"cniVersion": "{version}", "name": "ovn-kubernetes"'
        return (
            f"tr -d '\\n' <{conf} | sed 's/.*\"plugins\": \\[ *{{\\(.*\\)\\].*/{{{plugin}, \\1/' |"
            f" CNI_COMMAND={verb} CNI_PATH=/opt/cni/bin {pod} /opt/cni/bin/dpu-gate"
        )

    def cni(self, verb, version="1.1.0"):
        """(status, answer)"""
        return self.host.run(self.gate(verb, version))

    def verdict(self):
        """As the record has it; "" if there is none."""
        status, text = self.host.run("tr -d '\\0' </run/dpu-heartbeat/readiness.json")
        record = json.loads(text) if status == 0 else None
        return f"{record['state']}/{record['reason']}" if record else ""

    def wait_verdict(self, wanted, timeout_s):
        until(lambda: self.verdict() == wanted, timeout_s, wanted, every_s=0.5)

    def wait_ready(self, timeout_s=BOOT_S):
        self.wait_verdict("Ready/LeaseRenewed", timeout_s)
        until(lambda: self.cni("STATUS")[0] == 0, COMMAND_S, "STATUS admits", every_s=0.5)

    def dpu_reboots(self):
        """How many the host has told."""
        page = self.host.sh(
            "exec 3<>/dev/tcp/127.0.0.1/9412; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
        )
        return int(re.search(r"^dpu_heartbeat_dpu_reboots_total (\d+)", page, re.M).group(1))

    def set_lease_duration(self, seconds):
        for machine in self:
            machine.sh(
                "sed -i 's/^#*\\(dpu-node-lease-duration: \\).*/\\1"
                f"{seconds}/' /etc/dpu-heartbeat/{AGENTS[machine.name]}.yaml\n"
                f"systemctl restart {AGENTS[machine.name]}"
            )
        self.duration_s = seconds

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
        until(self._look, pair.duration_s, "a renewal", every_s=0.2)

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
            late = asked - self.renewed_before - self.pair.duration_s
            assert late < LATE_S, f"admitted {late:.1f} s after the lease ran out"
        elif "LeaseExpired" in answer:
            early = renewed_after + self.pair.duration_s - answered
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

    def admitted(self):
        """True, or it fails."""
        admitted, answer = self.sample()
        assert admitted, answer
        return True

    def stay_admitted(self, during_s):
        end = time.monotonic() + during_s
        while time.monotonic() < end:
            self.admitted()
            time.sleep(0.3)
