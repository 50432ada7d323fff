# SPDX-License-Identifier: Apache-2.0
"""dpuctl beside a made-up node: a directory with its record, CNI configuration and sockets."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time

from .process import clean_env, run
from .wait import until

SANITIZER = {
    "ASAN_OPTIONS": "detect_leaks=1:exitcode=99:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
}


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
        self.tool = binaries.path("record-tool")
        self.root = str(directory)
        self.run_dir = os.path.join(self.root, "run", "dpu-heartbeat")
        self.readiness_file = os.path.join(self.run_dir, "readiness.json")
        self.cni_dir = os.path.join(self.root, "etc", "cni", "net.d")
        for path in (self.run_dir, self.cni_dir):
            os.makedirs(path)

    def page(self, *settings):
        made = subprocess.run(
            [self.tool, "encode", *settings], capture_output=True, check=True, env=clean_env()
        )
        return made.stdout

    def write(self, page, name="readiness.json"):
        """By a rename, as the agent makes it for the first time."""
        path = os.path.join(self.run_dir, name)
        with open(path + ".new", "wb") as file:
            file.write(page)
        os.chmod(path + ".new", 0o644)
        os.rename(path + ".new", path)

    def record(self, *settings):
        self.write(self.page(*settings))

    def rewrite(self, *settings):
        """In place, as the agent does from then on."""
        fd = os.open(self.readiness_file, os.O_WRONLY)
        try:
            os.pwrite(fd, self.page(*settings), 0)
        finally:
            os.close(fd)

    def words(self, command, *flags):
        return [self.program, command, f"--root={self.root}", *flags]

    def env(self, **more):
        return clean_env(TERM="xterm", **SANITIZER, **more)

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


class Terminal:
    """A command on a terminal of its own. `seen` is all that it wrote."""

    def __init__(self, command, env, rows=24, columns=80):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execve(command[0], command, env)
            finally:
                os._exit(127)
        self.resize(rows, columns)
        self.seen = b""
        self.status = None

    def resize(self, rows, columns):
        """The kernel tells the program by SIGWINCH."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.fd], [], [], 0)[0]:
            try:
                got = os.read(self.fd, 65536)
            except OSError:  # the other side is closed
                break
            if not got:
                break
            self.seen += got
        return self.seen

    def wait_seen(self, what, timeout_s=15, since=0):
        return until(
            lambda: what in self.read()[since:],
            timeout_s,
            lambda: f"{what!r} in {self.seen[since:]!r}",
        )

    def last_screen(self):
        """The lines of the last whole drawing, without escape sequences."""
        self.read()
        drawings = self.seen.split(b"\x1b[H")
        return plain(drawings[-2 if len(drawings) > 2 else -1]).splitlines()

    def type(self, text):
        os.write(self.fd, text)

    def is_raw(self):
        """Does the terminal hand over each key, unechoed?"""
        return not termios.tcgetattr(self.fd)[3] & (termios.ICANON | termios.ECHO)

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self, timeout_s=15):
        """The exit status, as of subprocess."""
        deadline = time.monotonic() + timeout_s
        while self.status is None:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, f"it still runs: {self.seen[-400:]!r}"
            time.sleep(0.01)
        self.read()
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


def plain(text):
    """Without escape sequences."""
    out, rest = [], text.decode(errors="replace")
    while rest:
        before, escape, rest = rest.partition("\x1b[")
        out.append(before)
        if escape:
            at = 0
            while at < len(rest) and not rest[at].isalpha():
                at += 1
            rest = rest[at + 1 :]
    return "".join(out)
