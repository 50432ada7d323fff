# SPDX-License-Identifier: Apache-2.0
"""The readers of docs/readers, beside dpu-gate: a program that begins as one of them reads the record as dpu-gate does."""

import os
import re
import subprocess

import pytest
from gate_support import Bench
from test_gate import EXPIRED, REFUSED

READERS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "readers")

pytestmark = pytest.mark.standin_only  # no API server here


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    program = str(tmp_path_factory.mktemp("reader") / "reader")
    source = os.path.join(READERS, "reader.c")
    subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", program, source, "-ljansson"], check=True)
    return [[program], ["/usr/bin/python3", os.path.join(READERS, "reader.py")]]


@pytest.fixture
def bench(binaries, tmp_path):
    return Bench(binaries, tmp_path)


def said_by(reader, path):
    done = subprocess.run([*reader, path], capture_output=True, text=True, check=False)
    verdict, state, reason = done.stdout.split()
    assert (verdict == "admit") == (done.returncode == 0), done
    return verdict, state, reason


def torn(bench):
    bench.record()
    with open(bench.readiness_file, "r+b") as file:
        file.write(b'{"version":7')


def another_boot(bench):
    bench.record("boot-id=0b8f2a5e-5d1e-4f0a-9f53-3f2c5a1d7e90")


def others_may_write(bench):
    bench.record()
    os.chmod(bench.readiness_file, 0o666)


def a_directory(bench):
    os.mkdir(bench.readiness_file)


def large(bench):
    bench.write(b" " * (65 << 10))


CASES = {
    **{name: settings for name, (settings, _) in REFUSED.items()},
    "Ready": [],
    "held": ["state=Unknown", "admit=true", "reason=ApiServerUnreachable", "observed=-900"],
    "overdue": [*EXPIRED, "writer=-4", "hold=100"],
    "of a newer writer": ["reason=SomethingNew"],
    "torn": torn,
    "another boot": another_boot,
    "others may write it": others_may_write,
    "a directory": a_directory,
    "too large": large,
}


@pytest.mark.parametrize("name", CASES)
def test_a_reader_decides_as_the_gate_does(bench, readers, name):
    settings = CASES[name]
    if callable(settings):
        settings(bench)
    elif settings is not None:
        bench.record(*settings)
    reply = bench.call("STATUS")
    for reader in readers:
        verdict, state, reason = said_by(reader, bench.readiness_file)
        assert (verdict == "admit") == (reply.status == 0), (reader, reply)
        if reply.status != 0:
            assert re.match(r"reason (\w+)", reply.details).group(1) == reason, (reader, reply)
        is_unknown = name in ("held", "overdue", "Unknown", "stale") or reason.startswith("Record")
        assert (state == "Unknown") == is_unknown, (reader, state)
