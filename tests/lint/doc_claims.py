#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A ratio or a comparison of cost or speed in the documentation says where it was measured: a command
(`./dev ...`), a test, or a link to what was measured, in the same paragraph, or in the one right before or
after a table; or it says "not measured". What a page promises by a timer's value compares nothing."""

import glob
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGES = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/*.md", "rbac/*.md", "tests/README.md"]

FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
COST = r"(?:CPU|memory|bytes?|requests?|connections?|writes?|reads?|load|latency|energy|wake-ups|traffic|RAM)"
CLAIMS = [
    # A ratio: "0.34" in prose, "1.3 times", "12 %". RATIO_CELL has those of tables.
    re.compile(r"(?<![\w.:/-])[01]\.\d\d(?![\w.])(?= (?:of|to|for|instead)\b)|(?<![\w.:/-])0\.\d\d(?![\w.])(?! ?(?:s|ms|KiB|MiB|ns)\b)"),
    re.compile(r"\b(?:\d+(?:\.\d+)?|two|three|four|five|ten|a hundred|a thousand|many) times (?:the|as|more|less|fewer|faster|slower|smaller|larger)\b", re.I),
    re.compile(r"\b\d+(?:\.\d+)? ?[x×] (?:the|as|more|less|fewer|faster|slower)\b"),
    re.compile(r"\b\d+(?:\.\d+)? ?(?:%|per ?cent)"),
    re.compile(rf"\b(?:twice|half|a third of|a quarter of|a tenth of) (?:the|as|its|their|upstream's) (?:\w+ )?{COST}\b", re.I),
    # A comparison.
    re.compile(r"\b(?:faster|slower|cheaper|costlier|quicker|leaner|as fast as|as cheap as)\b", re.I),
    re.compile(rf"\b(?:more|less|fewer) (?:\[?\w+ )?\[?{COST}\]? than\b", re.I),
    re.compile(rf"\bsave[sd]? (?:\w+ )?{COST}\b", re.I),
    re.compile(r"\b(?:uses|used|needs|costs?|sends) (?:more|less|fewer)\b", re.I),
]
RATIO_CELL = re.compile(r"\d+\.\d\d(?:; \d+\.\d\d)*")  # alone in it: elsewhere 1.34 may be a version
LINK = re.compile(r"\]\([^)]*\)")
SOURCE = re.compile(
    r"not measured|`\./dev [\w ./-]+`|`tests/[\w./-]+`|\btest_\w+|\bTest[A-Z]\w+|measured\.md|`sim figures`|performance\.md#beside|"
    r"`(?:git|cmake|readelf|dpuctl|dpkg)[^`]*`|`[a-z0-9]+(?:_[a-z0-9]+){3,}`"  # a case is a sentence
)


def blocks(text):
    """[(number of its first line, its lines)] of what is between empty lines, commands left out."""
    text = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    found, at = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            at = None
        elif at is None:
            at = (number, [line])
            found.append(at)
        else:
            at[1].append(line)
    return found


def items(block):
    """The items of a list are paragraphs of their own; what goes on is indented."""
    number, lines = block
    found = []
    for offset, line in enumerate(lines):
        if not found or re.match(r"\s*(?:[-*]|\d+\.) ", line):
            found.append((number + offset, [line]))
        else:
            found[-1][1].append(line)
    return found


def is_table(lines):
    return lines[0].startswith("|")


def claims(line):
    """What of a line is a ratio or a comparison."""
    line = LINK.sub("]", re.sub(r"`[^`]*`", "``", line))
    cells = [cell.strip() for cell in line.split("|")] if line.startswith("|") else []
    found = [ratio for cell in cells if RATIO_CELL.fullmatch(cell) for ratio in cell.split("; ")]
    found += [part[0] for claim in CLAIMS for part in claim.finditer(line)]
    return list(dict.fromkeys(found))


def faults(text):
    """(line, the claim) without a source."""
    paragraphs = [part for block in blocks(text) for part in items(block)]
    for i, (number, lines) in enumerate(paragraphs):
        around = [lines]
        if is_table(lines):
            around = [part[1] for part in paragraphs[max(0, i - 1) : i + 1] + paragraphs[i + 1 : i + 2]]
        if SOURCE.search("\n".join("\n".join(part) for part in around)):
            continue
        for offset, line in enumerate(lines):
            yield from ((number + offset, claim) for claim in claims(line))


def main():
    bad = 0
    for page in sorted({page for pattern in PAGES for page in glob.glob(pattern)}):
        with open(page, encoding="utf-8") as file:
            for number, claim in faults(file.read()):
                print(f"{page}:{number}: '{claim}' without the command that shows it, or 'not measured'")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
