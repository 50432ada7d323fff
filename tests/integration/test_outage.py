# SPDX-License-Identifier: Apache-2.0
"""Evidence, not silence: an API server that cannot be read is no proof against the DPU."""

import json
import os
import time

import pytest
from dpu_testing import kubeconfig, record
from dpu_testing.silent_dns import silent_dns
from dpu_testing.wait import never, until
from test_http import Page
from world import SOON_S

pytestmark = pytest.mark.standin_only

LEASE_HTML = "<html><body>please log in</body></html>"

# What the host agent meets while the DPU goes on renewing. Each must be survived for longer than
# the lease lasts without a NotReady.
FAULTS = {
    "500": {"action": "status", "code": 500, "reason": "InternalError"},
    "503 with Retry-After": {"action": "status", "code": 503, "retryAfter": 1},
    "429 with Retry-After": {
        "action": "status",
        "code": 429,
        "reason": "TooManyRequests",
        "retryAfter": 30,
    },
    "504": {"action": "status", "code": 504, "reason": "Timeout"},
    "400": {"action": "status", "code": 400, "reason": "BadRequest"},
    "302": {"action": "status", "code": 302},
    "hang": {"action": "hang"},
    "closed without an answer": {"action": "cut"},
    "cut in the body": {"action": "cut", "bytes": 40},
    "one byte at a time": {"action": "slow", "ms": 300},
    "truncated JSON": {"action": "answer", "body": '{"kind":"Lease'},
    "HTML": {"action": "answer", "contentType": "text/html", "body": LEASE_HTML},
    "empty body": {"action": "answer", "body": ""},
    "deep nesting": {"action": "answer", "body": "[" * 100000},
    "too large": {"action": "answer", "body": '{"kind":"', "fill": 3 << 20},
    "another kind": {"action": "answer", "body": '{"kind":"Table","apiVersion":"meta.k8s.io/v1"}'},
    "another lease": {
        "action": "answer",
        "body": json.dumps(
            {
                "kind": "LeaseList",
                "apiVersion": "coordination.k8s.io/v1",
                "metadata": {"resourceVersion": "1"},
                "items": [
                    {
                        "metadata": {
                            "name": "other",
                            "namespace": "other",
                            "uid": "u",
                            "resourceVersion": "1",
                        },
                        "spec": {"holderIdentity": "ovnkube-dpu-node"},
                    }
                ],
            }
        ),
    },
}


def strike(standin, fault, **more):
    """The fault for everything the host asks, its open connections ended. What disturbs a body
    has no meaning for a watch: that is closed instead."""
    standin.fault("cut", verb="watch", user="host")
    standin.fault(user="host", resource=None, **fault, **more)
    standin.watches("cut", user="host")


@pytest.mark.parametrize("name", FAULTS)
def test_what_the_host_cannot_read_does_not_condemn(world, target, name):
    host, _ = world.both()
    world.wait_renewals()
    strike(target.standin, FAULTS[name])
    never(
        lambda: world.state() == "NotReady" and world.record(), world.duration_s * 1.6, "NotReady"
    )
    seen = world.wait_verdict("Unknown/ApiServerUnreachable")
    assert seen["admit"] is True
    assert world.gate.status().ok and world.gate.add().ok
    host_requests = len(target.standin.audit(user="host"))
    assert host_requests < 120, "requests must be paced"
    target.standin.clear_faults()
    target.standin.drop_connections()
    world.wait_verdict("Ready/LeaseRenewed", 30)
    world.never_state("NotReady", 0.5)
    assert host.is_running()


def test_a_refused_connection_on_both_sides_does_not_condemn(world, target):
    host, dpu = world.both()
    target.standin.refuse()
    world.never_state("NotReady", world.duration_s * 1.5)
    world.wait_verdict("Unknown/ApiServerUnreachable")
    assert world.gate.status().ok
    target.standin.accept()
    # Both come back at their own pace; the host does not hold the silence against the DPU.
    end = time.monotonic() + 30
    while world.verdict() != "Ready/LeaseRenewed":
        assert world.state() != "NotReady", world.record()
        assert time.monotonic() < end, world.record()
        time.sleep(0.005)
    assert host.is_running() and dpu.is_running()


def test_a_half_open_connection_does_not_condemn(world, target):
    """All connections of now fall silent for good; new ones work."""
    world.both()
    world.wait_renewals()
    target.standin.freeze_connections()
    world.never_state("NotReady", world.duration_s * 1.5)
    world.wait_renewals(2)
    assert world.state() == "Ready"


def test_a_brief_outage_is_not_even_noticed(world, target):
    world.both()
    for _ in range(3):
        target.standin.refuse()
        time.sleep(0.2)
        target.standin.accept()
        never(lambda: world.state() != "Ready" and world.record(), 0.5, "not ready")
    world.wait_renewals(1)


def test_a_dpu_that_died_in_the_outage_is_found_soon_after_it(world, target):
    _, dpu = world.both()
    target.standin.refuse()
    dpu.kill()
    world.wait_verdict("Unknown/ApiServerUnreachable")
    target.standin.accept()
    healed = time.monotonic()
    world.wait_verdict("NotReady/LeaseExpired", 30)
    # The grace is two intervals, at most the duration; the rest is the backoff of the retries.
    assert time.monotonic() - healed < 20


def test_the_hold_on_an_outage_can_be_bounded(world, target):
    world.host(api_outage_hold="1s")
    world.dpu()
    world.wait_state("Ready")
    target.standin.refuse()
    held = world.wait_verdict("Unknown/ApiServerUnreachable")
    assert held["admit"] is True
    seen = world.wait_record(lambda r: not r["admit"], what="the hold ends")
    assert seen.verdict() == "Unknown/ApiServerUnreachable"
    assert "--api-outage-hold" in seen["message"]
    assert world.boottime_ns() - seen.observed_ns >= (world.duration_s + 1) * 1e9 - 5e7
    assert not world.gate.status().ok
    target.standin.accept()
    world.wait_state("Ready", 30)


def test_an_outage_at_the_start_is_awaited(world, target):
    target.standin.refuse()
    host = world.host()
    dpu = world.dpu()
    seen = world.wait_verdict("Unknown/AwaitingFirstRenewal")
    never(lambda: world.verdict() != "Unknown/AwaitingFirstRenewal", world.duration_s * 1.2)
    assert "cannot be read" in world.wait_record(lambda r: "cannot" in r["message"])["message"]
    assert seen["admit"] is False
    target.standin.accept()
    world.wait_state("Ready", 30)
    assert host.is_running() and dpu.is_running()


def test_a_dead_dpu_stays_not_ready_through_an_outage(world, target):
    _, dpu = world.both()
    dpu.kill()
    world.wait_state("NotReady")
    target.standin.refuse()
    never(lambda: world.state() != "NotReady" and world.record(), 1.5, "anything but NotReady")
    target.standin.accept()
    never(lambda: world.state() != "NotReady" and world.record(), 1.5, "anything but NotReady")


def test_an_outage_does_not_flood_the_log_or_the_server(world, target):
    host, dpu = world.both()
    target.standin.refuse()
    time.sleep(3)
    loud = [
        line
        for process in (host, dpu)
        for line in process.lines()
        if line.get("level") in ("warn", "error")
    ]
    assert len(loud) < 12, loud
    target.standin.accept()
    world.wait_state("Ready", 30)


def test_a_restarted_server_is_not_stormed(world, target):
    """Six pairs come back at their own pace, each with a handful of requests."""
    hosts = []
    for number in range(6):
        name = f"lease-{number}"
        path = f"{world.directory}/run-{number}/readiness.json"
        hosts.append(path)
        world.host(lease_name=name, readiness_file=path)
        world.dpu(lease_name=name)

    def states():
        return {(seen := record.read(path)) and seen.state for path in hosts}

    until(lambda: states() == {"Ready"}, 30, lambda: f"all ready: {states()}")
    target.standin.refuse()
    time.sleep(0.5)
    target.standin.count_anew()
    target.standin.accept()
    never(lambda: "NotReady" in states(), world.duration_s * 1.5, "NotReady")
    until(lambda: states() == {"Ready"}, 30, lambda: f"all ready: {states()}")
    requests = target.standin.requests()
    assert requests.get("host list leases 200", 0) <= 2 * len(hosts), requests
    assert sum(n for k, n in requests.items() if k.startswith("host ")) <= 6 * len(hosts), requests


@pytest.mark.parametrize("agent", ["host", "dpu"])
def test_a_long_disturbance_leaks_no_descriptor_or_memory(world, target, agent):
    host, dpu = world.both()
    process = host if agent == "host" else dpu
    world.wait_renewals(5)
    fds, rss = process.open_fds(), process.rss_kib()
    for _ in range(10):
        target.standin.drop_connections()
        world.wait_renewals(1)
    target.standin.fault("cut", user=agent, resource=None, count=20)
    world.wait_renewals(3, 30)
    until(lambda: process.open_fds() <= fds + 3, SOON_S, lambda: f"{process.open_fds()} <= {fds}+3")
    assert process.rss_kib() < rss + 8192


def test_a_dead_dpu_is_found_by_reads_that_take_longer_than_their_time(world, target):
    """As where the name server that is asked first does not answer."""
    _, dpu = world.both()
    world.wait_renewals()
    target.standin.fault("delay", verb="get", user="host", ms=600)
    dpu.kill()
    world.wait_verdict("NotReady/LeaseExpired", 10)


@pytest.mark.parametrize("offset_s", [3600, 250_000_000_000], ids=["an hour", "the year 9948"])
def test_a_clock_skew_of_the_server_is_reported_and_judges_nothing(world, target, offset_s):
    target.standin.control("POST", "/clock", {"offsetSeconds": offset_s})
    host, _ = world.both()
    host.wait_log(SOON_S, msg="clock")
    assert Page(host).metrics()["dpu_heartbeat_api_server_clock_skew_seconds"] > 3500
    world.never_state("NotReady", 1.0)


def test_a_name_server_that_says_nothing_does_not_hold_up_the_agent(world, tmp_path):
    """It goes on writing its record while names are being asked for, and leaves when asked."""
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig.dump("https://api.example.test:6443"))
    host = world.host(kubeconfig=path, wrapper=silent_dns(tmp_path))
    world.wait_verdict("Unknown/AwaitingFirstRenewal")
    last, longest = time.monotonic(), 0
    stamp = os.stat(world.readiness_file).st_mtime_ns
    end = last + 8
    while time.monotonic() < end:
        now, seen = time.monotonic(), os.stat(world.readiness_file).st_mtime_ns
        if seen != stamp:
            last, stamp = now, seen
        longest = max(longest, now - last)
        time.sleep(0.02)
    assert longest < 3, f"the record was not written for {longest:.1f} s"
    began = time.monotonic()
    host.stop()
    assert time.monotonic() - began < 4
