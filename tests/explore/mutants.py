#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/explore/mutants.py: builds the explorer as it is, and with each wrong of tests/explore/mutants.
It must find nothing in the first, and a failure, with its story, in each of the others."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutate"))
from operators import listed  # noqa: E402

RUN_S = 300
SOURCES = [
    *(f"host-agent/{name}.c" for name in ("asking", "evidence", "history", "mark", "verdict")),
    *(f"tests/explore/{name}.c" for name in ("canon", "explore", "judge", "server", "sides", "world")),
    *(f"common/base/{name}.c" for name in ("err", "json", "text", "time")),
    "dpu-agent/renewer.c",
    "common/kube/kube_core.c",
    "common/contract/readiness.c",
    "common/contract/record.c",
]
CC = [*os.environ.get("CMAKE_C_COMPILER_LAUNCHER", "").split(), os.environ.get("CC", "cc")]
FLAGS = ["-O2", "-std=gnu11", "-D_GNU_SOURCE", f"-I{ROOT}", f"-I{ROOT}/common"]


def compiled(source, out):
    subprocess.run([*CC, *FLAGS, "-c", source, "-o", out], check=True)
    return out


def linked(objects, out):
    subprocess.run([*CC, "-Wl,--wrap=prng_next", "-o", out, *objects], check=True)
    return out


def explore(program, schedule):
    """(exit status, what was printed): of a schedule, or of all with up to two faults."""
    command = ["replay", *schedule.split()] if schedule else ["run", "2", "12"]
    run = subprocess.run([program, *command], stdout=subprocess.PIPE, text=True, timeout=RUN_S, check=False)
    return run.returncode, run.stdout


def main():
    mutants = listed((ROOT / "tests/explore/mutants").read_text(), lambda path: (ROOT / path).read_text())
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        objects = {source: compiled(ROOT / source, os.path.join(folder, f"{i}.o"))
                   for i, source in enumerate(SOURCES)}
        as_it_is = linked(objects.values(), os.path.join(folder, "as-it-is"))
        for schedule in {mutant.name.partition("|")[2] for mutant in mutants}:
            status, story = explore(as_it_is, schedule)
            if status != 0:
                sys.exit(f"as it is, with status {status}:\n{story}")
        for number, mutant in enumerate(mutants):
            name, _, schedule = mutant.name.partition("|")
            wrong = os.path.join(folder, "wrong.c")
            pathlib.Path(wrong).write_text(mutant.source)
            changed = objects | {mutant.path: compiled(wrong, os.path.join(folder, "wrong.o"))}
            status, story = explore(linked(changed.values(), os.path.join(folder, f"m{number}")), schedule)
            is_found = status == 1 and "WRONG: " in story
            print(f"{'found' if is_found else 'UNNOTICED'}: {name}", flush=True)
            unnoticed += not is_found
    sys.exit(unnoticed > 0)


main()
