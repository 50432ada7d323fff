# SPDX-License-Identifier: Apache-2.0
"""Lease to CNI: what a container runtime sees of it all."""

import os
import socket
import statistics
import subprocess

from dpu_testing.process import clean_env
from dpu_testing.wait import never, until
from target import RealTarget
from world import SANITIZER, SOON_S


def test_add_and_status_follow_the_dpu(world):
    status, add = world.gate.status(), world.gate.add()
    assert (status.code, add.code) == (50, 11), "no record yet"
    _, dpu = world.both()
    assert world.gate.status().ok
    add = world.gate.add()
    assert add.ok and '"eth0"' in add.stdout
    assert "ADD" in world.gate.calls()
    dpu.kill()
    until(lambda: not world.gate.status().ok, SOON_S, "STATUS fails")
    world.wait_state("NotReady")
    status, add = world.gate.status(), world.gate.add()
    assert status.code == 50 and status.msg.startswith("DPU Not Ready: "), status
    assert add.code == 11 and add.msg.startswith("DPU Not Ready: "), add
    assert world.record()["message"] in add.msg
    calls = len(world.gate.calls())
    assert world.gate.call("DEL").ok and world.gate.call("CHECK", prevResult={}).ok
    assert world.gate.calls()[calls:].count("DEL") == 1
    assert "ADD" not in world.gate.calls()[calls:]
    world.dpu()
    until(lambda: world.gate.status().ok, SOON_S, "STATUS passes")
    assert world.gate.add().ok


def test_cni_turns_exactly_when_the_lease_runs_out(world):
    """The reader flips on its own clock: neither early nor late."""
    _, dpu = world.both()
    world.wait_renewals()
    dpu.kill()
    until(lambda: world.boottime_ns() - world.record().observed_ns > 4e8, SOON_S, "quiet")
    deadline_ns = world.record().lease_until_ns
    asked_ns = world.boottime_ns()
    while world.gate.status().ok:
        assert asked_ns < deadline_ns + 1.5e9
        asked_ns = world.boottime_ns()
    assert world.boottime_ns() >= deadline_ns


def test_a_refused_add_takes_milliseconds(world):
    world.host()
    world.wait_record(lambda _: True)
    times = [world.gate.add().ms for _ in range(30)]
    assert statistics.median(times) < 250, times  # asan and a busy machine included


def test_an_outage_passes_cni_by(world, target):
    if not target.standin:
        return
    world.both()
    target.standin.refuse()
    never(lambda: not world.gate.status().ok, world.duration_s * 1.5, "STATUS fails")
    assert world.gate.add().ok


def listen(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(path)
    listener.settimeout(SOON_S)
    return listener


def test_systemd_does_not_wait_for_the_first_renewal(world, tmp_path):
    path = str(tmp_path / "notify")
    listener = listen(path)
    world.dpu(env=clean_env(**SANITIZER, NOTIFY_SOCKET=path))
    told = listener.recv(4096).decode()
    assert "READY=1" in told and "STATUS=not yet renewed" in told
    world.host()  # makes the lease
    while "STATUS=renewing" not in told:
        told = listener.recv(4096).decode()
    listener.close()


def test_systemd_is_told_once_the_first_verdict_is_published(world, tmp_path):
    path = str(tmp_path / "notify")
    listener = listen(path)
    host = world.host(env=clean_env(**SANITIZER, NOTIFY_SOCKET=path))
    told = listener.recv(4096).decode()
    while "READY=1" not in told:
        told = listener.recv(4096).decode()
    assert os.path.exists(world.readiness_file), "the record comes first"
    assert host.stop() == 0
    while "STOPPING=1" not in told:
        told = listener.recv(4096).decode()
    listener.close()


def test_many_callers_at_once_are_all_answered(world):
    world.both()
    answers = []
    for _ in range(5):
        callers = [
            subprocess.Popen(
                [world.gate.binary],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=clean_env(CNI_COMMAND="STATUS", CNI_PATH=world.gate.directory),
            )
            for _ in range(10)
        ]
        conf = (
            '{"cniVersion":"1.1.0","name":"n","type":"dpu-gate","readinessFile":"%s",'
            '"delegate":{"type":"test-delegate"}}' % world.readiness_file
        )
        for caller in callers:
            caller.communicate(conf.encode(), timeout=20)
            answers.append(caller.returncode)
    assert set(answers) == {0}


def test_the_demo_tells_its_story(binaries, target):
    from dpu_testing.binaries import ROOT
    from dpu_testing.process import run

    demo = ["/usr/bin/python3", f"{ROOT}/tests/demo/demo.py", "--fast", "--bin-dir", binaries.directory]
    if isinstance(target, RealTarget):
        demo += ["--kubeconfig", target.path, "--node-name", target.node]
    done = run(demo, timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9" in done.stdout and "ovn-controller dies" in done.stdout
