# SPDX-License-Identifier: Apache-2.0
"""dpu-gate, the CNI binary, alone: what it checks, what it decides, what it hands on."""

import json
import os
import re
import resource
import signal
import stat
import subprocess
import time

import pytest
from gate_support import ALL_VERSIONS, ANSWERS, VERBS, Bench, Delegate
from dpu_testing.wait import until

pytestmark = pytest.mark.standin_only  # no API server here: nothing to learn from a real one


@pytest.fixture
def bench(binaries, tmp_path):
    built = Bench(binaries, tmp_path)
    built.record()
    return built


# ---- the environment --------------------------------------------------------------------------


def test_status_looks_at_no_variable_of_an_attachment(bench):
    bench.call("STATUS", env={"CNI_CONTAINERID": "some-%%id", "CNI_NETNS": None}).assert_ok()


def test_flags_by_hand(bench):
    def run(flag):
        env = bench.env("ADD", CNI_COMMAND=None)
        return subprocess.run(
            [bench.binary, flag], env=env, capture_output=True, text=True, check=False
        )

    version = run("--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert re.fullmatch(r"dpu-gate \d+\.\d+\.\d+( \(commit [0-9a-f]{12}\+?\))?\n", version.stdout)
    help_ = run("--help")
    assert (help_.returncode, help_.stdout) == (0, "")
    assert "CNI protocol versions supported: " in help_.stderr
    wrong = run("--verison")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "unknown argument '--verison'" in wrong.stderr


# ---- stdin ------------------------------------------------------------------------------------


def test_the_details_name_both_versions(bench):
    reply = bench.call("ADD", conf=bench.conf(cniVersion="9.9.9"))
    quoted = " ".join(f'"{version}"' for version in ALL_VERSIONS)
    assert reply.details == f'config is "9.9.9", plugin supports [{quoted}]'


def test_add_and_del_work_in_every_version(bench):
    for version in (None, *ALL_VERSIONS):
        drop = ("cniVersion",) if version is None else ()
        keys = {} if version is None else {"cniVersion": version}
        for verb in ("ADD", "DEL"):
            bench.call(verb, conf=bench.conf(drop=drop, **keys)).assert_ok()
    assert bench.delegate.verbs() == ["ADD", "DEL"] * (1 + len(ALL_VERSIONS))


def test_stdin_of_16_mebibytes_passes_and_more_is_refused_with_its_size(bench):
    small = json.dumps(bench.conf(pad="")).encode()
    room = (16 << 20) - len(small)
    for verb in ("ADD", "DEL"):
        bench.call(verb, conf=bench.conf(pad="x" * room)).assert_ok()
        reply = bench.call(verb, conf=bench.conf(pad="x" * (room + 1)))
        reply.assert_error(5, "error reading from stdin")
        assert "16777217" in reply.msg and "16777216" in reply.msg


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


# Go's reader takes these, so a runtime may send them.
FOREIGN = {
    "NUL escape": rb'"a\u0000b"',
    "half a pair": rb'["\ud800","\udc00x"]',
    "invalid UTF-8": b'"\xff\xc0\x80"',
    "beyond int64": b"12345678901234567000",
    "below int64": b"-9223372036854775809",
    "beyond float64": b"1e999",
    "deep": b"[" * 9990 + b"]" * 9990,
    "large": b'{"portMappings":"' + b"x" * (3 << 20) + b'"}',
    "blanks": b'{ "a" :\t[ 1.50 ,\n-0E+1 ] }',
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_only_go_can_read_is_passed_on_byte_for_byte(bench, verb):
    path = os.path.join(bench.directory, "10-ovn.conf")
    for kind, value in FOREIGN.items():
        with open(path, "wb") as file:
            file.write(b'{"type":"test-delegate","its":' + value + b"}")
        conf = json.dumps(bench.chained(delegateConf=path)).encode()
        conf = conf[:-1] + b',"runtimeConfig":' + value + b',"prevResult":{"x":' + value + b"}}"
        bench.call(verb, conf=conf).assert_ok()
        with open(os.path.join(bench.bin_dir, f"stdin.{verb}"), "rb") as file:
            got = file.read()
        for member in (b'"its":', b'"runtimeConfig":', b'"prevResult":{"x":'):
            assert member + value in got, kind


@pytest.mark.parametrize("verb", ["DEL", "CHECK", "GC"])
def test_a_mistake_in_what_only_the_gate_needs_blocks_no_clean_up(bench, verb):
    for keys in ({"statusCode": 7}, {"readinessFile": 7}, {"Type": "x"}, {"statuscode": 51}):
        bench.call(verb, conf=bench.conf(**keys)).assert_ok()
        assert bench.delegate.verbs()[-1] == verb
        assert bench.delegate.stdin(verb)["type"] == "test-delegate"
        assert not keys.keys() & bench.delegate.stdin(verb).keys()


def test_stdin_that_cannot_be_read_is_an_io_error(bench):
    directory = os.open(bench.directory, os.O_RDONLY)
    bench.call("ADD", stdin=directory).assert_error(5, "error reading from stdin")
    os.close(directory)


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


def test_version_needs_nothing_but_the_verb(bench):
    os.unlink(bench.readiness_file)
    for conf in (b"", b"{broken", json.dumps({"cniVersion": "1.0.0"}).encode()):
        reply = bench.call("VERSION", conf=conf, env={"CNI_PATH": None}).assert_ok()
        assert reply.json["cniVersion"] == "1.1.0"
        assert reply.json["supportedVersions"] == ALL_VERSIONS


# ---- the decision -----------------------------------------------------------------------------

EXPIRED = ["observed=-45", "valid=-5"]
REFUSED = [
    # record, reason, words of the message
    (["state=NotReady", "admit=false", "reason=LeaseExpired", "message=it died"], None, "it died"),
    (["state=NotReady", "admit=true", "reason=DPUShutdown", "message=bye"], "DPUShutdown", "bye"),
    (
        ["state=Unknown", "admit=false", "reason=AwaitingFirstRenewal", "message=not yet"],
        "AwaitingFirstRenewal",
        "not yet",
    ),
    (["state=NotReady", "admit=false", "message=old", "valid=-900", "writer=-900", "hold=-600"],
     None, "old"),
    (["state=NotReady", "admit=false", "message=held", "valid=-9", "writer=-9"], None, "held"),
    ([*EXPIRED, "writer=-400", "hold=-100"], "RecordStale", "dpu-host-agent"),
    (["boot-id=00000000-0000-0000-0000-000000000000"], "RecordInvalid", "boot"),
    (["observed=5"], "RecordInvalid", ""),
]


@pytest.mark.parametrize("settings, reason, words", REFUSED)
def test_a_record_that_does_not_admit_fails_add_and_status(bench, settings, reason, words):
    bench.record(*settings)
    for verb, code in (("ADD", 11), ("STATUS", 50)):
        reply = bench.call(verb).assert_error(code, "DPU Not Ready: ")
        assert words in reply.msg
        assert bench.readiness_file in reply.details
        assert reason is None or reason in reply.details
        assert reply.stderr == ""
    assert bench.delegate.calls() == []


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["valid=20"],
        ["observed=0.5"],
        ["observed=none", "valid=never", "reason=HealthCheckDisabled"],
        ["state=Unknown", "admit=true", "reason=ApiServerUnreachable", "observed=-900"],
    ],
)
def test_a_record_that_admits_lets_add_and_status_through_in_silence(bench, settings):
    bench.record(*settings)
    bench.call("STATUS").assert_ok()
    bench.call("ADD").assert_ok()
    assert bench.delegate.verbs() == ["STATUS", "ADD"]


def test_the_last_word_of_a_dead_writer_is_held_with_a_note(bench):
    bench.record(*EXPIRED, "writer=-3", "hold=300", "pid=4711")
    for verb in ("ADD", "STATUS"):
        reply = bench.call(verb)
        assert reply.status == 0
        assert "dpu-host-agent" in reply.stderr and "4711" in reply.stderr
        assert reply.stderr.count("\n") == 1


def test_a_missing_record_fails_and_says_what_to_start(bench):
    os.unlink(bench.readiness_file)
    for verb, code in (("ADD", 11), ("STATUS", 50)):
        reply = bench.call(verb).assert_error(code, "DPU Not Ready: ")
        assert "dpu-host-agent" in reply.msg and bench.readiness_file in reply.msg
        assert "RecordMissing" in reply.details


def test_the_code_of_status_can_be_chosen(bench):
    os.unlink(bench.readiness_file)
    for code in (50, 51):
        conf = bench.conf(statusCode=code)
        bench.call("STATUS", conf=conf).assert_error(code, "DPU Not Ready: ")
        bench.call("ADD", conf=conf).assert_error(11, "DPU Not Ready: ")


def test_clean_up_never_looks_at_the_record(bench):
    states = [
        lambda: bench.record("state=NotReady", "admit=false", "reason=LeaseExpired"),
        lambda: bench.record(*EXPIRED, "writer=-400", "hold=-100"),
        lambda: bench.write(b"{"),
        lambda: os.chmod(bench.readiness_file, 0o666),
        lambda: os.unlink(bench.readiness_file),
    ]
    for enter in states:
        enter()
        for verb in ("DEL", "CHECK", "GC"):
            bench.call(verb).assert_ok()
    assert bench.delegate.verbs() == ["DEL", "CHECK", "GC"] * len(states)


# ---- the record as a file ---------------------------------------------------------------------


def test_a_page_that_is_torn_for_a_moment_is_read_again(bench):
    page = bench.page()
    torn = page[:20] + bytes([page[20] ^ 1]) + page[21:]
    script = (
        "import os,sys,time\n"
        "fd=os.open(sys.argv[1],os.O_RDWR)\n"
        "torn,good=(sys.stdin.buffer.read(4096) for _ in range(2))\n"
        "print(flush=True)\n"
        "while True:\n for p in torn,good:\n  os.pwrite(fd,p,0)\n  time.sleep(0.001)\n"
    )
    writer = subprocess.Popen(
        ["/usr/bin/python3", "-c", script, bench.readiness_file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        writer.stdin.write(torn + page)
        writer.stdin.flush()
        writer.stdout.readline()
        failed = sum(bench.call("STATUS").status for _ in range(40))
    finally:
        writer.kill()
        writer.wait()
    assert failed <= 12, "without a second look half of them would fail"


# ---- our own keys -----------------------------------------------------------------------------


def test_a_mistake_in_our_keys_is_an_invalid_configuration(bench):
    for keys in ({"readinessFile": "relative"}, {"delegateconf": "/etc/x.conf"}):
        for verb in ("ADD", "STATUS"):
            reply = bench.call(verb, conf=bench.conf(**keys)).assert_error(7)
            assert next(iter(keys)).lower() in reply.msg.lower(), reply
    assert bench.delegate.calls() == []


# ---- wrapping ---------------------------------------------------------------------------------


def test_the_delegate_takes_our_place(bench):
    """The same process: its pid is ours, its stdout and exit status are the answer."""
    Delegate(bench.bin_dir, script='echo \'{"code":123,"msg":"mine"}\'; echo hi >&2; exit 7')
    process = subprocess.Popen(
        [bench.binary],
        env=bench.env("ADD"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    stdout, stderr = process.communicate(json.dumps(bench.conf()).encode(), timeout=30)
    assert json.loads(stdout) == {"code": 123, "msg": "mine"}
    assert stderr == b"hi\n"
    assert process.returncode == 7
    assert bench.delegate.pid() == process.pid


def test_the_delegate_gets_our_environment(bench):
    bench.call("ADD", env={"CNI_NETNS_OVERRIDE": "1", "TRACEPARENT": "00-1-2-03"}).assert_ok()
    env = bench.delegate.env("ADD")
    expected = bench.env("ADD", CNI_NETNS_OVERRIDE="1", TRACEPARENT="00-1-2-03")
    assert {k: env.get(k) for k in expected} == expected


def test_the_delegate_inherits_no_descriptor(bench):
    bench.call("ADD").assert_ok()
    links = [line for line in bench.delegate.fds("ADD").splitlines() if "->" in line]
    names = sorted(line.split(" -> ")[0].rsplit(" ", 1)[1] for line in links)
    assert [name for name in names if int(name) < 10] == ["0", "1", "2"], links


@pytest.mark.parametrize("verb", VERBS)
def test_the_delegate_gets_its_own_configuration_with_the_runtimes_part(bench, verb):
    delegate = {
        "type": "test-delegate",
        "name": "of its own",
        "cniVersion": "0.4.0",
        "mtu": 1400,
        "logFile": "/var/log/x",
        "args": {"old": True},
        "nested": {"delegate": {"type": "third"}, "text": "\u00e4\u2028\"\\"},
        "delegate": {"isDefaultGateway": True},
        "precise": [1, -9007199254740993, 0.1, 1e3, None, True],
    }
    runtime = {
        "prevResult": {"cniVersion": "1.1.0", "ips": []},
        "runtimeConfig": {"mac": "00:11:22:33:44:55"},
        "args": {"cni": {"x": 1}},
        "capabilities": {"mac": True},
        "cni.dev/valid-attachments": [{"containerID": "a", "ifname": "eth0"}],
        "cni.dev/attachments": [{"containerID": "a", "ifname": "eth0"}],
        "deviceID": "0000:03:00.2",
    }
    conf = bench.conf(**{**runtime, "delegate": delegate, "mtu": 9000, "statusCode": 51})
    bench.call(verb, conf=conf).assert_ok()
    expected = {**runtime, **delegate}
    expected.update(name="test-net", cniVersion="1.1.0", args=runtime["args"])
    assert bench.delegate.stdin(verb) == expected


@pytest.mark.parametrize("kind", ["conf", "conflist"])
def test_delegate_conf_is_read_at_each_call(bench, kind):
    path = os.path.join(bench.directory, f"10-ovn.{kind}")
    for mtu in (1400, 1500):
        plugin = {"type": "test-delegate", "mtu": mtu, "logFile": "/x"}
        content = {"name": "ovn", "cniVersion": "0.4.0"}
        content.update({"plugins": [plugin]} if kind == "conflist" else plugin)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        bench.call("ADD", conf=bench.chained(delegateConf=path)).assert_ok()
        got = bench.delegate.stdin("ADD")
        assert got == {**plugin, "name": "test-net", "cniVersion": "1.1.0"}


def test_a_bad_delegate_conf_says_what_is_wrong(bench):
    path = os.path.join(bench.directory, "10-ovn.conf")
    for content, code, words in (
        (None, 11, "No such file"),
        (b"[]", 6, "not an object"),
        (b'{"plugins":[{"type":"a"},{"type":"b"}]}', 7, "2 plugins"),  # DEL goes through them
        (b" " * ((16 << 20) + 1), 7, "16777216"),
    ):
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)
        for verb in VERBS:
            if verb == "DEL" and words == "2 plugins":
                continue
            wanted = 50 if verb == "STATUS" and code == 11 else code
            reply = bench.call(verb, conf=bench.chained(delegateConf=path)).assert_error(wanted)
            assert words in reply.msg and (path in reply.msg or code == 7), reply


def test_a_missing_delegate_is_an_error_in_every_verb(bench):
    os.unlink(bench.delegate.path)
    more = os.path.join(bench.directory, "more")
    for verb in VERBS:
        reply = bench.call(verb, env={"CNI_PATH": f"{bench.bin_dir}:{more}"})
        reply.assert_error(50 if verb == "STATUS" else 5)
        wanted = f'failed to find plugin "test-delegate" in path [{bench.bin_dir} {more}]'
        assert reply.msg == wanted


def test_we_never_become_our_own_delegate(bench):
    os.symlink(bench.binary, os.path.join(bench.bin_dir, "other-name"))
    for verb in VERBS:
        conf = bench.conf(delegate={"type": "other-name", "delegate": {"type": "x"}})
        assert "dpu-gate itself" in bench.call(verb, conf=conf).assert_error(7).msg


# ---- an old delegate knows neither STATUS nor GC ----------------------------------------------


COMPLAINS = "\n[ $CNI_COMMAND = VERSION ] || { echo '{\"code\": 4, \"msg\": \"unknown CNI_COMMAND\"}'; exit 1; }"


@pytest.mark.parametrize("versions, asked", [(["0.4.0", "1.0.0"], False), (["1.1.0"], True)])
def test_an_old_delegate_is_not_asked_to_collect_garbage(bench, versions, asked):
    delegate = Delegate(bench.bin_dir, versions=versions)
    bench.call("GC").assert_ok()
    assert delegate.calls() == (["VERSION", "GC"] if asked else ["VERSION"])


@pytest.mark.parametrize("versions, status", [('["0.4.0", "1.0.0"]', 0), ('["1.1.0"]', 1)])
def test_a_complaint_about_status_counts_where_the_delegate_knows_it(bench, versions, status):
    delegate = Delegate(bench.bin_dir, script=ANSWERS.format(versions=versions) + COMPLAINS)
    reply = bench.call("STATUS")
    assert (reply.status, "unknown CNI_COMMAND" in reply.stdout) == (status, status == 1)
    assert delegate.calls() == ["STATUS", "VERSION"]


def test_a_delegate_that_hangs_in_version_does_not_hang_us(bench):
    pid_file = os.path.join(bench.directory, "hung.pid")
    script = f"[ $CNI_COMMAND = VERSION ] || exit 1; echo $$ > {pid_file}; exec sleep 60"
    Delegate(bench.bin_dir, script=script)
    started = time.monotonic()
    bench.call("GC").assert_error(11)
    assert time.monotonic() - started < 20
    wait_gone(pid_file, "the hung plugin is gone")


def wait_gone(pid_file, what):
    with open(pid_file, encoding="ascii") as file:
        pid = int(file.read())
    until(lambda: not os.path.exists(f"/proc/{pid}"), 5, what)


def begin(bench, verb, conf=None):
    """A call that goes on meanwhile."""
    gate = subprocess.Popen(
        [bench.binary], env=bench.env(verb), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    gate.stdin.write(json.dumps(conf or bench.conf()).encode())
    gate.stdin.close()
    return gate


def test_the_probed_delegate_dies_with_us(bench):
    pid_file = os.path.join(bench.directory, "probe.pid")
    Delegate(bench.bin_dir, script=f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60")
    gate = begin(bench, "STATUS")
    until(lambda: os.path.exists(pid_file), 10, "the probe runs")
    gate.kill()
    gate.wait()
    gate.stdout.close()
    wait_gone(pid_file, "the probe is gone")


def test_status_costs_one_run_of_the_delegate(bench):
    bench.call("STATUS").assert_ok()
    assert bench.delegate.calls() == ["STATUS"]


def test_a_delegate_that_hangs_in_status_is_ended_with_all_it_started(bench):
    pid_file = os.path.join(bench.directory, "hung.pid")
    script = ANSWERS.format(versions='["1.1.0"]')
    script += f"\n[ $CNI_COMMAND != STATUS ] || {{ sleep 60 & echo $! > {pid_file}; wait; }}"
    Delegate(bench.bin_dir, script=script)
    started = time.monotonic()
    reply = bench.call("STATUS", conf=bench.conf(statusCode=51)).assert_error(51)
    assert "test-delegate' did not answer STATUS within 10000 ms" in reply.msg
    assert 9 < time.monotonic() - started < 20
    wait_gone(pid_file, "what it started is gone")


@pytest.mark.parametrize("verb, of", [("GC", "VERSION"), ("STATUS", "STATUS")])
def test_a_daemon_that_the_delegate_leaves_keeps_no_caller_waiting(bench, verb, of):
    """A caller reads stdout and stderr to their ends, which the daemon has inherited."""
    pid_file = os.path.join(bench.directory, "daemon.pid")
    script = f"[ $CNI_COMMAND != {of} ] || {{ setsid sleep 45 & echo $! > {pid_file}; }}\n"
    Delegate(bench.bin_dir, script=script + ANSWERS.format(versions='["1.1.0"]'))
    started = time.monotonic()
    reply = bench.call(verb, timeout_s=60)
    took_s = time.monotonic() - started
    with open(pid_file, encoding="ascii") as file:
        os.kill(int(file.read()), signal.SIGKILL)
    reply.assert_ok()
    assert took_s < 5


def test_what_the_delegate_says_to_status_is_passed_on_whole(bench):
    script = ANSWERS.format(versions='["1.1.0"]')
    script += '\n[ $CNI_COMMAND != STATUS ] || { echo " {} "; echo why >&2; exit 7; }'
    Delegate(bench.bin_dir, script=script)
    reply = bench.call("STATUS")
    assert (reply.status, reply.stdout, reply.stderr) == (7, " {} \n", "why\n")
    assert bench.delegate.stdin("STATUS") == {
        "type": "test-delegate", "name": "test-net", "cniVersion": "1.1.0"}  # fmt: skip


def test_a_sleeping_delegate_dies_when_the_runtime_kills_us(bench):
    Delegate(bench.bin_dir, script="exec sleep 60")
    gate = begin(bench, "ADD")
    until(lambda: "ADD" in bench.delegate.calls(), 10, "the delegate runs")
    gate.kill()
    assert gate.stdout.read() == b"", "nobody holds the pipe any more"
    assert gate.wait(5) == -signal.SIGKILL


# ---- a delegate that is being installed -------------------------------------------------------


def busy(bench):
    """A copy of a real program, held open for writing."""
    path = os.path.join(bench.bin_dir, "busy")
    with open("/bin/true", "rb") as source, open(path, "wb") as copy:
        copy.write(source.read())
    os.chmod(path, 0o755)
    return os.open(path, os.O_WRONLY)


def test_a_busy_delegate_is_tried_again(bench):
    fd = busy(bench)
    gate = begin(bench, "ADD", bench.conf(delegate={"type": "busy"}))
    time.sleep(0.3)
    assert gate.poll() is None
    os.close(fd)
    assert gate.wait(10) == 0
    gate.stdout.close()


@pytest.mark.parametrize("verb", ["ADD", "STATUS"])
def test_a_delegate_that_stays_busy_is_an_error(bench, verb):
    fd = busy(bench)
    try:
        reply = bench.call(verb, conf=bench.conf(delegate={"type": "busy"}))
    finally:
        os.close(fd)
    reply.assert_error(50 if verb == "STATUS" else 11)
    assert "Text file busy" in reply.msg


# ---- chained ----------------------------------------------------------------------------------


def test_chained_add_passes_the_previous_result_on(bench):
    for version in ALL_VERSIONS:
        interfaces = [{"name": "eth0", "future": [1.5, None]}]
        previous = {"cniVersion": version, "interfaces": interfaces, "dns": {}}
        conf = bench.chained(cniVersion=version, prevResult=previous)
        assert bench.call("ADD", conf=conf).assert_ok().json == previous
        for missing in ({"dns": {}}, {"dns": {}, "cniVersion": ""}):
            conf["prevResult"] = missing
            said = bench.call("ADD", conf=conf).assert_ok().json
            assert said == {"dns": {}, "cniVersion": version}


def test_chained_add_as_the_first_plugin_has_an_empty_result(bench):
    for version in ALL_VERSIONS:
        reply = bench.call("ADD", conf=bench.chained(cniVersion=version))
        if version in ("0.1.0", "0.2.0"):
            reply.assert_error(7, f"cniVersion {version}")
        else:
            assert reply.assert_ok().json == {"cniVersion": version}


def test_chained_add_and_status_are_gated(bench):
    bench.record("state=NotReady", "admit=false", "reason=LeaseExpired", "message=dead")
    bench.call("ADD", conf=bench.chained()).assert_error(11, "DPU Not Ready: dead")
    bench.call("STATUS", conf=bench.chained()).assert_error(50, "DPU Not Ready: dead")


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_chained_our_own_network_namespace_is_refused(bench, verb):
    for override, refused in ((None, True), ("", True), ("0", True), ("1", False), ("true", False), ("TRUE", False)):
        env = {"CNI_NETNS": "/proc/self/ns/net", "CNI_NETNS_OVERRIDE": override}
        reply = bench.call(verb, conf=bench.chained(), env=env)
        if refused:
            reply.assert_error(8, "plugin's netns and netns from CNI_NETNS should not be the same")
        else:
            reply.assert_ok()


# ---- output -----------------------------------------------------------------------------------


def test_an_error_is_one_object_with_its_version(bench):
    reply = bench.call("CHECK", conf=bench.conf(cniVersion="0.3.0"))
    assert list(reply.json) == ["cniVersion", "code", "msg"]
    assert reply.json["cniVersion"] == "0.3.0"
    assert reply.stdout.startswith('{\n    "')


def test_a_closed_or_full_stdout_is_exit_status_one(bench):
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    for stdout in (writer, full):
        assert bench.call("VERSION", stdout=stdout).status == 1
        assert bench.call("ADD", conf=bench.chained(), stdout=stdout).status == 1
        os.close(stdout)


def test_it_is_a_static_program_without_network_code(bench):
    with open(bench.binary, "rb") as file:
        content = file.read()
    if b"__asan_init" in content:
        pytest.skip("sanitizers need the loader")
    headers = subprocess.run(
        ["readelf", "-lW", bench.binary], capture_output=True, text=True, check=True
    ).stdout
    assert "INTERP" not in headers and "DYNAMIC" not in headers
    assert b"curl" not in content
    assert stat.S_ISREG(os.stat(bench.binary).st_mode)
