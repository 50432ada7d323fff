# SPDX-License-Identifier: Apache-2.0
"""Which requests share a connection."""

import time

import pytest
from dpu_testing import kubeconfig
from dpu_testing.wait import until
from front import Front
from world import SOON_S

pytestmark = pytest.mark.standin_only
OLD_S = 3  # an idle connection is by then


def test_a_watch_has_a_connection_just_left_or_a_new_one(world, target, tmp_path):
    """An old one may be half open. The host is at rest, with nothing but its watch for a while."""
    front = Front(target.standin.url)
    path = tmp_path / "front.kubeconfig"
    path.write_text(kubeconfig.dump(front.url, token="host-token"))
    world.dpu()
    world.host(kubeconfig=path)
    world.wait_state("Ready")
    until(lambda: front.is_asked("/events"), SOON_S, lambda: str(front.asked))
    for action, first in (("expire", "fieldSelector"), ("end", "/leases")):
        time.sleep(OLD_S)
        before, watches = len(front.asked), len(front.watches())
        target.standin.watches(action)
        until(lambda n=watches: len(front.watches()) == n + 1, SOON_S, lambda: str(front.asked))
        asked = front.watches(before)[0]
        assert first in asked[0] and "watch=true" in asked[-1]
    front.listener.close()
