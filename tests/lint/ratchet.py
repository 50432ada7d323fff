#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Figures that only get better: a list in a file names today's worst, and the tree is held to it.

  ratchet.py complexity   the cognitive complexity of functions beyond 15 (tests/lint/complexity.most),
                          as clang-tidy counts it (.clang-tidy has the 15); in the verdict beyond 12
  ratchet.py states       members, and flags among them, of the structs that hold a state machine's or a
                          shell's state (tests/lint/states.most): each flag doubles the states to think of

What is worse than its line fails, and so does what is better: lower the line, so that it stays so. A line
of something that is not there any more fails, too. Against the last commit no exception of
the complexity is added or raised; a figure of the states is, by a commit whose subject says "raise"."""

import os
import re
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
COMPLEXITY, STATES = "tests/lint/complexity.most", "tests/lint/states.most"
CHECK = "readability-function-cognitive-complexity"
# The code that decides that a node is refused has to be read one branch at a time.
STRICT_MOST = 12
STRICT = [f"host-agent/{name}.c" for name in ("asking", "evidence", "history", "mark", "verdict")]
SAID = re.compile(r"^(?P<path>\S+?):\d+:\d+: (?:warning|error): function '(?P<name>\w+)' has cognitive "
                  r"complexity of (?P<figure>\d+) \(threshold")  # fmt: skip


class ListError(Exception):
    """A line of a list that cannot be read."""


def parse(text, figures):
    """{(path, name): (figure, ...)} of a list: path, name and so many figures a line, # for comments."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        key = tuple(words[:2])
        if len(words) != 2 + figures or not all(w.isdecimal() for w in words[2:]) or key in found:
            raise ListError(f"line {number}: '{line}' is not PATH NAME and {figures} figures, once")
        found[key] = tuple(int(w) for w in words[2:])
    return found


def compare(listed, seen, what):
    """What is wrong with `listed`, beside what was `seen` in the tree."""
    for key, figures in sorted(seen.items()):
        if key not in listed:
            yield f"{key[0]}: {key[1]} has {what} {show(figures)}, and is not in the list"
        elif any(now > most for now, most in zip(figures, listed[key])):
            yield f"{key[0]}: {key[1]} has {what} {show(figures)}, at most {show(listed[key])}"
        elif figures != listed[key]:
            yield f"{key[0]}: {key[1]} has {what} {show(figures)}: lower its line, {show(listed[key])}, to that"
    yield from (f"{path}: {name} is stale in the list: take its line out" for path, name in sorted(set(listed) - set(seen)))


def worsened(before, after, is_open):
    """What a change of the list made worse. What moved to another file keeps its figure. `is_open`: whether
    a line may be added, for it holds one more thing to a figure and excuses nothing."""
    for key, figures in sorted(after.items()):
        old = before.get(key)
        if old is None:
            gone = [k for k in before if k[1] == key[1] and k not in after]
            old = before[gone[0]] if len(gone) == 1 else None
        if old is None and not is_open:
            yield f"{key[0]}: {key[1]} is new in the list"
        elif old is not None and any(now > was for now, was in zip(figures, old)):
            yield f"{key[0]}: {key[1]} was raised from {show(old)} to {show(figures)}"


def show(figures):
    return "/".join(str(f) for f in figures)


def git(*words):
    """The output, or None if git says no (no such commit or file)."""
    done = subprocess.run(["git", "-c", f"safe.directory={ROOT}", *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def last_change(path):
    """The list as it was before its last change, and the subject of the commit that changed it: the one
    under way, or the last. (None, "") where there is nothing to compare with."""
    if git("diff", "--quiet", "HEAD", "--", path) is None:
        return git("show", f"HEAD:{path}"), ""
    return git("show", f"HEAD^:{path}"), git("log", "-1", "--format=%s") or ""


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sources(*patterns):
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns) or ""
    return [path for path in listed.split() if not path.startswith("tests/") and os.path.isfile(path)]


# ---- complexity ------------------------------------------------------------------------------


def complexity():
    """{(path, function): (figure,)} of those beyond the limit."""
    paths = sources("*.c")
    strict = [path for path in paths if path in STRICT]
    config = f"{{CheckOptions: [{{key: {CHECK}.Threshold, value: '{STRICT_MOST}'}}, {{key: {CHECK}.IgnoreMacros, value: 'true'}}]}}"
    return {**run_tidy(paths), **run_tidy(strict, f"--config={config}")}


def run_tidy(paths, *more):
    done = subprocess.run(
        ["xargs", "-P", str(os.cpu_count()), "-n", "8", "clang-tidy", "-p", "build/dev", "--quiet",
         "--extra-arg=-Wno-unknown-warning-option", f"--checks=-*,{CHECK}", *more],
        input="\n".join(paths), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "clang-diagnostic-error" in done.stdout or not paths:
        raise ListError(f"clang-tidy read no tree that builds:\n{done.stdout[-500:]}")
    return complexity_of(done.stdout)


def complexity_of(said):
    rows = (SAID.match(line) for line in said.splitlines())
    return {(os.path.relpath(m["path"], ROOT), m["name"]): (int(m["figure"]),) for m in rows if m}


# ---- states ----------------------------------------------------------------------------------

NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
ENUM = re.compile(r"\benum( \w+)? \{[^}]*\}")
OPENS = re.compile(r"(const )?(struct|union)( \w+)?$")


def structs(text):
    """{name: (members, flags)} of the structs that a source defines. Those of a struct within count."""
    text = ENUM.sub("int", NO_CODE.sub(" ", text))
    found = {}
    for opening in re.finditer(r"\bstruct (\w+) \{", text):
        depth, end = 1, opening.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        names = flags = 0
        for part in re.split(r"[;{}]", text[opening.end() : end - 1]):
            part = " ".join(part.split())
            if part and not OPENS.match(part):
                count = len(re.sub(r"\([^()]*\)|\[[^\]]*\]", "", part).split(","))
                names += count
                flags += count if part.startswith("bool ") else 0
        found[opening[1]] = (names, flags)
    return found


def states(listed):
    """Of those that are listed; a struct joins them by hand."""
    found = {}
    for path in {path for path, _ in listed}:
        if os.path.isfile(path):
            there = structs(read(path))
            found.update({(path, name): there[name] for at, name in listed if at == path and name in there})
    return found


def main(kind):
    path, figures, what = {
        "complexity": (COMPLEXITY, 1, "a complexity of"),
        "states": (STATES, 2, "members/flags"),
    }[kind]
    is_open = kind == "states"
    try:
        listed = parse(read(path), figures)
        text, subject = last_change(path)
        before = parse(text, figures) if text is not None else listed
        seen = complexity() if kind == "complexity" else states({**before, **listed})
        faults = list(compare(listed, seen, what))
        if not (is_open and re.search(r"\braises?\b", subject)):
            faults += worsened(before, listed, is_open)
    except (ListError, OSError) as error:
        faults = [f"{path}: {error}"]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1]))
