# SPDX-License-Identifier: Apache-2.0
"""Options: four sources, one precedence, and errors that say what to do."""

import re
import tempfile

import pytest
from dpu_testing.process import clean_env, run
from dpu_testing.wait import until
from world import SOON_S

AGENTS = ["dpu-agent", "dpu-host-agent"]


@pytest.mark.parametrize("agent", AGENTS)
def test_help_and_version_go_to_stdout_and_succeed(binaries, agent):
    help_text = run([binaries.path(agent), "--help"])
    assert help_text.returncode == 0
    for word in ("--kubeconfig", "--dpu-node-lease-duration", "40", "DPU_NODE_LEASE_DURATION"):
        assert word in help_text.stdout
    version = run([binaries.path(agent), "--version"])
    assert version.returncode == 0
    assert re.fullmatch(agent + r" \d+\.\d+\.\d+( \(commit [0-9a-f]{12}\+?\))?\n", version.stdout)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(
    "flag, environ, words",
    [
        ("--dpu-node-lease-duration=10", {}, ["dpu-node-lease-duration", "more than", "renew interval"]),
        ("--no-such-flag=1", {}, ["no-such-flag"]),
        ("--kubeconfig=/no/such/file", {}, ["/no/such/file"]),
        ("stray", {}, ["stray"]),
        ("--log-level=info", {"DPU_NODE_LEASE_DURATION": "abc"}, ["DPU_NODE_LEASE_DURATION", "abc"]),
        ("--config=FILE", {}, ["FILE", "dpu-node-lease-duration", "-3"]),
    ],
)
def test_what_is_wrong_is_refused_with_name_and_value(binaries, agent, flag, environ, words):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:  # a short path
        file.write("dpu-node-lease-duration: -3\n")
        file.flush()
        flags = ["--kubeconfig=/dev/null", "--node-name=n", flag.replace("FILE", file.name)]
        done = run([binaries.path(agent), *flags], env=clean_env(**environ))
        assert done.returncode > 0 and done.returncode != 99, done
        assert all(word.replace("FILE", file.name) in done.stderr for word in words), done.stderr


def test_node_name_and_kubeconfig_come_from_the_environment(world, target):
    environ = clean_env(K8S_NODE=target.node, KUBECONFIG=target.kubeconfig("host"))
    world.host(env=environ, node_name=None, kubeconfig=None)
    until(target.lease, SOON_S, "the lease of that node")
