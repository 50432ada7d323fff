# SPDX-License-Identifier: Apache-2.0
"""The scenes. Each shows one promise and proves it: it returns what it measured, or raises."""

import statistics
import time

from dpu_testing.wait import boottime_ns, until

SOON_S = 10  # generous: what takes longer is broken


class Story:
    """Scenes in order, each with what the viewer is told of it; `measured` fills the table at the end."""

    def __init__(self, setting, tell, pause):
        self.on = setting
        self.tell = tell  # a line for the viewer
        self.pause = pause  # lets the viewer read
        self.measured = []

    def scenes(self):
        return [
            ("Nobody has heard of the DPU", self.silence),
            ("Heartbeat", self.heartbeat),
            ("kill -9 of the DPU", self.death),
            ("A pod comes", self.pod),
            ("Recovery", self.recovery),
            ("ovn-controller dies", self.service),
            ("API outage", self.outage),
            ("The host agent restarts", self.restart),
            ("The host agent stalls", self.stall),
        ]

    def measure(self, what, value):
        self.measured.append((what, value))
        return value

    def wait_verdict(self, verdict, timeout_s=SOON_S):
        until(
            lambda: self.on.verdict() == verdict,
            timeout_s,
            lambda: f"readiness {verdict}, is {self.on.verdict()}",
            every_s=0.001,
        )

    def stays_admitted(self, seconds):
        """Watches STATUS and the record for so long: neither may say no. Returns the calls made."""
        end, calls = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            answer = self.on.gate.status()
            assert answer.ok, f"STATUS says {answer}"
            seen = self.on.record()
            assert not seen or seen.state != "NotReady", f"the record says {seen}"
            calls += 1
            time.sleep(0.02)
        return calls

    def silence(self):
        """Only the host agent runs. It has seen no renewal, so it does not admit Pods."""
        self.on.start_services()
        self.on.start_host()
        self.wait_verdict("Unknown/AwaitingFirstRenewal")
        self.pause()
        status, add = self.on.gate.status(), self.on.gate.add()
        assert status.code == 50, f"STATUS should say 50, says {status}"
        assert add.code == 11, f"ADD should say 11, says {add}"
        return "Unknown/AwaitingFirstRenewal; STATUS 50, ADD 11"

    def heartbeat(self):
        """OVS and OVN answer, so dpu-agent renews the lease; the host sees that within milliseconds."""
        started = time.monotonic()
        self.on.start_dpu()
        self.wait_verdict("Ready/LeaseRenewed")
        first_ms = (time.monotonic() - started) * 1000
        delays = self._collect_delays(5)
        assert self.on.gate.status().ok and self.on.gate.add().ok, "STATUS and ADD should pass"
        self.pause()
        self.measure("DPU agent started to node ready", f"{first_ms:.0f} ms")
        delay = f"{statistics.median(delays):.1f} ms"
        self.measure("renewal to readiness record (median)", delay)
        return f"Ready {first_ms:.0f} ms after the agent's start; renewal to record {delay}"

    def _collect_delays(self, count):
        delays, last = [], None
        while len(delays) < count:
            seen = until(
                lambda: (r := self.on.record()) and r.observed_ns != last and r,
                SOON_S,
                "another renewal",
            )
            last = seen.observed_ns
            delays.append(self.on.record_delay_ms())
        return delays

    def death(self):
        """Nobody announces it. The lease expires exactly one duration after its last renewal."""
        self.on.dpu_agent.kill()
        deadline_ns = self._deadline()
        self.tell(f"the lease has {(deadline_ns - boottime_ns()) / 1e9:.2f} s left")
        while True:
            asked_ns = boottime_ns()
            answer = self.on.gate.status()
            if not answer.ok:
                break
            assert asked_ns < deadline_ns + SOON_S * 10**9, "the dead DPU is still called ready"
            time.sleep(0.001)
        answered_ns = boottime_ns()
        assert answered_ns >= deadline_ns, "the DPU was called dead before its lease ran out"
        late_ms = (answered_ns - deadline_ns) / 1e6
        self.wait_verdict("NotReady/LeaseExpired")
        record_ms = (boottime_ns() - deadline_ns) / 1e6
        assert late_ms < 500, f"CNI noticed {late_ms:.0f} ms after the deadline"
        self.pause()
        self.measure("CNI STATUS turns after the deadline", f"{late_ms:.1f} ms")
        self.measure("record says NotReady after the deadline", f"{record_ms:.1f} ms")
        return f"not before the deadline, and {late_ms:.1f} ms after it"

    def _deadline(self):
        """When the lease runs out, once the last renewal has arrived."""
        time.sleep(0.05)
        return self.on.record().observed_ns + self.on.duration_s * 10**9

    def pod(self):
        """CNI ADD fails at once, and says why. DEL still works: cleanup needs no DPU."""
        answers = [self.on.gate.add() for _ in range(20)]
        for add in answers:
            assert add.code == 11 and add.msg.startswith("DPU Not Ready: "), f"ADD says {add}"
        calls = self.on.gate.calls()
        assert self.on.gate.call("DEL").ok, "DEL should pass"
        reached = self.on.gate.calls()[len(calls) :].count("DEL")
        assert reached == 1, "DEL should reach the delegate"
        self.tell(f"ADD: {answers[0].msg}")
        self.pause()
        typical = statistics.median(self.on.gate.time_ms("ADD") for _ in range(50))
        self.measure("CNI ADD on a dead DPU, process start included", f"{typical:.2f} ms")
        return f"ADD refused in {typical:.1f} ms with code 11; DEL passed"

    def recovery(self):
        """The DPU is back. The host needs only one renewal."""
        started = time.monotonic()
        self.on.start_dpu()
        self.wait_verdict("Ready/LeaseRenewed")
        until(lambda: self.on.gate.status().ok, SOON_S, "STATUS passes")
        back_ms = (time.monotonic() - started) * 1000
        self.pause()
        self.measure("DPU agent restarted to node ready", f"{back_ms:.0f} ms")
        return f"ready {back_ms:.0f} ms after the agent's start"

    def service(self):
        """The DPU and its agent run, but new Pods would get no network. So dpu-agent reports the failure."""
        started = time.monotonic()
        self.on.services.kill("ovn-controller")
        self.wait_verdict("NotReady/DPUReportedUnhealthy")
        dead_s = time.monotonic() - started
        answer = self.on.gate.status()
        assert "probe 'ovn-controller'" in answer.msg, f"STATUS says {answer}"
        self.tell(answer.msg)
        self.pause()
        started = time.monotonic()
        self.on.services.start("ovn-controller")
        self.wait_verdict("Ready/LeaseRenewed")
        back_s = time.monotonic() - started
        self.measure("ovn-controller killed to node not ready", f"{dead_s:.1f} s")
        return f"named {dead_s:.1f} s after its death; ready {back_s:.1f} s after its return"

    def outage(self):
        """The host cannot read the lease, so it does not know the DPU's state, and keeps the last one."""
        self.on.target.refuse()
        down_s = self.on.duration_s * 1.6
        calls = self.stays_admitted(down_s)
        verdict = self.on.verdict()
        assert verdict == "Unknown/ApiServerUnreachable", f"the record says {verdict}"
        self.tell("the API server comes back")
        self.on.target.accept()
        started = time.monotonic()
        self.wait_verdict("Ready/LeaseRenewed", SOON_S + self.on.duration_s)
        back_ms = (time.monotonic() - started) * 1000
        calls += self.stays_admitted(1)
        self.measure(f"API outage of {down_s:.1f} s", f"0 of {calls} STATUS calls failed")
        self.measure("API back to Ready", f"{back_ms:.0f} ms")
        return f"{down_s:.1f} s without the API: held; {calls} STATUS calls, none failed"

    def restart(self):
        self.on.host_agent.kill()
        calls = self.stays_admitted(0.7)
        started = time.monotonic()
        self.on.start_host()
        calls += self.stays_admitted(1.5)
        self.wait_verdict("Ready/LeaseRenewed")
        until(lambda: self.on.record()["pid"] == self.on.host_agent.pid, SOON_S, "the new agent writes")
        self.pause()
        self.measure("host agent killed and restarted", f"0 of {calls} STATUS calls failed")
        seconds = time.monotonic() - started
        return f"{calls} STATUS calls in {0.7 + seconds:.1f} s, none failed"

    def stall(self):
        """SIGSTOP for longer than the lease lasts: the agent's own pause proves nothing."""
        self.on.host_agent.pause()
        calls = self.stays_admitted(self.on.duration_s * 1.3)
        self.on.host_agent.resume()
        calls += self.stays_admitted(1)
        self.wait_verdict("Ready/LeaseRenewed")
        self.measure("host agent stopped past the lease", f"0 of {calls} STATUS calls failed")
        return f"{calls} STATUS calls, none failed"
