# SPDX-License-Identifier: Apache-2.0
"""The programs under test around one API server, and what can be seen of them."""

import os

from dpu_testing import record
from dpu_testing.gate import Gate
from dpu_testing.process import SANITIZER, Process, run  # noqa: F401  for other modules
from dpu_testing.wait import boottime_ns, never, until

# Asan builds on a busy machine are slow: what must happen gets this long, latencies are judged apart.
SOON_S = 15


def in_own_mounts(script):
    """What to put before a program, so that it is started by a script which may mount."""
    if os.geteuid() != 0:
        import pytest  # the demo does without it

        pytest.skip("needs root")
    shell = ["sh", "-c", f'{script} && exec "$@"', "sh"]
    return ["unshare", "--mount", "--propagation", "private", *shell]


class World:
    """Agents with short timers: a renewal each 200 ms, a lease of 2 s."""

    def __init__(self, binaries, target, directory):
        self.binaries = binaries
        self.target = target
        self.directory = str(directory)
        self.interval_ms = 200
        self.duration_s = 2
        self.readiness_file = os.path.join(self.directory, "run", "readiness.json")
        self.processes = []
        self._gate = None

    # Starting.

    def flags(self, user, **options):
        """The flags all programs get, and both agents; an option None is left out."""
        flags = {
            "kubeconfig": self.target.kubeconfig(user),
            "node-name": self.target.node,
            "log-level": "debug",
            "http-bind-address": "127.0.0.1:0",
        }
        if user != "dra":
            flags["namespace"] = self.target.namespace
            flags["dpu-node-lease-renew-interval"] = f"{self.interval_ms}ms"
            flags["dpu-node-lease-duration"] = self.duration_s
        flags.update({key.replace("_", "-"): value for key, value in options.items()})
        words = []
        for key, value in flags.items():
            values = value if isinstance(value, list) else [value]
            words += [
                f"--{key}" if v is True else f"--{key}={v}" for v in values if v is not None
            ]
        return words

    def start(self, name, words, env=None, wrapper=()):
        log = os.path.join(self.directory, f"{len(self.processes)}-{name}.log")
        command = [*wrapper, self.binaries.path(name), *words]
        process = Process(command, log, env=env, name=name)
        self.processes.append(process)
        return process

    def dpu(self, env=None, **options):
        return self.start("dpu-agent", self.flags("dpu", **options), env)

    def host(self, env=None, wrapper=(), **options):
        options.setdefault("readiness_file", self.readiness_file)
        return self.start("dpu-host-agent", self.flags("host", **options), env, wrapper)

    def dra_watch(self, kubelet_root, *words):
        """The command that shows what a kubelet under that root is told."""
        return [self.binaries.path("dpuctl"), "dra", "watch", f"--kubelet-root-dir={kubelet_root}", *words]

    def driver(self, kubelet_root, is_registered=True, **options):
        """The DRA driver. Unless told otherwise, a kubelet registers it as soon as it is there."""
        options.setdefault("readiness_file", self.readiness_file)
        driver = self.start("dpu-dra-driver", self.flags("dra", kubelet_root_dir=kubelet_root, **options))
        if is_registered:
            name = options.get("dra_driver_name", "dpu.k8s.ovn.org")
            watch = self.dra_watch(kubelet_root, "--once", "--register", f"--driver={name}")
            until(lambda: run(watch).stdout, SOON_S, "what the driver says to a kubelet")
        return driver

    def both(self, **dpu_options):
        """Both agents, with the node ready. Returns (host, dpu)."""
        host = self.host()
        dpu = self.dpu(**dpu_options)
        self.wait_state("Ready")
        return host, dpu

    # Looking.

    def record(self):
        """None if there is none, or none intact; record.read() tells the difference."""
        try:
            return record.read(self.readiness_file)
        except record.Torn:
            return None

    def state(self):
        seen = self.record()
        return seen.state if seen else None

    def verdict(self):
        seen = self.record()
        return seen.verdict() if seen else None

    def wait_state(self, state, timeout_s=SOON_S):
        return self.wait_record(lambda r: r.state == state, timeout_s, f"state {state}")

    def wait_verdict(self, verdict, timeout_s=SOON_S):
        return self.wait_record(lambda r: r.verdict() == verdict, timeout_s, verdict)

    def wait_record(self, fits, timeout_s=SOON_S, what="the record"):
        """The first record that fits."""
        return until(
            lambda: (seen := self.record()) and fits(seen) and seen,
            timeout_s,
            lambda: f"{what}; the record says {self.record()}",
        )

    def wait_renewals(self, count=3, timeout_s=SOON_S):
        """Waits until so many further renewals were observed by the host."""
        last = (self.record() or {}).get("observedBoottimeNs")
        for _ in range(count):
            last = self.wait_record(
                lambda r, last=last: r.observed_ns != last, timeout_s, "another renewal"
            ).observed_ns

    def never_state(self, state, during_s):
        """The record does not come to this state."""
        never(lambda: self.state() == state and self.record(), during_s, f"state {state}")

    def ready_again(self, timeout_s=30):
        """Waits for Ready; the state is never NotReady on the way there."""

        def is_ready():
            seen = self.record()
            assert seen.state != "NotReady", seen
            return seen.verdict() == "Ready/LeaseRenewed"

        until(is_ready, timeout_s, lambda: f"Ready; the record says {self.record()}", 0.005)

    def stays_ready(self, renewals=3):
        """So many renewals, and no other state in between: a change would leave its time."""
        transition = self.record()["transitionTime"]
        self.wait_renewals(renewals)
        seen = self.record()
        assert (seen.state, seen["transitionTime"]) == ("Ready", transition), seen

    @property
    def gate(self):
        if self._gate is None:
            self._gate = Gate(self.binaries.path("dpu-gate"), self.directory, self.readiness_file)
        return self._gate

    def boottime_ns(self):
        return boottime_ns()

    def evidence(self):
        sections = [(str(p), p.tail(40)) for p in self.processes]
        sections.append(("record", str(self.record())))
        return sections + self.target.evidence()

    def cleanup(self):
        broken = []
        for process in self.processes:
            status = process.cleanup()
            sanitizer = "Sanitizer" in process.text() or "runtime error:" in process.text()
            if sanitizer or status in (99, -6, -11):
                broken.append(f"{process} ended with {status}: {process.tail(60)}")
        assert not broken, "\n".join(broken)
