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
CONTRACT = "api_semantics credentials dra end_to_end events keeper nodes watch".split()


# A case above 3 s needs a reason, of its module or its own; one above 10 s needs its own.
SLOW_S, LONG_S = 3, 10
SLOW = {  # modules: why their cases take longer
    "leases of two seconds that run out, some of them twice": """credentials dpu_agent faults http
        keeper names outage readiness restart two_dpus watch""",
    "a rate that is measured": "logs",
    "the condition waits for seconds": "events",
    "Pods' networks are looked at, and sandboxes stopped, at their pace": "pods",
    "real daemons, and their patience": "monitoring ovn_probes",
    "several lives of a program": "alloc",
}
LONG = {  # cases: why they take so long, or longer than others of their module
    "test_a_new_name_is_followed_and_an_ovs_that_is_away_changes_nothing": "OVS is asked each 5 s",
    "test_an_agent_that_does_not_do_its_work_feeds_no_watchdog": "work has to be overdue",
    "test_an_agent_without_memory_ends_with_a_sentence": "six lives",
    "test_each_is_judged_by_its_own_lease_and_shown_by_its_own_names": "two starts, two leases",
    "test_every_expression_has_data_from_a_real_prometheus": "samples, and an alert",
    "test_rules_on_the_condition_take_a_held_verdict_for_a_failure_unless_it_is_firm": "an outage",
    "test_seconds_of_real_work_are_no_alarm_with_the_patience_that_is_shipped": "seconds of work",
    "test_the_demo_tells_its_story": "the whole story",
    "test_whatever_becomes_of_the_source_is_followed": "five changes, one by one",
    "test_without_a_name_it_waits_and_then_serves_the_node_that_ovs_names": "OVS is asked each 5 s",
}


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


def pytest_terminal_summary(terminalreporter):
    """Names what took long and is not in the lists; a busy machine makes others long, too."""
    slow = " ".join(SLOW.values()).split()
    for report in terminalreporter.stats.get("passed", []):
        file, _, case = report.nodeid.partition("::")
        module = os.path.basename(file).removeprefix("test_").removesuffix(".py")
        limit_s = LONG_S if module in slow else SLOW_S
        if report.when == "call" and report.duration > limit_s and case.partition("[")[0] not in LONG:
            terminalreporter.line(f"slow without a reason: {report.duration:.1f} s {report.nodeid}")


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
    """The API server. The marker `standin(...)` is not needed: tests that want other flags of the
    stand-in build their own StandinTarget."""
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
