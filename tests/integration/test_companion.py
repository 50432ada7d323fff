# SPDX-License-Identifier: Apache-2.0
"""dpu-agent beside ovn-kubernetes' own health check, which renews: --heartbeat=companion."""

import pytest
from dpu_testing.wait import never, until
from upstream import HOLDER, UpstreamDpu
from world import SOON_S

QUICK = {"probe_interval": "100ms", "probe_timeout": "1s", "probe_failure_threshold": 1}


@pytest.fixture
def upstream(world, target):
    target.new_lease(holderIdentity=HOLDER, leaseDurationSeconds=world.duration_s)
    with UpstreamDpu(target, world.interval_ms / 1000, world.duration_s) as running:
        yield running


def companion(world, flag, **options):
    flag.touch()
    return world.dpu(
        heartbeat="companion", probe=[f"exec:test -e {flag}"], **{**QUICK, **options}
    )


def test_it_adds_its_word_and_leaves_the_renewals_to_upstream(world, target, upstream, tmp_path):
    flag = tmp_path / "flag"
    host = world.host()
    dpu = companion(world, flag)
    world.wait_verdict("Ready/LeaseRenewed")
    dpu.wait_log(SOON_S, level="info", msg="is renewed by another")
    flag.unlink()
    world.wait_verdict("NotReady/DPUReportedUnhealthy")
    assert str(flag) in world.record()["message"]
    world.never_state("Ready", world.duration_s * 2)  # however often upstream renews
    flag.touch()
    world.wait_verdict("Ready/LeaseRenewed")
    assert target.lease()["spec"]["renewTime"] in upstream.sent
    assert upstream.refused == 0
    for program in (host, dpu):
        assert not program.lines(level="error"), program.tail()
    assert all("DPU is unhealthy" in line["msg"] for line in dpu.lines(level="warn")), dpu.tail()


@pytest.mark.standin_only
def test_it_writes_nothing_while_all_is_well(world, target, upstream, tmp_path):
    dpu = companion(world, tmp_path / "flag")
    dpu.wait_log(SOON_S, level="info", msg="is renewed by another")
    target.standin.count_anew()
    never(lambda: not dpu.is_running(), 2.0, "an end")
    requests = target.standin.requests()
    ours = {k: n for k, n in requests.items() if k.startswith("dpu ")}
    assert list(ours) == ["dpu get leases 200"], ours
    assert ours["dpu get leases 200"] <= 2.0 * 1000 / world.interval_ms * 1.3 + 1


def test_without_a_probe_it_says_that_it_proves_nothing(world, target, upstream):
    dpu = world.dpu(heartbeat="companion", probe=[])
    dpu.wait_log(SOON_S, level="info", msg="is renewed by another")
    dpu.wait_log(SOON_S, level="warn", msg="as a companion this agent proves nothing")
    assert not dpu.lines(msg="this heartbeat proves")


def test_upstreams_death_is_a_dead_dpu_although_the_probes_pass(
    world, target, upstream, tmp_path
):
    world.host()
    dpu = companion(world, tmp_path / "flag")
    world.wait_state("Ready")
    upstream.stop()
    world.wait_verdict("NotReady/LeaseExpired")
    dpu.wait_log(SOON_S, level="warn", msg="nobody renews lease")


def test_a_report_ends_with_the_agent_that_renewed_it(world, target, upstream, tmp_path):
    flag = tmp_path / "flag"
    world.host()
    dpu = companion(world, flag)
    world.wait_state("Ready")
    flag.unlink()
    world.wait_verdict("NotReady/DPUReportedUnhealthy")
    dpu.kill()
    world.wait_verdict("Ready/LeaseRenewed", SOON_S + world.duration_s)


def test_a_report_of_a_former_life_is_taken_back(world, target, upstream, tmp_path):
    flag = tmp_path / "flag"
    dpu = companion(world, flag)
    flag.unlink()
    key = "dpu.k8s.ovn.org/health"
    until(lambda: key in (target.lease()["metadata"].get("annotations") or {}), SOON_S, "a report")
    dpu.kill()
    companion(world, flag)
    until(
        lambda: key not in (target.lease()["metadata"].get("annotations") or {}),
        SOON_S, "no report",
    )  # fmt: skip
