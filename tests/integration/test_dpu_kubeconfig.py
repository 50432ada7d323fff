# SPDX-License-Identifier: Apache-2.0
"""deploy/dpu-kubeconfig: the files that it writes say what it was told, whatever that holds."""

import os
import pathlib
import subprocess

import pytest
import yaml

SCRIPT = pathlib.Path(__file__).parents[2] / "deploy/dpu-kubeconfig"
pytestmark = pytest.mark.standin_only

KUBECTL = r"""#!/bin/sh
case "$*" in
  *"get node"*) printf uid-1 ;;
  *clusters*server*) printf %s "$KUBECTLS_SERVER" ;;
  *certificate-authority-data*) printf -- '-----BEGIN CERTIFICATE-----\n' | base64 -w0 ;;
  *"create token"*) printf e30.eyJleHAiOjQxMDI0NDQ4MDB9.c2ln ;;
  *) cat >/dev/null ;;
esac
"""


@pytest.fixture
def write(tmp_path):
    """Runs the script beside a kubectl of ours; the kubeconfig's server, or None."""
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)

    def call(*words, kubectls="https://kubectls.example:6443"):
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECTLS_SERVER": kubectls}
        command = [str(SCRIPT), "worker-1", str(tmp_path / "out"), *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        path = tmp_path / "out/kubeconfig"
        assert path.exists() == (done.returncode == 0), done.stderr
        if done.returncode != 0:
            return None, done.stderr
        (cluster,) = yaml.safe_load(path.read_text("utf-8"))["clusters"]
        assert set(cluster["cluster"]) == {"server", "certificate-authority"}
        return cluster["cluster"]["server"], done.stderr

    return call


@pytest.mark.parametrize(
    "server",
    ["https://10.0.0.1:6443", "https://[2001:db8::1]:6443", "https://[::1]", "https://h/k8s/{a}", "https://h/a:%20b&c*d!e"],
)
def test_the_server_is_written_as_it_is_given(write, server):
    assert write("--server", server)[0] == server
    assert write(kubectls=server)[0] == server


@pytest.mark.parametrize(
    "server",
    ["https://h:1\n      insecure-skip-tls-verify: true", "https://h # a comment", "https://h\t", "https://h'",
     "https://h\r", "https:// h", 'https://"h"', "https://h\\u0041\x01"],
)  # fmt: skip
def test_what_no_url_holds_is_refused(write, server):
    for words, kubectls in ((("--server", server), "https://h"), ((), server)):
        written, said = write(*words, kubectls=kubectls)
        assert written is None and "holds a character that no URL has" in said


def test_another_scheme_is_refused(write):
    written, said = write("--server", "http://h")
    assert written is None and "does not begin with https://" in said


def test_the_page_gives_a_dpu_without_pods_its_probes(write, tmp_path):
    """The settings replace those of the package, which have them."""
    assert write("--server", "https://h")[0] == "https://h"
    settings = (tmp_path / "out/dpu-agent.yaml").read_text("utf-8")
    page = (SCRIPT.parents[1] / "docs/run-it.md").read_text("utf-8")
    block = page.split("scp -r build/dpu/.")[1].split("```")[0]
    assert "probe" not in yaml.safe_load(settings)
    (line,) = [line.split("echo '")[1].split("'")[0] for line in block.splitlines() if "echo '" in line]
    shipped = yaml.safe_load((SCRIPT.parent / "config/dpu-agent.yaml").read_text("utf-8"))
    assert yaml.safe_load(settings + line)["probe"] == shipped["probe"] == ["ovn-kubernetes"]
