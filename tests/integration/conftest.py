# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the integration suite.

One list of cases, two targets: the stand-in API server (default; one per test), or the cluster of
DPU_TEST_KUBECONFIG, where each test has a namespace and a Node of its own and the cases marked
standin_only are skipped. The programs under test are found below DPU_BIN_DIR (default build/dev).
"""

import os
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
sys.path.insert(0, os.path.dirname(__file__))

from dpu_testing.binaries import Binaries  # noqa: E402
from dpu_testing.runtime import Runtime  # noqa: E402
from target import RealTarget, StandinTarget  # noqa: E402
from world import World  # noqa: E402

KUBECONFIG = os.environ.get("DPU_TEST_KUBECONFIG")

# Modules of cases that wait for next to nothing: what `./dev test quick` runs.
QUICK = """api_semantics doctor dpuctl dpuctl_commands gate_differential in_namespace install_cni
monitoring nodes""".split()
# Modules whose cases depend on how the API server answers: they hold the stand-in to the real one.
CONTRACT = "api_semantics credentials dra end_to_end events keeper nodes".split()


def pytest_collection_modifyitems(items):
    for item in items:
        module = item.module.__name__.removeprefix("test_")
        for marker, modules in (("quick", QUICK), ("contract", CONTRACT)):
            if module in modules:
                item.add_marker(marker)
    if KUBECONFIG:
        skip = pytest.mark.skip(reason="needs the stand-in's faults")
        for item in items:
            if item.get_closest_marker("standin_only"):
                item.add_marker(skip)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Appends the end of every program's log to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()
    built = item.funcargs.get("world") or item.funcargs.get("target")
    if report.when == "call" and report.failed and built is not None:
        for title, text in built.evidence():
            report.sections.append((title, text))


@pytest.fixture(scope="session")
def binaries():
    return Binaries()


@pytest.fixture
def target(binaries, tmp_path, request):
    """The API server. Tests that want other flags of the stand-in build their own StandinTarget."""
    if KUBECONFIG:
        built = RealTarget(KUBECONFIG)
    else:
        built = StandinTarget(binaries, tmp_path)
    yield built
    built.cleanup()


@pytest.fixture
def world(binaries, target, tmp_path):
    """The agents and the gate around `target`; ends all it started."""
    built = World(binaries, target, tmp_path)
    yield built
    built.cleanup()


@pytest.fixture
def runtime(binaries):
    built = Runtime(binaries)
    yield built
    built.cleanup()


@pytest.fixture
def kubelet_root():
    with tempfile.TemporaryDirectory() as directory:  # short: sockets go there
        for name in ("plugins", "plugins_registry"):
            os.mkdir(os.path.join(directory, name))
        yield directory
