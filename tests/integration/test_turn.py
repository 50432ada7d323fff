# SPDX-License-Identifier: Apache-2.0
"""Two host agents on one node, as in a rolling update: one writes the record, one waits for its lock."""

import socket
import time

import pytest
from dpu_testing.process import clean_env
from dpu_testing.wait import never, until
from test_http import Page
from world import SOON_S


def waits(host):
    return host.wait_log(SOON_S, mod="record", msg="waiting until it ends")


def wait_writer(world, host, timeout_s=SOON_S):
    return world.wait_record(lambda r: r["pid"] == host.pid, timeout_s, "the other one writes")


def never_refused(world, during_s):
    never(lambda: not world.gate.status().ok, during_s, "a refusal", every_s=0.05)


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
    wait_writer(world, new)
    assert time.monotonic() - started < 3  # a quarter of a second and the machine's load
    never_refused(world, world.duration_s * 1.5)
    assert world.state() == "Ready"
    assert world.record()["transitionTime"] == before
    page = Page(new)
    said = new.lines(mod="http", msg="serving")[-1]["msg"]  # a port of its own
    page.port = int(said.rsplit(" ", 1)[1])
    assert "the DPU is Ready" in page.get("/readyz")


def test_the_one_that_waits_is_ready_to_systemd_and_ends_when_told(world, tmp_path):
    world.both()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(SOON_S)
        env = clean_env(NOTIFY_SOCKET=str(tmp_path / "notify"))
        new = world.host(env=env)
        assert b"READY=1" in listener.recv(4096)
    assert new.stop() == 0


@pytest.fixture
def turn(world):
    """One that writes and one that waits, with a short hold. Returns (old, new, dpu)."""
    old = world.host(stale_hold="3s")
    dpu = world.dpu()
    world.wait_state("Ready")
    new = world.host(stale_hold="3s")
    waits(new)
    return old, new, dpu


def test_a_frozen_writer_is_replaced_before_its_record_is_no_longer_held(world, turn):
    old, new, dpu = turn
    old.pause()
    hold_until = world.record()["holdUntilBoottimeNs"]
    wait_writer(world, new)
    assert world.boottime_ns() < hold_until
    assert len(new.lines(mod="record", level="warn")) == 1
    never_refused(world, world.duration_s / 2)
    pids = set()
    old.resume()
    until(lambda: pids.add(world.record()["pid"]) or not old.is_running(), SOON_S, "it yields")
    assert old.wait() == 1
    assert pids == {new.pid}
    dpu.kill()
    world.wait_state("NotReady")


def test_one_that_waits_and_was_frozen_itself_accuses_no_writer(world, turn):
    """The writer stood still for longer than that is forgiven, but nobody looked on."""
    old, new, _ = turn
    old.pause()
    until(lambda: world.boottime_ns() > world.record()["writerUntilBoottimeNs"], SOON_S, "overdue")
    new.pause()
    time.sleep(2)
    new.resume()
    old.resume()
    world.wait_renewals()
    never(lambda: world.record()["pid"] != old.pid, 1, "another writer")
