# SPDX-License-Identifier: Apache-2.0
"""The host agent's own failures, and its successor, must neither take the node down nor vouch for it for ever."""

import signal
import time

import pytest
from dpu_testing.kube import micro_time
from dpu_testing.wait import never, until
from test_http import Page
from world import SOON_S


def test_a_signal_ends_both_agents_at_once_and_the_last_word_stands(world):
    host, dpu = world.both()
    before = world.record()
    started = time.monotonic()
    dpu.signal(signal.SIGINT)
    assert (host.stop(), dpu.wait()) == (0, 0)
    assert time.monotonic() - started < 5
    after = world.record()
    assert (after.state, after["bootId"]) == ("Ready", before["bootId"])
    until(lambda: world.boottime_ns() > after["writerUntilBoottimeNs"], SOON_S, "its promise ends")
    assert world.gate.status().ok and world.gate.add().ok  # held


def test_a_dead_writer_vouches_only_for_the_stale_hold(world):
    world.host(stale_hold="1s")
    world.dpu()
    world.wait_state("Ready")
    world.processes[0].kill()
    assert world.gate.status().ok
    answer = until(
        lambda: not (a := world.gate.status()).ok and a, SOON_S, "STATUS fails after the hold"
    )
    assert answer.code == 50
    assert world.boottime_ns() >= world.record()["holdUntilBoottimeNs"]
    assert "dpu-host-agent" in answer.msg
    assert world.gate.add().code == 11


def test_a_starved_host_agent_never_accuses_the_dpu(world):
    """It runs for a few milliseconds now and then, as on a machine that has no CPU left."""
    host, _ = world.both()
    end = time.monotonic() + world.duration_s * 2
    while time.monotonic() < end:
        host.signal(signal.SIGSTOP)
        time.sleep(0.3)
        host.signal(signal.SIGCONT)
        time.sleep(0.02)
        assert world.state() != "NotReady", world.record()
        assert world.gate.status().ok, world.record()
    world.wait_renewals(2)


@pytest.mark.parametrize("change", ["recreated", "stepped back"])
def test_a_duration_that_shrank_over_a_restart_ends_nobody(world, target, change):
    """A long lease, well within it; then a short one, on a lease that tells nothing of before."""
    world.duration_s = 60
    world.interval_ms = 1000
    host, dpu = world.both()
    dpu.kill()
    host.kill()
    time.sleep(2.5)
    if change == "recreated":
        target.admin.delete(target.lease_path())
        target.new_lease()
    else:
        stamp = micro_time(time.time() - 3600)
        target.put_lease(lambda l: l["spec"].update(renewTime=stamp, leaseDurationSeconds=2))
    world.duration_s = 2
    host = world.host()
    world.wait_record(lambda r: r["pid"] == host.pid, what="the new agent writes")
    world.wait_state("NotReady")
    assert host.is_running()
    world.dpu()
    world.wait_state("Ready")


# Two host agents on one node, as in a rolling update: one writes the record, one waits for its lock.


def waits(host):
    return host.wait_log(SOON_S, mod="record", msg="waiting until it ends")


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_one_writes_and_the_other_takes_over_without_a_blip(world, how):
    old, _ = world.both()
    world.wait_renewals()
    before = world.record()["transitionTime"]
    new = world.host()
    waits(new)
    never(lambda: world.record()["pid"] != old.pid, 1, "two writers")
    getattr(old, how)()
    started = time.monotonic()
    world.wait_record(lambda r: r["pid"] == new.pid, what="the other one writes")
    assert time.monotonic() - started < 3  # a quarter of a second and the machine's load
    never(lambda: not world.gate.status().ok, world.duration_s * 1.5, "a refusal", every_s=0.05)
    assert world.state() == "Ready"
    assert world.record()["transitionTime"] == before
    assert "the DPU is Ready" in Page(new).get("/readyz")


def test_one_that_waits_and_was_frozen_itself_accuses_no_writer(world):
    """The writer stood still for longer than that is forgiven, but nobody looked on."""
    old = world.host(stale_hold="3s")
    world.dpu()
    world.wait_state("Ready")
    new = world.host(stale_hold="3s")
    waits(new)
    old.pause()
    until(lambda: world.boottime_ns() > world.record()["writerUntilBoottimeNs"], SOON_S, "overdue")
    new.pause()
    time.sleep(2)
    new.resume()
    old.resume()
    world.wait_renewals()
    never(lambda: world.record()["pid"] != old.pid, 1, "another writer")
