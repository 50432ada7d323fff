# SPDX-License-Identifier: Apache-2.0
"""The device in the ResourceSlice. What a kubelet sees is in tests/e2e."""

import pytest
from dpu_testing.wait import until
from world import SOON_S

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


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
    options = {"host_root": str(root), "dra_attribute": ["rack=r12"]}
    world.host(dra="on", kubelet_root_dir=kubelet_root, probe=probes, **options)
    world.dpu()  # without device taints, only a DPU that renews is on offer
    path = f"{SLICES}/dpu.k8s.ovn.org-{target.node}"
    made = until(lambda: (s := target.admin.find(path)) and s["spec"].get("devices") and s, SOON_S, "our device")
    attributes = made["spec"]["devices"][0]["attributes"]
    assert attributes.pop("resource.kubernetes.io/numaNode", None) == published
    assert attributes == {
        "rack": {"string": "r12"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:03:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    }
