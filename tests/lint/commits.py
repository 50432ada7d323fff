#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The last commit and those that are not pushed: a subject `module: verb object` of at most 60 characters,
a body that says why, and a case of a test that went is said to have gone in the subject. Older ones cannot
be mended, so nobody is told of them."""

import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SUBJECT = re.compile(r"[\w ,./-]+: \S.*")
CASE = re.compile(r"^[-+](?:TEST\((\w+)[,)]|def (test_\w+)\(|func (Test\w+)\()")
SAYS_SO = re.compile(r"\b(drop|remove|rename|replace|join|merge|revert)")


def faults_of(subject, body, diff):
    if len(subject) > 60 or not SUBJECT.fullmatch(subject):
        yield "the subject is not 'module: verb object' of at most 60 characters"
    if not body.strip():
        yield "there is no body that says why"
    was, now = set(), set()
    for line in diff.splitlines():
        found = CASE.match(line)
        if found:
            (was if line[0] == "-" else now).add(next(filter(None, found.groups())))
    if was - now and not SAYS_SO.search(subject):
        yield f"the subject does not say that cases went: {', '.join(sorted(was - now))}"


def git(*words):
    done = subprocess.run(["git", "-c", "safe.directory=*", *words], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout if done.returncode == 0 else ""


def main():
    unpushed = git("rev-list", "--no-merges", "@{upstream}..HEAD").split()
    bad = 0
    for commit in unpushed or git("rev-list", "-1", "HEAD").split():
        subject, _, body = git("log", "-1", "--format=%s%n%b", commit).partition("\n")
        # Of the first commit of a shallow clone, git shows the whole tree as new: nothing has gone there.
        for fault in faults_of(subject, body, git("show", "--format=", "-M", "-U0", commit, "--", "tests")):
            print(f"{commit[:8]} {subject}: {fault}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
