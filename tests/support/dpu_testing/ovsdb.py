# SPDX-License-Identifier: Apache-2.0
"""Servers of OVN's southbound database, real ones: alone, in a cluster, as a relay. Each has a
directory of its own, in which its socket has the name that it has on a DPU."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile

from .ovn import SB_SCHEMA
from .process import Process, clean_env
from .wait import until

DATABASE = "OVN_Southbound"


class Servers:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="odb", dir="/tmp")
        self.env = clean_env(OVS_RUNDIR=self.directory, OVN_RUNDIR=self.directory)
        self.schema = os.path.join(self.directory, "converted.ovsschema")
        self.processes = {}
        self.sources = {}  # what each serves: a file, or where it relays to
        with open(SB_SCHEMA) as schema, open(self.schema, "w") as other:
            other.write(schema.read().replace('"version": "', '"version": "9'))

    def add(self, name):
        """One that stands alone."""
        self._run("ovsdb-tool", "create", self._file(name), SB_SCHEMA)
        self._serve(name, self._file(name))

    def add_cluster(self, *names):
        """The first one makes it, the others join."""
        addresses = [_address() for _ in names]
        self._run("ovsdb-tool", "create-cluster", self._file(names[0]), SB_SCHEMA, addresses[0])
        self._serve(names[0], self._file(names[0]))
        for name, address in zip(names[1:], addresses[1:]):
            self.add_joining(name, addresses[0], address)
            until(lambda name=name: self.is_connected(name), 20, f"{name} has joined")

    def add_joining(self, name, whom=None, address=None):
        """A member to be; `whom` None: of a cluster that is not there."""
        words = (address or _address(), whom or _address())
        self._run("ovsdb-tool", "join-cluster", self._file(name), DATABASE, *words)
        self._serve(name, self._file(name))

    def add_relay(self, name, source):
        self._serve(name, f"relay:{DATABASE}:{self.remote(source)}")
        until(lambda: self.is_connected(name), 20, f"{name} has its source")

    def run_dir(self, name):
        return os.path.join(self.directory, name)

    def remote(self, name):
        return "unix:" + os.path.join(self.run_dir(name), "ovnsb_db.sock")

    def kill(self, *names):
        for name in names:
            self.processes[name].kill()

    def restart(self, *names):
        for name in names:
            self._serve(name, self.sources[name])

    def ask(self, name, *words):
        """Over its unixctl socket."""
        ctl = os.path.join(self.run_dir(name), "ovnsb_db.ctl")
        return self._run("ovs-appctl", "-T", "20", "-t", ctl, *words)

    def convert(self, name):
        """To another version of the schema and back."""
        for schema in (self.schema, SB_SCHEMA):
            self._run("ovsdb-client", "convert", self.remote(name), schema)

    def is_connected(self, name):
        """What the server says of its database; None if it ends the connection, as while it joins."""
        wanted = {"op": "select", "table": "Database", "where": [["name", "==", DATABASE]]}
        asked = json.dumps(["_Server", wanted])
        with contextlib.suppress(subprocess.CalledProcessError):
            answer = json.loads(self._run("ovsdb-client", "query", self.remote(name), asked))
            return answer[0]["rows"][0]["connected"]
        return None

    def cleanup(self):
        for process in self.processes.values():
            if process.is_running():
                process.kill()
        shutil.rmtree(self.directory)

    def _file(self, name):
        os.makedirs(self.run_dir(name), exist_ok=True)
        return os.path.join(self.run_dir(name), "sb.db")

    def _serve(self, name, source):
        directory = self.run_dir(name)
        os.makedirs(directory, exist_ok=True)
        self.sources[name] = source
        command = [
            "ovsdb-server", source, f"--remote=p{self.remote(name)}", "-vconsole:off",
            "-vsyslog:off", f"--unixctl={directory}/ovnsb_db.ctl", f"--pidfile={directory}/sb.pid",
        ]  # fmt: skip
        log = os.path.join(directory, "server.log")
        self.processes[name] = Process(command, log, env=self.env, name=f"ovsdb-server {name}")
        until(lambda: self._answers(name), 20, f"{name} answers")

    def _answers(self, name):
        with contextlib.suppress(subprocess.CalledProcessError):
            return self.ask(name, "version")

    def _run(self, *command):
        return subprocess.run(
            command, env=self.env, check=True, timeout=30, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        ).stdout


def _address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp:127.0.0.1:{probe.getsockname()[1]}"
