# SPDX-License-Identifier: Apache-2.0
"""A node's CNI directories: dpu-gate is installed there and called, with plugins that note it."""

import json
import os
import pathlib
import subprocess

from dpu_testing.gate import cni_env
from dpu_testing.process import clean_env, run

OVN = '{"cniVersion":"0.4.0","name":"ovn-kubernetes","type":"ovn-k8s-cni-overlay","ipam":{},"n":1.50}'
CHAIN = """{"cniVersion": "0.3.1", "name": "net", "disableCheck":true, "x-Unknown" : [1.0, 1e3],
 "plugins": [ {"type":"bridge","n":1.50,"capabilities":{"portMappings":true}} , {"type":"tuning"}]}"""


class Node:
    """A node's CNI directories."""

    def __init__(self, binaries, directory):
        self.program = binaries.path("dpu-host-agent")
        self.gate = binaries.path("dpu-gate")
        self.conf = os.path.join(str(directory), "net.d")
        self.bin = os.path.join(str(directory), "bin")
        self.record = os.path.join(str(directory), "readiness.json")
        os.mkdir(self.conf)
        os.mkdir(self.bin)

    def flags(self):
        return [f"--cni-conf-dir={self.conf}", f"--readiness-file={self.record}"]

    def words(self, command, *more):
        flags = self.flags() if command == "install-cni" else self.flags()[:1]
        return [self.program, command, *flags, f"--cni-bin-dir={self.bin}", *more]

    def run(self, command, *more, status=0):
        done = run(self.words(command, *more))
        assert done.returncode == status, done.stderr
        return done.stderr

    def install(self, *more, status=0):
        return self.run("install-cni", f"--gate-binary={self.gate}", *more, status=status)

    def write(self, name, text):
        """As a careful owner does: a reader meets the old file or the new one."""
        with open(os.path.join(self.conf, f".{name}"), "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(os.path.join(self.conf, f".{name}"), os.path.join(self.conf, name))

    def remove(self, name):
        os.unlink(os.path.join(self.conf, name))

    def text(self, name="05-dpu-gate.conflist"):
        with open(os.path.join(self.conf, name), encoding="utf-8") as file:
            return file.read()

    def conflist(self):
        try:
            return json.loads(self.text())
        except FileNotFoundError:
            return None

    def plugin(self):
        return self.conflist()["plugins"][0]

    def given(self):
        """What a runtime gives the gate: its plugin, with the list's name and version."""
        return {**self.plugin(), "name": self.conflist()["name"], "cniVersion": "1.1.0"}

    def status(self):
        return self.call("STATUS", self.given())

    def call(self, verb, conf, program="dpu-gate"):
        done = subprocess.run(
            [os.path.join(self.bin, program)],
            input=json.dumps(conf),
            env=clean_env(**cni_env(verb, self.bin)),
            text=True,
            capture_output=True,
            check=False,
        )
        return json.loads(done.stdout) if done.stdout else None


def plugins(node, *names, script="exit 0"):
    """They note their calls together, in their order, and their configuration apart."""
    for name in names:
        path = os.path.join(node.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho $CNI_COMMAND {name} >> {node.bin}/calls\n")
            file.write(f"cat > {node.bin}/stdin.{name}\n{script}\n")
        os.chmod(path, 0o755)


def calls(node):
    """Since the last time."""
    path = pathlib.Path(node.bin, "calls")
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines
