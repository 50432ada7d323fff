#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""unused.py: global functions of the products in build/dev that nothing but a test calls. Those in
tests/lint/unused.allow ("NAME REASON") may stay; one that is used, or gone, has to leave that list."""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
ROOMS = ("common", "dpu-agent", "host-agent", "dra-driver", "cni", "dpuctl")


def products():
    """{object: source} of what is shipped; generated code is not ours to trim."""
    build = ROOT / "build" / "dev"
    for entry in json.loads((build / "compile_commands.json").read_text("utf-8")):
        source = pathlib.Path(entry["file"])
        path = source.relative_to(ROOT) if source.is_relative_to(ROOT) else source
        if path.parts[0] in ROOMS:
            yield str(build / re.search(r" -o (\S+)", entry["command"])[1]), source


def main():
    sources = dict(products())
    listing = subprocess.run(
        ["nm", "-A", "--no-sort", *sources], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    defined, called = {}, set()
    for line in listing.splitlines():
        place, _, symbol = line.partition(":")
        kind, name = symbol.split()[-2:]
        if kind == "T" and name != "main":
            defined[name] = sources[place]
        elif kind == "U":
            called.add(name)

    def is_unused(name):
        # A call within one file leaves no undefined symbol: it is a second mention there.
        mentions = re.findall(rf"\b{name}\b", defined[name].read_text("utf-8"))
        return name not in called and len(mentions) < 2

    unused = {name for name in defined if is_unused(name)}
    lines = (ROOT / "tests/lint/unused.allow").read_text("utf-8").splitlines()
    allowed = {line.split()[0] for line in lines if line and not line.startswith("#")}
    for name in sorted(unused - allowed):
        print(f"{defined[name].relative_to(ROOT)}: only tests call {name}: delete it")
    for name in sorted(allowed - unused):
        print(f"tests/lint/unused.allow: {name} is used or gone: take it off the list")
    return 1 if unused ^ allowed else 0


sys.exit(main())
