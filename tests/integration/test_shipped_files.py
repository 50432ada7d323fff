# SPDX-License-Identifier: Apache-2.0
"""The configuration files that the packages install show what the programs do without them."""

import os
import re
import subprocess

import pytest

CONFIG = os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "config")
SHOWN = re.compile(r"^#([a-z][a-z-]*): (.*)$", re.MULTILINE)

pytestmark = pytest.mark.standin_only


def defaults(text):
    """Each option's default; of one that follows another option, the other's."""
    found, others = {}, {}
    for part in re.split(r"\n  --(?=[a-z])", text):
        option = re.match(r"[a-z-]+", part)
        value = re.search(r"Default: (.*?)\.?(?: Allowed| Environment|$)", part, re.MULTILINE)
        other = re.search(r"Defaults to\s+--([a-z-]+)", part)
        if option and value:
            found[option.group()] = value.group(1)
        elif option and other:
            others[option.group()] = other.group(1)
    return found | {key: found[other] for key, other in others.items() if other in found}


@pytest.mark.parametrize("name", ["dpu-agent", "dpu-dra-driver", "dpu-host-agent"])
def test_what_a_shipped_configuration_shows_is_the_default_where_there_is_one(binaries, name):
    told = subprocess.run([binaries.path(name), "--help"], stdout=subprocess.PIPE, text=True, check=True)
    known = defaults(told.stdout)
    with open(os.path.join(CONFIG, f"{name}.yaml"), encoding="utf-8") as file:
        shown = SHOWN.findall(file.read())
    assert len(shown) > 5
    differ = {key: (value, known[key]) for key, value in shown if known.get(key, value) != value}
    assert not differ
