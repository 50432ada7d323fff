#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every command in the documentation is run by a test, or says why not.

Holds PAGES and docs/ (or the pages given) to the rules of
tests/docs/blocks.py: each block has a language; each block of commands a marker right above it
that names a test which exists and runs it.
"""

import glob
import os
import re
import shlex
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "docs"))

import blocks  # noqa: E402
import walkthrough  # noqa: E402

PAGES = ["README.md", "CONTRIBUTING.md", "tests/e2e/README.md"]
SHOWN = {"text", "json", "yaml"}
COMMANDS = {"sh", "console"}
# A test names them otherwise, or adds them by itself.
ANY_WORD = re.compile(r"worker-\d+|kubectl|\.\.\.")


def words_missing(block, test):
    """The first word of the block's commands that the test does not have; None if it has all, or
    reads them from the page by this marker."""
    with open(test, encoding="utf-8") as file:
        text = file.read()
    if block.page in text and f"<!-- run: {test} -->" in text:
        return None
    for command, _ in block.commands():
        for word in shlex.split(command, comments=True):
            for part in word.split("/"):
                if part not in text and not ANY_WORD.fullmatch(part):
                    return word
    return None


def fault(block):
    """What is wrong with a block, None if nothing."""
    if block.language in SHOWN:
        if block.marker:
            return f"a marker above {block.language}; only sh and console blocks are run"
        if any(line.startswith("$ ") for line in block.lines):
            return "commands in a block that only shows something: make it console"
        return None
    if block.language not in COMMANDS:
        known = ", ".join(sorted(COMMANDS | SHOWN))
        return f"language '{block.language}': it has to be one of {known}"
    if block.marker is None:
        return "commands with no '<!-- run: TEST -->' or '<!-- by hand: REASON -->' right above"
    if not block.commands():
        return "no command in it"
    kind, text = block.marker
    if kind == "by hand":
        return None if len(text) >= 10 else "by hand, and no reason given"
    name = text.split()[0]
    if name == "local":
        return None if blocks.LOCAL.match(text) else f"'{text}' makes no sense, see blocks.py"
    if name == "walkthrough":
        return None if block.page in walkthrough.PAGES else "not a page of the walk-through"
    if not (name.startswith("tests/") and os.path.isfile(name)):
        return f"there is no test '{name}'"
    missing = words_missing(block, name)
    return f"{name} does not run it: it has no '{missing}'" if missing else None


def main(pages):
    bad = 0
    for page in pages:
        try:
            found, stray = blocks.read(page)
            faults = [(block.line, fault(block)) for block in found]
        except ValueError as error:
            print(error)
            bad += 1
            continue
        faults += [(line, "a marker with no block right below it") for line in stray]
        for line, text in sorted(f for f in faults if f[1]):
            print(f"{page}:{line}: {text}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:] or [*PAGES, *sorted(glob.glob("docs/*.md"))]))
