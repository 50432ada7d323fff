# SPDX-License-Identifier: Apache-2.0
"""What the agents say: nothing secret, and nothing over and over."""

import collections
import contextlib
import copy
import json
import re
import socket
import subprocess
import time

import pytest
from dpu_testing import kubeconfig
from dpu_testing.process import clean_env, run
from dpu_testing.standin import RULES
from test_http import Page
from world import SOON_S

pytestmark = pytest.mark.standin_only

SECRET = "hunter2-8f3a91"


def with_secrets():
    """Rules in which the tokens of the agents are not to be taken for other words."""
    rules = copy.deepcopy(RULES)
    for user in rules["users"]:
        if user["name"] != "admin":
            user["token"] = f"{SECRET}-{user['name']}"
    return rules


def pages(process):
    """All that its pages say."""
    page = Page(process)
    paths = ("/metrics", "/livez", "/readyz", "/statusz", "/", "/nothing")
    return "".join(page.request(path)[1] for path in paths)


FAULTS = {
    "500": {"action": "status", "code": 500},
    # A server, or what stands in front of it, that answers with something else entirely.
    "html": {"action": "answer", "code": 200, "body": "<html>Authorization</html>"},
}


def fail(world, failure):
    """From now on; returns once the host says so."""
    standin = world.target.standin
    if failure == "refused":
        standin.refuse()
    elif failure == "rejected":  # the tokens
        standin.set_rules(RULES)
    else:
        for user in ("host", "dpu"):
            standin.fault(user=user, resource=None, **FAULTS[failure])
    standin.drop_connections()
    world.wait_record(lambda r: r.state != "Ready", SOON_S, "the failure")


@pytest.mark.parametrize(
    "failure, log_format, source",
    [("500", "text", "inline"), ("html", "json", "file"), ("refused", "json", "inline"), ("rejected", "text", "file")],
)
def test_no_secret_is_shown_whatever_fails(world, target, tmp_path, failure, log_format, source):
    target.standin.set_rules(with_secrets())
    agents = {}
    for user in ("host", "dpu"):
        token = tmp_path / f"{user}.token"
        token.write_text(f"{SECRET}-{user}\n")
        how = {"tokenFile": str(token)} if source == "file" else {"token": f"{SECRET}-{user}"}
        path = tmp_path / f"{user}-secret.kubeconfig"
        path.write_text(kubeconfig.dump(target.standin.url, **how))
        agents[user] = getattr(world, user)(kubeconfig=str(path), log_format=log_format)
    world.wait_state("Ready")
    fail(world, failure)
    shown = str(world.record())
    for process in agents.values():
        text = process.text()
        assert log_format == "text" or all(json.loads(line)["msg"] for line in text.splitlines())
        shown += text + pages(process)
    assert "renewing" in shown and "dpu_heartbeat_readiness" in shown
    for word in (SECRET, "Bearer", "BEGIN CERTIFICATE", "BEGIN PRIVATE"):
        assert word not in shown


def test_a_password_in_the_servers_url_is_refused_and_not_repeated(binaries, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig.dump(f"https://admin:{SECRET}@192.0.2.1:6443", token="t"))
    for name in ("dpu-agent", "dpu-host-agent"):
        words = [f"--kubeconfig={path}", "--node-name=n"]
        words += [f"--readiness-file={tmp_path}/r"] * (name == "dpu-host-agent")
        done = run([binaries.path(name), *words])
        assert done.returncode not in (0, 99)
        said = done.stderr + done.stdout
        assert str(path) in said and "users" in said
        assert SECRET not in said


def kinds(process):
    """How often each kind of message was logged, numbers aside, debug left out."""
    return collections.Counter(
        (line["mod"], re.sub(r"\d+", "N", line["msg"])[:60])
        for line in process.lines()
        if line.get("level") != "debug"
    )


@pytest.mark.parametrize("failure", ["500", "refused"])
def test_what_fails_again_and_again_is_not_logged_again_and_again(world, failure):
    host, dpu = world.both()
    fail(world, failure)
    time.sleep(3)  # a rate
    for process in (host, dpu):
        noisy = {kind: count for kind, count in kinds(process).items() if count > 3}
        assert not noisy, process.tail(60)


def test_a_log_that_nobody_reads_stops_no_heartbeat_and_says_at_once_what_is_missing(world):
    """Of agents that have nothing else to say by then."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while theirs.send(b"." * 1024):
            pass
    theirs.setblocking(True)
    ours.settimeout(SOON_S)
    record = f"--readiness-file={world.readiness_file}"
    agents = [
        subprocess.Popen([world.binaries.path(f"dpu-{name}"), *words], stderr=theirs, env=clean_env())
        for name, words in (
            ("host-agent", [*world.flags("host", log_level="info"), record]),
            ("agent", world.flags("dpu", log_level="info")),
        )
    ]
    theirs.close()
    text = b""
    try:
        world.wait_state("Ready")
        world.wait_renewals()
        while text.count(b"lines are missing here") < len(agents):
            text += ours.recv(65536)
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
        ours.close()
