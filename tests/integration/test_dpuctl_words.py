# SPDX-License-Identifier: Apache-2.0
"""dpuctl's commands, --help, completion in bash, and its man page."""

import os
import re
import shutil
import subprocess

import pytest
from dpu_testing.binaries import ROOT
from dpu_testing.process import clean_env, run

USAGE = 64
COMPLETION = os.path.join(ROOT, "deploy", "completion", "dpuctl")
MAN = os.path.join(ROOT, "deploy", "man", "dpuctl.sh")
COMMANDS = ["status", "watch", "doctor", "dra watch"]


@pytest.fixture
def program(binaries):
    return binaries.path("dpuctl")


@pytest.mark.parametrize("word", ["--help", "help"])
def test_help_names_every_command(program, word):
    done = run([program, word])
    assert done.returncode == 0 and done.stderr == ""
    assert re.findall(r"^  (\w+(?: \w+)?)  +\S", done.stdout, re.M) == COMMANDS


@pytest.mark.parametrize("words", [[], ["statu"], ["dra"], ["--nonsense"], ["help", "x"]])
def test_what_is_no_command_is_wrong_usage_and_no_answer(program, words):
    done = run([program, *words])
    assert done.returncode == USAGE and done.stdout == "" and "Usage: dpuctl" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_that_fits(program, command):
    done = run([program, *command.split(), "--help"])
    assert done.returncode == 0 and done.stderr == "" and f"dpuctl {command}" in done.stdout
    assert all(len(line) <= 96 for line in done.stdout.splitlines())


def complete(program, line):
    """What bash would offer behind `line`, split as readline does."""
    words = [program, *(w for w in re.split(r"[ ]+|(=)", line)[1:] if w is not None and w != "")]
    if line.endswith(" "):
        words.append("")
    script = (
        f". {COMPLETION}; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _dpuctl dpuctl; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True,
                          check=True, env=clean_env())  # fmt: skip
    assert done.stderr == "", done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "line, offered",
    [
        ("dpuctl ", ["doctor", "dra", "status", "watch"]),
        ("dpuctl st", ["status"]),
        ("dpuctl x", []),
        ("dpuctl dra ", ["watch"]),
        ("dpuctl --", ["--help", "--version"]),
        ("dpuctl status --out", ["--output="]),
        ("dpuctl status --output=", ["text", "json", "yaml"]),
        ("dpuctl status --output=j", ["json"]),
        ("dpuctl status -o y", ["yaml"]),
        ("dpuctl status --node-name=x --color=n", ["never"]),
        ("dpuctl status --node-name=", []),
        ("dpuctl status --he", ["--help"]),
        ("dpuctl dra watch --dri", ["--driver="]),
        ("dpuctl dra watch --on", ["--once"]),
    ],
)
def test_bash_completes(program, line, offered):
    assert sorted(complete(program, line)) == sorted(offered)


def test_bash_completes_files_where_files_are_wanted(program, tmp_path):
    (tmp_path / "kubeconfig.yaml").write_text("")
    (tmp_path / "kube.d").mkdir()
    path = str(tmp_path)
    assert complete(program, f"dpuctl status --kubeconfig={path}/kubec") == [f"{path}/kubeconfig.yaml"]
    assert complete(program, f"dpuctl status --cni-conf-dir={path}/kube") == [f"{path}/kube.d"]


def test_every_option_is_completed(program):
    listed = set(re.findall(r"^  (--[a-z-]+)", run([program, "status", "--help"]).stdout, re.M))
    offered = {word.rstrip("=") for word in complete(program, "dpuctl status --")}
    assert offered == listed | {"--help", "--version"}


def test_the_man_page_has_every_command(program, tmp_path):
    if not shutil.which("help2man"):
        pytest.skip("help2man is not here")
    extra = tmp_path / "dpuctl.h2m"
    extra.write_text(run([MAN, program]).stdout)
    made = run(["help2man", "--no-info", "--section=8", f"--include={extra}", program])
    assert made.returncode == 0, made.stderr
    for command in COMMANDS:
        assert re.search(rf"^\.SH \"?{command.upper()}\"?$", made.stdout, re.M), command
    assert made.stdout.count(".SH SYNOPSIS") == 1 and "EXIT STATUS" in made.stdout
    if shutil.which("man"):
        shown = run(["man", "--warnings", "-l", "-"], input=made.stdout, env=clean_env(MANPAGER="cat"))
        assert shown.returncode == 0 and shown.stderr == "", shown.stderr
