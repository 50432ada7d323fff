# SPDX-License-Identifier: Apache-2.0
"""Which case notices which mutant: a case that notices only what others notice as well may be one
too many. A case of a documented rule or of a known fault stays all the same."""

import os
import re
import subprocess
import tempfile
from collections import defaultdict

from build import LIMITS, SLOWEST_S, put

RUN = re.compile(r"^\[ RUN +\] (\w+)", re.MULTILINE)
FAILED = re.compile(r"^\[ +(?:FAILED|ERROR) +\] (\w+)\s*$", re.MULTILINE)
ENDS_OF_ONE_PROGRAM = 12  # a mutant may crash or hang in so many of its cases


def _output(program, skip, cwd, timeout_s):
    """(what it printed, whether it came to its end)."""
    environment = dict(os.environ, CASES_SKIP=",".join(sorted(skip)))
    try:
        done = subprocess.run(LIMITS + [program], cwd=cwd, env=environment, capture_output=True,
                              timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"") + b"\n" + (late.stderr or b""), False
    return done.stdout + b"\n" + done.stderr, done.returncode >= 0


def killers(program, cwd, timeout_s):
    """The cases of a program that fail, those behind a crash or a case that hangs included."""
    found, skip = set(), set()
    for _ in range(ENDS_OF_ONE_PROGRAM):
        out, ended = _output(program, skip, cwd, timeout_s)
        text = out.decode(errors="replace")
        begun = RUN.findall(text)
        found |= set(FAILED.findall(text)) & set(begun)
        if ended or not begun:
            break
        found.add(begun[-1])
        skip |= set(begun)
    return found


def row(build, mutant, scratch):
    """{(test, case)} that notice the mutant; None if it does not compile."""
    with tempfile.TemporaryDirectory(dir=scratch) as place:
        put(place, mutant.path, mutant.source)
        changed = os.path.join(place, "changed.o")
        if not build.compile(mutant.path, place, changed, quick=True):
            return None
        seen = set()
        program = os.path.join(place, "test")
        for test in build.tests_of(mutant.path):
            if test.runs == [[]] and build.link(test, mutant.path, place, changed, program):
                names = killers(program, place, max(SLOWEST_S, 3 * test.seconds))
                seen |= {(test.name, name) for name in names}
        return seen


def _droppable(rows):
    """The cases without which each mutant is still noticed, the weakest first."""
    kills = defaultdict(set)
    for number, seen in enumerate(rows):
        for case in seen:
            kills[case].add(number)
    left = [len(seen) for seen in rows]
    drop = set()
    for case in sorted(kills, key=lambda case: (len(kills[case]), case)):
        if all(left[number] > 1 for number in kills[case]):
            drop.add(case)
            for number in kills[case]:
                left[number] -= 1
    return drop, kills


def report(build, tests, rows):
    """Prints, for each test, the cases that notice nothing that others do not."""
    rows = [seen for seen in rows if seen]
    drop, kills = _droppable(rows)
    print(f"{len(rows)} mutants were noticed, by {len(kills)} cases; without those below each of "
          "them still is")
    spare = 0
    for test in sorted(tests, key=lambda test: test.name):
        out, _ = _output(test.program, set(), build.directory, 120)
        names = RUN.findall(out.decode(errors="replace"))
        idle = [name for name in names if (test.name, name) not in kills]
        twice = [name for name in names if (test.name, name) in drop]
        spare += len(idle) + len(twice)
        print(f"{test.name}: {len(names)} cases")
        for name in idle:
            print(f"   notices nothing    {name}")
        for name in twice:
            print(f"   others notice, too {name} ({len(kills[(test.name, name)])})")
    print(f"{spare} cases; a case stays that alone stands for a rule, a known fault or a claim of "
          "the docs")
    return bool(rows)
