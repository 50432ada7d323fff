# SPDX-License-Identifier: Apache-2.0
"""The tests share two machines, and each begins with a node that is Ready.

What a test leaves behind is looked at: no unit has failed, no journal has an error that is none of
those that the test's own doing explains (`@pytest.mark.explains(REGEXP...)`)."""

import os
import re
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
sys.path.insert(0, os.path.dirname(__file__))

from dpu_testing.binaries import ROOT  # noqa: E402
from pair import Pair, call, own_arch  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "explains(regexp...): errors in a journal that belong to the test")


@pytest.fixture(scope="session")
def both(tmp_path_factory):
    cluster = [f"{ROOT}/tests/e2e/run.sh", "cluster"]
    own = {"DPU_E2E": "required", "DPU_E2E_DIR": f"{ROOT}/build/machines"}
    own["DPU_BIN_DIR"] = f"{ROOT}/build/package-{own_arch()}"
    call([*cluster, "up"], **own)
    path = call([*cluster, "path"], **own) + ":" + os.environ["PATH"]
    built = None
    try:
        folder = str(tmp_path_factory.mktemp("machines"))
        built = Pair(folder, call([*cluster, "kubeconfig"], **own), path)
        built.set_up()
        yield built
    finally:
        if built:
            built.cleanup()
        call([*cluster, "down"], **own)


@pytest.fixture
def pair(both, request):
    """Ready before the test, whatever the one before left."""
    for machine in both:
        if not machine.process:
            machine.power_on()
            machine.wait_boot()
        machine.qmp("cont")
        machine.qmp("set_link", name="nic", up=True)
    both.wait_ready()
    failed_before = request.session.testsfailed
    yield both
    if request.session.testsfailed > failed_before:
        for title, text in [*both.host.evidence(), *both.dpu.evidence()]:
            print(f"---- {title}\n{text}")
        for machine in both:
            machine.errors()  # they are not the next one's
        return
    explained = [regexp for mark in request.node.iter_markers("explains") for regexp in mark.args]
    wrong = []
    for machine in both:
        if not machine.process:
            continue  # it is judged by who powers it on
        found = [*machine.sh("systemctl --failed --plain --no-legend").splitlines(), *machine.errors()]
        wrong += [f"{machine.name}: {line}" for line in found if not any(re.search(e, line) for e in explained)]
    assert wrong == []
