# SPDX-License-Identifier: Apache-2.0
"""deploy/monitoring, held to a real Prometheus that scrapes a running pair."""

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest
import yaml
from dpu_testing.process import Process
from dpu_testing.wait import until
from test_http import Page
from world import SOON_S

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MONITORING = os.path.join(ROOT, "deploy", "monitoring")
FAMILY = re.compile(r"\b(dpu_heartbeat_[a-z_]+)")

pytestmark = pytest.mark.standin_only  # what the API server is makes no difference here


def read(name, directory=MONITORING):
    with open(os.path.join(directory, name), encoding="utf-8") as file:
        return file.read()


def promtool(*words):
    program = shutil.which("promtool")
    assert program, "install Debian's package prometheus"
    return subprocess.run([program, *words], text=True, capture_output=True, check=False)


def test_the_rules_are_valid_and_each_fires_when_it_should_and_only_then():
    done = promtool("check", "rules", os.path.join(MONITORING, "alerts.yaml"))
    assert done.returncode == 0, done.stderr
    tests = os.path.join(ROOT, "tests", "monitoring", "alerts_test.yaml")
    done = promtool("test", "rules", tests)
    assert done.returncode == 0, done.stdout + done.stderr
    names = set(re.findall(r"- alert: (\w+)", read("alerts.yaml")))
    assert names == set(re.findall(r"- name: (\w+)", read(tests)))


def test_each_alert_has_its_words_and_a_page():
    """The lint looks for the page and its section; docs/reasons.md has one for each reason."""
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        page, anchor = rule["annotations"]["runbook"].split("#")
        assert "{{" not in anchor or (page, anchor) == ("docs/reasons.md", "{{ $labels.reason | toLower }}")


def test_each_alert_without_a_section_of_its_own_is_explained():
    explained = re.findall(r"^\| `(DPU\w+)` \|", read("docs/monitoring.md", ROOT), re.MULTILINE)
    bare = [rule for rule in rules() if rule["annotations"]["runbook"] == "docs/monitoring.md#alerts"]
    assert sorted(explained) == sorted(rule["alert"] for rule in bare)


def test_the_rules_become_a_prometheus_rule_as_documented():
    command = re.search(r"^\{ echo .*?^\} ", read("docs/monitoring.md", ROOT), re.MULTILINE | re.DOTALL).group(0)
    made = subprocess.run(["sh", "-ec", command], cwd=ROOT, text=True, capture_output=True, check=True)
    tree = yaml.safe_load(made.stdout)
    assert (tree["apiVersion"], tree["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert tree["spec"] == yaml.safe_load(read("alerts.yaml"))


def test_the_example_configuration_is_valid():
    done = promtool("check", "config", os.path.join(MONITORING, "prometheus.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def rules():
    return [rule for group in yaml.safe_load(read("alerts.yaml"))["groups"] for rule in group["rules"]]


def expressions():
    """[(where, expression)] of the dashboard and of the alerts."""
    found = []
    for panel in json.loads(read("dashboard.json"))["panels"]:
        for target in panel.get("targets", []):
            found.append((panel["title"], target["expr"].replace("$instance", ".*")))
    for rule in rules():
        found.append((rule["alert"], rule["expr"]))
    return found


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Prometheus:
    """A real one, with a short interval; its data and its life end with the test."""

    def __init__(self, directory, targets):
        self.port = free_port()
        config = os.path.join(directory, "prometheus.yml")
        jobs = [
            {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
            for job, port in targets.items()
        ]
        with open(config, "w", encoding="utf-8") as file:
            times = {"scrape_interval": "200ms", "evaluation_interval": "1s"}
            rules_file = os.path.join(MONITORING, "alerts.yaml")
            json.dump({"global": times, "rule_files": [rules_file], "scrape_configs": jobs}, file)
        words = [f"--config.file={config}", f"--storage.tsdb.path={directory}/data"]
        words.append(f"--web.listen-address=127.0.0.1:{self.port}")
        self.process = Process(["prometheus", *words], os.path.join(directory, "prometheus.log"))

    def query(self, expression):
        query = urllib.parse.urlencode({"query": expression})
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{query}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error

    def is_up(self):
        try:
            return len(self.query("up == 1")) == 3
        except (AssertionError, OSError):  # it is starting
            return False

def test_every_expression_has_data_from_a_real_prometheus(world, kubelet_root, runtime, tmp_path):
    # With all that there is, so that no panel is empty.
    dated = world.target.standin.dated_kubeconfig
    host = world.host(
        node_condition=True,
        kubeconfig=dated("host"),
        cri_socket=runtime.socket,
        host_root=runtime.root,
    )
    dpu = world.dpu(probe="interval=100ms;exec:true", kubeconfig=dated("dpu"))
    world.wait_state("Ready")
    driver = world.driver(kubelet_root, kubeconfig=dated("dra"))
    targets = {program: Page(process).port for program, process in
               {"dpu-host-agent": host, "dpu-dra-driver": driver, "dpu-agent": dpu}.items()}  # fmt: skip
    prometheus = Prometheus(str(tmp_path), targets)
    try:
        until(prometheus.is_up, 60, "all targets are scraped")
        quiet = {"What is broken", *(rule["alert"] for rule in rules())}
        for where, expression in expressions():
            # A busy machine delays renewals, and a rate needs two samples: neither for long.
            def fits(e=expression, is_quiet=where in quiet):
                return bool(prometheus.query(e)) is not is_quiet

            until(fits, SOON_S, f"{where}, of a healthy pair: {expression}")
        dpu.kill()
        world.wait_verdict("NotReady/LeaseExpired")
        until(
            lambda: prometheus.query('ALERTS{alertname="DPUNotReady"}'), 60, "DPUNotReady is pending"
        )
        broken = prometheus.query(dict(expressions())["What is broken"])
        assert [found["metric"]["reason"] for found in broken] == ["LeaseExpired"]
    finally:
        prometheus.process.cleanup()


# Ten hosts: seven as they should be, three of them broken in different ways.
BROKEN = {
    7: ("NotReady", "LeaseExpired"),
    8: ("NotReady", "DPUReportedUnhealthy"),
    9: ("Unknown", "ApiServerUnreachable"),
}
FINE = ("Ready", "LeaseRenewed")


def simulated_fleet():
    """What Prometheus would have of them after two hours, a sample a minute."""
    series = {}
    for i in range(10):
        labels = f'instance="h{i}",job="dpu-host-agent"'
        for state, reason in (FINE, *BROKEN.values()):
            holds = int((state, reason) == BROKEN.get(i, FINE))
            series[f'dpu_heartbeat_readiness{{{labels},state="{state}",reason="{reason}"}}'] = f"{holds}x120"
        flips = "0x60 6x60" if i == 7 else "1x120"
        series[f'dpu_heartbeat_readiness_changes_total{{{labels},reason="LeaseExpired"}}'] = flips
        series[f"dpu_heartbeat_api_reachable{{{labels}}}"] = f"{int(i != 9)}x120"
        series[f"dpu_heartbeat_api_outage_seconds_total{{{labels}}}"] = "0+60x120" if i == 9 else "0x120"
        series[f"dpu_heartbeat_last_renewal_age_seconds{{{labels}}}"] = f"{400 if i == 7 else i}x120"
        series[f"up{{{labels}}}"] = "1x120"
        series[f'up{{instance="d{i}",job="dpu-agent"}}'] = f"{int(i != 7)}x120"
    return [{"series": name, "values": values} for name, values in series.items()]


def each_host(name, value_of):
    return {f'{name}{{instance="h{i}",job="dpu-host-agent"}}': value_of(i) for i in range(10)}


# What the panels above the row "Node" say of that fleet, by their expressions in order.
SAID_OF_THE_FLEET = {
    "DPUs by state": [{'{state="Ready"}': 7, '{state="NotReady"}': 2, '{state="Unknown"}': 1}],
    "Flips in an hour": [{"{}": 6}],
    "Hosts without the API server": [{"{}": 1}],
    "Agents": [{"{}": 19}, {"{}": 1}],
    "API outages": [{"{}": 1}],
    "What is broken": [
        {
            f'dpu_heartbeat_readiness{{instance="h{i}",job="dpu-host-agent",state="{s}",reason="{r}"}}': 1
            for i, (s, r) in BROKEN.items()
        }
    ],
    "DPUs by state and reason": [
        {f'{{state="{s}",reason="{r}"}}': n for (s, r), n in {FINE: 7, **dict.fromkeys(BROKEN.values(), 1)}.items()}
    ],
    "Slowest renewals": [
        each_host("dpu_heartbeat_last_renewal_age_seconds", lambda i: 400 if i == 7 else i)
    ],
    "Most flips in an hour": [{f'{{instance="h{i}"}}': 6 if i == 7 else 0 for i in range(10)}],
    "Longest without the API server in an hour": [each_host("", lambda i: 3600 if i == 9 else 0)],
}


def test_the_dashboard_opens_on_the_whole_fleet(tmp_path):
    panels = json.loads(read("dashboard.json"))["panels"]
    titles = [panel["title"] for panel in panels]
    fleet = panels[1 : titles.index("Node")]
    assert titles[0] == "Fleet" and [panel["title"] for panel in fleet] == list(SAID_OF_THE_FLEET)
    cases = []
    for panel in fleet:
        said = SAID_OF_THE_FLEET[panel["title"]]
        for target, samples in zip(panel["targets"], said, strict=True):
            assert "$" not in target["expr"], "the fleet is all of it"
            expected = [{"labels": labels, "value": value} for labels, value in samples.items()]
            cases.append({"expr": target["expr"], "eval_time": "90m", "exp_samples": expected})
    test = {"interval": "1m", "input_series": simulated_fleet(), "promql_expr_test": cases}
    path = os.path.join(tmp_path, "fleet.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"tests": [test]}, file)  # JSON is YAML
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def documented():
    return set(re.findall(r"^- `(dpu_heartbeat_[a-z_]+)", read("docs/metrics.md", ROOT), re.MULTILINE))


def test_dashboard_and_alerts_name_only_metrics_that_are_documented():
    named = {name for _, expression in expressions() for name in FAMILY.findall(expression)}
    used = {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}
    assert used and used <= documented(), used - documented()


def test_the_dashboard_is_one_that_grafana_can_import():
    dashboard = json.loads(read("dashboard.json"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        columns, lines = range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
        cells = {(x, y) for x in columns for y in lines}
        assert columns.stop <= 24 and not cells & taken, f"{panel['title']} overlaps"
        taken |= cells
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}", panel["title"]
