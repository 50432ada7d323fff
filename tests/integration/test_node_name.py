# SPDX-License-Identifier: Apache-2.0
"""Which node a DPU serves, and with which timers: as the platform already says."""

import json
import os
import socketserver
import threading

import pytest
from dpu_testing.wait import until
from test_http import Page
from world import SOON_S

pytestmark = pytest.mark.standin_only


class Ovsdb(threading.Thread):
    """As much of OVS' database as names the node: one row of Open_vSwitch."""

    def __init__(self, directory):
        super().__init__(daemon=True)
        self.directory = str(directory)
        self.external_ids = {}
        ovsdb = self

        class Connection(socketserver.BaseRequestHandler):
            def handle(self):
                asked = json.loads(self.request.recv(65536))
                pairs = [[k, v] for k, v in ovsdb.external_ids.items()]
                rows = [{"external_ids": ["map", pairs]}]
                answer = {"id": asked["id"], "result": [{"rows": rows}], "error": None}
                self.request.sendall(json.dumps(answer).encode())
                self.request.recv(1)  # until the other side ends

        self.server = socketserver.ThreadingUnixStreamServer(
            os.path.join(self.directory, "db.sock"), Connection
        )

    def run(self):
        self.server.serve_forever(0.05)

    def name(self, node):
        self.external_ids["host-k8s-nodename"] = node

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def is_renewed(target, node):
    """Its renewTime; None without."""
    lease = target.admin.find(f"{target.leases_path()}/ovn-dpu-{node}")
    return lease and lease["spec"].get("renewTime")


def status(program):
    return json.loads(Page(program).request("/statusz")[1])


def test_without_a_name_it_waits_and_then_serves_the_node_that_ovs_names(
    world, target, tmp_path
):
    target.new_lease()
    dpu = world.dpu(node_name=None, ovs_rundir=str(tmp_path))
    waits = dpu.wait_log(SOON_S, level="warn", msg="waiting for the name of the node")
    assert str(tmp_path) in waits["msg"]
    answer, said = Page(dpu).request("/readyz")
    assert answer.status == 503 and "node's name" in said
    assert status(dpu)["renewer"] == "AwaitingNodeName" and "node" not in status(dpu)
    with Ovsdb(tmp_path) as ovsdb:
        ovsdb.name("Not A Name")
        dpu.wait_log(SOON_S, level="warn", msg="'Not A Name' is not")
        assert not is_renewed(target, target.node)
        ovsdb.name(target.node)
        until(lambda: is_renewed(target, target.node), SOON_S, dpu.tail)
        assert status(dpu)["sources"]["node-name"] == "external_ids:host-k8s-nodename of OVS"
        assert Page(dpu).request("/readyz")[0].status == 200


def test_a_new_name_is_followed_and_an_ovs_that_is_away_changes_nothing(world, target, tmp_path):
    for node in ("first", "second"):
        target.new_lease(node=node)
    with Ovsdb(tmp_path) as ovsdb:
        ovsdb.name("first")
        dpu = world.dpu(node_name=None, ovs_rundir=str(tmp_path))
        until(lambda: is_renewed(target, "first"), SOON_S, dpu.tail)
        assert not is_renewed(target, "second")
        ovsdb.name("second")
        until(lambda: is_renewed(target, "second"), SOON_S, dpu.tail)
        dpu.wait_log(SOON_S, level="warn", msg="was 'first' and has changed")
    left = is_renewed(target, "first")
    before = is_renewed(target, "second")
    dpu.wait_log(SOON_S, level="warn", msg="the node's name may be outdated")
    until(lambda: is_renewed(target, "second") != before, SOON_S, dpu.tail)
    assert is_renewed(target, "first") == left


def test_a_stop_while_it_waits_does_not_hang(world, tmp_path):
    dpu = world.dpu(node_name=None, ovs_rundir=str(tmp_path))
    dpu.wait_log(SOON_S, level="warn", msg="waiting for the name of the node")
    assert dpu.stop() == 0
