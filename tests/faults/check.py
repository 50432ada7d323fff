#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how many faults are covered by which tests, and fails where a row of faults.tsv names a test
that is not there, or gives neither tests nor a reason, or where none names a fault of the simulator."""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Where a test of that name begins, by the kind of file; in C, in the table of those that are run.
TIERS = {
    "tests/unit": re.compile(r"(?:TEST(?:_[A-Z]+)?|ROW|cmocka_unit_test\w*)\(\s*(\w+)"),
    "tests/sim": re.compile(r"(?:TEST(?:_[A-Z]+)?|ROW|cmocka_unit_test\w*)\(\s*(\w+)"),
    "tests/integration": re.compile(r"^def (test_\w+)", re.MULTILINE),
    "tests/machines": re.compile(r"^def (test_\w+)", re.MULTILINE),
    "tests/e2e": re.compile(r"^func (Test\w+)", re.MULTILINE),
}
FAULTS_OF_SIM = re.compile(r'\[FAULT_\w+\] = "([\w-]+)"')
TESTS_OF_CMAKE = re.compile(r"add_test\(NAME (\S+)")
EXPECTED = [str(n) for n in range(1, 61)] + [f"I{n}" for n in range(1, 11)]


def tests():
    """{name: tier} of every test in the tree."""
    names = {}
    out = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "--cached", "--others",
         "--exclude-standard", *TIERS],
        cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in out.splitlines():
        tier = next(tier for tier in TIERS if path.startswith(tier))
        if not path.endswith((".c", ".py", ".go", "CMakeLists.txt")) \
                or not os.path.exists(os.path.join(ROOT, path)):
            continue
        pattern = TESTS_OF_CMAKE if path.endswith("CMakeLists.txt") else TIERS[tier]
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        names.update(dict.fromkeys(pattern.findall(text), tier))
        names.update(dict.fromkeys(map("sim:{}".format, FAULTS_OF_SIM.findall(text)), tier))
    return names


def main():
    known = tests()
    wrong, rows, bare, named = [], [], [], set()
    by_tier = dict.fromkeys(TIERS, 0)
    with open(os.path.join(HERE, "faults.tsv"), encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("##")]
    for line in lines:
        members = line.split("\t")
        if len(members) != 4:
            wrong.append(f"not four members: {line}")
            continue
        name, fault, _, proof = members
        rows.append(name)
        if proof.startswith("- ") and len(proof) > 10:
            bare.append(f"   {name}: {fault}: {proof[2:]}")
            continue
        named.update(proof.split())
        for test in proof.split():
            if test not in known:
                wrong.append(f"{name}: there is no test '{test}'")
        for tier in {known[test] for test in proof.split() if test in known}:
            by_tier[tier] += 1
        if not proof.split():
            wrong.append(f"{name}: neither tests nor a reason")
    wrong += [f"row {name} is missing" for name in EXPECTED if name not in rows]
    wrong += [f"no row names {name}" for name in known if name[:4] == "sim:" and name not in named]
    wrong += [f"row {name} is there twice" for name in set(rows) if rows.count(name) > 1]
    print(f"{len(rows)} rows, {len(rows) - len(bare)} with tests: " +
          ", ".join(f"{count} in {tier}" for tier, count in by_tier.items()))
    if bare:
        print("without a test:\n" + "\n".join(bare))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
