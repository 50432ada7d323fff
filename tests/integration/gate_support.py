# SPDX-License-Identifier: Apache-2.0
"""dpu-gate alone: a record of the test's, a delegate that notes what it gets, one call."""

import json
import os
import subprocess

from dpu_testing import record
from dpu_testing.gate import cni_env
from dpu_testing.process import clean_env

ALL_VERSIONS = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"]
VERBS = ("ADD", "DEL", "CHECK", "STATUS", "GC")

DELEGATE = """#!/bin/sh
dir='{directory}'
echo "$CNI_COMMAND" >> "$dir/calls"
echo $$ > "$dir/pid"
env > "$dir/env.$CNI_COMMAND"
cat > "$dir/stdin.$CNI_COMMAND"
ls -l /proc/$$/fd > "$dir/fds.$CNI_COMMAND"
{script}
"""

ANSWERS = """case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion":"1.1.0","supportedVersions":["1.0.0","1.1.0"]}' ;;
ADD) echo '{"cniVersion":"1.1.0","ips":[]}' ;;
esac"""


class Reply:
    """One call's end: exit status, stdout as it is and, of an error, its parts."""

    def __init__(self, done):
        self.status = done.returncode
        self.stdout, self.stderr = (done.stdout or b"").decode(), done.stderr.decode()
        self.json = json.loads(self.stdout) if self.stdout.strip() else None
        error = self.json if self.status and self.json else {}
        self.code, self.msg, self.details = error.get("code", 0), error.get("msg", ""), error.get("details", "")

    def __repr__(self):
        return f"<status {self.status}, stdout {self.stdout!r}, stderr {self.stderr!r}>"

    def assert_ok(self):
        assert self.status == 0, self
        assert self.stderr == "", "silent on success"
        return self

    def assert_error(self, code, msg=None, details=None):
        """`msg` and `details` are beginnings."""
        assert (self.status, self.code) == (1, code), self
        assert self.json["cniVersion"], self
        assert msg is None or self.msg.startswith(msg), self
        assert details is None or self.details.startswith(details), self
        return self


def call(binary, env, **how):
    """`env`: None leaves a variable out; `how`: of subprocess.run."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 30, "check": False}
    env = clean_env(**{key: value for key, value in env.items() if value is not None})
    return Reply(subprocess.run([binary], env=env, **{**pipes, **how}))


class Delegate:
    """A plugin in a directory of CNI_PATH that notes verb, environment and stdin of its calls."""

    def __init__(self, directory, script=ANSWERS):
        self.directory = str(directory)
        os.makedirs(self.directory, exist_ok=True)
        self.path = os.path.join(self.directory, "test-delegate")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(DELEGATE.format(directory=self.directory, script=script))
        os.chmod(self.path, 0o755)

    def _read(self, name):
        try:
            with open(os.path.join(self.directory, name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def calls(self):
        """The verbs, VERSION included, that reached it."""
        return self._read("calls").split()

    def verbs(self):
        return [verb for verb in self.calls() if verb != "VERSION"]

    def stdin(self, verb):
        return json.loads(self._read(f"stdin.{verb}"))

    def env(self, verb):
        pairs = (line.split("=", 1) for line in self._read(f"env.{verb}").splitlines())
        return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}

    def fds(self, verb):
        return self._read(f"fds.{verb}")

    def pid(self):
        return int(self._read("pid"))


class Bench:
    """A directory with a record, a delegate, and the binary."""

    def __init__(self, binaries, directory):
        self.binary = binaries.path("dpu-gate")
        self.directory = str(directory)
        self.readiness_file = os.path.join(self.directory, "readiness.json")
        self.bin_dir = os.path.join(self.directory, "bin")
        self.delegate = Delegate(self.bin_dir)

    def write(self, content):
        with open(self.readiness_file, "wb") as file:
            file.write(content)
        os.chmod(self.readiness_file, 0o644)

    def record(self, *settings):
        self.write(record.page(*settings))

    def conf(self, drop=(), **keys):
        """Wraps the delegate; `keys` on top, `drop` taken out. None as delegate: chained."""
        conf = {
            "cniVersion": "1.1.0",
            "name": "test-net",
            "type": "dpu-gate",
            "readinessFile": self.readiness_file,
            "delegate": {"type": "test-delegate"},
            **keys,
        }
        return {key: value for key, value in conf.items() if key not in drop}

    def chained(self, **keys):
        return self.conf(drop=("delegate",), **keys)

    def env(self, verb, **changes):
        return {**cni_env(verb, self.bin_dir), "CNI_ARGS": "some;extra;args", **changes}

    def call(self, verb, conf=None, env=None, **how):
        """`conf`: an object or bytes, by default the wrapping one; `env`: changes."""
        if conf is None:
            conf = self.conf()
        if not isinstance(conf, bytes):
            conf = json.dumps(conf).encode()
        return call(self.binary, self.env(verb, **(env or {})), input=conf, **how)
