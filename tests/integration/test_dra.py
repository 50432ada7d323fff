# SPDX-License-Identifier: Apache-2.0
"""The DRA driver beside the agents: one judge, and a reader of its record. What a kubelet sees is in tests/e2e."""

import os
import signal
import subprocess

import pytest
from dpu_testing import record
from dpu_testing.process import run
from dpu_testing.wait import never, until
from test_http import Page
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
    world.host(probe=probes, host_root=str(root))
    world.driver(kubelet_root, **options)
    world.dpu()  # without device taints, only a DPU that renews is on offer
    path = f"{SLICES}/dpu.k8s.ovn.org-{target.node}"

    def seen():  # once the driver has read of the host's probes
        devices = (target.admin.find(path) or {"spec": {}})["spec"].get("devices")
        return devices and "resource.kubernetes.io/pciBusID" in devices[0]["attributes"] and devices[0]["attributes"]

    attributes = until(seen, SOON_S, "our device, with its function")
    assert attributes.pop("resource.kubernetes.io/numaNode", None) == published
    assert attributes == {
        "rack": {"string": "r12"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:03:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
    }


DRIVER = "dpu.k8s.ovn.org"


def health(world, kubelet_root, *words):
    """What a kubelet is told: "Healthy", and the rest of the line."""
    said = run(world.dra_watch(kubelet_root, "--once", *words)).stdout
    return said.split(" ")[0], said


def slice_of(target):
    return target.admin.find(f"{SLICES}/{DRIVER}-{target.node}")


def test_a_dead_judge_is_unknown_and_nobody_loses_the_dpu_until_the_record_counts_no_more(world, target, kubelet_root):
    host = world.host(stale_hold="4s")
    world.dpu()
    world.wait_state("Ready")
    world.driver(kubelet_root)
    until(lambda: health(world, kubelet_root)[0] == "Healthy", SOON_S, "Healthy")
    made = until(lambda: slice_of(target), SOON_S, "our slice")
    host.kill()
    said = until(lambda: (h := health(world, kubelet_root)) and h[0] == "Unknown" and h[1], SOON_S, "Unknown")
    assert "RecordStale: dpu-host-agent last wrote at " in said and "it was Ready (LeaseRenewed)" in said, said
    assert world.gate.status().ok and slice_of(target)["spec"]["devices"] == made["spec"]["devices"]
    if target.knows_taints:
        taint = until(lambda: slice_of(target)["spec"]["devices"][0].get("taints"), SOON_S, "a taint")
        assert taint[0]["value"] == "RecordStale" and not world.gate.status().ok
    world.host(stale_hold="4s")
    until(lambda: health(world, kubelet_root)[0] == "Healthy", SOON_S, "Healthy again")
    until(lambda: not slice_of(target)["spec"]["devices"][0].get("taints"), SOON_S, "no taint")


@pytest.mark.standin_only
def test_what_a_record_no_longer_says_is_not_reported_once_more_after_a_sleep(world, kubelet_root):
    """Stopped as by a suspend, its beat comes before the end of the record's time: both are over when it wakes."""
    os.makedirs(os.path.dirname(world.readiness_file), exist_ok=True)
    with open(world.readiness_file, "wb") as file:
        file.write(record.page(f"node={world.target.node}", "writer=4", "hold=60"))
    os.chmod(world.readiness_file, 0o644)
    driver = world.driver(kubelet_root, dra_health_timeout="3s")
    page = Page(driver)
    with subprocess.Popen(world.dra_watch(kubelet_root), stdout=subprocess.PIPE, text=True) as kubelet:
        assert kubelet.stdout.readline().startswith("Healthy ")
        reports = page.metrics()["dpu_heartbeat_dra_health_reports_total"]
        driver.signal(signal.SIGSTOP)
        until(lambda: world.boottime_ns() > world.record()["writerUntilBoottimeNs"], 2 * SOON_S, "overdue")
        driver.signal(signal.SIGCONT)
        assert "RecordStale" in kubelet.stdout.readline()
        kubelet.kill()
    assert page.metrics()["dpu_heartbeat_dra_health_reports_total"] == reports + 1


def test_nothing_is_on_offer_before_a_kubelet_has_registered_the_driver(world, target, kubelet_root):
    world.both()
    driver = world.driver(kubelet_root, is_registered=False)
    page = Page(driver)
    until(lambda: health(world, kubelet_root)[0] == "Healthy", SOON_S, "it serves")
    assert kubelet_root in page.get("/readyz", 503)
    never(lambda: slice_of(target), 1, "a slice")
    assert health(world, kubelet_root, "--register")[0] == "Healthy"
    until(lambda: slice_of(target), SOON_S, "our slice")
    assert DRIVER in page.get("/readyz") and page.metrics()["dpu_heartbeat_dra_registered"] == 1


@pytest.mark.standin_only
def test_whatever_happens_to_the_driver_the_record_misses_no_beat(world, kubelet_root):
    """Killed, stopped and starved, it costs the judge nothing: another process, which only reads."""
    world.both()
    for harm in ("kill", "stop", "starve"):
        driver = world.driver(kubelet_root)
        noise = []
        if harm == "kill":
            driver.kill()
        elif harm == "stop":
            driver.signal(signal.SIGSTOP)
        else:  # all that a kubelet could ask for, for ever
            command = world.dra_watch(kubelet_root)
            noise = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(40)]
        try:
            world.stays_ready(renewals=10)
        finally:
            for process in noise:
                process.kill()
                process.wait()
        driver.kill()


def rolled(world, kubelet_root, uid):
    return world.driver(kubelet_root, is_registered=False, dra_rolling_update_uid=uid)


@pytest.mark.standin_only
def test_an_instance_that_is_killed_is_cleared_up_after_and_its_successor_leads(world, target, kubelet_root):
    registry, plugins = f"{kubelet_root}/plugins_registry", f"{kubelet_root}/plugins/{DRIVER}"
    world.both()
    old = rolled(world, kubelet_root, "aaaa-1111")
    until(lambda: health(world, kubelet_root, "--register")[0] == "Healthy", SOON_S, "the old one serves")
    until(lambda: slice_of(target), SOON_S, "our slice")
    new = rolled(world, kubelet_root, "bbbb-2222")
    until(lambda: f"{DRIVER}-bbbb-2222-reg.sock" in os.listdir(registry), SOON_S, "both serve")
    assert Page(new).metrics()["dpu_heartbeat_dra_leading"] == 0
    old.kill()
    until(lambda: Page(new).metrics()["dpu_heartbeat_dra_leading"] == 1, SOON_S, "the new one leads")

    def is_cleared(uid):
        until(lambda: not [n for d in (registry, plugins) for n in os.listdir(d) if uid in n], 2 * SOON_S, "no leftovers")

    is_cleared("aaaa")
    assert health(world, kubelet_root, "--register")[0] == "Healthy"
    # A third one that ends before a kubelet has registered it changes nothing.
    third = rolled(world, kubelet_root, "cccc-3333")
    until(lambda: f"{DRIVER}-cccc-3333-reg.sock" in os.listdir(registry), SOON_S, "it serves")
    third.kill()
    is_cleared("cccc")
    assert Page(new).metrics()["dpu_heartbeat_dra_leading"] == 1 and slice_of(target)
    # The last one says so.
    with subprocess.Popen(world.dra_watch(kubelet_root), stdout=subprocess.PIPE, text=True) as kubelet:
        assert kubelet.stdout.readline().startswith("Healthy ")
        new.signal(signal.SIGTERM)
        until(lambda: kubelet.stdout.readline().startswith("Unknown "), SOON_S, "a last Unknown")
        kubelet.kill()


@pytest.mark.standin_only
def test_it_says_where_it_waits_if_no_kubelet_comes(world, kubelet_root):
    """The kubelet has another --root-dir, say: its warning names the folder, and so does the doctor."""
    world.both()
    driver = world.driver(kubelet_root, is_registered=False)
    said = driver.wait_log(60, mod="dra", level="warn")["msg"]
    assert f"waits in '{kubelet_root}/plugins_registry'" in said and "--root-dir" in said
    command = [world.binaries.path("dpuctl"), "doctor", "-o", "json", f"--kubelet-root-dir={kubelet_root}"]
    told = run([*command, f"--readiness-file={world.readiness_file}"]).stdout
    assert f"no kubelet has registered driver '{DRIVER}', which waits in '{kubelet_root}/plugins_registry'" in told


def test_without_the_kubelets_directories_no_decoy_is_made(world, kubelet_root):
    world.both()
    driver = world.driver(f"{kubelet_root}/k", is_registered=False)
    driver.wait_log(mod="dra", level="warn")
    assert not os.path.exists(f"{kubelet_root}/k") and driver.is_running()
