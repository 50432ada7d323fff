# SPDX-License-Identifier: Apache-2.0
"""dpuctl status and watch, on whatever state a node can be in."""

import json
import os
import subprocess

import pytest
from dpu_testing.dpuctl import Watch
from dpu_testing.process import clean_env, run
from dpu_testing.wait import until
from world import SANITIZER, SOON_S

READY, NOT_READY, UNKNOWN = 0, 1, 2


class Ctl:
    def __init__(self, world, directory):
        self.world = world
        self.program = world.binaries.path("dpuctl")
        self.conf = os.path.join(str(directory), "net.d")
        os.mkdir(self.conf)

    def flags(self, user="host"):
        words = [
            f"--readiness-file={self.world.readiness_file}",
            f"--node-name={self.world.target.node}",
            f"--namespace={self.world.target.namespace}",
            f"--cni-conf-dir={self.conf}",
            "--kubelet-root-dir=/nonexistent",
        ]
        return words + ([f"--kubeconfig={self.world.target.kubeconfig(user)}"] if user else [])

    def words(self, command):
        return [self.program, command, *self.flags(None)]

    def env(self):
        return clean_env(**SANITIZER)

    def run(self, *words, user="host"):
        return run([self.program, *words, *self.flags(user)], env=clean_env(**SANITIZER))

    def status(self, *words, user="host"):
        """(exit status, what -o json says)."""
        done = self.run("status", "-o", "json", *words, user=user)
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def ctl(world, tmp_path):
    return Ctl(world, tmp_path)


def test_a_ready_node(world, ctl):
    world.both()
    world.wait_renewals(2)
    code, seen = ctl.status()
    assert (code, seen["answer"]) == (READY, "Ready")
    assert seen["gate"].pop("forSeconds") >= 0
    assert seen["gate"] == {
        "admitsPods": True,
        "statusCode": 0,
        "reason": "LeaseRenewed",
        "message": None,
        "note": None,
    }
    record = seen["record"]
    assert record["state"] == "Ready" and record["problem"] is None and record["writerAlive"]
    assert 0 <= record["lastRenewalAgeSeconds"] < world.duration_s
    assert 0 < record["validSeconds"] <= world.duration_s
    lease = seen["lease"]
    assert lease["found"] and lease["uidOfRecord"] and lease["holderExpected"]
    assert lease["durationSeconds"] == world.duration_s and lease["health"] is None
    assert seen["api"]["reached"] and abs(seen["api"]["clockSkewSeconds"]) < 5
    text = ctl.run("status").stdout
    assert f"{world.target.node}: Ready (LeaseRenewed) for" in text
    assert "ADD passes" in text and "held by ovnkube-dpu-node" in text
    assert "\033" not in text


def test_a_dead_dpu(world, ctl):
    _, dpu = world.both()
    dpu.kill()
    world.wait_verdict("NotReady/LeaseExpired")
    code, seen = ctl.status()
    assert (code, seen["answer"]) == (NOT_READY, "NotReady")
    assert seen["gate"]["reason"] == "LeaseExpired" and seen["gate"]["statusCode"] == 50
    text = ctl.run("status").stdout
    assert "NotReady (LeaseExpired)" in text and "ADD fails at once" in text and "over for" in text


def test_an_unhealthy_dpu_says_why(world, ctl):
    world.host()
    world.dpu(probe="interval=100ms,failures=1;exec:echo no bridge >&2; false")
    world.wait_verdict("NotReady/DPUReportedUnhealthy")
    code, seen = ctl.status()
    assert code == NOT_READY and seen["lease"]["health"] == "unhealthy"
    assert "no bridge" in seen["lease"]["healthMessage"]
    assert "the DPU says: unhealthy" in ctl.run("status").stdout


def test_without_a_record_nobody_knows(ctl):
    code, seen = ctl.status(user=None)
    assert (code, seen["answer"], seen["gate"]["reason"]) == (UNKNOWN, "Unknown", "RecordMissing")
    assert "No such file" in seen["record"]["problem"]
    assert "--kubeconfig" in seen["api"]["problem"] and "lease" not in seen
    assert "RecordMissing" in ctl.run("status", user=None).stdout


def test_a_dead_writers_last_word_is_no_knowledge(world, ctl):
    host, dpu = world.both()
    host.kill()
    dpu.kill()
    until(lambda: ctl.status()[1]["gate"]["note"], SOON_S, "the writer is overdue")
    code, seen = ctl.status()
    assert code == UNKNOWN and seen["gate"]["admitsPods"] and not seen["record"]["writerAlive"]
    text = ctl.run("status").stdout
    assert "Unknown (LeaseRenewed)" in text and "overdue for" in text
    assert "no such dpu-host-agent" in text


@pytest.mark.parametrize("text", ["", "{}", "garbage \033[31m", "x" * 5000])
def test_a_record_that_makes_no_sense(world, ctl, text):
    os.makedirs(os.path.dirname(world.readiness_file), exist_ok=True)
    with open(world.readiness_file, "w", encoding="utf-8") as file:
        file.write(text)
    code, seen = ctl.status(user=None)
    assert (code, seen["gate"]["reason"]) == (UNKNOWN, "RecordInvalid")
    assert "\033" not in ctl.run("status", user=None).stdout


@pytest.mark.standin_only
def test_an_api_server_that_does_not_answer_costs_its_timeout_and_no_more(world, target, ctl):
    world.both()
    target.standin.refuse()
    code, seen = ctl.status("--api-timeout=500ms")
    assert code == READY and not seen["api"]["reached"] and seen["api"]["problem"]
    assert not seen["lease"]["found"]
    target.standin.accept()


def test_a_lease_that_is_not_there(world, ctl):
    code, seen = ctl.status()
    assert code == UNKNOWN and seen["api"]["reached"]
    assert not seen["lease"]["found"] and seen["lease"]["problem"] == "not found"
    assert "not found" in ctl.run("status").stdout


def test_the_cni_wiring(ctl):
    assert "no configuration" in ctl.run("status", user=None).stdout
    for name, text in (("05-dpu-gate.conflist", '{"name":"n","cniVersions":["1.1.0"],"plugins":[{"type":"dpu-gate"}]}'),
                       ("00-broken.conf", "{"), ("10-ovn.conf", '{"name":"n","type":"t"}'), ("README", "x")):  # fmt: skip
        with open(os.path.join(ctl.conf, name), "w", encoding="utf-8") as file:
            file.write(text)
    seen = ctl.status(user=None)[1]["cni"]
    assert (seen["first"], seen["gated"], seen["statusSupported"]) == ("05-dpu-gate.conflist", True, True)
    assert "05-dpu-gate.conflist comes first (dpu-gate)\n" in ctl.run("status", user=None).stdout
    os.unlink(os.path.join(ctl.conf, "05-dpu-gate.conflist"))
    assert "10-ovn.conf comes first (t), without dpu-gate" in ctl.run("status", user=None).stdout


def test_yaml_says_the_same(world, ctl):
    world.both()
    lines = ctl.run("status", "-o", "yaml").stdout.splitlines()
    assert lines[0] == f'node: "{world.target.node}"' and 'answer: "Ready"' in lines
    assert "  admitsPods: true" in lines


def test_the_agents_own_settings_count(world, ctl, tmp_path):
    """One file for both: keys that dpuctl does not know are the agent's."""
    world.both()
    config = tmp_path / "agent.yaml"
    config.write_text(
        f"readiness-file: {world.readiness_file}\n"
        f"node-name: {world.target.node}\n"
        "dra: off\nprobe:\n  - exec:true\nfuture: {a: [1, 2], b: {c: d}}\nstale-hold: 300s\n"
    )
    done = run([ctl.program, "status", f"--config={config}"], env=clean_env(**SANITIZER))
    assert done.returncode == READY, done.stderr + done.stdout


# watch


def test_watch_gives_a_line_per_change(world, ctl):
    watch = Watch(ctl)

    def last(text):
        until(lambda: watch.lines() and text in watch.lines()[-1], SOON_S, watch.lines)

    last("Unknown   RecordMissing")
    host, dpu = world.both()
    last("Ready     LeaseRenewed")
    dpu.kill()
    last("NotReady  LeaseExpired after")
    host.kill()  # it would make the record again at once
    os.unlink(world.readiness_file)
    last("Unknown   RecordMissing after")
    assert watch.end() == (0, "")


@pytest.mark.parametrize("command, status", [("watch", 0), ("status", UNKNOWN), ("doctor", UNKNOWN)])
def test_a_reader_that_has_gone_before_is_no_crash(ctl, command, status):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            ctl.words(command), stdout=pipe, stderr=subprocess.PIPE, env=ctl.env(), timeout=SOON_S, check=False
        )
    assert (done.returncode, done.stderr) == (status, b"")
