# SPDX-License-Identifier: Apache-2.0
"""The host agent's own failures must neither take the node down nor vouch for it for ever."""

import signal
import time

import pytest
from dpu_testing.kube import micro_time
from dpu_testing.wait import until
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
