# SPDX-License-Identifier: Apache-2.0
"""dpuctl dra watch, beside the real agent in the kubelet's directories."""

import os
import shutil
import socket
import tempfile

import pytest
from dpu_testing.process import clean_env, run
from dpu_testing.wait import until
from world import SANITIZER, SOON_S

UID = "0f8b5c3e-6f0a-4a6b-9d0e-3f1f2a7c9b11"


@pytest.fixture
def kubelet():
    """The kubelet's directory: short, since paths of sockets are."""
    root = tempfile.mkdtemp(prefix="k", dir="/tmp")
    for name in ("plugins", "plugins_registry"):
        os.mkdir(f"{root}/{name}")
    yield root
    shutil.rmtree(root)


def registered(kubelet):
    return [name for name in os.listdir(f"{kubelet}/plugins_registry") if name.endswith("-reg.sock")]


def start(world, kubelet, driver, **options):
    here = registered(kubelet)
    agent = world.host(dra="on", kubelet_root_dir=kubelet, dra_driver_name=driver, **options)
    until(lambda: len(registered(kubelet)) > len(here), SOON_S, "registration socket")
    return agent


def watch(world, kubelet, driver):
    words = ["dra", "watch", "--once", f"--kubelet-root-dir={kubelet}", f"--driver={driver}"]
    return run([world.binaries.path("dpuctl"), *words], env=clean_env(**SANITIZER))


@pytest.mark.standin_only
@pytest.mark.parametrize("driver", ["dpu.k8s.ovn.org", "d" * 40 + ".example.com", "d" * 51 + ".example.com"])
def test_a_plugin_with_a_rolling_update_uid_is_found(world, kubelet, driver):
    """With its UID in the socket's name, a hash of it, or one of both names."""
    start(world, kubelet, driver, dra_rolling_update_uid=UID)
    world.dpu()
    world.wait_state("Ready")
    assert registered(kubelet) != [f"{driver}-reg.sock"]
    done = watch(world, kubelet, driver)
    assert done.returncode == 0 and f"Healthy    {driver}/" in done.stdout, done.stderr


@pytest.mark.standin_only
def test_what_else_lies_in_the_registry_is_passed_over(world, kubelet):
    """Sockets that nobody listens at, one of another driver, a file."""
    driver = "dpu.k8s.ovn.org"
    start(world, kubelet, driver, dra_rolling_update_uid=UID)
    world.dpu()
    world.wait_state("Ready")
    for name in (f"{driver}-reg.sock", "dra-0-reg.sock"):
        with socket.socket(socket.AF_UNIX) as left_over:
            left_over.bind(f"{kubelet}/plugins_registry/{name}")
    open(f"{kubelet}/plugins_registry/{driver}-file-reg.sock", "w", encoding="ascii").close()
    done = watch(world, kubelet, driver)
    assert done.returncode == 0 and f"Healthy    {driver}/" in done.stdout, done.stderr
    done = watch(world, kubelet, "dpu.k8s.ovn")
    assert done.returncode == 1 and "'dpu.k8s.ovn'" in done.stderr, done.stderr


def test_without_a_plugin_it_is_said_what_was_looked_for(binaries, kubelet):
    words = ["dra", "watch", "--once", f"--kubelet-root-dir={kubelet}", "--driver=a.example.com"]
    done = run([binaries.path("dpuctl"), *words], env=clean_env(**SANITIZER))
    assert done.returncode == 1 and f"{kubelet}/plugins_registry" in done.stderr
    assert "a.example.com-reg.sock" in done.stderr
