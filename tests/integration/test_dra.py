# SPDX-License-Identifier: Apache-2.0
"""The ResourceSlice and its writer's manners. What a kubelet sees is in tests/e2e."""

import json
import os
import tempfile
import time

import pytest
from dpu_testing.kube import micro_time
from dpu_testing.wait import never, until
from world import SOON_S

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DRIVER = "dpu.k8s.ovn.org"


@pytest.fixture
def kubelet_root():
    with tempfile.TemporaryDirectory() as directory:  # short: sockets go there
        for name in ("plugins", "plugins_registry"):
            os.mkdir(os.path.join(directory, name))
        yield directory


@pytest.fixture
def standin(target):
    if not target.standin:
        pytest.skip("needs the stand-in's faults")
    return target.standin


def slice_of(name, driver, node, pool=None):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0"}],
        },
    }


def start(world, kubelet_root, **options):
    return world.host(dra="on", kubelet_root_dir=kubelet_root, **options)


def own_slice(target):
    return target.admin.find(f"{SLICES}/{DRIVER}-{target.node}")


def is_tainted(target):
    found = own_slice(target)
    return bool(found["spec"]["devices"][0].get("taints")) if found else None


def requests(standin):
    return standin.audit(resource="resourceslices", user="host")


def writes(standin):
    return [line for line in requests(standin) if line["verb"] in ("create", "update", "delete")]


def test_a_server_that_ignores_the_selector_costs_nobody_a_slice(
    world, target, standin, kubelet_root
):
    others = [
        slice_of("a-gpu", "gpu.example.com", target.node),
        slice_of("b-node", DRIVER, "worker-2"),
        slice_of("c-pool", DRIVER, target.node, "other-pool"),
    ]
    for other in others:
        target.admin.create(SLICES, other)
    old = slice_of("d-old", DRIVER, target.node)
    target.admin.create(SLICES, old)
    body = {
        "kind": "ResourceSliceList", "apiVersion": "resource.k8s.io/v1",
        "metadata": {"resourceVersion": "1"}, "items": [*others, old],
    }  # fmt: skip
    standin.fault(
        "answer", verb="list", resource="resourceslices", user="host",
        body=json.dumps(body), count=1,
    )  # fmt: skip
    start(world, kubelet_root)
    until(lambda: own_slice(target), SOON_S, "our own slice")
    assert not target.admin.find(f"{SLICES}/d-old"), "one of ours under another name goes"
    for other in others:
        assert target.admin.find(f"{SLICES}/{other['metadata']['name']}"), other


def test_a_probe_of_a_function_gives_the_device_its_standard_attributes(
    world, target, tmp_path, kubelet_root
):
    function = tmp_path / "sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0"
    links = tmp_path / "sys/bus/pci/devices"
    function.mkdir(parents=True)
    links.mkdir(parents=True)
    (links / "0000:03:00.0").symlink_to(function)
    probes = ["exec:true", "interval=1s;pci:0000:03:00.0"]
    start(world, kubelet_root, probe=probes, host_root=str(tmp_path), dra_attribute=["rack=r12"])
    found = until(lambda: own_slice(target), SOON_S, "our own slice")
    assert found["spec"]["devices"][0]["attributes"] == {
        "rack": {"string": "r12"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:03:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    }


def test_a_dpu_that_toggles_its_health_is_written_once_per_interval(
    world, target, standin, kubelet_root
):
    start(world, kubelet_root)
    with_dpu(world, target)
    until(lambda: is_tainted(target) is False, SOON_S, "an untainted slice")
    before = len(writes(standin))
    started = time.monotonic()
    for i in range(60):
        set_health(target, "unhealthy" if i % 2 else None)
        time.sleep(0.05)
    set_health(target, "unhealthy")
    until(lambda: is_tainted(target), SOON_S, "the last word wins")
    # The pace is a second here: the shortest there is.
    took_s = time.monotonic() - started
    assert len(writes(standin)) - before <= took_s + 2, took_s
    settled = len(writes(standin))
    # One more is due when the lease runs out: another reason.
    never(lambda: len(writes(standin)) > settled + 1, 1.5, "another write")


def test_one_connection_is_kept_beside_both_watches(world, target, standin, kubelet_root):
    # Nothing is late by an interval here: no read takes a connection of its own.
    start(world, kubelet_root, dpu_node_lease_renew_interval="2s", dpu_node_lease_duration=8)
    with_dpu(world, target)
    until(lambda: is_tainted(target) is False, SOON_S, "an untainted slice")

    def says(health):
        set_health(target, health)
        return is_tainted(target) is bool(health)

    for health in ("unhealthy", None, "unhealthy"):
        until(lambda: says(health), SOON_S, f"a slice that says {health}", 0.1)  # noqa: B023
    assert len({line["conn"] for line in writes(standin)[-3:]}) == 1


def test_an_answer_that_differs_is_taken_as_it_is(world, target, standin, kubelet_root):
    start(world, kubelet_root)
    until(lambda: is_tainted(target), SOON_S, "a slice that waits for the DPU")
    made = own_slice(target)
    made["spec"]["devices"][0]["attributes"] = {"webhook": {"bool": True}}
    made["spec"]["devices"][0].pop("taints")
    made["spec"]["pool"]["generation"] = 7
    standin.fault(
        "answer", verb=["update", "create"], resource="resourceslices", user="host", after=True,
        body=json.dumps(made),
    )  # fmt: skip
    before = len(writes(standin))
    world.dpu()
    world.wait_state("Ready")
    until(lambda: len(writes(standin)) > before, SOON_S, "the verdict is written")
    time.sleep(3)
    assert len(writes(standin)) - before <= 3


def test_a_name_that_stays_taken_is_asked_for_ever_more_slowly(
    world, target, standin, kubelet_root
):
    """As a slice that a finalizer holds answers, where the watch is late."""
    standin.fault("status", verb="create", resource="resourceslices", user="host", code=409)
    start(world, kubelet_root)
    until(lambda: requests(standin), SOON_S, "a request")
    time.sleep(4)
    assert 4 <= len(requests(standin)) <= 25
    standin.clear_faults()
    until(lambda: own_slice(target), SOON_S, "a slice")


def with_dpu(world, target):
    """A DPU that renews each 200 ms would undo set_health: this one renews rarely."""
    world.dpu(dpu_node_lease_renew_interval="1s")
    world.wait_state("Ready")
    world.processes[-1].kill()


def set_health(target, word):
    def change(lease):
        annotations = lease["metadata"].setdefault("annotations", {})
        annotations.pop(f"{DRIVER}/health", None)
        if word:
            annotations[f"{DRIVER}/health"] = word
        lease["spec"]["renewTime"] = micro_time()

    target.put_lease(change)
