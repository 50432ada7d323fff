# SPDX-License-Identifier: Apache-2.0
"""The readiness record on a full tmpfs, and in another time namespace."""

import os
import subprocess

import pytest
from dpu_testing.wait import until
from world import SOON_S, in_own_mounts


@pytest.mark.needs_root
def test_a_full_tmpfs_does_not_stop_the_rewrites(world, tmp_path):
    """In a mount namespace of its own: a tmpfs that has no byte left once the page exists."""
    run_dir = os.path.dirname(world.readiness_file)
    os.makedirs(run_dir)
    small = in_own_mounts(f'mount -t tmpfs -o size=64k,nr_inodes=8 tmpfs "{run_dir}"')
    host = world.host(wrapper=small)
    inside = f"/proc/{host.pid}/root{run_dir}"
    world.readiness_file = f"{inside}/readiness.json"
    world.dpu()
    world.wait_state("Ready")
    filler = subprocess.run(
        ["dd", "if=/dev/zero", f"of={inside}/filler", "bs=4096"], capture_output=True, check=False
    )
    assert b"No space" in filler.stderr
    for number in range(16):
        try:
            with open(f"{inside}/inode-{number}", "w", encoding="ascii"):
                pass
        except OSError:
            break
    world.wait_renewals(5)
    assert world.state() == "Ready"


@pytest.mark.needs_root
def test_reader_and_writer_in_different_time_namespaces_agree(world):
    if os.geteuid() != 0 or not os.path.exists("/proc/self/timens_offsets"):
        pytest.skip("needs root and time namespaces")
    wrapper = ["unshare", "--time", "--boottime", "200000", "--monotonic", "100000"]
    probe = subprocess.run([*wrapper, "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("time namespaces cannot be made here")
    world.host(wrapper=wrapper)
    dpu = world.dpu()
    world.wait_state("Ready")
    assert abs(world.boottime_ns() - world.record().observed_ns) < 5e9
    assert world.gate.status().ok
    dpu.kill()
    world.wait_verdict("NotReady/LeaseExpired")
    until(lambda: world.gate.status().code == 50, SOON_S, "STATUS")
