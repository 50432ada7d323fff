# SPDX-License-Identifier: Apache-2.0
"""dpu-gate, the CNI binary, alone: what it decides, and what it hands on. tests/unit has its parts."""

import json
import os
import re
import resource
import subprocess
import time

import pytest
from dpu_testing.process import clean_env
from dpu_testing.wait import until
from gate_support import ALL_VERSIONS, VERBS, Bench, Delegate

pytestmark = pytest.mark.standin_only  # no API server here: nothing to learn from a real one


@pytest.fixture
def bench(binaries, tmp_path):
    built = Bench(binaries, tmp_path)
    built.record()
    return built


def test_flags_by_hand(bench):
    env = clean_env()
    for flag, status, stdout, stderr in (
        ("--version", 0, r"dpu-gate \d+\.\d+\.\d+( \(commit [0-9a-f]{12}\+?\))?\n", ""),
        ("--help", 0, "", "CNI protocol versions supported: "),
        ("--verison", 2, "", "unknown argument '--verison'"),
    ):
        done = subprocess.run([bench.binary, flag], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == status and re.fullmatch(stdout, done.stdout), flag
        assert stderr in done.stderr and bool(stderr) == bool(done.stderr), flag


def test_memory_that_runs_out_is_an_error_of_cni(bench):
    with open(bench.binary, "rb") as program:
        if b"libasan" in program.read():
            pytest.skip("the address sanitizer needs more memory than that")

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (8 << 20, 8 << 20))

    conf = bench.conf(pad="x" * (12 << 20))
    for verb in ("ADD", "DEL", "STATUS"):
        reply = bench.call(verb, conf=conf, preexec_fn=limit)
        reply.assert_error(999, "dpu-gate is out of memory: raise the memory limit")
        assert reply.stderr == ""
    assert bench.delegate.calls() == []


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2), (1, 2)])
def test_closed_standard_descriptors_do_no_harm(bench, closed):
    def close():
        for fd in closed:
            os.close(fd)

    reply = bench.call("ADD", preexec_fn=close)
    if 0 not in closed:
        assert reply.status == 0
        assert bench.delegate.verbs() == ["ADD"]
    elif 1 in closed:
        assert reply.status == 1
    else:
        reply.assert_error(5, "error reading from stdin")


# ---- the decision -----------------------------------------------------------------------------

EXPIRED = ["observed=-45", "valid=-5"]
REFUSED = {
    "NotReady": (["state=NotReady", "admit=false", "reason=LeaseExpired", "message=it died"], "it died"),
    "newer": (["state=NotReady", "admit=false", "reason=Updating", "message=so it is"], "so it is"),
    "Unknown": (["state=Unknown", "admit=false", "message=not yet"], "not yet"),
    "stale": ([*EXPIRED, "writer=-400", "hold=-100"], "dpu-host-agent"),
    "missing": (None, "dpu-host-agent"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_record_that_does_not_admit_fails_add_and_status(bench, name):
    settings, words = REFUSED[name]
    if settings is None:
        os.unlink(bench.readiness_file)
    else:
        bench.record(*settings)
    for conf in (bench.conf(), bench.chained()):
        for verb, code in (("ADD", 11), ("STATUS", 50)):
            reply = bench.call(verb, conf=conf).assert_error(code, "DPU Not Ready: ")
            assert words in reply.msg and bench.readiness_file in reply.details
            assert reply.stderr == ""
        bench.call("STATUS", conf={**conf, "statusCode": 51}).assert_error(51, "DPU Not Ready: ")
        bench.call("ADD", conf={**conf, "statusCode": 51}).assert_error(11, "DPU Not Ready: ")
    assert bench.delegate.calls() == []


def test_a_record_that_admits_lets_add_and_status_through_in_silence(bench):
    unsure = ["state=Unknown", "admit=true", "reason=ApiServerUnreachable", "observed=-900"]
    for settings in ([], unsure, ["reason=FirmwareUpToDate"]):  # a newer agent's
        bench.record(*settings)
        for verb in ("STATUS", "ADD"):
            bench.call(verb).assert_ok()
    assert bench.delegate.calls() == ["STATUS", "ADD"] * 3, "each costs one run of the delegate"


def test_clean_up_never_looks_at_the_record(bench):
    states = [
        lambda: bench.record("state=NotReady", "admit=false", "reason=LeaseExpired"),
        lambda: bench.write(b"{"),
        lambda: os.unlink(bench.readiness_file),
    ]
    for enter in states:
        enter()
        for verb in ("DEL", "CHECK", "GC"):
            bench.call(verb).assert_ok()
    assert bench.delegate.verbs() == ["DEL", "CHECK", "GC"] * len(states)


# ---- wrapping ---------------------------------------------------------------------------------


def begin(bench, verb, conf=None):
    """A call that goes on meanwhile."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    gate = subprocess.Popen([bench.binary], env=clean_env(**bench.env(verb, TRACEPARENT="00-1")), **pipes)
    gate.stdin.write(json.dumps(conf or bench.conf()).encode())
    gate.stdin.close()
    return gate


def test_the_delegate_takes_our_place(bench):
    """The same process: its pid is ours, its stdout and exit status are the answer. It has our
    environment, and inherits no descriptor."""
    Delegate(bench.bin_dir, script='echo \'{"code":123,"msg":"mine"}\'; echo hi >&2; exit 7')
    gate = begin(bench, "ADD")
    assert json.load(gate.stdout) == {"code": 123, "msg": "mine"}
    assert (gate.stderr.read(), gate.wait(30)) == (b"hi\n", 7)
    assert bench.delegate.pid() == gate.pid
    expected = clean_env(**bench.env("ADD", TRACEPARENT="00-1"))
    assert {key: bench.delegate.env("ADD").get(key) for key in expected} == expected
    links = [line for line in bench.delegate.fds("ADD").splitlines() if "->" in line]
    names = sorted(line.split(" -> ")[0].rsplit(" ", 1)[1] for line in links)
    assert [name for name in names if int(name) < 10] == ["0", "1", "2"], links


@pytest.mark.parametrize("verb", VERBS)
def test_a_delegate_or_its_file_that_is_missing_is_an_error_in_every_verb(bench, verb):
    os.unlink(bench.delegate.path)
    is_status = verb == "STATUS"
    env = {"CNI_PATH": f"{bench.bin_dir}:/more"}
    reply = bench.call(verb, env=env).assert_error(50 if is_status else 5)
    assert reply.msg == f'failed to find plugin "test-delegate" in path [{bench.bin_dir} /more]'
    conf = bench.chained(delegateConf="/none/10-ovn.conf")
    reply = bench.call(verb, conf=conf).assert_error(50 if is_status else 11)
    assert "/none/10-ovn.conf" in reply.msg and "No such file" in reply.msg


def test_the_probed_delegate_dies_with_us(bench):
    pid_file = os.path.join(bench.directory, "probe.pid")
    Delegate(bench.bin_dir, script=f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60")
    gate = begin(bench, "STATUS")
    until(lambda: os.path.exists(pid_file), 10, "the probe runs")
    gate.kill()
    gate.wait()
    with open(pid_file, encoding="ascii") as file:
        pid = int(file.read())
    until(lambda: not os.path.exists(f"/proc/{pid}"), 5, "the probe is gone")


# ---- a delegate that is being installed -------------------------------------------------------


@pytest.fixture
def busy(bench):
    """A copy of a real program, held open for writing."""
    path = os.path.join(bench.bin_dir, "busy")
    with open("/bin/true", "rb") as source, open(path, "wb") as copy:
        copy.write(source.read())
    os.chmod(path, 0o755)
    with open(path, "ab") as held:
        yield held


def test_a_busy_delegate_is_tried_again(bench, busy):
    gate = begin(bench, "ADD", bench.conf(delegate={"type": "busy"}))
    time.sleep(0.3)
    assert gate.poll() is None
    busy.close()
    assert gate.wait(10) == 0


@pytest.mark.parametrize("verb, code", [("ADD", 11), ("STATUS", 50)])
def test_a_delegate_that_stays_busy_is_an_error(bench, busy, verb, code):
    reply = bench.call(verb, conf=bench.conf(delegate={"type": "busy"})).assert_error(code)
    assert "Text file busy" in reply.msg


def test_what_configures_the_network_of_a_missing_file_is_named(bench, tmp_path):
    """Somebody renamed it, or made a list of it: the first by name, as a runtime sees them."""
    bench.record()
    conf = bench.conf(drop=("delegate",), delegateConf=f"{tmp_path}/10-gone.conf")
    listed = {"name": "k8s", "plugins": [{"type": "x", "name": "test-net"}, {"type": "mesh"}]}
    steps = [
        (None, None, ""),
        ("00-gate.conflist", {"name": "test-net", "plugins": [{"type": "dpu-gate"}]}, ""),
        ("15-other.conf", {"name": "other", "type": "x"}, ""),
        ("15-broken.conf", "{", ""),
        ("15-test.conf.bak", {"name": "test-net", "type": "x"}, ""),
        ("30-listed.conflist", listed, "'30-listed.conflist' beside it configures the same network"),
        ("20-test.conf", {"name": "test-net", "type": "x"}, "'20-test.conf' beside it"),
    ]
    for name, text, details in steps:
        if name:
            (tmp_path / name).write_text(text if isinstance(text, str) else json.dumps(text))
        for verb, code in (("ADD", 11), ("STATUS", 50)):
            reply = bench.call(verb, conf=conf).assert_error(code, "delegateConf cannot be read", details)
            assert bool(details) == bool(reply.details)
        assert bench.call("DEL", conf=conf).details == ""


# ---- chained ----------------------------------------------------------------------------------


def test_chained_add_passes_the_previous_result_on_or_an_empty_one(bench):
    for version in ALL_VERSIONS:
        interfaces = [{"name": "eth0", "future": [1.5, None]}]
        previous = {"cniVersion": version, "interfaces": interfaces, "dns": {}}
        conf = bench.chained(cniVersion=version, prevResult=previous)
        assert bench.call("ADD", conf=conf).assert_ok().json == previous
        reply = bench.call("ADD", conf=bench.chained(cniVersion=version))
        if version in ("0.1.0", "0.2.0"):
            reply.assert_error(7, f"cniVersion {version}")
        else:
            assert reply.assert_ok().json == {"cniVersion": version}


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_chained_our_own_network_namespace_is_refused(bench, verb):
    for override, refused in ((None, True), ("0", True), ("true", False)):
        env = {"CNI_NETNS": "/proc/self/ns/net", "CNI_NETNS_OVERRIDE": override}
        reply = bench.call(verb, conf=bench.chained(), env=env)
        if refused:
            reply.assert_error(8, "plugin's netns and netns from CNI_NETNS should not be the same")
        else:
            reply.assert_ok()


def test_a_chained_del_whose_configuration_was_dropped_says_so_and_goes_on(bench):
    """As Multus 4.3.0 calls the plugins of a list that its configuration names by path."""
    stripped = {"cniVersion": "1.1.0", "name": "test-net", "type": "dpu-gate", "ipam": {}}
    for more in ({}, {"prevResult": {"ips": []}}, {"runtimeConfig": {"portMappings": []}}):
        reply = bench.call("DEL", conf={**stripped, **more})
        assert (reply.status, reply.stdout) == (0, ""), reply
        assert reply.stderr.count("\n") == 1 and "Multus drops it from a list" in reply.stderr
    for verb in ("ADD", "CHECK", "GC"):
        assert "Multus" not in bench.call(verb, conf=stripped).stderr
    for whole in ({**stripped, "chained": ["x"]}, {**stripped, "readinessFile": "/x"}, {**stripped, "ipam": {"type": "x"}}):
        bench.call("DEL", conf=whole).assert_ok()
    bench.call("DEL", conf={k: v for k, v in stripped.items() if k != "ipam"}).assert_ok()


# ---- output -----------------------------------------------------------------------------------


def test_a_closed_or_full_stdout_is_exit_status_one(bench):
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    for stdout in (writer, full):
        assert bench.call("VERSION", stdout=stdout).status == 1
        assert bench.call("ADD", conf=bench.chained(), stdout=stdout).status == 1
        os.close(stdout)
