# SPDX-License-Identifier: Apache-2.0
"""The verdict over the life of a DPU: never Ready late, never NotReady early."""

import time

# Beyond the deadline: one round trip and the scheduling of a busy machine.
LATE_S = 1.5


def wait_expiry(world, last_observed_ns):
    """Follows the record to NotReady; checks that it is neither early nor late."""
    deadline_ns = last_observed_ns + world.duration_s * 10**9
    while True:
        before_ns = world.boottime_ns()
        seen = world.record()
        if seen.state == "NotReady":
            break
        if seen.observed_ns != last_observed_ns:
            last_observed_ns = seen.observed_ns  # a renewal that was still under way
            deadline_ns = last_observed_ns + world.duration_s * 10**9
        assert before_ns < deadline_ns + LATE_S * 1e9, f"late: {seen}"
        time.sleep(0.002)
    assert world.boottime_ns() >= deadline_ns, f"early: {seen}"
    return seen


def test_a_dead_dpu_is_not_ready_one_duration_after_its_last_renewal(world):
    _, dpu = world.both()
    world.wait_renewals()
    dpu.kill()
    seen = wait_expiry(world, world.record().observed_ns)
    assert seen.reason == "LeaseExpired"
    assert seen["admit"] is False
    assert seen["transitionTime"]


def test_a_dpu_agent_restarted_within_the_duration_goes_unnoticed(world):
    _, dpu = world.both()
    for _ in range(2):
        dpu.kill()
        dpu = world.dpu()
        world.wait_renewals(1)
    assert dpu.stop() == 0
    dpu = world.dpu()
    world.wait_renewals(2)
    assert len({world.record()["transitionTime"]}) == 1
    world.never_state("NotReady", 0.3)


def test_a_short_stop_of_the_dpu_agent_goes_unnoticed(world):
    _, dpu = world.both()
    dpu.pause()
    world.never_state("NotReady", world.duration_s * 0.5)
    dpu.resume()
    world.wait_renewals()
    assert world.state() == "Ready"


def test_a_long_stop_of_the_dpu_agent_is_a_dead_dpu_until_it_goes_on(world, target):
    _, dpu = world.both()
    dpu.pause()
    world.wait_verdict("NotReady/LeaseExpired")
    dpu.resume()
    world.wait_verdict("Ready/LeaseRenewed")
    if target.standin:  # ticks missed meanwhile are not made up for
        since = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        world.wait_renewals(5)
        puts = [e for e in target.standin.audit(user="dpu", verb="update") if e["bootNs"] > since]
        assert len(puts) <= 8, len(puts)


def test_a_dpu_that_never_comes_is_not_ready_after_one_duration(world):
    world.host()
    started_ns = world.boottime_ns()
    world.wait_verdict("Unknown/AwaitingFirstRenewal")
    seen = world.wait_state("NotReady")
    assert world.boottime_ns() - started_ns > (world.duration_s - 1) * 1e9
    assert "dpu-agent may not run on the DPU" in seen["message"]
    assert "configuration mismatch" in seen["message"]


def test_a_dead_dpu_whose_lease_is_deleted_is_not_ready_at_the_deadline(world, target):
    _, dpu = world.both()
    dpu.kill()
    last_ns = world.record().observed_ns
    target.admin.delete(target.lease_path())
    wait_expiry(world, last_ns)


def test_a_dpu_that_renews_too_rarely_is_explained(world):
    world.host()
    dpu = world.dpu(dpu_node_lease_renew_interval="2500ms", dpu_node_lease_duration=20)
    seen = world.wait_record(lambda r: "apart" in r["message"], 20, "a mismatch is named")
    assert dpu.is_running()
    assert "configuration mismatch" in seen["message"]
