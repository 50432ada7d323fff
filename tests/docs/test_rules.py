#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The rules for blocks of commands, on pages made up for it."""

import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "lint")]
sys.dont_write_bytecode = True

import blocks  # noqa: E402
import doc_commands  # noqa: E402
import run  # noqa: E402

# name of the case, the page, what each block (and then each stray marker) is told; None: nothing
PAGES = [
    ("a block that shows something needs no marker", "```text\nok\n```", [None]),
    ("a block without a language is refused", "```\nls\n```", ["language ''"]),
    ("an unknown language is refused", "```bash\nls\n```", ["language 'bash'"]),
    ("commands without a marker are refused", "```sh\nls\n```", ["right above"]),
    ("a marker two lines above does not count", "<!-- run: local -->\n\n```sh\nls\n```", ["right above", "stray"]),
    ("commands that run.py runs", "<!-- run: local -->\n```sh\nls\n```", [None]),
    ("... with a status and words", '<!-- run: local exit=2 says="a b" -->\n```sh\nls\n```', [None]),
    ("... with what makes no sense", "<!-- run: local exit=no -->\n```sh\nls\n```", ["no sense"]),
    ("a reason", "<!-- by hand: needs a real DPU -->\n```sh\nls\n```", [None]),
    ("no reason worth the name", "<!-- by hand: no -->\n```sh\nls\n```", ["no reason"]),
    ("a test that is not there", "<!-- run: tests/none.py -->\n```sh\nls\n```", ["no test"]),
    ("a file that is no test", "<!-- run: dev -->\n```sh\nls\n```", ["no test"]),
    ("a test that has the words", "<!-- run: tests/docs/run.py -->\n```sh\nunshare --mount\n```", [None]),
    ("a test that has not", "<!-- run: tests/docs/run.py -->\n```sh\nunshare --zzz" + "zz\n```", ["does not run it"]),
    ("the walk-through elsewhere", "<!-- run: walkthrough 1 -->\n```sh\nls\n```", ["not a page"]),
    ("a marker above what is no command", "<!-- run: local -->\n```json\n{}\n```", ["a marker above json"]),
    ("a command in a block that shows", "```text\n$ ls\n```", ["make it console"]),
    ("a transcript without a command", "<!-- run: local -->\n```console\n```", ["no command"]),
    ("a marker with no block", "<!-- run: local -->\nwords", ["stray"]),
    ("a marker at the end", "<!-- by hand: needs a real DPU -->", ["stray"]),
    ("a marker that is badly written", "<!-- run local -->\n```sh\nls\n```", ["right above", "stray"]),
    ("a marker within a block is text", "```text\n<!-- run: local -->\n```", [None]),
]

TRANSCRIPT = ["$ one", "first", "$ two \\", "  words", "second", "third", "$ silent"]

# what the program said, what the page has, whether that fits
ANSWERS = [
    ("a\nb\n", ["a", "b"], True),
    ("a\nb\n", ["a"], False),
    ("a\nb\n", ["a", "..."], True),
    ("age 7 s, so\n", ["age ... s, so"], True),
    ("age 7 s, so\n", ["age ... s"], False),
    ("a+b\n", ["a.b"], False),
    ("", [], True),
]


def told(page):
    with tempfile.NamedTemporaryFile("w", suffix=".md") as file:
        file.write(page)
        file.flush()
        found, stray = blocks.read(file.name)
    return [doc_commands.fault(block) for block in found] + ["stray"] * len(stray)


def fits(got, wanted):
    return len(got) == len(wanted) and all(
        g is None if w is None else g is not None and w in g for g, w in zip(got, wanted)
    )


def main():
    for name, page, wanted in PAGES:
        got = told(page)
        assert fits(got, wanted), f"{name}: {got}, not {wanted}"
    block = blocks.Block("page", 1, "console", None, TRANSCRIPT)
    commands = [("one", ["first"]), ("two \\\n  words", ["second", "third"]), ("silent", [])]
    assert block.commands() == commands, block.commands()
    for said, wanted, fit in ANSWERS:
        assert run.answers(said, wanted) == fit, f"{said!r} and {wanted}: should {'' if fit else 'not '}fit"
    try:
        told("```sh\nls\n")
    except ValueError:
        return
    sys.exit("a block without an end is taken")


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
