# SPDX-License-Identifier: Apache-2.0
"""dpuctl's commands, --help, completion in bash, its man page, and `dra watch` beside the real agent."""

import os
import re
import shutil
import socket
import subprocess

import pytest
from dpu_testing.binaries import ROOT
from dpu_testing.dpuctl import Node
from dpu_testing.process import clean_env, run
from dpu_testing.runtime import Runtime
from dpu_testing.wait import until
from world import SOON_S

USAGE = 64
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
COMPLETION = os.path.join(ROOT, "deploy", "completion", "dpuctl")
MAN = os.path.join(ROOT, "deploy", "man", "dpuctl.sh")
KUBECTLS = os.path.join(ROOT, "deploy", "completion", "kubectl_complete-dpu")
COMMANDS = ["nodes", "status", "watch", "doctor", "pods", "dra watch"]


@pytest.fixture
def program(binaries):
    return binaries.path("dpuctl")


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_names_every_command(program, word):
    done = run([program, word])
    assert done.returncode == 0 and done.stderr == ""
    assert re.findall(r"^  (\w+(?: \w+)?)  +\S", done.stdout, re.M) == COMMANDS


@pytest.mark.parametrize("words", [[], ["statu"], ["dra"], ["--nonsense"], ["help", "x"]])
def test_what_is_no_command_is_wrong_usage_and_no_answer(program, words):
    done = run([program, *words])
    assert done.returncode == USAGE and done.stdout == "" and "Usage: dpuctl" in done.stderr
    assert ("dpuctl: unknown command" in done.stderr) == (len(words) > 0)


# What is wrong for a command: a flag, a value, an argument, a missing value.
LOOKING = [["--nonsense"], ["-x"], ["x"], ["--", "x"], ["-o"], ["-o", "xml"], ["--output="], ["--output"], ["--color=blue"],
           ["--api-timeout=soon"], ["--api-timeout=1h"], ["--node-name=No_Name"], ["--dpu-node-lease-duration=5"],
           ["--config=/nonexistent"], ["--config"], ["--dra-driver-name=a/../b"], ["--readiness-file="], ["--cni-conf-dir="],
           ["--cni-bin-dir="], ["--kubelet-root-dir="], ["--http-bind-address=x"], ["--log-level=loud"]]  # fmt: skip
# These two take the name of a node.
ABOUT = [*(w for w in LOOKING if w != ["x"]), ["No_Name"], ["x", "y"], [""]]
WRONG = {
    "nodes": [["--nonsense"], ["-x"], ["x", "y"], ["No_Name"], ["-o"], ["-o", "xml"], ["--output="], ["--state=down"], ["--interval=0"],
              ["--namespace=a.b"], ["--namespace="], ["--dra-driver-name=a/../b"], ["--api-timeout=1h"], ["--color=blue"],
              ["--watch", "-o", "yaml"]],
    "status": ABOUT,
    "watch": [*LOOKING, ["-o", "yaml"]],
    "doctor": ABOUT,
    "dra watch": [["--nonsense"], ["-x"], ["x"], ["--once", "x"], ["--", "x"], ["--once=yes"], ["--register=1"], ["--driver"],
                  ["--driver="], ["--driver=No_Name"], ["--driver=a/../b"], ["--driver=" + "d" * 64], ["--socket"], ["--socket="],
                  ["--socket=/" + "s" * 108], ["--kubelet-root-dir"], ["--kubelet-root-dir="]],
}  # fmt: skip


@pytest.mark.parametrize("command, words", [(c, w) for c, rows in WRONG.items() for w in rows], ids=str)
def test_every_wrong_usage_exits_64_and_points_to_help(program, command, words):
    done = run([program, *command.split(), *words], env=clean_env())
    assert (done.returncode, done.stdout) == (USAGE, ""), done.stderr
    assert done.stderr.startswith(f"dpuctl {command}: ") and f"Try 'dpuctl {command} --help'." in done.stderr
    assert len(done.stderr.splitlines()) == 2, done.stderr


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
        ("dpuctl ", ["doctor", "dra", "nodes", "pods", "status", "watch"]),
        ("dpuctl st", ["status"]),
        ("dpuctl x", []),
        ("dpuctl dra ", ["watch"]),
        ("dpuctl --", ["--help", "--version"]),
        ("dpuctl status --out", ["--output="]),
        ("dpuctl status --output=", ["text", "json", "yaml", "name"]),
        ("dpuctl status --output=j", ["json"]),
        ("dpuctl status -o y", ["yaml"]),
        ("dpuctl status --node-name=x --color=n", ["never"]),
        ("dpuctl status --node-name=", []),
        ("dpuctl status --he", ["--help"]),
        ("dpuctl dra watch --dri", ["--driver="]),
        ("dpuctl dra watch --on", ["--once="]),
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


def test_kubectl_completes_its_plugin(program, tmp_path):
    (tmp_path / "kubectl-dpu").symlink_to(program)
    env = clean_env(PATH=f"{tmp_path}:/usr/bin:/bin")

    def offered(*words):
        done = run([KUBECTLS, *words], env=env)
        assert (done.returncode, done.stderr) == (0, "")
        *words, directive = done.stdout.split()
        assert directive == ":4"
        return words

    assert offered("") == ["doctor", "dra", "nodes", "pods", "status", "watch"]
    assert offered("dra", "") == ["watch"]
    assert {"--state", "--selector", "--output"} <= set(offered("nodes", "--"))
    assert "--once" in offered("dra", "watch", "--")
    assert offered("status", "") == []  # nobody can be asked for nodes
    done = run([tmp_path / "kubectl-dpu"], env=env)
    assert done.returncode == USAGE and done.stderr.startswith("Usage: kubectl dpu COMMAND")


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


# The documented members of `status -o json`.


def documented():
    """{path: (types, may be missing)} of deploy/man/dpuctl.h2m."""
    types = {"string": str, "number": (int, float), "bool": bool, "list": list}
    with open(os.path.join(ROOT, "deploy", "man", "dpuctl.h2m"), encoding="utf-8") as file:
        rows = re.findall(r"^([a-zA-Z.]+) +(string|number|bool|list)(\|null)?(\?)?(?: .*)?$", file.read(), re.M)
    return {path: ([types[kind], type(None)] if null else [types[kind]], bool(maybe))
            for path, kind, null, maybe in rows}  # fmt: skip


def members(tree, before=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from members(value, f"{before}{key}.")
        else:
            yield before + key, value


def check_documented(tree):
    """What is there is documented with this type, and what is always there is there."""
    table = documented()
    seen = dict(members(tree))
    for path, value in seen.items():
        assert path in table, f"{path} is not in deploy/man/dpuctl.h2m"
        fits = [k for k in table[path][0] if isinstance(value, k) and (k is bool) == isinstance(value, bool)]
        assert fits, f"{path} is {value!r}"
    missing = [path for path, (_, maybe) in table.items() if not maybe and path not in seen]
    assert not missing
    return set(seen)


@pytest.mark.standin_only  # a real server drops taints where their feature gate is off
def test_every_member_is_documented_and_every_documented_member_exists(binaries, target, tmp_path):
    node = Node(binaries, tmp_path / "node")
    flags = [f"--kubeconfig={target.kubeconfig('admin')}", f"--namespace={target.namespace}",
             f"--node-name={target.node}"]  # fmt: skip
    seen = check_documented(node.status()[1])
    seen |= check_documented(node.status(*flags)[1])
    node.record()
    target.new_lease(leaseDurationSeconds=40)
    name = f"dpu.k8s.ovn.org-{target.node}"
    target.admin.create(SLICES, {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {"driver": "dpu.k8s.ovn.org", "nodeName": target.node,
                 "pool": {"name": target.node, "generation": 1, "resourceSliceCount": 1},
                 "devices": [{"name": "dpu-0", "taints": [
                     {"key": "dpu.k8s.ovn.org/not-ready", "value": "x", "effect": "NoSchedule"}]}]}})  # fmt: skip
    try:
        code, tree = node.status(*flags)
        assert code == 0 and tree["lease"]["found"] and tree["dra"]["slice"]["tainted"]
        assert tree["dra"]["slice"]["taint"] == "dpu.k8s.ovn.org/not-ready=x:NoSchedule"
        seen |= check_documented(tree)
    finally:
        target.admin.delete(f"{SLICES}/{name}")
    seen |= check_documented(node.status("--cri-socket=/none")[1])
    runtime = Runtime(binaries)
    try:
        seen |= check_documented(Node(binaries, runtime.root).status("--cri-socket=/cri.sock")[1])
    finally:
        runtime.cleanup()
    assert seen == set(documented())


# dra watch.

UID = "0f8b5c3e-6f0a-4a6b-9d0e-3f1f2a7c9b11"


@pytest.mark.standin_only
@pytest.mark.parametrize("driver", ["dpu.k8s.ovn.org", "d" * 40 + ".example.com", "d" * 51 + ".example.com"])
def test_a_plugin_is_found_by_its_rolling_name_among_what_else_lies_there(world, kubelet_root, driver):
    """With its UID in the socket's name, a hash of it, or one of both names; beside sockets that nobody
    listens at, and a file."""
    registry = f"{kubelet_root}/plugins_registry"

    def watch(name):
        return run(world.dra_watch(kubelet_root, "--once", f"--driver={name}"))

    world.host()
    world.driver(kubelet_root, is_registered=False, dra_driver_name=driver, dra_rolling_update_uid=UID)
    until(lambda: [name for name in os.listdir(registry) if name.endswith("-reg.sock")], SOON_S, "its socket")
    assert os.listdir(registry) != [f"{driver}-reg.sock"]
    world.dpu()
    world.wait_state("Ready")
    for name in (f"{driver}-reg.sock", "dra-0-reg.sock"):
        with socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(f"{registry}/{name}")
    open(f"{registry}/{driver}-file-reg.sock", "w", encoding="ascii").close()
    until(lambda: f"Healthy    {driver}/" in watch(driver).stdout, SOON_S, "health")  # the record is read by turns
    assert watch(driver).returncode == 0
    done = watch("a.example.com")
    assert done.returncode == 1 and f"'{registry}', such as a.example.com-reg.sock" in done.stderr, done.stderr
