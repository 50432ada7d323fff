# SPDX-License-Identifier: Apache-2.0
"""The gate's answer in time, systemd's view of a start, the demo."""

import os
import socket
import statistics

from dpu_testing.process import clean_env
from target import RealTarget
from world import SOON_S


def test_a_refused_add_takes_milliseconds(world):
    world.host()
    world.wait_record(lambda _: True)
    times = [world.gate.add().ms for _ in range(30)]
    assert statistics.median(times) < 250, times  # asan and a busy machine included


def test_systemd_hears_of_the_first_verdict_and_does_not_wait_for_the_first_renewal(world, tmp_path):
    def listener(name):
        built = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        built.bind(str(tmp_path / name))
        built.settimeout(SOON_S)
        return built, clean_env(NOTIFY_SOCKET=tmp_path / name)

    def wait_told(manager, words):
        while words not in (told := manager.recv(4096).decode()):
            pass
        return told

    managers = [listener(name) for name in ("dpu", "host")]
    world.dpu(env=managers[0][1])
    assert "STATUS=not yet renewed" in wait_told(managers[0][0], "READY=1")
    host = world.host(env=managers[1][1])  # makes the lease
    wait_told(managers[1][0], "READY=1")
    assert os.path.exists(world.readiness_file), "the record comes first"
    wait_told(managers[0][0], "STATUS=renewing")
    assert host.stop() == 0
    wait_told(managers[1][0], "STOPPING=1")
    for manager, _ in managers:
        manager.close()


def test_the_demo_tells_its_story(binaries, target):
    from dpu_testing.binaries import ROOT
    from dpu_testing.process import run

    demo = ["/usr/bin/python3", f"{ROOT}/tests/demo/demo.py", "--fast", "--bin-dir", binaries.directory]
    if isinstance(target, RealTarget):
        demo += ["--kubeconfig", target.path, "--node-name", target.node]
    done = run(demo, timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9" in done.stdout and "ovn-controller dies" in done.stdout
