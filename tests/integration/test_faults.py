# SPDX-License-Identifier: Apache-2.0
"""Rows of tests/faults/faults.tsv that no other file plays."""

import concurrent.futures
import os
import random
import subprocess
import threading
import time

import pytest
from dpu_testing.wait import never, until
from front import Front
from world import SOON_S

pytestmark = pytest.mark.standin_only


def test_a_link_that_loses_delays_and_reorders_costs_no_readiness(world, target, tmp_path):
    """Pieces are held back, some for as long as a retransmission takes, and connections are cut: what
    is sent on one connection overtakes what is under way on another."""
    world.interval_ms, world.duration_s = 500, 4
    chance = random.Random(1)

    def spoil():
        drawn = chance.random()
        time.sleep(0.25 if drawn < 0.12 else chance.uniform(0, 0.06))
        return drawn < 0.02

    links = [Front(target.standin.url) for _ in range(2)]
    try:
        for side, link in zip(("dpu", "host"), links):
            link.spoil = spoil
            getattr(world, side)(kubeconfig=link.kubeconfig(tmp_path, side))
        world.wait_state("Ready", 30)
        never(lambda: world.state() == "NotReady" and world.record(), 6, "NotReady")
        world.wait_renewals(2)
    finally:
        for link in links:
            link.close()


def test_five_hundred_gates_at_once_get_one_of_two_answers(world, target):
    """While what the DPU says of itself, and so the record, flips all the time."""
    world.both()
    stop = threading.Event()
    key = "dpu.k8s.ovn.org/health"

    def flip():
        ill = False
        while not stop.wait(0.03):
            ill = not ill
            said = {key: "unhealthy" if ill else ""}
            target.put_lease(lambda l, said=said: l["metadata"].setdefault("annotations", {}).update(said))

    flipper = threading.Thread(target=flip)
    flipper.start()
    answers = []

    def both_are_given():
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            answers.extend(pool.map(lambda _: world.gate.status(), range(500)))
        return len({answer.ok for answer in answers}) == 2

    try:
        until(both_are_given, SOON_S, "both answers", 0)  # the DPU soon takes back what is said of it
    finally:
        stop.set()
        flipper.join()
    assert {answer.code for answer in answers} <= {0, 50}, answers
    refused = [answer for answer in answers if not answer.ok]
    odd = [a for a in refused if "report" not in a.msg and "says" not in a.msg]
    assert not odd, odd[:3]


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
