# SPDX-License-Identifier: Apache-2.0
"""The readiness record as a file: where it is, what it is, and what may happen to it."""

import os
import shutil
import subprocess
import time

import pytest
from dpu_testing import record
from dpu_testing.wait import until
from world import SOON_S, in_own_mounts


def test_it_is_one_page_of_json_with_all_members(world, target):
    world.both()
    with open(world.readiness_file, "rb") as file:
        page = file.read()
    assert len(page) == record.PAGE_BYTES
    assert page.endswith(b"\n")
    seen, lease = world.record(), target.lease()["metadata"]
    assert (seen["version"], seen["node"], seen["pid"]) == (1, target.node, world.processes[0].pid)
    assert seen["lease"]["durationSeconds"] == world.duration_s
    assert {key: seen["lease"][key] for key in ("namespace", "name", "uid")}.items() <= lease.items()
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        assert seen["bootId"] == file.read().strip()
    assert seen.observed_ns <= world.boottime_ns() and seen["writerUntilBoottimeNs"] > seen.observed_ns
    assert seen["holdUntilBoottimeNs"] >= seen["writerUntilBoottimeNs"] + 299 * 10**9
    assert list(seen)[-1] == "crc32c"


@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_removed_record_is_made_again_within_a_second_or_so(world, what):
    world.both()
    if what == "file":
        os.unlink(world.readiness_file)
    else:
        # Moved away in one step: the agent is quick enough to fill it again between two.
        directory = os.path.dirname(world.readiness_file)
        os.rename(directory, directory + ".gone")
        shutil.rmtree(directory + ".gone")
    removed = time.monotonic()
    world.wait_record(lambda r: r.state == "Ready", 5)
    assert time.monotonic() - removed < 3
    world.wait_renewals(2)


@pytest.mark.needs_root
def test_an_agent_needs_no_inotify_instance(world):
    script = 'echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"'
    none_left = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"]
    if subprocess.run([*none_left, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("user namespaces cannot be made here")
    first = world.host(wrapper=none_left)
    world.dpu()
    world.wait_state("Ready")
    second = world.host(wrapper=none_left)
    assert second.wait_log(SOON_S, mod="record", msg="waiting")
    os.unlink(world.readiness_file)
    world.wait_renewals()
    first.stop()
    world.wait_record(lambda r: r["pid"] == second.pid, SOON_S, "the other one writes")


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
