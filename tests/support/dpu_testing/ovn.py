# SPDX-License-Identifier: Apache-2.0
"""The daemons of a DPU that runs ovn-kubernetes, real ones: OVS with dummy ports in place of a
kernel datapath, and one OVN zone. All below one directory, without root's rights on anything else.

ovnkube itself is not there: `beat` writes what it writes.

As a program it starts all of it, says where, and does what its input says, a line at a time:
"kill NAME" or "start NAME", each answered by "done". It ends with its input.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from .process import Process, clean_env
from .wait import until

OVS_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
NB_SCHEMA = "/usr/share/ovn/ovn-nb.ovsschema"
SB_SCHEMA = "/usr/share/ovn/ovn-sb.ovsschema"
# In the order of their start.
DAEMONS = ("ovsdb", "vswitchd", "ovn-nb", "ovn-sb", "ovn-northd", "ovn-controller")
OVN_DAEMONS = DAEMONS[2:]
NODE_NAME = "worker-1"


def is_installed():
    return all(map(shutil.which, ("ovs-vswitchd", "ovn-northd", "ovn-controller")))


class Ovn:
    """A short directory: the path of a unix socket has at most 107 bytes.

    OVS and OVN have one run-time directory, as on a DPU, or one each.
    """

    def __init__(self, ovn_apart=False):
        self.directory = tempfile.mkdtemp(prefix="ovn", dir="/tmp")
        self.run_dir = os.path.join(self.directory, "run")
        self.ovn_run_dir = os.path.join(self.directory, "own") if ovn_apart else self.run_dir
        for path in {self.run_dir, self.ovn_run_dir}:
            os.mkdir(path)
        self.env = clean_env(OVS_RUNDIR=self.run_dir, OVN_RUNDIR=self.ovn_run_dir)
        self.processes = {}
        self.changes = 0
        for name, schema in (("conf", OVS_SCHEMA), ("ovnnb", NB_SCHEMA), ("ovnsb", SB_SCHEMA)):
            self._run("ovsdb-tool", "create", os.path.join(self.directory, f"{name}.db"), schema)

    def start_all(self):
        self.start("ovsdb")
        self.vsctl("init")
        self.set_ids(
            **{
                "system-id": "dpu-1",
                "hostname": NODE_NAME,
                "host-k8s-nodename": NODE_NAME,
                "ovn-remote": self.remote("ovnsb_db.sock"),
                "ovn-encap-type": "geneve",
                "ovn-encap-ip": "127.0.0.1",
            }
        )
        self.start("vswitchd")
        self.start("ovn-nb")
        self.start("ovn-sb")
        self.nbctl("init")
        self._run("ovn-sbctl", "--db=" + self.remote("ovnsb_db.sock"), "init")
        self.start("ovn-northd")
        self.start("ovn-controller")
        self.beat()
        self.wait_serving()
        return self

    def start(self, *daemons):
        for daemon in daemons:
            log = os.path.join(self.directory, f"{daemon}.log")
            self.processes[daemon] = Process(self._command(daemon), log, env=self.env, name=daemon)
        for daemon in daemons:
            until(lambda daemon=daemon: self._is_up(daemon), 20, f"{daemon} is up")

    def stop(self, *daemons):
        """SIGTERM: sockets and pid files go."""
        for daemon in daemons:
            self.processes[daemon].stop()

    def kill(self, *daemons):
        """kill -9: sockets and pid files stay."""
        for daemon in daemons:
            self.processes[daemon].kill()

    def freeze(self, *daemons):
        for daemon in daemons:
            self.processes[daemon].pause()

    def thaw(self, *daemons):
        for daemon in daemons:
            self.processes[daemon].resume()

    # What is asked of them.

    def remote(self, socket):
        return "unix:" + self.path(socket)

    def path(self, name):
        return os.path.join(self.ovn_run_dir if name.startswith("ovn") else self.run_dir, name)

    def vsctl(self, *words):
        return self._run("ovs-vsctl", "--no-wait", "--db=" + self.remote("db.sock"), *words)

    def set_ids(self, **ids):
        self.vsctl("set", "Open_vSwitch", ".", *(f"external_ids:{k}={v}" for k, v in ids.items()))

    def nbctl(self, *words):
        return self._run("ovn-nbctl", "--no-wait", "--db=" + self.remote("ovnnb_db.sock"), *words)

    def beat(self):
        """As ovnkube does every 30 s."""
        self.nbctl("set", "NB_Global", ".", f"options:e2e_timestamp={int(time.time())}")

    def ask_for_change(self):
        """Raises nb_cfg, as `ovn-nbctl --wait=hv` does: each chassis is to follow."""
        self.changes += 1
        self.nbctl("set", "NB_Global", ".", f"nb_cfg={self.changes}")

    def sb_global(self, column):
        return self._select("SB_Global", [], column)

    def nb_cfg_of(self, chassis):
        return self._select("Chassis_Private", [["name", "==", chassis]], "nb_cfg")

    def _select(self, table, where, column):
        """Of the only row."""
        asked = {"op": "select", "table": table, "where": where, "columns": [column]}
        words = (self.remote("ovnsb_db.sock"), json.dumps(["OVN_Southbound", asked]))
        return json.loads(self._run("ovsdb-client", "query", *words))[0]["rows"][0][column]

    def add_chassis(self, name, address, in_place_of=None):
        """One that has the encapsulation address, at once with the end of another."""
        encap = {"type": "geneve", "ip": address, "chassis_name": name}
        row = {"name": name, "hostname": name, "encaps": ["named-uuid", "its"]}
        steps = self._steps_to_delete(in_place_of) if in_place_of else []
        steps += [{"op": "insert", "table": "Encap", "uuid-name": "its", "row": encap}]
        steps += [{"op": "insert", "table": "Chassis", "row": row}]
        self._change_southbound(steps)

    def delete_chassis(self, name):
        self._change_southbound(self._steps_to_delete(name))

    @staticmethod
    def _steps_to_delete(name):
        where = [["name", "==", name]]
        tables = ("Chassis_Private", "Chassis")
        return [{"op": "delete", "table": table, "where": where} for table in tables]

    def _change_southbound(self, steps):
        done = self._run(
            "ovsdb-client", "transact", self.remote("ovnsb_db.sock"),
            json.dumps(["OVN_Southbound", *steps]),
        )  # fmt: skip
        assert "error" not in done, done

    def load(self, addresses, rules):
        """A port with so many rules, each of so many addresses: their product in flows."""
        self.vsctl(
            "add-port", "br-int", "p1",
            "--", "set", "Interface", "p1", "type=dummy", "external_ids:iface-id=p1",
        )  # fmt: skip
        listed = ",".join(f'"10.0.{i >> 8}.{i & 255}"' for i in range(addresses))
        words = ["create", "Address_Set", "name=many", f"addresses={listed}"]
        words += ["--", "ls-add", "switch", "--", "lsp-add", "switch", "p1"]
        for rule in range(rules):
            match = f"ip4.src == $many && tcp.dst == {rule + 1}"
            words += ["--", "acl-add", "switch", "to-lport", str(1000 + rule), match, "drop"]
        self.nbctl(*words)
        last = [None]

        # Releases differ in the number of flows beside the rules' own, and of those that make a rule.
        def are_settled():
            before, flows = last[0], self.ask("vswitchd", "bridge/dump-flows", "br-int")
            last[0] = flows.count("\n")
            return last[0] == before and all(f",tp_dst={r + 1}," in flows for r in range(rules))

        until(are_settled, 60, "flows of each rule, and no more of them", 0.5)

    def ask(self, daemon, *words):
        """Over its unixctl socket."""
        return self._run("ovs-appctl", "-T", "20", "-t", self._ctl(daemon), *words)

    def wait_serving(self):
        until(self._serves, 20, "br-int, flows and an active northd")

    def cleanup(self):
        for process in self.processes.values():
            if process.is_running():
                process.signal(signal.SIGCONT)
                process.kill()
        shutil.rmtree(self.directory)

    def _serves(self):
        try:
            return (
                "br-int" in self.ask("vswitchd", "ofproto/list")
                and self.ask("ovn-controller", "connection-status") == "connected\n"
                and self.ask("ovn-controller", "coverage/read-counter", "lflow_run") != "0\n"
                and "active" in self.ask("ovn-northd", "status")
            )
        except subprocess.CalledProcessError:
            return False

    def _ctl(self, daemon):
        if daemon in ("ovn-nb", "ovn-sb"):
            return self.path(daemon.replace("-", "") + "_db.ctl")
        name = _NAMES[daemon]
        return self.path(f"{name}.{self.processes[daemon].pid}.ctl")

    def _is_up(self, daemon):
        assert self.processes[daemon].is_running(), self.processes[daemon].tail()
        try:
            return self.ask(daemon, "version")
        except subprocess.CalledProcessError:
            return False

    def _command(self, daemon):
        name = _NAMES[daemon]
        common = ["-vconsole:off", "-vsyslog:off", f"--pidfile={self.path(name + '.pid')}"]
        nb, sb = self.remote("ovnnb_db.sock"), self.remote("ovnsb_db.sock")
        ovs = self.remote("db.sock")
        if daemon == "ovsdb":
            return self._server("conf", "db.sock") + common
        if daemon in ("ovn-nb", "ovn-sb"):
            base = daemon.replace("-", "")
            ctl = self.path(base + "_db.ctl")
            return self._server(base, base + "_db.sock") + common + [f"--unixctl={ctl}"]
        return {
            "vswitchd": ["ovs-vswitchd", ovs, "--enable-dummy=system", "--disable-system"],
            "ovn-northd": ["ovn-northd", f"--ovnnb-db={nb}", f"--ovnsb-db={sb}"],
            "ovn-controller": ["ovn-controller", ovs],
        }[daemon] + common

    def _server(self, database, socket):
        return [
            "ovsdb-server",
            os.path.join(self.directory, database + ".db"),
            f"--remote=p{self.remote(socket)}",
        ]

    def _run(self, *command):
        return subprocess.run(
            command, env=self.env, check=True, timeout=30, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        ).stdout


class Ovnkube(threading.Thread):
    """What of ovnkube is to be seen: its beat, until it is stopped."""

    def __init__(self, ovn):
        super().__init__(daemon=True)
        self.ovn = ovn
        self.is_over = threading.Event()
        self.start()

    def run(self):
        while not self.is_over.wait(0.5):
            try:
                self.ovn.beat()
            except subprocess.SubprocessError:
                pass  # the database is away: ovnkube tries again, too

    def stop(self):
        self.is_over.set()
        self.join()


class Activation(threading.Thread):
    """Listens in the place of OVS's stopped database, as systemd does where the package brings a
    socket unit (OVS 4.0): whoever connects starts it."""

    def __init__(self, ovn):
        super().__init__(daemon=True)
        self.ovn = ovn
        self.count = 0
        self.is_over = threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(ovn.path("db.sock"))
        self.listener.listen()
        self.start()

    def run(self):
        while not self.is_over.is_set():
            if select.select([self.listener], [], [], 0.05)[0]:
                self.count += 1
                self.listener.close()
                self.ovn.start("ovsdb")  # it takes the path over, and who waits there asks again
                return

    def stop(self):
        self.is_over.set()
        self.join()
        self.listener.close()


_NAMES = {
    "ovsdb": "ovsdb-server",
    "vswitchd": "ovs-vswitchd",
    "ovn-nb": "ovnnb_db",
    "ovn-sb": "ovnsb_db",
    "ovn-northd": "ovn-northd",
    "ovn-controller": "ovn-controller",
}


def serve(requests, answers):
    """For tests that are not in Python."""
    ovn = Ovn()
    try:
        ovn.start_all()
        ovnkube = Ovnkube(ovn)
        print(ovn.run_dir, file=answers, flush=True)
        for line in requests:
            verb, daemon = line.split()
            if daemon != "ovnkube":
                {"kill": ovn.kill, "start": ovn.start}[verb](daemon)
            elif verb == "kill":
                ovnkube.stop()
            else:
                ovnkube = Ovnkube(ovn)
            print("done", file=answers, flush=True)
        ovnkube.stop()
    finally:
        ovn.cleanup()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
