# SPDX-License-Identifier: Apache-2.0
"""The fenced blocks of a page of documentation, each with the marker line above it:

    <!-- run: local [exit=N] [says="WORDS"] -->    tests/docs/run.py executes it
    <!-- run: walkthrough N ... -->                tests/docs/walkthrough.py does
    <!-- run: tests/PATH -->                       that test runs these commands
    <!-- by hand: REASON -->                       nobody does, and why

`sh` blocks are commands, `console` blocks are commands after "$ " and what they answer.
"""

import re
from dataclasses import dataclass, field

MARKER = re.compile(r"^<!-- (run|by hand): (.*) -->$")
LOCAL = re.compile(r'^local(?: exit=(\d+))?(?: says="([^"]*)")?$')


@dataclass
class Block:
    page: str
    line: int  # of the opening fence
    language: str  # "" without one
    marker: tuple = None  # ("run" or "by hand", what follows), None without one
    lines: list = field(default_factory=list)

    def __str__(self):
        return f"{self.page}:{self.line}"

    def commands(self):
        """[(command, [lines of its answer])]; of an sh block one, with no answer."""
        if self.language != "console":
            return [("\n".join(self.lines), [])]
        found = []
        going_on = False
        for line in self.lines:
            if going_on:
                found[-1] = (found[-1][0] + "\n" + line, [])
            elif line.startswith("$ "):
                found.append((line[2:], []))
            elif found:
                found[-1][1].append(line)
            else:
                raise ValueError(f"{self}: begins with an answer; a command begins with '$ '")
            going_on = (going_on or line.startswith("$ ")) and line.endswith("\\")
        return found


def read(page):
    """The page's blocks, and the line numbers of markers with no block below them."""
    blocks, stray = [], []
    block, marker = None, None  # of which we are inside; of the line before: (number, kind, text)
    with open(page, encoding="utf-8") as file:
        for number, line in enumerate(file.read().splitlines(), 1):
            if block is not None:
                if line.strip() == "```":
                    block = None
                else:
                    block.lines.append(line)
                continue
            if line.lstrip().startswith("```"):
                block = Block(page, number, line.strip()[3:], marker[1:] if marker else None)
                blocks.append(block)
                marker = None
                continue
            if marker:
                stray.append(marker[0])
            found = MARKER.match(line)
            marker = (number, found[1], found[2]) if found else None
            if not found and line.startswith(("<!-- run", "<!-- by hand")):
                stray.append(number)
    if marker:
        stray.append(marker[0])
    if block is not None:
        raise ValueError(f"{block}: this block has no end")
    return blocks, stray
