# SPDX-License-Identifier: Apache-2.0
"""dpu-agent beside ovn-kubernetes' own health check, which renews: --heartbeat=companion."""

import pytest
from upstream import UpstreamDpu
from world import SOON_S

QUICK = {"probe_interval": "100ms", "probe_timeout": "1s", "probe_failure_threshold": 1}


@pytest.fixture
def upstream(world, target):
    target.new_lease()
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
    dpu.wait_log(SOON_S, level="info", msg="another program renews")
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
    warnings = [line for line in dpu.lines(level="warn") if "no answer within" not in line["msg"]]
    assert all("DPU is unhealthy" in line["msg"] for line in warnings), dpu.tail()
