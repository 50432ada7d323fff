# SPDX-License-Identifier: Apache-2.0
"""Evidence, not silence: an API server that cannot be read is no proof against the DPU."""

import json
import os
import time

import pytest
from dpu_testing import kubeconfig, record
from dpu_testing.names import asking_nobody
from dpu_testing.wait import never, until
from front import Front
from test_http import Page
from world import SOON_S

pytestmark = pytest.mark.standin_only

LEASE_HTML = "<html><body>please log in</body></html>"
META = {"name": "other", "namespace": "other", "uid": "u", "resourceVersion": "1"}
ANOTHER_LEASE = {
    "kind": "LeaseList",
    "apiVersion": "coordination.k8s.io/v1",
    "metadata": {"resourceVersion": "1"},
    "items": [{"metadata": META, "spec": {"holderIdentity": "ovnkube-dpu-node"}}],
}
READS = ["get", "list"]

# What the host agent meets while the DPU goes on renewing: each for one read, the last for all that
# it asks, and together for longer than the lease lasts.
FAULTS = {
    "statuses": [
        *({"action": "status", "code": code} for code in (500, 504, 400, 302)),
        {"action": "status", "code": 503, "retryAfter": 1},
        {"action": "status", "code": 429, "reason": "TooManyRequests", "retryAfter": 30},
    ],
    "transport": [
        {"action": "cut"},
        {"action": "cut", "bytes": 40},
        {"action": "slow", "ms": 300},
        {"action": "hang"},
    ],
    "content": [
        {"action": "answer", "body": '{"kind":"Lease'},
        {"action": "answer", "body": LEASE_HTML, "contentType": "text/html"},
        {"action": "answer", "body": ""},
        {"action": "answer", "body": "[" * 100000},
        {"action": "answer", "body": '{"kind":"' + "x" * (3 << 20)},
        {"action": "answer", "body": '{"kind":"Table","apiVersion":"meta.k8s.io/v1"}'},
        {"action": "answer", "body": json.dumps(ANOTHER_LEASE)},
    ],
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_the_host_cannot_read_does_not_condemn(world, target, name):
    host, _ = world.both()
    standin = target.standin
    *first, last = FAULTS[name]
    for fault in first:
        standin.fault(user="host", resource="leases", verb=READS, count=1, **fault)
    standin.fault(user="host", resource=None, **last)
    standin.watches("cut", user="host")

    limit = time.monotonic() + world.duration_s * 1.6
    while 0 in standin.hits() or time.monotonic() < limit:
        assert world.state() != "NotReady", world.record()
        assert time.monotonic() < limit + SOON_S, standin.hits()
        time.sleep(0.02)
    seen = world.wait_verdict("Unknown/ApiServerUnreachable")
    assert seen["admit"] is True
    assert world.gate.status().ok and world.gate.add().ok
    assert len(standin.audit(user="host")) < 120, "requests must be paced"
    standin.clear_faults()
    standin.drop_connections()
    world.ready_again()
    assert host.is_running()


def test_a_dpu_whose_requests_are_slow_gets_its_retry_after_an_outage(world, target):
    """The host's requests are fast: its marks must not overtake each renewal of a slow DPU."""
    world.interval_ms = 1000
    world.duration_s = 4
    world.both()
    standin = target.standin
    standin.fault("delay", user="dpu", ms=800)
    time.sleep(2)
    for beyond_s in (1.6, 1.9):
        writes = ["create", "update", "patch"]
        standin.clear_faults()  # the first that matches counts
        standin.fault("status", resource=None, verb=writes, code=500, reason="InternalError")
        world.wait_verdict("Unknown/ApiServerNotWriting")
        time.sleep(beyond_s)
        standin.clear_faults()
        standin.fault("delay", user="dpu", ms=800)
        seen = []
        until(
            lambda: seen.append(world.state()) or seen[-1] in ("Ready", "NotReady"),
            SOON_S,
            "a renewal, or a verdict against the DPU",
        )
        assert seen[-1] == "Ready", (beyond_s, world.record())


def test_a_second_outage_in_the_time_of_a_retry_does_not_condemn(world, target):
    """The host asks by trials whether the DPU's retry meets a server that takes writes."""
    world.interval_ms, world.duration_s = 1000, 4
    retry_s = 5
    world.both()
    standin = target.standin
    no_writes = {"verb": ["create", "update", "patch"], "code": 500, "reason": "InternalError"}
    standin.fault("status", resource=None, **no_writes)
    world.wait_verdict("Unknown/ApiServerNotWriting")
    standin.clear_faults()
    standin.fault("status", user="dpu", **no_writes)  # it has not found the way back yet
    until(lambda: "has time for one retry" in world.record()["message"], SOON_S, "a grant")
    granted = time.monotonic()
    standin.clear_faults()
    standin.fault("status", resource=None, **no_writes)
    until(lambda: "could not tell" in world.record()["message"], SOON_S, "a trial that fails")
    time.sleep(max(0, granted + retry_s - 1 - time.monotonic()))
    standin.clear_faults()
    standin.fault("status", user="dpu", **no_writes)
    world.never_state("NotReady", 3)
    standin.clear_faults()
    world.ready_again()


def test_writes_that_hang_are_named_and_condemn_nobody(world, target):
    """A webhook on leases, or a proxy, that never answers a write; reads are answered all the while."""
    world.interval_ms, world.duration_s = 1000, 4
    world.both()
    target.standin.fault("hang", verb=["create", "update", "patch"])
    seen = world.wait_verdict("Unknown/ApiServerNotWriting")
    assert "does not answer the host's writes" in seen["message"] and seen["admit"] is True
    world.never_state("NotReady", world.duration_s * 2)
    target.standin.clear_faults()
    world.ready_again()


def test_a_half_open_connection_does_not_condemn(world, target):
    """All connections of now fall silent for good; new ones work."""
    world.both()
    target.standin.freeze_connections()
    world.never_state("NotReady", world.duration_s * 1.5)
    world.wait_renewals(2)
    assert world.state() == "Ready"


def test_a_restarted_server_is_not_stormed(world, target):
    """Six pairs come back at their own pace, each with a handful of requests."""
    world.interval_ms, world.duration_s = 1000, 5  # a busy machine makes few renewals late by half of it
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
    never(lambda: "NotReady" in states(), 3, "NotReady")
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


def test_a_clock_skew_of_the_server_is_reported_and_judges_nothing(world, target):
    target.standin.control("clock", 250_000_000_000)  # the year 9948
    host, _ = world.both()
    host.wait_log(SOON_S, msg="clock")
    assert Page(host).metrics()["dpu_heartbeat_api_server_clock_skew_seconds"] > 3500
    world.stays_ready()


@pytest.mark.by_name
def test_a_name_server_that_says_nothing_does_not_hold_up_the_agent(world, tmp_path):
    """It goes on writing its record while names are being asked for, and leaves when asked."""
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig.dump("https://api.example.test:6443"))
    host = world.host(kubeconfig=path, wrapper=asking_nobody(tmp_path))
    world.wait_verdict("Unknown/AwaitingFirstRenewal")
    last, longest = time.monotonic(), 0
    stamp = os.stat(world.readiness_file).st_mtime_ns
    end = last + 5
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


def test_a_hanging_server_neither_condemns_nor_holds_for_ever(world, target):
    hold_s = 3
    world.host(api_outage_hold=f"{hold_s}s")
    world.dpu()
    world.wait_state("Ready")
    target.standin.fault("hang", user="host", resource=None)
    target.standin.freeze_connections()
    end = time.monotonic() + world.duration_s + hold_s - 0.5
    while time.monotonic() < end:
        assert world.state() != "NotReady", world.record()
        assert "was stopped" not in world.record()["message"]
        time.sleep(0.01)
    world.wait_record(lambda r: r["admit"] is False, 3, "the end of the hold")
    assert world.verdict() == "Unknown/ApiServerUnreachable"


# Watches that are denied, and their connections.

LEFT_S = 16  # a watch takes no connection that was idle for so long (kube_client.c)


def test_a_denied_watch_costs_one_read_per_interval(world, target):
    world.interval_ms, world.duration_s = 1000, 4
    world.both()
    world.wait_renewals(2)  # past the marks of a start, which may meet conflicts
    target.without_right("host", ["watch", "list"])
    target.standin.watches("cut", user="host")
    until(lambda: target.standin.audit(user="host", code=403), SOON_S, "a denial")
    started_ns = world.boottime_ns()
    world.never_state("NotReady", 3.5)
    entries = target.standin.audit(user="host", verb="get", name=target.lease_name())
    reads = [entry for entry in entries if entry["bootNs"] > started_ns]
    assert 2 <= len(reads) <= 4, len(reads)


def test_a_lease_that_is_gone_is_made_anew_at_once_where_the_watch_is_denied(world, target):
    target.without_right("host", ["watch", "list"])
    world.both()
    world.wait_renewals(5)
    gone_ns = world.boottime_ns()
    target.admin.delete(f"{target.leases_path()}/{target.lease_name()}")
    until(target.lease, SOON_S, "the lease is there again")
    assert (world.boottime_ns() - gone_ns) / 1e9 < 1.2
    world.never_state("NotReady", 1)


def test_a_watch_goes_on_over_a_connection_just_left(world, target, tmp_path):
    front = Front(target.standin.url)
    world.dpu()
    world.host(kubeconfig=front.kubeconfig(tmp_path, "host"))
    until(lambda: front.is_asked("/events"), SOON_S, lambda: str(front.asked))
    for action in ("expire", "end"):
        connections, watches = len(front.asked), str(front.asked).count("watch=true")
        target.standin.watches(action)
        until(lambda n=watches: str(front.asked).count("watch=true") > n, SOON_S, front.watches)
        assert len(front.asked) == connections
    front.close()


def test_a_watch_does_not_go_on_over_a_connection_that_was_idle_for_long(world, target, tmp_path):
    """It may be half open, and a watch on it would be silent. A watch that ends in order leaves its own."""
    front = Front(target.standin.url)
    world.interval_ms, world.duration_s = 25000, 75  # nothing else is asked for in the meantime
    world.dpu()
    world.host(kubeconfig=front.kubeconfig(tmp_path, "host"))
    world.wait_state("Ready")
    until(lambda: front.is_asked("/events"), SOON_S, lambda: str(front.asked))
    time.sleep(LEFT_S + 1)
    asked = [len(lines) for lines in front.asked]
    target.standin.watches("cut")
    until(lambda: front.watches(len(asked)), SOON_S, lambda: str(front.asked[len(asked) :]))
    assert [len(lines) for lines in front.asked[: len(asked)]] == asked
    front.close()
