# SPDX-License-Identifier: Apache-2.0
"""The rules that turn a line of C into wrong ones. Only code is touched: no comment, no string."""

import hashlib
import re
from dataclasses import dataclass

# What stands alone between spaces, and calls that have an opposite.
SWAPS = {
    "relational": [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "),
                   (" == ", " != "), (" != ", " == ")],
    "logical": [(" && ", " || "), (" || ", " && ")],
    "arithmetic": [(" + ", " - "), (" - ", " + "), (" * ", " / "), (" / ", " * "),
                   (" += ", " -= "), (" -= ", " += ")],
    "opposite": [("mono_before(", "mono_reached("), ("mono_reached(", "mono_before("),
                 ("mono_min(", "mono_max("), ("mono_max(", "mono_min("),
                 ("ns_min(", "ns_max("), ("ns_max(", "ns_min(")],
}
NUMBER = re.compile(r"(?<![\w.\]])(?<!calloc\()(?<!_BYTES = )(\d+)(?![\w.])")
NO_TIME = re.compile(r"\(struct (?:mono|wall)\)\{(0)\}")
TRUTH = re.compile(r"\b(true|false)\b")
CONDITION = re.compile(r"\bif \((.*)\) \{$")
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
# Not worth a mutant: words for people, how often they are told them, our own mistakes, room that is
# larger than need be, leaks (the sanitizers run the same tests).
WORDS = re.compile(r"\b(?:log_(?:debug|info|warn|error|limited)|assert)\([^;]*;|"
                   r"(?<=\berr_set\()[^;]*(?=\);)")
SKIPPED = re.compile(
    r"^\s*(_Static_assert|char \w+\[|#(?!define)|#define LOG_|enum \w+ \{|free\(|.*\blog_repeat_due\()")
# The smaller or the larger of two: it does not matter which where they are the same.
MIN_OR_MAX = re.compile(r"([\w.>-]+(?:\(\w+\))?)( [<>]=? )([\w.>-]+(?:\(\w+\))?) \? "
                        r"(?:\1 : \3|\3 : \1)(?![\w.([-])")
CLAMP = re.compile(r"if \(([\w.>-]+)( [<>]=? )([\w.>-]+)\) \{\n\s*\1 = \3;")
DECLARATION = re.compile(
    r"^\s*(const|static|struct|enum|union|int|bool|char|size_t|ssize_t|u?int\d+_t|double|void|"
    r"CLEANUP\(\w+\)|return|break|continue|goto|case|default|else|if|for|while|do|switch)\b")


@dataclass(frozen=True)
class Mutant:
    """One wrong version of a file. `old` and `new` are its lines, for people and for the list of
    explained survivors; they hold whatever the line's number becomes."""

    path: str
    line: int  # from 1
    operator: str
    old: str
    new: str
    source: str  # the whole file, mutated
    number: int = 0  # among those of one file that look the same
    name: str = ""  # of one that was listed by hand

    def rank(self, seed):
        """Its place in the order of a seed, which edits elsewhere do not change."""
        words = f"{seed}|{self.path}|{self.operator}|{self.old}|{self.new}|{self.number}"
        return hashlib.sha256(words.encode()).hexdigest()


def mask(source):
    """The same text with blanks for comments, strings and what is only told."""
    blank = lambda found: re.sub(r"[^\n]", " ", found.group(0))
    return WORDS.sub(blank, COMMENT_OR_STRING.sub(blank, source))


def _choices(source):
    """Where the comparisons of MIN_OR_MAX and CLAMP stand in it."""
    return {found.start(2) for rule in (MIN_OR_MAX, CLAMP) for found in rule.finditer(source)}


def _edits_in_line(code):
    """(operator, column, length, replacement) of all mutations within one line."""
    for operator, pairs in SWAPS.items():
        for old, new in pairs:
            at = code.find(old)
            while at >= 0:
                inner = at > 0 and old[0] != " " and (code[at - 1].isalnum() or code[at - 1] == "_")
                if not inner:
                    yield operator, at, len(old), new
                at = code.find(old, at + 1)
    times = {found.start(1) for found in NO_TIME.finditer(code)}
    for found in NUMBER.finditer(code):
        value = int(found.group(1))
        other = "INT64_MAX" if found.start() in times else str(value * 2 or 1)
        yield "constant", found.start(), len(found.group(0)), other
    for found in TRUTH.finditer(code):
        yield "constant", found.start(), len(found.group(0)), \
            "false" if found.group(0) == "true" else "true"
    found = CONDITION.search(code)
    if found and found.group(1).count("(") == found.group(1).count(")"):
        yield "negation", found.start(1), len(found.group(1)), None


def _dropped_statements(lines):
    """(first, last) of each statement that is a call or an assignment alone."""
    starts_one = False
    first = None
    for number, code in enumerate(lines):
        stripped = code.strip()
        if first is None and starts_one and code.startswith("    ") and stripped \
                and not DECLARATION.match(code) and not SKIPPED.match(code):
            first = number
        if first is not None and ("{" in code or stripped.endswith(":") or stripped == "}"):
            first = None
        elif first is not None and stripped.endswith(";"):
            yield first, number
            first = None
        if stripped:
            starts_one = stripped[-1] in ";{}:"


def mutants_of(path, source):
    """All mutants of a file, in the order of its lines."""
    real = source.split("\n")
    lines = mask(source).split("\n")
    choices = _choices(source)
    start = 0  # of the line, in the source
    seen = {}
    found = []

    def add(operator, first, last, new_lines):
        old = " ".join(part.strip() for part in real[first:last + 1])
        new = " ".join(part.strip() for part in new_lines)
        key = (operator, old, new)
        seen[key] = seen.get(key, -1) + 1
        changed = real[:first] + new_lines + [""] * (last - first) + real[last + 1:]
        found.append(Mutant(path, first + 1, operator, old, new, "\n".join(changed), seen[key]))

    for number, code in enumerate(lines):
        start += len(lines[number - 1]) + 1 if number else 0
        if SKIPPED.match(code):
            continue
        for operator, at, length, new in _edits_in_line(code):
            text = real[number]
            if operator == "relational" and start + at in choices and new.strip("= ") in "<>" \
                    and new.strip("= ") == text[at:at + length].strip("= "):
                continue
            if new is None:
                new = f"!({text[at:at + length]})"
            add(operator, number, number, [text[:at] + new + text[at + length:]])
    for first, last in _dropped_statements(lines):
        add("dropped", first, last, ["    ;"])
    return found


class ListError(Exception):
    """The list by hand does not fit the tree."""


def listed(text, read):
    """The mutants of tests/mutate/safety; `read` gives a file's text."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.split("\n") if line and not line.startswith("##")]
        if not lines:
            continue
        name, path = lines[0].removeprefix("# "), lines[1].strip()
        old = "\n".join(line[1:] for line in lines[2:] if line.startswith("-"))
        new = "\n".join(line[1:] for line in lines[2:] if line.startswith("+"))
        source = read(path)
        if source.count(old) != 1:
            raise ListError(f"'{name}': its text is {source.count(old)} times in {path}:\n{old}")
        at = source.index(old)
        found.append(Mutant(path, source.count("\n", 0, at) + 1, "listed",
                            " ".join(old.split()), " ".join(new.split()),
                            source[:at] + new + source[at + len(old):], name=name))
    return found
