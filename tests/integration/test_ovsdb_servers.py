# SPDX-License-Identifier: Apache-2.0
"""What dpu-agent says of a database whose server answers and serves nothing: real servers of OVN's
southbound database, in a cluster, behind a relay, and at work."""

import pytest
from dpu_testing.ovn import is_installed
from dpu_testing.ovsdb import Servers
from dpu_testing.wait import never, until
from test_ovn_probes import message, reports, wait_message, wait_renewed
from world import SOON_S

QUICK = "interval=200ms,timeout=1s,refused=600ms,silent=3s,missing=4s,wrong=4s"

pytestmark = [
    pytest.mark.standin_only,
    pytest.mark.skipif(not is_installed(), reason="openvswitch-switch, ovn-central, ovn-host"),
]


@pytest.fixture
def servers():
    built = Servers()
    yield built
    built.cleanup()


def start(world, target, servers, name, is_renewing=True):
    """dpu-agent beside that server."""
    target.new_lease()
    dpu = world.dpu(probe=[f"{QUICK};ovn-sb"], ovs_rundir=servers.run_dir(name))
    if is_renewing:
        until(lambda: target.lease()["spec"].get("renewTime"), SOON_S, "a renewal")
    return dpu


def test_a_member_that_never_joined_its_cluster_serves_nothing(world, target, servers):
    servers.add_joining("n1")
    start(world, target, servers, "n1", is_renewing=False)
    wait_message(target, "probe 'ovn-sb'", "'OVN_Southbound'", "has not joined its cluster")
    assert not target.lease()["spec"].get("renewTime")


@pytest.mark.parametrize("asked", ["n1", "n3"], ids=["of the leader", "of a follower"])
def test_a_cluster_serves_as_long_as_it_has_a_quorum(world, target, servers, asked):
    servers.add_cluster("n1", "n2", "n3")
    first, second = [name for name in ("n1", "n2", "n3") if name != asked]
    start(world, target, servers, asked)
    servers.kill(first)  # n1 leads: another is elected
    never(lambda: message(target), 6, "a report of a cluster that has its quorum")
    servers.kill(second)
    wait_message(target, "probe 'ovn-sb'", "has lost its quorum", timeout_s=40)
    servers.restart(first)
    wait_renewed(target, 40)


def test_a_relay_without_its_source_serves_nothing(world, target, servers):
    servers.add("source")
    servers.add_relay("relay", "source")
    start(world, target, servers, "relay")
    servers.kill("source")
    wait_message(target, "probe 'ovn-sb'", "has lost its source", timeout_s=60)
    servers.restart("source")
    wait_renewed(target, 60)


@pytest.mark.parametrize("is_clustered", [False, True], ids=["alone", "clustered"])
def test_a_database_that_is_converted_or_compacted_is_no_alarm(world, target, servers, is_clustered):
    if is_clustered:
        servers.add_cluster("n1", "n2")
    else:
        servers.add("n1")
    dpu = start(world, target, servers, "n1")

    def work():
        for _ in range(8):
            servers.convert("n1")
            servers.ask("n1", "ovsdb-server/compact")

    assert not reports(target, work)
    assert not dpu.lines(level="debug", msg="probe 'ovn-sb': wrong")
