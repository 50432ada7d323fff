# SPDX-License-Identifier: Apache-2.0
"""deploy/in-namespace: the manifests for another namespace, and nothing else changed in them."""

import glob
import os
import subprocess

import pytest
from dpu_testing.binaries import ROOT

pytestmark = pytest.mark.standin_only  # no API server is asked


def moved(text):
    command = [os.path.join(ROOT, "deploy", "in-namespace"), "1st"]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=True).stdout


def test_every_namespace_is_another_and_other_words_stay():
    files = [*glob.glob(f"{ROOT}/rbac/*.yaml"), *glob.glob(f"{ROOT}/deploy/kustomize/*/*.yaml")]
    text = ""
    for path in files:
        with open(path, encoding="utf-8") as file:
            text += "".join(line for line in file if "#" not in line)
    left = {line.strip() for line in moved(text).splitlines() if "ovn-kubernetes" in line}
    assert left == {"- --probe=ovn-kubernetes"}


@pytest.mark.parametrize(
    "line, expected",
    [
        ("DPU_HEARTBEAT_CNI_SOURCE: 10-ovn-kubernetes.conf", None),
        ("image: registry/ovn-kubernetes/dpu-heartbeat-dpu:1", None),
        ("- --namespace=ovn-kubernetes", "- --namespace=1st"),
        ('DPU_HEARTBEAT_NAMESPACE: "ovn-kubernetes"', 'DPU_HEARTBEAT_NAMESPACE: "1st"'),
        ("- ovn-kubernetes", "- 1st"),
        ("'system:serviceaccount:ovn-kubernetes:dpu'", "'system:serviceaccount:1st:dpu'"),
    ],
)
def test_a_word_is_a_namespace_or_not(line, expected):
    assert moved(line + "\n") == (expected or line) + "\n"
