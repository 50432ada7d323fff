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
QUICK = """api_semantics companion doctor dpuctl dpuctl_commands dpuctl_dra gate_differential in_namespace
install_cni monitoring nodes options record reboot""".split()
# Modules whose cases depend on how the API server answers: they hold the stand-in to the real one.
CONTRACT = """api_semantics companion credentials dra end_to_end events keeper node_name nodes reboot
watch""".split()


# A lease of two seconds, the shortest that makes sense here, runs out twice in this time.
SLOW_S = 5
SLOW = {  # cases that take longer, and why
    "test_a_delegate_that_hangs_in_status_is_ended_with_all_it_started": "the gate's own deadline",
    "test_a_dpu_that_toggles_its_health_is_written_once_per_interval": "a rate, and a lease that runs out",
    "test_a_duration_that_shrank_over_a_restart_ends_nobody": "a record older than the new lease",
    "test_a_forbidden_watch_is_replaced_by_polling": "a denial has to last until it is believed",
    "test_a_frozen_writer_is_replaced_before_its_record_is_no_longer_held": "half of a hold, and a lease",
    "test_a_link_that_loses_delays_and_reorders_costs_no_readiness": "two leases on a bad link",
    "test_a_long_disturbance_leaks_no_descriptor_or_memory": "ten cuts and as many returns",
    "test_a_name_server_that_says_nothing_does_not_hold_up_the_agent": "the resolver's time limit",
    "test_a_new_name_is_followed_and_an_ovs_that_is_away_changes_nothing": "OVS is asked each 5 s",
    "test_a_server_restored_from_a_backup_is_followed": "ten renewals to lose, and a lease",
    "test_a_service_that_is_killed_is_named_at_once_and_so_is_its_return": "six daemons, one by one",
    "test_a_watch_has_the_connection_of_its_list_or_a_new_one": "connections have to become old",
    "test_a_watch_that_never_works_is_no_storm": "a rate",
    "test_a_webhook_that_changes_the_condition_is_no_loop": "a rate",
    "test_after_a_black_hole_it_renews_within_the_grace_of_the_host": "three outages of several intervals",
    "test_an_agent_that_does_not_do_its_work_feeds_no_watchdog": "work has to be overdue",
    "test_an_agent_without_memory_ends_with_a_sentence": "six lives",
    "test_each_change_gives_one_event": "the first Event waits for 3 s",
    "test_each_is_judged_by_its_own_lease_and_shown_by_its_own_names": "two leases and a slice's pace",
    "test_every_expression_has_data_from_a_real_prometheus": "samples, and an alert",
    "test_in_the_steady_state_the_host_has_one_watch_and_reads_nothing": "five renewals a second apart",
    "test_devices_of_another_driver_are_tainted_while_the_dpu_is_not_ready": "two changes at their pace",
    "test_large_pods_of_a_tenant_end_no_agent": "three restarts at their pace",
    "test_lost_pods_get_new_sandboxes_oldest_first": "four restarts at their pace",
    "test_missing_right_is_named": "a debounce, and a rate",
    "test_one_agent_sends_a_burst_and_then_one_per_second": "a rate",
    "test_one_writes_and_the_other_takes_over_without_a_blip": "two seconds without a refusal",
    "test_restarts_of_ovs_are_no_alarm": "ten restarts",
    "test_runtime_that_refuses_and_restarts": "a stop that failed is tried again at its pace",
    "test_seconds_of_real_work_are_no_alarm_with_the_patience_that_is_shipped": "three times 3 s of work",
    "test_rules_on_the_condition_take_a_held_verdict_for_a_failure_unless_it_is_firm": "two writes, 5 s apart",
    "test_slow_events_do_not_delay_the_verdict": "two leases, and the first Event",
    "test_the_demo_tells_its_story": "the whole story",
    "test_the_rules_are_valid_and_each_fires_when_it_should_and_only_then": "promtool's own pace",
    "test_what_fails_again_and_again_is_not_logged_again_and_again": "a rate",
    "test_who_lost_its_peer_says_so": "OVN notices a lost peer itself",
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
    """Names what took long and is not in the list; a busy machine makes others long, too."""
    for report in terminalreporter.stats.get("passed", []):
        name = report.nodeid.rpartition("::")[2].partition("[")[0]
        if report.when == "call" and report.duration > SLOW_S and name not in SLOW:
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
        built = RealTarget(KUBECONFIG, tmp_path)
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
