# SPDX-License-Identifier: Apache-2.0
"""The gate's answer in time, and the demo."""

import statistics

from dpu_testing.binaries import ROOT
from dpu_testing.process import run
from target import RealTarget


def test_a_refused_add_takes_milliseconds(world):
    world.host()
    world.wait_record(lambda _: True)
    times = [world.gate.add().ms for _ in range(30)]
    assert statistics.median(times) < 250, times  # asan and a busy machine included


def test_the_demo_tells_its_story(binaries, target):
    demo = ["/usr/bin/python3", f"{ROOT}/tests/demo/demo.py", "--fast", "--bin-dir", binaries.directory]
    if isinstance(target, RealTarget):
        demo += ["--kubeconfig", target.path, "--node-name", target.node]
    done = run(demo, timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9" in done.stdout and "ovn-controller dies" in done.stdout
