# SPDX-License-Identifier: Apache-2.0
"""Several API servers behind a balancer, of which the one that a connection leads to fails at once,
or shows what was. New connections reach the others: no living DPU is refused meanwhile, and no dead
one admitted for longer than the rules say."""

import time

import pytest
from dpu_testing.wait import never, until
from front import Balancer, answer
from world import SOON_S

pytestmark = pytest.mark.standin_only

INTERVAL_S, DURATION_S = 1, 4
# The time of one retry of a DPU (R of the rules), and a blind span of two intervals (B).
BOUND_S = DURATION_S + 3 * INTERVAL_S + 2 * INTERVAL_S


def failing(code, writes_alone=False, **how):
    def at(method, path):
        return None if writes_alone and method == "GET" else answer(code, **how)

    return lambda target: at


def lagging(target):
    """Shows the lease as it is now, by whatever way; writes go to the store."""
    lease = target.lease()
    items = {"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "items": [lease]}
    items["metadata"] = {"resourceVersion": lease["metadata"]["resourceVersion"]}

    def at(method, path):
        if method != "GET" or "/leases" not in path:
            return None
        if "watch=true" in path:
            return answer(0)
        return answer(200, items if "fieldSelector" in path else lease)

    return at


KINDS = {
    "500": failing(500),
    "503-writes": failing(503, writes_alone=True),
    "500-writes": failing(500, writes_alone=True),
    "401": failing(401),
    "403": failing(403),
    "429": failing(429),
    "page": failing(200, body="no object"),
}


@pytest.fixture
def balancer(target, world):
    world.interval_ms, world.duration_s = INTERVAL_S * 1000, DURATION_S
    built = Balancer(target.standin.url)
    yield built
    built.close()


def balanced(world, balancer, *users):
    """Both agents; these reach the API server through the balancer, and both have settled."""
    paths = {user: balancer.kubeconfig(world.directory, user) for user in users}
    world.host(**({"kubeconfig": paths["host"]} if "host" in paths else {}))
    dpu = world.dpu(**({"kubeconfig": paths["dpu"]} if "dpu" in paths else {}))
    world.wait_state("Ready")
    world.wait_renewals(3)
    return dpu


@pytest.mark.parametrize("kind", KINDS)
def test_a_living_dpu_leaves_a_server_that_fails(world, target, balancer, kind):
    balanced(world, balancer, "dpu")
    sick = balancer.last_server("dpu", "PUT")
    sick.answer = KINDS[kind](target)
    began = time.monotonic()
    world.never_state("NotReady", 2.5 * DURATION_S)
    world.wait_renewals(2)
    assert sick.asked_since(began, "dpu"), "the server was not asked"
    assert balancer.opened_since(began) <= 4, balancer.opened
    assert len(balancer.open) <= 2


def test_a_living_dpu_passes_over_two_servers_that_fail(world, target, balancer):
    balanced(world, balancer, "dpu")
    last = balancer.servers.index(balancer.last_server("dpu", "PUT"))
    for number in (last, (last + 1) % 3):
        balancer.servers[number].answer = failing(500)(target)
    began = time.monotonic()
    world.never_state("NotReady", 2.5 * DURATION_S)
    assert balancer.opened_since(began) <= 6, balancer.opened


def test_a_living_dpu_leaves_a_server_that_lags(world, target, balancer):
    """What it reads there is old, and each write on that is refused."""
    balanced(world, balancer, "dpu")
    sick = balancer.last_server("dpu", "PUT")
    sick.answer = lagging(target)
    began = time.monotonic()
    target.put_lease(lambda lease: lease["metadata"].setdefault("annotations", {}).update(by="somebody"))
    world.never_state("NotReady", 2.5 * DURATION_S)
    world.wait_renewals(2)
    assert ["GET", target.lease_path()] in sick.asked_since(began, "dpu")
    assert balancer.opened_since(began) <= 4, balancer.opened


def renewed_at(world):
    return world.record().observed_ns


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_dpu_is_found_although_the_hosts_server_fails(world, target, balancer, kind):
    """All that the host has open leads there."""
    dpu = balanced(world, balancer, "host")
    sick = {balancer.last_server("host", words) for words in ("watch=true", "")}
    for server in sick:
        server.answer = KINDS[kind](target)
    began = time.monotonic()
    dpu.kill()
    renewed_ns = renewed_at(world)
    world.wait_state("NotReady", BOUND_S + SOON_S)
    assert (world.boottime_ns() - renewed_ns) / 1e9 < BOUND_S + 1, world.record()
    assert any(server.asked_since(began, "host") for server in sick)
    assert balancer.opened_since(began) <= 12, balancer.opened
    assert len(balancer.open) <= 5


def test_a_dead_dpu_is_found_although_the_hosts_server_lags(world, target, balancer):
    """Its watch is silent, and what it reads is older than the last renewal: each mark meets a conflict."""
    dpu = balanced(world, balancer, "host")
    sick = balancer.servers[0]
    shown = target.lease()["spec"]["renewTime"]
    sick.answer = lagging(target)
    balancer.first = [0, 0]
    balancer.cut()
    until(lambda: target.lease()["spec"]["renewTime"] != shown, SOON_S, "a renewal")
    until(lambda: any("watch=true" in path for _, path in sick.asked_since(0, "host")), SOON_S)
    dpu.kill()
    killed_ns = world.boottime_ns()
    world.wait_state("NotReady", BOUND_S + SOON_S)
    # The last renewal counts from when it is seen.
    assert (world.boottime_ns() - killed_ns) / 1e9 < BOUND_S + DURATION_S, world.record()
    assert world.record()["lease"]["renewTime"] == target.lease()["spec"]["renewTime"]


def test_a_living_dpu_is_not_refused_although_the_hosts_server_lags(world, target, balancer):
    balanced(world, balancer, "host")
    balancer.servers[0].answer = lagging(target)
    balancer.first = [0, 0]
    balancer.cut()
    began = time.monotonic()
    world.never_state("NotReady", 4 * DURATION_S)
    world.wait_renewals(3)
    assert balancer.servers[0].asked_since(began, "host")
    assert balancer.opened_since(began) <= 10, balancer.opened


def test_a_watch_leaves_a_server_that_refuses_it(world, target, balancer):
    """It refuses lists and watches alone: what else is asked goes on there, and keeps a connection."""
    balanced(world, balancer, "host")
    sick = balancer.servers[0]
    sick.answer = lambda method, path: answer(500) if "fieldSelector" in path else None
    balancer.first = [0, 0]
    balancer.cut()
    healthy = balancer.servers[1:]
    began = time.monotonic()

    def is_watched():
        asked = [words for server in healthy for words in server.asked_since(began, "host")]
        return any("/leases" in path and "watch=true" in path for _, path in asked)

    # The read that stands in for the watch and two of its tries may meet the sick server, and what
    # the watch waits after each doubles.
    until(is_watched, 4 * SOON_S, "a watch at another server")
    assert ["GET", target.lease_path()] in sick.asked_since(began, "host")
    world.never_state("NotReady", 1)


@pytest.mark.parametrize("user", ["dpu", "host"])
def test_a_server_that_is_the_only_one_is_not_stormed(world, target, balancer, user):
    """It fails for long: tries go on, most of them over the connection that there is. All is well once
    it is well."""
    del balancer.servers[1:]
    dpu = balanced(world, balancer, user)
    only = balancer.servers[0]
    only.answer = failing(500)(target)
    if user == "host":
        dpu.kill()  # else it has next to nothing to ask
    began = time.monotonic()
    never(lambda: len(balancer.open) > 5 and balancer.open, 20, "connections that pile up")
    tries, opened = len(only.asked_since(began, user)), balancer.opened_since(began)
    assert tries >= 15
    assert opened <= {"dpu": 10, "host": 20}[user], balancer.opened
    only.answer = None
    world.wait_state("NotReady" if user == "host" else "Ready", 2 * SOON_S)
