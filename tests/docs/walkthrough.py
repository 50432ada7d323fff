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

PAGES = ["docs/install.md", "docs/run-it.md"]
BLOCK = re.compile(
    r"^<!-- run: walkthrough (?P<number>\d+)(?: exit=(?P<exit>\d+))?(?: says=\"(?P<says>[^\"]*)\")? -->\n"
    r"```sh\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LIMIT_S = 300


def blocks():
    found = {}
    for page in PAGES:
        with open(page, encoding="utf-8") as file:
            text = file.read()
        matches = list(BLOCK.finditer(text))
        if len(matches) != text.count("<!-- run: walkthrough"):
            sys.exit(f"{page}: a line of the walk-through has no block, or makes no sense")
        for match in matches:
            number = int(match["number"])
            if number in found:
                sys.exit(f"{page}: number {number} is given twice")
            line = text.count("\n", 0, match.start()) + 1
            found[number] = (f"{page}:{line}", match)
    return [found[number] for number in sorted(found)]


def run(match, state):
    """The block's exit status and what it said."""
    script = f'. "{state}"\nset -euo pipefail\n{match["text"]}\ndeclare -px >"{state}"\n'
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
        for place, match in blocks():
            start = time.monotonic()
            code, said = run(match, state)
            wanted = int(match["exit"] or 0)
            fits = code == wanted and (match["says"] or "") in said
            print(f"{'ok' if fits else 'FAILED'}  {place}  {time.monotonic() - start:.1f} s", flush=True)
            if not fits:
                print(match["text"])
                print(said)
                print(f"exit status {code}, expected {wanted} and {match['says']!r}")
                return 1
    return 0


if __name__ == "__main__":
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    try:
        status = main()
    finally:
        subprocess.run(["./dev", "cluster", "down"], stdout=subprocess.DEVNULL, check=False)
    sys.exit(status)
