# SPDX-License-Identifier: Apache-2.0
"""One program under test: started, watched through its log, stopped, paused, killed."""

import json
import os
import re
import shlex
import signal
import subprocess
import time

from .wait import until

# What may come from the environment of whoever runs the tests must not reach the programs.
_FOREIGN = re.compile(
    r"^(HOME$|KUBECONFIG|KUBERNETES_|NODE_NAME|K8S_NODE|OVN_KUBERNETES_|OVNKUBE_|OVS_RUNDIR|DPU_"
    r"|CNI_|NOTIFY_SOCKET"
    r"|[a-z]+_proxy|[A-Z]+_PROXY)"
)
_LOGFMT = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')

SANITIZER = {
    "ASAN_OPTIONS": "detect_leaks=1:exitcode=99:abort_on_error=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
}


def clean_env(**extra):
    """This process's environment without anything that configures our programs, plus `extra`."""
    env = {k: v for k, v in os.environ.items() if not _FOREIGN.match(k)}
    env.update(SANITIZER)
    env.update({k: str(v) for k, v in extra.items()})
    return env


def parse_line(line):
    """A line of a log, in either format."""
    if line.startswith("{"):
        return json.loads(line)
    fields = {}
    for key, value in _LOGFMT.findall(line):
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        fields[key] = value
    return fields


class Process:
    """`log_path` gets stderr and stdout, appended; only this process's own part is looked at. One
    that is `talking` has its stdin and stdout at .popen, as lines."""

    def __init__(self, command, log_path, env=None, name=None, talking=False):
        self.command = [str(word) for word in command]
        self.log_path = log_path
        self.name = name or os.path.basename(self.command[0])
        with open(log_path, "ab") as log:
            self.log_start = log.tell()
            self.popen = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE if talking else subprocess.DEVNULL,
                stdout=subprocess.PIPE if talking else log,
                stderr=log,
                env=env if env is not None else clean_env(),
                text=True,
                bufsize=1,
                start_new_session=True,  # a ctrl-C at the terminal is the test's to handle
            )
        self.pid = self.popen.pid

    def __str__(self):
        return f"{self.name}[{self.pid}] {shlex.join(self.command)}"

    def text(self):
        with open(self.log_path, "rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")

    def lines(self, **wanted):
        """Log lines as dicts; of each keyword the line's field must contain the value."""
        found = []
        for line in self.text().splitlines():
            fields = parse_line(line)
            if all(value.lower() in fields.get(key, "").lower() for key, value in wanted.items()):
                found.append(fields)
        return found

    def wait_log(self, timeout_s=10.0, **wanted):
        """The first log line that fits."""
        return until(
            lambda: self.lines(**wanted),
            timeout_s,
            lambda: f"{self.name} logs {wanted}: {self.tail()}",
        )[0]

    def tail(self, count=12):
        return "\n" + "\n".join(self.text().splitlines()[-count:])

    def is_running(self):
        return self.popen.poll() is None

    def signal(self, number):
        self.popen.send_signal(number)

    def pause(self):
        """SIGSTOP; returns once the kernel says that it is stopped."""
        self.signal(signal.SIGSTOP)
        until(lambda: self._state() == "T", 5, f"{self.name} stopped")

    def resume(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """kill -9."""
        self.signal(signal.SIGKILL)
        self.popen.wait(10)

    def stop(self, timeout_s=10.0):
        """SIGTERM; returns the exit status."""
        if self.is_running():
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def wait(self, timeout_s=10.0):
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self} still runs after {timeout_s} s: {self.tail()}") from None

    def cleanup(self):
        """Ends it whatever its state; for fixtures."""
        if self.is_running():
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            try:
                self.popen.wait(3)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.popen.returncode

    def _state(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0]

    def open_fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def rss_kib(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        return 0


def run(command, timeout_s=20, env=None, **kw):
    """Runs a program to its end; returns CompletedProcess with text and `.seconds`."""
    started = time.monotonic()
    done = subprocess.run(
        [str(word) for word in command],
        env=env if env is not None else clean_env(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        **kw,
    )
    done.seconds = time.monotonic() - started
    return done
