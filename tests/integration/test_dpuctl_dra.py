# SPDX-License-Identifier: Apache-2.0
"""dpuctl dra watch, beside the real agent in the kubelet's directories."""

import os
import socket

import pytest
from dpu_testing.process import run
from dpu_testing.wait import until
from world import SOON_S

UID = "0f8b5c3e-6f0a-4a6b-9d0e-3f1f2a7c9b11"


@pytest.mark.standin_only
@pytest.mark.parametrize("driver", ["dpu.k8s.ovn.org", "d" * 40 + ".example.com", "d" * 51 + ".example.com"])
def test_a_plugin_is_found_by_its_rolling_name_among_what_else_lies_there(world, kubelet_root, driver):
    """With its UID in the socket's name, a hash of it, or one of both names; beside sockets that nobody
    listens at, and a file."""
    registry = f"{kubelet_root}/plugins_registry"

    def watch(name):
        words = ["dra", "watch", "--once", f"--kubelet-root-dir={kubelet_root}", f"--driver={name}"]
        return run([world.binaries.path("dpuctl"), *words])

    world.host(dra="on", kubelet_root_dir=kubelet_root, dra_driver_name=driver, dra_rolling_update_uid=UID)
    until(lambda: [name for name in os.listdir(registry) if name.endswith("-reg.sock")], SOON_S, "its socket")
    assert os.listdir(registry) != [f"{driver}-reg.sock"]
    world.dpu()
    world.wait_state("Ready")
    for name in (f"{driver}-reg.sock", "dra-0-reg.sock"):
        with socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(f"{registry}/{name}")
    open(f"{registry}/{driver}-file-reg.sock", "w", encoding="ascii").close()
    done = watch(driver)
    assert done.returncode == 0 and f"Healthy    {driver}/" in done.stdout, done.stderr
    done = watch("a.example.com")
    assert done.returncode == 1 and f"'{registry}', such as a.example.com-reg.sock" in done.stderr, done.stderr
