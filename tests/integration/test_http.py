# SPDX-License-Identifier: Apache-2.0
"""The agents' HTTP pages: metrics, health, status."""

import http.client
import json
import pathlib
import re
import shutil
import subprocess

import pytest
from dpu_testing import kubeconfig
from dpu_testing.wait import until
from world import SOON_S

ROOT = pathlib.Path(__file__).parents[2]
NODE_PROBLEMS = ROOT / "deploy" / "monitoring" / "node-problem-detector.json"
SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$")


class Page:
    def __init__(self, process):
        self.process = process
        process.wait_log(mod="http", msg="serving")
        said = process.lines(mod="http", msg="serving")[-1]["msg"]  # one that waited has another page by now
        self.port = int(re.search(r"port (\d+)", said).group(1))

    def request(self, path, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer, body

    def get(self, path, status=200):
        answer, body = self.request(path)
        assert answer.status == status, body
        return body

    def metrics(self):
        """{"name{labels}": value} of the program's own metrics and of the process."""
        values = {}
        for line in self.get("/metrics").splitlines():
            if not line.startswith("#"):
                name, labels, value = SAMPLE.match(line).groups()
                key = f"{name}{{{labels}}}" if labels else name
                assert key not in values, f"twice: {key}"
                values[key] = float(value)
        return values


def metric(page, name):
    return page.metrics()[f"dpu_heartbeat_{name}"]


def test_counters_and_status_follow_the_heartbeat_and_prometheus_takes_them(world):
    promtool = shutil.which("promtool")
    assert promtool, "install Debian's package prometheus"
    host, dpu = pages = [Page(agent) for agent in world.both()]
    for page in pages:
        assert page.get("/livez") == "ok\n"
        assert page.get("/readyz").startswith("ok: ")
        words = {"input": page.get("/metrics"), "text": True, "capture_output": True}
        out = subprocess.run([promtool, "check", "metrics"], check=False, **words)
        assert (out.returncode, out.stdout, out.stderr) == (0, "", "")
    before = host.metrics(), dpu.metrics()
    world.wait_renewals(3)
    for page, old, name in (
        (host, before[0], "renewals_observed_total"),
        (host, before[0], "record_writes_total"),
        (dpu, before[1], "lease_renewals_total"),
    ):
        assert metric(page, name) >= old[f"dpu_heartbeat_{name}"] + 2
    assert metric(dpu, 'api_requests_total{verb="PUT",code="200"}') >= 3
    assert metric(host, 'api_requests_total{verb="WATCH",code="200"}') == 1
    assert metric(dpu, "dpu_healthy") == 1
    assert metric(dpu, "lease_renewal_duration_seconds_count") >= 3
    assert metric(host, "api_reachable") == 1
    states = {k: v for k, v in host.metrics().items() if k.startswith("dpu_heartbeat_readiness{")}
    assert [k for k, v in states.items() if v] == ['dpu_heartbeat_readiness{state="Ready",reason="LeaseRenewed"}']
    assert metric(host, "readiness_admit") == 1 and metric(host, "readiness_valid_seconds") > 0
    assert "process_resident_memory_bytes" in host.metrics()
    status = json.loads(host.get("/statusz"))
    assert (status["state"], status["reason"], status["admit"]) == ("Ready", "LeaseRenewed", True)
    assert status["lease"]["name"] == f"ovn-dpu-{world.target.node}"
    assert status["lease"]["durationSeconds"] == world.duration_s
    assert status["recordWritten"] and status["apiReachable"]
    status = json.loads(dpu.get("/statusz"))
    assert (status["health"], status["renewer"], status["probes"]) == ("Healthy", "Renewing", [])
    assert status["lastRenewalAgeSeconds"] < world.duration_s
    # How little a heartbeat without probes proves.
    proves = "proves only that dpu-agent runs"
    assert proves in dpu.get("/servingz") and proves in status["message"]
    assert metric(dpu, "probes") == 0
    assert len(world.processes[1].lines(level="warn", msg=proves)) == 1
    host.get("/servingz", 404)
    # A dead DPU is no fault of the host agent.
    world.processes[1].kill()
    world.wait_verdict("NotReady/LeaseExpired")
    assert host.get("/livez") == "ok\n" and "NotReady (LeaseExpired)" in host.get("/readyz")
    until(lambda: metric(host, 'readiness_changes_total{reason="LeaseExpired"}') == 1, SOON_S, "the change")
    assert metric(host, "readiness_admit") == 0 and metric(host, 'lease_marks_total{outcome="taken"}') >= 1


LONG_LABEL = "x" * 64  # so that no name server is asked


def count_failures(page):
    pattern = re.compile(r'.*renewal_failures_total{cause="(.*)"}')
    return {m[1]: v for k, v in page.metrics().items() if (m := pattern.match(k)) and v > 0}


@pytest.mark.standin_only
@pytest.mark.parametrize(
    "server, cause",
    [
        ("https://127.0.0.1:{port}", "tls"),  # where no TLS is spoken
        ("http://127.0.0.1:1", "connect"),
        (f"http://{LONG_LABEL}.invalid:6443", "resolve"),
    ],
)
def test_a_server_out_of_reach_is_counted_by_its_cause(world, target, tmp_path, server, cause):
    port = target.standin.url.rsplit(":", 1)[1]
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig.dump(server.format(port=port), token="t"))
    page = Page(world.dpu(kubeconfig=str(file)))
    until(lambda: count_failures(page).get(cause, 0) > 1, SOON_S, cause)
    assert set(count_failures(page)) <= {cause, "timeout"}  # a busy machine may be late


def node_problem(port):
    """As node-problem-detector takes its plug-ins: 0 is well, 1 a problem, all else unknown."""
    monitor = json.loads(NODE_PROBLEMS.read_text())
    (condition,), (rule,) = monitor["conditions"], monitor["rules"]
    assert (rule["type"], rule["condition"]) == ("permanent", condition["type"])
    done = subprocess.run(
        [rule["path"], *rule["args"], str(port)], capture_output=True, text=True, timeout=5, check=False
    )
    assert done.stderr == "" and len(done.stdout) <= monitor["pluginConfig"]["max_output_length"]
    return done.returncode, done.stdout


def test_probes_are_shown_one_by_one_and_node_problem_detector_is_told(world):
    probe = 'exec:test ! -e "%s/sick"' % world.directory
    world.host()
    dpu = world.dpu(probe=[f"interval=100ms,failures=1;{probe}", "interval=100ms;exec:true"])
    world.wait_state("Ready")
    page = Page(dpu)
    name = probe.replace('"', '\\"')
    assert metric(page, f'probe_success{{probe="{name}",index="0"}}') == 1
    assert node_problem(page.port) == (0, "ok: every probe passes\n")
    open(f"{world.directory}/sick", "w", encoding="utf-8").close()
    until(lambda: metric(page, "dpu_healthy") == 0, SOON_S, "unhealthy")
    seen = page.metrics()
    assert seen[f'dpu_heartbeat_probe_success{{probe="{name}",index="0"}}'] == 0
    assert seen['dpu_heartbeat_probe_success{probe="exec:true",index="1"}'] == 1
    assert seen[f'dpu_heartbeat_probe_runs_total{{probe="{name}",index="0",result="wrong"}}'] > 0
    status = json.loads(page.get("/statusz"))
    assert [p["state"] for p in status["probes"]] == ["Failing", "Passing"]
    # The agent does its work: it is the DPU that is not healthy.
    assert "unhealthy" in page.get("/readyz")
    assert page.get("/servingz", 503).startswith(f"failed: probe '{probe}': exit status 1")
    code, text = node_problem(page.port)
    assert code == 1 and "exit status 1" in text
    dpu.kill()
    code, text = node_problem(page.port)
    assert code == 1 and "refused" in text


@pytest.mark.standin_only
def test_what_the_services_say_depends_on_no_api_server(world, target):
    """A platform that taints a node by it must not taint all for an API server that is away."""
    page = Page(world.dpu(probe=["exec:true"]))
    until(lambda: page.request("/servingz")[0].status == 200, SOON_S, "the first run")
    page.get("/readyz", 503)  # nobody made the lease
    target.standin.fault("status", code=503)
    assert page.get("/servingz") == "ok: every probe passes\n"
    assert "/servingz" in page.get("/")
