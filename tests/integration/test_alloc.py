# SPDX-License-Identifier: Apache-2.0
"""Each allocation may fail, from the first to those of a steady day: an agent goes on or ends with a
sentence, and whatever it writes is legal."""

import os
import random

import pytest
from dpu_testing import record
from dpu_testing.process import clean_env

pytestmark = [pytest.mark.standin_only, pytest.mark.plain]

SAMPLES = 24


@pytest.fixture
def preload(binaries):
    """The library, where it can be put under the programs: sanitizers bring their own malloc."""
    path = binaries.path("libfail_malloc.so")
    with open(binaries.path("dpu-host-agent"), "rb") as program:
        if b"libasan" in program.read():
            pytest.skip("the address sanitizer has its own allocator")
    return path


def live(world, agent, env, seconds):
    """Starts the agent so, and lets it live. Returns it ended."""
    process = getattr(world, agent)(env=clean_env(**env))
    world.processes.remove(process)  # how it ends is judged here
    try:
        process.popen.wait(seconds)
    except Exception:
        process.stop()
    return process


@pytest.mark.parametrize("agent", ["host", "dpu"])
def test_any_allocation_may_fail(world, target, tmp_path, preload, agent):
    other = world.dpu() if agent == "host" else world.host()
    count_file = tmp_path / "count"
    calm = live(world, agent, {"LD_PRELOAD": preload, "FAIL_MALLOC_COUNT": count_file}, 2.5)
    assert calm.popen.returncode == 0, calm.tail()
    total = int(count_file.read_text())
    draw = random.Random(agent)
    # The start is a chain of constructors; what comes after repeats itself.
    for nth in sorted(draw.sample(range(1, total), SAMPLES)):
        process = live(world, agent, {"LD_PRELOAD": preload, "FAIL_MALLOC_NTH": nth}, 1.5)
        status = process.popen.returncode
        assert status >= 0, f"allocation {nth} of {total}: signal {-status}: {process.tail()}"
        assert status == 0 or process.text().strip(), f"allocation {nth}: ended without a word"
        if os.path.exists(world.readiness_file):
            assert record.read(world.readiness_file), f"allocation {nth}"
    assert other.is_running()
