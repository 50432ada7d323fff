# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out, at the first allocation or on a steady day, ends a program with one sentence,
and whatever it has written is legal."""

import os
import random
import subprocess

import pytest
from dpu_testing import record
from dpu_testing.process import clean_env

pytestmark = [pytest.mark.standin_only, pytest.mark.plain]

SAMPLES = 6
SENTENCE = "out of memory: raise the memory limit of this process"


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


def judge(status, said, nth, failure=1):
    """A library of the system's may do without what it asked for; ours end the program."""
    assert status in (0, failure), f"allocation {nth}: status {status}: {said}"
    assert status == 0 or said.strip(), f"allocation {nth}: ended without a word"
    assert said.count(SENTENCE) <= 1, said
    return SENTENCE in said


@pytest.mark.parametrize("agent", ["host", "dpu"])
def test_an_agent_without_memory_ends_with_a_sentence(world, target, tmp_path, preload, agent):
    other = world.dpu() if agent == "host" else world.host()
    count_file = tmp_path / "count"
    calm = live(world, agent, {"LD_PRELOAD": preload, "FAIL_MALLOC_COUNT": count_file}, 1.5)
    assert calm.popen.returncode == 0, calm.tail()
    total = int(count_file.read_text())
    draw = random.Random(agent)
    ended = 0
    # Most of the start is OpenSSL's, which does without.
    for nth in sorted(draw.sample(range(2 * total // 3, total), SAMPLES)):
        process = live(world, agent, {"LD_PRELOAD": preload, "FAIL_MALLOC_NTH": nth}, 1.5)
        ended += judge(process.popen.returncode, process.text(), nth)
        if os.path.exists(world.readiness_file):
            assert record.read(world.readiness_file), f"allocation {nth}"
    assert ended > 0
    assert other.is_running()


def test_dpuctl_without_memory_ends_with_a_sentence(binaries, tmp_path, preload):
    def run(**env):
        command = [binaries.path("dpuctl"), "status", "--root", str(tmp_path), "--output=json"]
        env = clean_env(LD_PRELOAD=preload, **env)
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    count_file = tmp_path / "count"
    calm, _ = run(FAIL_MALLOC_COUNT=count_file)
    assert calm == 2  # there is no record
    total = int(count_file.read_text())
    ended = 0
    # Most of the start is OpenSSL's, which does without.
    for nth in sorted(random.Random("dpuctl").sample(range(total - 80, total), SAMPLES)):
        status, said = run(FAIL_MALLOC_NTH=nth)
        if status != calm:
            ended += judge(status, said, nth, failure=71)
    assert ended > 0
