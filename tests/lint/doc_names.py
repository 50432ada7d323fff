#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the documentation names is there: the files and headings that its links lead to, and the
tests, paths of this tree, functions() and options of programs in its `inline code`. The pages and
headings that other files name are there, too, and so is each reason and state that a page explains."""

import glob
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGES = ["*.md", "docs/*.md", "rbac/*.md", "deploy/**/*.md", "tests/README.md", "tests/*/README.md"]
# What begins so is a path of this tree.
FOLDERS = ("cni/", "common/", "deploy/", "docs/", "dpu-agent/", "dpuctl/", "host-agent/", "rbac/", "tests/")
# Options of other people's programs that no script here uses.
FOREIGN = {"--chown", "--event-ttl", "--for", "--multus-master-cni-file-name", "--runtime-config"}

# A table of these files, by what they are called there.
TABLES = {
    "tests/e2e/README.md": ("tests/e2e/cases/*_test.go", re.compile(r"^\| (\w+_test\.go) \|", re.MULTILINE), {"agents_test.go", "main_test.go"}),
    "tests/integration/README.md": ("tests/integration/test_*.py", re.compile(r"^\| (test_\w+) \|", re.MULTILINE), set()),
}  # fmt: skip

# Messages of the C library.
STRERROR = {"Connection refused", "No such file"}

# Names that a page has to explain: (page, how it shows one, file of the program, where that has them).
EXPLAINED = [
    ("docs/reasons.md", "## {}\n", "common/contract/readiness.c", r'\[REASON_\w+\] =\s*\{"(\w+)"'),
    ("docs/monitoring.md", "{}", "dpu-agent/renewer.c", r'\[RENEWER_\w+\] = \{"(\w+)",'),
]  # fmt: skip

LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
FUNCTION = re.compile(r"^(\w+)\(\)$")
MENTION = re.compile(r"(?<![\w/.-])(?:\.\./)*(docs/[\w/.-]+\.md(?:#[\w-]+)?)")
TEST = re.compile(r"^(?:test_\w+(?:\.\w+)?|Test[A-Z]\w+(?:/\w+)?)$")
PATH = re.compile(r"^[\w./*-]+$")


def files():
    """[(path, text)] of all that is not documentation."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ":!tests/fuzz/corpus"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    found = []
    for path in filter(None, listed.split("\0")):
        if not path.endswith((".md", ".sum")) and os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                found.append((path, file.read()))
    return found


def is_source(path):
    return path.endswith((".c", ".h", ".py", ".sh", ".go")) or "." not in os.path.basename(path)


def heading_anchors(path):
    with open(path, encoding="utf-8") as file:
        text = FENCED.sub("", file.read())
    words = [re.sub(r"[^\w\- ]", "", h.lower()).strip() for h in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {w.replace(" ", "-") for w in words}


def go_tests(text):
    """The tests of a Go file, and as TEST/ROW the rows of the tables in it."""
    names = re.findall(r"^func (Test\w+)\(", text, re.MULTILINE)
    rows = re.findall(r'[{\t ]"(\w+)":', text)
    return {*names, *(f"{name}/{row}" for name in names for row in rows)}


def dead_link(page, link):
    if re.match(r"[a-z]+:", link):
        return None
    path, _, anchor = link.partition("#")
    target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if not os.path.exists(target):
        return f"link to '{target}', which is not there"
    if anchor and target.endswith(".md") and anchor not in heading_anchors(target):
        return f"link to '{link}': no such heading"
    return None


def unknown_name(code, options, tests, words):
    function = FUNCTION.match(code)
    if function and function[1] not in words:
        return f"function '{code}', which is not there"
    if TEST.match(code):
        return None if code in tests else f"test '{code}', which is not there"
    if code.startswith(FOLDERS) and PATH.match(code) and not glob.glob(code):
        return f"'{code}', which is not there"
    for option in OPTION.findall(code):
        if option not in options:
            return f"option '{option}', which no program of ours has"
    return None


def table_faults(page, pattern, row, spared):
    with open(page, encoding="utf-8") as file:
        listed = set(row.findall(file.read()))
    there = {os.path.basename(path) for path in glob.glob(pattern)}
    if pattern.endswith(".py"):
        there = {name.removesuffix(".py") for name in there}
    return [f"{page}: its table and {pattern} differ in {name}" for name in sorted(listed ^ (there - spared))]


def unexplained():
    """What a program says and its page does not."""
    for page, shown, source, pattern in EXPLAINED:
        with open(page, encoding="utf-8") as file, open(source, encoding="utf-8") as program:
            text, names = file.read(), re.findall(pattern, program.read())
        yield from ([] if names else [f"{source}: no name by {pattern}"])
        yield from (f"{page}: no {name} of {source}" for name in names if shown.format(name) not in text)
    with open("docs/performance.md", encoding="utf-8") as page, open("docs/performance/measured.md", encoding="utf-8") as measured:
        text, tables = page.read(), measured.read()
    ratios = re.findall(r"(?<![\d.])\d\.\d\d(?!\d)", text)
    yield from ([] if ratios else ["docs/performance.md: no ratio"])
    yield from (f"docs/performance.md: {r} is not in performance/measured.md" for r in ratios if f" {r} |" not in tables)
    prose = [part for part in re.split(r"\n\n", FENCED.sub("", text)) if not part.startswith("|")]
    measures = [part for part in prose if re.search(r"\d (ms|KiB|MiB)\b", part)]
    yield from ([] if measures else ["docs/performance.md: no figure"])
    yield from (f"docs/performance.md: no command for '{part[:60]}...'" for part in measures if "`./dev " not in part)


def unsaid(others):
    """What docs/reasons.md quotes of a message, *like this*, and no program says."""
    programs = [text for path, text in others if path.endswith(".c") and not path.startswith("tests/")]
    said = "\n".join(re.sub(r'"\s*"', "", text) for text in programs)
    with open("docs/reasons.md", encoding="utf-8") as page:
        quotes = re.findall(r"(?<!\*)\*(?!\*)([^*\n]+)\*(?!\*)", page.read())
    parts = [part.strip() for quote in quotes for part in quote.split(" ... ")]
    yield from ([] if len(parts) > 10 else ["docs/reasons.md: too few quotes"])
    yield from (f"docs/reasons.md: no program says '{part}'" for part in parts if " " in part and part not in STRERROR and part not in said)


def main():
    others = files()
    text = "\n".join(text for path, text in others if is_source(path))
    options = set(OPTION.findall(text)) | FOREIGN
    options |= {"--" + name for name in re.findall(r'(?:\.name = |\{|ROW\()"([a-z][a-z0-9-]+)"', text)}
    words = set(re.findall(r"\w+", text))
    tests = set(re.findall(r"\btest_\w+", text))
    tests |= {os.path.basename(path) for path in glob.glob("tests/*/test_*.*")}
    for path in glob.glob("tests/e2e/*/*_test.go"):
        with open(path, encoding="utf-8") as file:
            tests |= go_tests(file.read())
    bad = 0
    for page in sorted({page for pattern in PAGES for page in glob.glob(pattern, recursive=True)}):
        with open(page, encoding="utf-8") as file:
            # Blocks are left out, by as many empty lines.
            prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), file.read())
        for number, line in enumerate(prose.splitlines(), 1):
            faults = [dead_link(page, link) for link in LINK.findall(line)]
            faults += [unknown_name(code, options, tests, words) for code in CODE.findall(line)]
            for fault in filter(None, faults):
                print(f"{page}:{number}: {fault}")
                bad += 1
    for page, (pattern, row, spared) in TABLES.items():
        for fault in table_faults(page, pattern, row, spared):
            print(fault)
            bad += 1
    for fault in [*unexplained(), *unsaid(others)]:
        print(fault)
        bad += 1
    for path, content in others:
        for mention in MENTION.findall(content):
            fault = dead_link("README.md", mention)
            if fault:
                print(f"{path}: {fault}")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
