# SPDX-License-Identifier: Apache-2.0
"""What the agents say: nothing secret, and nothing over and over."""

import collections
import contextlib
import copy
import http.client
import json
import os
import re
import socket
import subprocess
import time

import pytest
from dpu_testing import kubeconfig
from dpu_testing.process import clean_env, run
from dpu_testing.standin import RULES
from dpu_testing.wait import until
from world import SANITIZER, SOON_S

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
    port = int(re.search(r"serving.* port (\d+)", process.text()).group(1))
    text = ""
    for path in ("/metrics", "/livez", "/readyz", "/statusz", "/", "/nothing"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", path)
        text += connection.getresponse().read().decode()
        connection.close()
    return text


def fault_status(code):
    def begin(standin):
        standin.fault("status", user="host", resource=["leases", "nodes", "events"], code=code)
        standin.fault("status", user="dpu", code=code)

    return begin


def fault_echo(standin):
    """A server, or what stands in front of it, that answers with something else entirely."""
    for user in ("host", "dpu"):
        standin.fault("answer", user=user, code=200, body="<html>Authorization</html>")


def fault_cut(standin):
    for user in ("host", "dpu"):
        standin.fault("cut", user=user)


def wrong_tokens(standin):
    standin.set_rules(RULES)


FAILURES = {
    "401": fault_status(401),
    "403": fault_status(403),
    "429": fault_status(429),
    "500": fault_status(500),
    "cut": fault_cut,
    "html": fault_echo,
    "refused": lambda standin: standin.refuse(),
    "rejected": wrong_tokens,
}


@pytest.mark.parametrize("source", ["inline", "file"])
@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("failure", FAILURES)
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
    FAILURES[failure](target.standin)
    target.standin.drop_connections()
    world.wait_record(lambda r: r.state != "Ready", SOON_S, "the failure")
    time.sleep(1)
    shown = str(world.record())
    for process in agents.values():
        shown += process.text() + pages(process)
    assert "renewing" in shown and "dpu_heartbeat_readiness" in shown
    for word in (SECRET, "Bearer", "BEGIN CERTIFICATE", "BEGIN PRIVATE"):
        assert word not in shown


def test_a_password_in_the_servers_url_is_refused_and_not_repeated(binaries, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig.dump(f"https://admin:{SECRET}@192.0.2.1:6443", token="t"))
    for name in ("dpu-agent", "dpu-host-agent"):
        words = [f"--kubeconfig={path}", "--node-name=n"]
        words += [f"--readiness-file={tmp_path}/r"] * (name == "dpu-host-agent")
        done = run([binaries.path(name), *words], env=clean_env(**SANITIZER))
        assert done.returncode not in (0, 99)
        said = done.stderr + done.stdout
        assert str(path) in said and "users" in said
        assert SECRET not in said


@pytest.mark.parametrize(
    "proxy", [f"ftp://user:{SECRET}@127.0.0.1:1", f"http://user:{SECRET} x@127.0.0.1:1"]
)
@pytest.mark.parametrize("source", ["kubeconfig", "environment"])
def test_a_password_in_the_proxys_url_is_not_shown(world, tmp_path, proxy, source):
    tree = json.loads(kubeconfig.dump("http://192.0.2.1:6443", token="t"))
    env = clean_env(**SANITIZER)
    if source == "kubeconfig":
        tree["clusters"][0]["cluster"]["proxy-url"] = proxy
    else:
        env["http_proxy"] = proxy
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(tree))
    for process in (world.host(env, kubeconfig=str(path)), world.dpu(env, kubeconfig=str(path))):
        process.wait_log(SOON_S, msg="the proxy's URL is not supported")
        assert SECRET not in process.text() + pages(process)
    assert SECRET not in str(world.record())


def kinds(process):
    """How often each kind of message was logged, numbers aside, debug left out."""
    return collections.Counter(
        (line["mod"], re.sub(r"\d+", "N", line["msg"])[:60])
        for line in process.lines()
        if line.get("level") != "debug"
    )


@pytest.mark.parametrize("failure", ["500", "403", "cut", "refused", "rejected"])
def test_what_fails_again_and_again_is_not_logged_again_and_again(world, target, failure):
    host, dpu = world.both()
    FAILURES[failure if failure != "rejected" else "401"](target.standin)
    target.standin.drop_connections()
    world.wait_record(lambda r: r.state != "Ready", SOON_S, "the failure")
    time.sleep(5)
    for process in (host, dpu):
        noisy = {kind: count for kind, count in kinds(process).items() if count > 3}
        assert not noisy, process.tail(60)


def test_a_probe_that_never_says_the_same_makes_few_words(world, target):
    host = world.host()
    world.dpu(probe="interval=100ms,failures=1;exec:date +%N; exit 1")
    world.wait_verdict("NotReady/DPUReportedUnhealthy")
    words = set()
    until(lambda: words.add(world.record()["message"]) or len(words) > 9, SOON_S, "new words")
    assert len(host.lines(mod="readiness", msg="DPUReportedUnhealthy")) <= 2


def test_a_lease_that_somebody_keeps_changing_is_repaired_with_few_words(world, target):
    host, _ = world.both()
    for number in range(5):
        target.put_lease(lambda l, n=number: l["spec"].update(leaseDurationSeconds=100 + n))
        until(
            lambda: target.lease()["spec"]["leaseDurationSeconds"] == world.duration_s,
            SOON_S,
            "the repair",
        )
    assert len(host.lines(mod="keeper", msg="was changed by somebody")) == 1
    assert len(host.lines(mod="keeper", msg="was repaired")) <= 1


def test_a_record_that_somebody_keeps_removing_is_made_anew_with_few_words(world):
    host, _ = world.both()
    for _ in range(8):
        os.unlink(world.readiness_file)
        until(lambda: os.path.exists(world.readiness_file), SOON_S, "the record")
    assert len(host.lines(mod="record", msg="was removed, replaced")) == 1


def test_an_unreadable_token_file_is_named_once(world, target, tmp_path):
    token = tmp_path / "host.token"
    token.write_text("host-token")
    path = tmp_path / "host-file.kubeconfig"
    path.write_text(kubeconfig.dump(target.standin.url, tokenFile=str(token)))
    host = world.host(kubeconfig=str(path))
    world.dpu()
    world.wait_state("Ready")
    token.unlink()
    FAILURES["401"](target.standin)
    target.standin.drop_connections()
    host.wait_log(SOON_S, mod="kube", msg="host.token")
    time.sleep(3)
    assert len(host.lines(mod="kube", msg="host.token")) == 1


def test_each_json_line_is_one_object(world):
    host = world.host(log_format="json")
    dpu = world.dpu(log_format="json")
    world.wait_state("Ready")
    for process in (host, dpu):
        for line in process.text().splitlines():
            assert {"time", "level", "mod", "msg", "node"} <= set(json.loads(line))


def test_a_dpu_that_says_one_thing_and_another_is_logged_once_an_interval(world, target):
    world.interval_ms = 1000
    world.duration_s = 10
    host, dpu = world.both()
    dpu.kill()
    key = "dpu.k8s.ovn.org/health"
    start = time.monotonic()
    for number in range(60):
        report = {} if number % 2 else {key: "unhealthy"}
        target.put_lease(lambda l, r=report: l["metadata"].update(annotations=r))
    took_s = time.monotonic() - start
    wanted = world.state()
    host.wait_log(SOON_S, mod="readiness", msg=f"{wanted} (")
    lines = host.lines(mod="readiness")
    assert len(lines) <= took_s + 4, lines
    until(lambda: wanted in host.lines(mod="readiness")[-1]["msg"], SOON_S, "the last word")
    assert len(host.text().splitlines()) < 200


def test_a_log_that_nobody_reads_stops_no_heartbeat_and_says_what_is_missing(world, tmp_path):
    fifo = str(tmp_path / "stuck")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        while True:
            os.write(reader, b"." * 4096)
    except BlockingIOError:
        pass  # full
    stuck = ["/bin/sh", "-c", f"exec \"$@\" 2>>'{fifo}'", "sh"]
    world.host(wrapper=stuck)
    dpu = world.start("dpu-agent", world.flags("dpu"), wrapper=stuck)
    world.wait_state("Ready")
    world.wait_renewals()
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        text = []

        def said():
            text.append(pipe.read(65536) or b"")
            return b"lines are missing here" in b"".join(text)

        until(said, SOON_S, "a word of what is missing")
        dpu.kill()
        world.wait_state("NotReady")


@pytest.mark.parametrize("shape", ["fifo", "socket"])
def test_a_log_that_is_read_again_says_at_once_what_is_missing(world, tmp_path, shape):
    """Of an agent that has nothing else to say."""
    if shape == "fifo":
        os.mkfifo(tmp_path / "log")
        ours = os.open(tmp_path / "log", os.O_RDWR | os.O_NONBLOCK)
        theirs = os.open(tmp_path / "log", os.O_WRONLY)
    else:
        pair = socket.socketpair()
        ours, theirs = pair[0].detach(), pair[1].detach()
        os.set_blocking(ours, False)
    try:
        os.set_blocking(theirs, False)
        while os.write(theirs, b"." * 1024):
            pass
    except BlockingIOError:
        os.set_blocking(theirs, True)
    words = [*world.flags("host", log_level="info"), f"--readiness-file={world.readiness_file}"]
    host = subprocess.Popen(
        [world.binaries.path("dpu-host-agent"), *words], stderr=theirs, env=clean_env(**SANITIZER)
    )
    os.close(theirs)
    text = []

    def said():
        with contextlib.suppress(BlockingIOError):
            text.append(os.read(ours, 65536))
        return b"lines are missing here" in b"".join(text)

    try:
        world.wait_state("Unknown")
        until(said, SOON_S, "a word of what is missing")
    finally:
        host.kill()
        host.wait()
        os.close(ours)
