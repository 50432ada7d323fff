# SPDX-License-Identifier: Apache-2.0
"""Calling dpu-gate as a container runtime does, with a delegate that notes its calls."""

import json
import os
import stat
import time

from .process import clean_env, run

DELEGATE = """#!/bin/sh
# A CNI plugin for tests: notes the verb, answers as the spec asks.
echo "$CNI_COMMAND" >> "{log}"
case "$CNI_COMMAND" in
VERSION) echo '{{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0","1.1.0"]}}' ;;
ADD) echo '{{"cniVersion":"1.1.0","interfaces":[{{"name":"eth0"}}],"ips":[]}}' ;;
esac
"""


def cni_env(verb, path):
    """What a runtime sets for a call."""
    is_attachment = verb in ("ADD", "DEL", "CHECK")
    return {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": "container-1" if is_attachment else "",
        "CNI_NETNS": "/var/run/netns/none" if is_attachment else "",
        "CNI_IFNAME": "eth0" if is_attachment else "",
        "CNI_PATH": path,
    }


class Answer:
    """What came back from one call."""

    def __init__(self, done):
        self.status = done.returncode
        self.ms = done.seconds * 1000
        self.stdout = done.stdout
        self.stderr = done.stderr
        self.error = json.loads(done.stdout) if done.returncode else {}

    @property
    def ok(self):
        return self.status == 0

    @property
    def code(self):
        return self.error.get("code", 0)

    @property
    def msg(self):
        return self.error.get("msg", "")

    def __repr__(self):
        return f"<status {self.status} code {self.code} {self.msg!r} in {self.ms:.1f} ms>"


class Gate:
    """dpu-gate in front of a delegate, both in `directory`, reading `readiness_file`."""

    def __init__(self, binary, directory, readiness_file):
        self.binary = str(binary)
        self.directory = str(directory)
        self.readiness_file = str(readiness_file)
        self.calls_path = os.path.join(self.directory, "delegate.calls")
        delegate = os.path.join(self.directory, "test-delegate")
        with open(delegate, "w", encoding="utf-8") as file:
            file.write(DELEGATE.format(log=self.calls_path))
        os.chmod(delegate, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP)

    def calls(self):
        """The verbs that reached the delegate."""
        try:
            with open(self.calls_path, encoding="utf-8") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def _conf(self, **config):
        return json.dumps(
            {
                "cniVersion": "1.1.0",
                "name": "test-net",
                "type": "dpu-gate",
                "readinessFile": self.readiness_file,
                "delegate": {"type": "test-delegate"},
                **config,
            }
        )

    def call(self, verb, **config):
        return Answer(run([self.binary], env=clean_env(**cni_env(verb, self.directory)), input=self._conf(**config)))

    def time_ms(self, verb):
        """How long one call takes, start of the process included, with as little of Python around
        it as possible. The answer is thrown away."""
        conf, env = os.memfd_create("conf"), clean_env(**cni_env(verb, self.directory))
        os.write(conf, self._conf().encode())
        os.lseek(conf, 0, os.SEEK_SET)
        sink = os.open(os.devnull, os.O_WRONLY)
        actions = [(os.POSIX_SPAWN_DUP2, conf, 0), (os.POSIX_SPAWN_DUP2, sink, 1)]
        started = time.perf_counter()
        pid = os.posix_spawn(self.binary, [self.binary], env, file_actions=actions)
        os.waitpid(pid, 0)
        ms = (time.perf_counter() - started) * 1000
        os.close(conf)
        os.close(sink)
        return ms

    def status(self):
        return self.call("STATUS")

    def add(self):
        return self.call("ADD")
