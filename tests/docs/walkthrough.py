#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the documentation's walk-through as it stands: blocks of shell below a line like

    <!-- run: walkthrough 72 exit=1 says="NotReady" -->

in the order of their numbers, one shell's variables and directory passed on to the next. Stops at
the first block that ends otherwise than its line says (exit=0 without one), or does not say it.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import blocks  # noqa: E402

PAGES = ["docs/install.md", "docs/run-it.md"]
MARKER = re.compile(r'^walkthrough (\d+)(?: exit=(\d+))?(?: says="([^"]*)")?$')
LIMIT_S = 300


def walk():
    """(block, its exit status, its words) in order."""
    found = {}
    for page in PAGES:
        for block in blocks.read(page)[0]:
            if not block.marker or not block.marker[1].startswith("walkthrough"):
                continue
            marker = MARKER.match(block.marker[1])
            if not marker or int(marker[1]) in found:
                sys.exit(f"{block}: its marker makes no sense, or its number is given twice")
            found[int(marker[1])] = (block, int(marker[2] or 0), marker[3] or "")
    return [found[number] for number in sorted(found)]


def run(text, state):
    """The block's exit status and what it said."""
    script = f'. "{state}"\nset -euo pipefail\n{text}\ndeclare -px >"{state}"\n'
    with tempfile.TemporaryFile("w+") as said:  # a file: what runs on in the background keeps it open
        done = subprocess.run(
            ["bash", "-c", script], stdout=said, stderr=said, stdin=subprocess.DEVNULL,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
        said.seek(0)
        return done.returncode, said.read()


def main():
    with tempfile.TemporaryDirectory() as directory:
        state = os.path.join(directory, "state")
        open(state, "w", encoding="utf-8").close()
        for block, wanted, says in walk():
            start = time.monotonic()
            text = "\n".join(block.lines)
            code, said = run(text, state)
            fits = code == wanted and says in said
            print(f"{'ok' if fits else 'FAILED'}  {block}  {time.monotonic() - start:.1f} s", flush=True)
            if not fits:
                print(f"{text}\n{said}\nexit status {code}, expected {wanted} and {says!r}")
                return 1
    return 0


if __name__ == "__main__":
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    try:
        status = main()
    finally:
        subprocess.run(["./dev", "cluster", "down"], stdout=subprocess.DEVNULL, check=False)
    sys.exit(status)
