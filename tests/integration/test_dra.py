# SPDX-License-Identifier: Apache-2.0
"""The ResourceSlice and its writer's manners. What a kubelet sees is in tests/e2e."""

import time

import pytest
from dpu_testing.kube import micro_time
from dpu_testing.wait import never, until
from world import SOON_S

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
DRIVER = "dpu.k8s.ovn.org"


def start(world, kubelet_root, **options):
    return world.host(dra="on", kubelet_root_dir=kubelet_root, **options)


def own_slice(target):
    return target.admin.find(f"{SLICES}/{DRIVER}-{target.node}")


def is_tainted(target):
    found = own_slice(target)
    return bool(found["spec"]["devices"][0].get("taints")) if found else None


@pytest.mark.parametrize("numa_node, published", [("1", {"int": 1}), ("-1", None), (None, None)])
def test_a_probe_of_a_function_gives_the_device_its_standard_attributes(
    world, target, tmp_path, kubelet_root, numa_node, published
):
    root = tmp_path / "pci"
    function = root / "sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0"
    links = root / "sys/bus/pci/devices"
    function.mkdir(parents=True)
    links.mkdir(parents=True)
    (links / "0000:03:00.0").symlink_to(function)
    if numa_node:
        (function / "numa_node").write_text(f"{numa_node}\n")
    probes = ["exec:true", "interval=1s;pci:0000:03:00.0"]
    start(world, kubelet_root, probe=probes, host_root=str(root), dra_attribute=["rack=r12"])
    world.dpu()  # without device taints, only a DPU that renews is on offer
    devices = until(lambda: (own_slice(target) or {"spec": {}})["spec"].get("devices"), SOON_S, "our device")
    attributes = devices[0]["attributes"]
    assert attributes.pop("resource.kubernetes.io/numaNode", None) == published
    assert attributes == {
        "rack": {"string": "r12"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:03:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    }


@pytest.mark.standin_only
def test_a_dpu_that_toggles_its_health_is_written_once_per_interval(world, target, kubelet_root):
    def writes():
        asked = target.standin.audit(resource="resourceslices", user="host")
        return len([line for line in asked if line["verb"] in ("create", "update", "delete")])

    start(world, kubelet_root)
    with_dpu(world, target)
    until(lambda: is_tainted(target) is False, SOON_S, "an untainted slice")
    before = writes()
    started = time.monotonic()
    for i in range(40):
        set_health(target, "unhealthy" if i % 2 else None)
        time.sleep(0.05)
    set_health(target, "unhealthy")
    until(lambda: is_tainted(target), SOON_S, "the last word wins")
    # The pace is a second here: the shortest there is.
    took_s = time.monotonic() - started
    assert writes() - before <= took_s + 2, took_s
    settled = writes()
    # One more is due when the lease runs out: another reason.
    never(lambda: writes() > settled + 1, 1.5, "another write")


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
