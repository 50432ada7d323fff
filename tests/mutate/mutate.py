#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Are the tests able to notice what is wrong? Changes one line at a time in what decides about
safety (tests/mutate/sources), runs the fast tests that contain it, and names the changes that none
of them noticed. First come the wrongs listed by hand (tests/mutate/safety), then a sample of those
that rules make (tests/mutate/operators.py)."""

import argparse
import concurrent.futures
import hashlib
import os
import re
import sys
import tempfile
import threading
import time

import matrix
from build import SLOWEST_S, Build, put, run
from operators import ListError, listed, mutants_of

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GOAL_PERCENT = 95
SCORES_SEED = 1  # of tests/mutate/scores, and the one by default
SLOWER = 10  # a test may take so many times longer before it counts as hanging

KILLED, SURVIVED, SAME, BROKEN = "killed", "survived", "same code", "does not compile"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def rows(text):
    return [line for line in text.split("\n") if line and not line.startswith("##")]


def explained():
    """[(what a mutant looks like, why it survives)] of tests/mutate/survivors."""
    found = []
    for row in rows(read("tests/mutate/survivors")):
        *like, why = row.split("\t")
        words = r"\t".join(".*".join(re.escape(part) for part in text.split("…")) for text in like)
        found.append((re.compile(words), why))
    return found


def why_it_survives(mutant, reasons):
    """None if nobody said why."""
    words = "\t".join((mutant.path, mutant.old, mutant.new))
    return next((why for like, why in reasons if like.fullmatch(words)), None)


class Memory:
    """What was found out before, by what was changed and what it was tried on: an interrupted run
    goes on where it was."""

    def __init__(self, path):
        self._path = path
        self._lock = threading.Lock()
        self._known = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self._known = dict(line.rstrip("\n").split("\t") for line in file if "\t" in line)

    def get(self, key):
        return self._known.get(key)

    def put(self, key, verdict):
        with self._lock, open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{key}\t{verdict}\n")


class Jury:
    def __init__(self, build, memory, scratch):
        self._build = build
        self._memory = memory
        self._scratch = scratch
        self._tests = {}

    def prepare(self, path):
        self._tests[path] = self._build.tests_of(path)

    def judge(self, mutant):
        tests = self._tests[mutant.path]
        words = mutant.path + mutant.source + "".join(sorted(test.digest for test in tests))
        key = hashlib.sha256(words.encode()).hexdigest()
        verdict = self._memory.get(key)
        if not verdict:
            with tempfile.TemporaryDirectory(dir=self._scratch) as place:
                verdict = self._try(mutant, tests, place)
            self._memory.put(key, verdict)
        return verdict

    def _try(self, mutant, tests, place):
        put(place, mutant.path, mutant.source)
        changed = os.path.join(place, "changed.o")
        if not self._build.compile(mutant.path, place, changed, quick=True):
            return BROKEN
        for test in tests:
            program = os.path.join(place, "test")
            if not self._build.link(test, mutant.path, place, changed, program):
                continue  # this test puts something of its own in place of the file
            for arguments in test.runs:
                if run([program, *arguments], place, max(SLOWEST_S, SLOWER * test.seconds)) != 0:
                    return KILLED
        return SAME if self._is_same(mutant, place) else SURVIVED

    def _is_same(self, mutant, place):
        """The compiler makes the same of it: no mutant at all."""
        objects = []
        for name, text in (("was", read(mutant.path)), ("is", mutant.source)):
            put(place, mutant.path, text)
            out = os.path.join(place, name + ".o")
            self._build.compile(mutant.path, place, out, quick=False)
            with open(out, "rb") as file:
                objects.append(file.read())
        return objects[0] == objects[1]


def choose(args, paths):
    by_hand = [m for m in listed(read("tests/mutate/safety"), read) if m.path in paths]
    ruled = [m for path in paths for m in mutants_of(path, read(path))]
    ruled.sort(key=lambda m: m.rank(args.seed))
    print(f"{len(by_hand)} listed mutants, {len(ruled)} by rules; seed {args.seed}")
    return by_hand + (ruled if args.all else ruled[:max(0, args.limit - len(by_hand))])


def each(judge, mutants, jobs):
    """What `judge` says of each mutant, in order."""
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(judge, mutant) for mutant in mutants]
        for done, _ in enumerate(concurrent.futures.as_completed(waiting), 1):
            if done % 50 == 0:
                print(f"   {done} of {len(mutants)} after {time.monotonic() - began:.0f} s",
                      flush=True)
        return [future.result() for future in waiting]


def rooms_of(verdicts, reasons):
    """{room: (judged, of these survived)}; what is explained is not judged."""
    found = {}
    for mutant, verdict in verdicts:
        if verdict not in (KILLED, SURVIVED) or why_of(mutant, verdict, reasons):
            continue
        judged, survived = found.get(os.path.dirname(mutant.path), (0, 0))
        found[os.path.dirname(mutant.path)] = (judged + 1, survived + (verdict == SURVIVED))
    return found


def why_of(mutant, verdict, reasons):
    return why_it_survives(mutant, reasons) if verdict == SURVIVED else None


def worse_rooms(now, recorded):
    """What is worse than tests/mutate/scores says. A smaller sample of the same seed is the beginning of the
    larger one, so it has no more survivors; of a larger one, as many more as it is larger."""
    for room, (judged, survived) in sorted(now.items()):
        most_of, most = recorded.get(room, (0, 0))
        allowed = -(-most * max(judged, most_of) // most_of) if most_of else 0
        if survived > allowed:
            yield f"{room}: {survived} of {judged} survived, {allowed} would be as good as tests/mutate/scores"


def scores(text):
    """{room: (judged, survived)} of tests/mutate/scores."""
    return {room: (int(judged), int(survived)) for room, judged, survived in map(str.split, rows(text))}


def report(verdicts, goal_percent, seed):
    """Prints the score, that of each room, and the survivors. True if the goal is reached, and no room is
    worse than it was."""
    reasons = explained()
    count = {kind: sum(verdict == kind for _, verdict in verdicts)
             for kind in (KILLED, SURVIVED, SAME, BROKEN)}
    unexplained = 0
    by_hand = 0
    equivalent = 0
    for mutant, verdict in verdicts:
        if verdict == BROKEN and mutant.name:
            print(f"listed, but does not compile: {mutant.name}")
            by_hand += 1
        if verdict != SURVIVED:
            continue
        why = why_it_survives(mutant, reasons)
        unexplained += not why
        equivalent += bool(why)
        by_hand += bool(mutant.name)
        print(f"survived: {mutant.path}:{mutant.line} {mutant.name or mutant.operator}\n"
              f"      was {mutant.old}\n       is {mutant.new}\n"
              f"          {'because ' + why if why else 'NOT EXPLAINED'}")
    judged = count[KILLED] + count[SURVIVED] - equivalent
    percent = 100 * count[KILLED] / judged if judged else 0
    print(f"{judged} mutants: {count[KILLED]} killed, {unexplained} survived; not counted: "
          f"{equivalent} explained in tests/mutate/survivors, {count[SAME]} of which the compiler "
          f"makes the same, {count[BROKEN]} that do not compile")
    print(f"score {percent:.1f} %, the goal is {goal_percent} %, and all of the listed ones")
    now = rooms_of(verdicts, reasons)
    for room, (total, survived) in sorted(now.items()):
        print(f"   {room:22} {total:4} {survived:3}  {100 * (total - survived) / total:.1f} %")
    if seed != SCORES_SEED:
        print(f"tests/mutate/scores is of seed {SCORES_SEED}: no room was compared")
        return percent >= goal_percent and by_hand == 0
    worse = list(worse_rooms(now, scores(read("tests/mutate/scores"))))
    print("\n".join(worse) or "no room is worse than in tests/mutate/scores")
    return percent >= goal_percent and by_hand == 0 and not worse


def parse():
    parser = argparse.ArgumentParser(prog="./dev mutate", description=__doc__)
    parser.add_argument("--limit", type=int, default=300, help="so many mutants at most (300)")
    parser.add_argument("--all", action="store_true", help="all that there are")
    parser.add_argument("--seed", type=int, default=SCORES_SEED, help="of the sample (1)")
    parser.add_argument("--goal", type=int, default=GOAL_PERCENT, help="fail below it (95)")
    parser.add_argument("--sim", action="store_true",
                        help="on the simulator, too, what the unit tests leave over")
    parser.add_argument("--matrix", metavar="REGEXP",
                        help="which case notices which mutant: of the unit tests of this name, prints "
                             "the cases that notice nothing that others do not")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/dev"),
                        help="a finished build with its tests (build/dev)")
    parser.add_argument("path", nargs="*", help="only these sources")
    return parser.parse_args()


def main():
    args = parse()
    paths = args.path or rows(read("tests/mutate/sources"))
    state = os.path.join(ROOT, "build", "mutate")
    os.makedirs(state, exist_ok=True)
    try:
        mutants = choose(args, paths)
    except (ListError, FileNotFoundError) as error:
        print(error)
        return 1
    build = Build(ROOT, os.path.abspath(args.build), ["unit", "sim"] if args.sim else ["unit"])
    failing = build.measure(paths)
    if failing:
        print("these fail without any change: " + ", ".join(failing))
        return 1
    with tempfile.TemporaryDirectory(dir=state) as scratch:
        if args.matrix is not None:
            seen = each(lambda mutant: matrix.row(build, mutant, scratch), mutants, args.jobs)
            tests = [t for t in build.tests if re.search(args.matrix, t.name)]
            return 0 if matrix.report(build, tests, seen) else 1
        jury = Jury(build, Memory(os.path.join(state, "verdicts")), scratch)
        for path in paths:
            jury.prepare(path)
        return 0 if report(list(zip(mutants, each(jury.judge, mutants, args.jobs))), args.goal, args.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
