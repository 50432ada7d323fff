#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The lints of our own, on samples that are made up: each finds what is bad, and lets pass what is good."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "mutate")]
sys.dont_write_bytecode = True

import commits  # noqa: E402
import doc_claims  # noqa: E402
import mutate  # noqa: E402
import ratchet  # noqa: E402

LISTED = {("a.c", "f"): (20,), ("b.c", "g"): (17,)}

# what the list has, what the tree has, words of each fault in order
COMPARED = [
    (LISTED, LISTED, []),
    (LISTED, {**LISTED, ("a.c", "f"): (21,)}, ["at most 20"]),
    (LISTED, {**LISTED, ("a.c", "f"): (19,)}, ["lower its line"]),
    (LISTED, {**LISTED, ("a.c", "h"): (16,)}, ["not in the list"]),
    (LISTED, {("a.c", "f"): (20,)}, ["stale"]),
    (LISTED, {("a.c", "f"): (20,), ("c.c", "g"): (17,)}, ["not in the list", "stale"]),
    ({("v.h", "v"): (30, 8)}, {("v.h", "v"): (29, 9)}, ["at most 30/8"]),
]

# the list before, the list now, whether lines may be added, words of each fault
CHANGED = [
    (LISTED, LISTED, False, []),
    (LISTED, {("a.c", "f"): (20,)}, False, []),
    (LISTED, {**LISTED, ("a.c", "f"): (18,)}, False, []),
    (LISTED, {**LISTED, ("a.c", "f"): (22,)}, False, ["raised from 20 to 22"]),
    (LISTED, {**LISTED, ("d.c", "n"): (16,)}, False, ["is new"]),
    (LISTED, {**LISTED, ("d.c", "n"): (16,)}, True, []),
    (LISTED, {("a.c", "f"): (20,), ("c.c", "g"): (17,)}, False, []),
    (LISTED, {("a.c", "f"): (20,), ("c.c", "g"): (18,)}, True, ["raised from 17 to 18"]),
]

STRUCTS = [
    ("struct a { int x; };", {"a": (1, 0)}),
    ("struct a { int x, y; bool is_on; bool p, q; };", {"a": (5, 3)}),
    ("struct a { struct b at; void (*told)(void *me, int n); char text[LONG(2, 3)]; };", {"a": (3, 0)}),
    ("struct a { /* bool not; */ int x; // int y;\n struct { bool deep; int z; } in; };", {"a": (4, 1)}),
    ("struct a { enum { ONE, TWO } kind; };", {"a": (1, 0)}),
    ("struct a;\nstruct a *make(void);", {}),
    ('const char *s = "struct a { int x; };";', {}),
]

TIDY = [
    (f"{ratchet.ROOT}/a.c:7:5: warning: function 'f' has cognitive complexity of 16 (threshold 15) [x]", {("a.c", "f"): (16,)}),
    (f"{ratchet.ROOT}/a.c:7:5: error: function 'f' has cognitive complexity of 30 (threshold 15) [x]", {("a.c", "f"): (30,)}),
    (f"{ratchet.ROOT}/a.c:7:5: note: +1, nesting level increased to 1", {}),
]

LISTS = [
    ("# words\n\na.c f 20 # why\n", {("a.c", "f"): (20,)}),
    ("a.c f\n", None),
    ("a.c f 20 21\n", None),
    ("a.c f -1\n", None),
    ("a.c f 20\na.c f 21\n", None),
]

# a page, the claims without a source
CLAIMED = [
    ("It uses 0.34 of the CPU.", ["0.34"]),
    ("It uses 0.34 of the CPU (`./dev bench fleet`).", []),
    ("It uses 0.34 of the CPU (not measured).", []),
    ("It uses 0.34 of the CPU.\nOther words (`./dev bench`).", []),
    ("It uses 0.34 of the CPU.\n\nOther words (`./dev bench`).", ["0.34"]),
    ("- One is faster.\n- Another is shown by `./dev bench`.", ["faster"]),
    ("- One is faster,\n  shown by `./dev bench`.", []),
    ("1. It is twice as fast as that.", ["as fast as"]),
    ("Three times the memory", ["Three times the"]),
    ("It costs 3 times more than that", ["3 times more"]),
    ("That saves 12 % of it", ["12 %"]),
    ("That saves CPU time", ["saves CPU"]),
    ("half the connections", ["half the connections"]),
    ("fewer requests than before", ["fewer requests than"]),
    ("It needs less", ["needs less"]),
    ("| CPU | 0.42 |", ["0.42"]),
    ("| CPU of all | 0.42; 1.55 |", ["0.42", "1.55"]),
    ("Medians (`./dev bench`):\n\n| CPU | 0.42 |", []),
    ("| CPU | 0.42 |\n\nMedians (`./dev bench`).", []),
    ("Words.\n\n## Heading\n\n| CPU | 0.42 |\n\nMedians.\n\nLate (`./dev bench`).", ["0.42"]),
    ("| faster | `TestCompared/delays` |", []),
    ("It grows no faster than time (`the_sum_grows_no_faster_than_time`).", []),
    ("It grows no faster than time (`ns_max`).", ["faster"]),
    ("By [a link](faster.md) and `--faster` nobody claims.", []),
    ("```text\nfaster\n```", []),
    ("Kubernetes 1.34 and 1.36, after 0.25 s, a tenth of an interval, two times", []),
    ("| Kubernetes 1.36 | x |", []),
]

# subject, body, diff, words of each fault
COMMITTED = [
    ("module: mend a thing", "Because.", "", []),
    ("mend a thing", "Because.", "", ["module"]),
    ("module: mend " + "x" * 60, "Because.", "", ["60"]),
    ("module: mend a thing", " \n", "", ["no body"]),
    ("module: mend a thing", "Because.", "-TEST(one)\n+TEST(two)\n", ["one"]),
    ("module: drop what two shows", "Because.", "-TEST(one)\n", []),
    ("module: move a case", "Because.", "-TEST(one)\n+TEST(one)\n", []),
    ("module: mend", "Because.", "-def test_it(world):\n", ["test_it"]),
    ("module: mend", "Because.", "-func TestIt(t *testing.T) {\n", ["TestIt"]),
    ("module: mend", "Because.", "-def helper(world):\n-static void test(void)\n", []),
]

SCORES = {"a": (100, 2), "b": (10, 0)}

# {room: (judged, survived)} of a run of mutants, how many rooms are worse
SCORED = [
    (SCORES, 0),
    ({"a": (100, 3)}, 1),
    ({"a": (30, 2)}, 0),
    ({"a": (30, 3)}, 1),
    ({"a": (200, 4), "b": (100, 1)}, 1),
    ({"new": (10, 1)}, 1),
    ({"new": (10, 0)}, 0),
]


def parsed(text):
    try:
        return ratchet.parse(text, 1)
    except ratchet.ListError:
        return None


def fits(faults, words):
    return len(faults) == len(words) and all(word in fault for word, fault in zip(words, faults))


def cases():
    """(name, whether it passed)"""
    for listed, seen, words in COMPARED:
        yield f"compare {listed} {seen}", fits(list(ratchet.compare(listed, seen, "a figure of")), words)
    for before, after, is_open, words in CHANGED:
        yield f"worsened {before} {after}", fits(list(ratchet.worsened(before, after, is_open)), words)
    for text, want in STRUCTS:
        yield f"structs {text}", ratchet.structs(text) == want
    for text, want in TIDY:
        yield f"complexity {text}", ratchet.complexity_of(text) == want
    for page, want in CLAIMED:
        yield f"claims {page!r}", [claim for _, claim in doc_claims.faults(page)] == want
    for subject, body, diff, words in COMMITTED:
        yield f"commit {subject} {diff!r}", fits(list(commits.faults_of(subject, body, diff)), words)
    for now, count in SCORED:
        yield f"scores {now}", len(list(mutate.worse_rooms(now, SCORES))) == count
    for text, want in LISTS:
        yield f"parse {text!r}", parsed(text) == want


def main():
    done = list(cases())
    for name, passed in done:
        if not passed:
            print(f"FAILED: {name}")
    print(f"{len(done)} cases")
    return 0 if done and all(passed for _, passed in done) else 1


if __name__ == "__main__":
    sys.exit(main())
