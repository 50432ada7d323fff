# SPDX-License-Identifier: Apache-2.0
"""Which requests share a connection, and how long one may take."""

import ssl
import time

import pytest
from dpu_testing import kubeconfig
from dpu_testing.authority import Authority
from dpu_testing.kube import Kube
from dpu_testing.wait import until
from front import Front
from target import StandinTarget
from world import SOON_S, World

pytestmark = pytest.mark.standin_only
OLD_S = 3  # an idle connection is by then
SLOW_S = 7


@pytest.fixture
def front(world, target, tmp_path):
    """Before a host at rest, which has sent nothing but its watch for a while."""
    built = Front(target.standin.url)
    path = tmp_path / "front.kubeconfig"
    path.write_text(kubeconfig.dump(built.url, token="host-token"))
    world.dpu()
    world.host(kubeconfig=path)
    world.wait_state("Ready")
    until(lambda: built.is_asked("/events"), SOON_S, lambda: str(built.asked))
    time.sleep(OLD_S)
    assert len(built.watches()) == 1
    yield built
    built.listener.close()


def test_a_watch_follows_its_list_on_the_same_connection(front, target):
    before = len(front.asked)
    target.standin.watches("expire")
    until(lambda: len(front.watches()) == 2, SOON_S, lambda: str(front.asked))
    listed, _ = front.watches(before)[0]
    assert "fieldSelector" in listed


def test_a_watch_without_a_list_takes_no_old_connection(front, target):
    """That may be half open."""
    before = len(front.asked)
    target.standin.watches("end")
    until(lambda: len(front.watches()) == 2, SOON_S, lambda: str(front.asked))
    assert len(front.watches(before)[0]) == 1


@pytest.fixture
def slow(binaries, tmp_path, tmp_path_factory):
    """Before a host whose API server has more handshakes to make than it can: each takes a while."""
    authority = Authority(str(tmp_path_factory.mktemp("ca")))
    cert, key = authority.issue("server", "kube-apiserver")
    target = StandinTarget(binaries, tmp_path, tls_cert=cert, tls_key=key)
    target.admin = Kube(
        target.standin.url, "admin-token", ssl.create_default_context(cafile=authority.file)
    )
    world = World(binaries, target, tmp_path)
    front = Front(target.standin.url)
    front.delay_s = SLOW_S
    path = tmp_path / "slow.kubeconfig"
    path.write_text(kubeconfig.dump(front.url, "host-token", authority.file))
    world.host(kubeconfig=path)
    yield target
    front.listener.close()
    world.cleanup()
    target.cleanup()


def test_a_watch_gets_through_to_a_server_that_takes_longer_than_the_first_patience(slow):
    until(lambda: slow.standin.audit(user="host", verb="watch"), 5 * SLOW_S + SOON_S, "a watch")
