# SPDX-License-Identifier: Apache-2.0
"""Which node a DPU serves, and with which timers: as the platform already says."""

import json

import pytest
from dpu_testing.ovn import Ovn, is_installed
from dpu_testing.wait import until
from test_http import Page
from world import SOON_S

pytestmark = [
    pytest.mark.standin_only,
    pytest.mark.skipif(not is_installed(), reason="openvswitch-switch, ovn-central, ovn-host"),
]


@pytest.fixture
def ovs():
    built = Ovn()
    yield built
    built.cleanup()


def start_ovs(ovs, node):
    """Its database, which names the node."""
    ovs.start("ovsdb")
    ovs.vsctl("init")
    name(ovs, node)


def name(ovs, node):
    ovs.set_ids(**{"host-k8s-nodename": f'"{node}"'})


def is_renewed(target, node):
    """Its renewTime; None without."""
    lease = target.admin.find(f"{target.leases_path()}/ovn-dpu-{node}")
    return lease and lease["spec"].get("renewTime")


def status(program):
    return json.loads(Page(program).request("/statusz")[1])


def test_without_a_name_it_waits_and_then_serves_the_node_that_ovs_names(world, target, ovs):
    target.new_lease()
    dpu = world.dpu(node_name=None, ovs_rundir=ovs.run_dir)
    waits = dpu.wait_log(SOON_S, level="warn", msg="waiting for the name of the node")
    assert ovs.run_dir in waits["msg"]
    answer, said = Page(dpu).request("/readyz")
    assert answer.status == 503 and "node's name" in said
    assert status(dpu)["renewer"] == "AwaitingNodeName" and "node" not in status(dpu)
    start_ovs(ovs, "Not A Name")
    dpu.wait_log(SOON_S, level="warn", msg="'Not A Name' is not")
    assert not is_renewed(target, target.node)
    name(ovs, target.node)
    until(lambda: is_renewed(target, target.node), SOON_S, dpu.tail)
    assert status(dpu)["sources"]["node-name"] == "external_ids:host-k8s-nodename of OVS"
    assert Page(dpu).request("/readyz")[0].status == 200


def test_a_new_name_is_followed_and_an_ovs_that_is_away_changes_nothing(world, target, ovs):
    for node in ("first", "second"):
        target.new_lease(node=node)
    start_ovs(ovs, "first")
    dpu = world.dpu(node_name=None, ovs_rundir=ovs.run_dir)
    until(lambda: is_renewed(target, "first"), SOON_S, dpu.tail)
    assert not is_renewed(target, "second")
    name(ovs, "second")
    until(lambda: is_renewed(target, "second"), SOON_S, dpu.tail)
    dpu.wait_log(SOON_S, level="warn", msg="was 'first' and has changed")
    ovs.kill("ovsdb")
    left = is_renewed(target, "first")
    before = is_renewed(target, "second")
    dpu.wait_log(SOON_S, level="warn", msg="the node's name may be outdated")
    until(lambda: is_renewed(target, "second") != before, SOON_S, dpu.tail)
    assert is_renewed(target, "first") == left


def test_a_stop_while_it_waits_does_not_hang(world, tmp_path):
    dpu = world.dpu(node_name=None, ovs_rundir=str(tmp_path))
    dpu.wait_log(SOON_S, level="warn", msg="waiting for the name of the node")
    assert dpu.stop() == 0
