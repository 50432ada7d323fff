# SPDX-License-Identifier: Apache-2.0
"""dpuctl beside a made-up node: a directory with its record, CNI configuration and sockets."""

import json
import os
import subprocess

from . import record
from .process import clean_env, run
from .wait import until


def home_of(directory, kubeconfig):
    """A home below `directory` where kubectl would find `kubeconfig`."""
    home = os.path.join(str(directory), "home")
    os.makedirs(os.path.join(home, ".kube"))
    os.symlink(kubeconfig, os.path.join(home, ".kube", "config"))
    return home


class Node:
    """Everything below `directory`, as dpuctl's --root sees it."""

    def __init__(self, binaries, directory):
        self.program = binaries.path("dpuctl")
        self.root = str(directory)
        self.run_dir = os.path.join(self.root, "run", "dpu-heartbeat")
        self.readiness_file = os.path.join(self.run_dir, "readiness.json")
        self.cni_dir = os.path.join(self.root, "etc", "cni", "net.d")
        for path in (self.run_dir, self.cni_dir):
            os.makedirs(path)

    def write(self, page, name="readiness.json"):
        """By a rename, as the agent makes it for the first time."""
        path = os.path.join(self.run_dir, name)
        with open(path + ".new", "wb") as file:
            file.write(page)
        os.chmod(path + ".new", 0o644)
        os.rename(path + ".new", path)

    def record(self, *settings):
        self.write(record.page(*settings))

    def rewrite(self, *settings):
        """In place, as the agent does from then on."""
        fd = os.open(self.readiness_file, os.O_WRONLY)
        try:
            os.pwrite(fd, record.page(*settings), 0)
        finally:
            os.close(fd)

    def words(self, command, *flags):
        return [self.program, command, f"--root={self.root}", *flags]

    def env(self, **more):
        return clean_env(TERM="xterm", **more)

    def call(self, command, *flags, env=None):
        """CompletedProcess; the sanitizers have nothing to say."""
        done = run(self.words(command, *flags), env=env or self.env())
        assert done.returncode != 99 and "Sanitizer" not in done.stderr, done.stderr
        return done

    def status(self, *flags, env=None):
        """(exit status, the tree)"""
        done = self.call("status", "--output=json", *flags, env=env)
        assert done.stderr == "", done.stderr
        return done.returncode, json.loads(done.stdout)


class Watch:
    """dpuctl watch with its output in a pipe: lines as they come."""

    def __init__(self, node, *flags):
        self.popen = subprocess.Popen(
            node.words("watch", *flags),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=node.env(),
            start_new_session=True,
        )
        os.set_blocking(self.popen.stdout.fileno(), False)
        self.bytes = b""

    def lines(self):
        try:
            self.bytes += self.popen.stdout.read() or b""
        except BlockingIOError:
            pass
        return self.bytes.decode().splitlines()

    def wait_lines(self, count, timeout_s=15):
        return until(
            lambda: len(self.lines()) >= count and self.lines(),
            timeout_s,
            lambda: f"{count} lines, there are {self.lines()}",
        )

    def end(self, number=15):
        """Ends it by a signal; (exit status, stderr)."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        status = self.popen.wait(15)
        said = self.popen.stderr.read().decode()
        self.popen.stdout.close()
        self.popen.stderr.close()
        assert "Sanitizer" not in said and status != 99, said
        return status, said
