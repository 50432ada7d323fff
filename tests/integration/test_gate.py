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


def test_a_wrong_environment_is_named(bench):
    bench.call("ADD", env={"CNI_PATH": None}).assert_error(
        4, "required env variables [CNI_PATH] missing"
    )
    bench.call("ADD", env={"CNI_CONTAINERID": "some-%%id"}).assert_error(
        4, "invalid characters in containerID", "some-%%id"
    )
    bench.call("STATUS", env={"CNI_CONTAINERID": "some-%%id", "CNI_NETNS": None}).assert_ok()


@pytest.mark.parametrize("verb", ["NOPE", "add", "ADD ", "UPDATE"])
def test_an_unknown_verb_is_named_after_stdin_was_checked(bench, verb):
    bench.call(verb).assert_error(4, f"unknown CNI_COMMAND: {verb}")
    bench.call(verb, conf=b"").assert_error(6)


@pytest.mark.parametrize("command", [None, ""])
def test_without_a_verb_it_says_what_it_is(bench, command):
    reply = bench.call("ADD", env={"CNI_COMMAND": command})
    assert (reply.status, reply.stdout) == (0, "")
    assert "CNI protocol versions supported: " + ", ".join(ALL_VERSIONS) in reply.stderr


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

@pytest.mark.parametrize(
    "conf, code, msg",
    [
        (b"", 6, "error unmarshall network config: unexpected end of JSON input"),
        (b"{}", 7, "missing network name"),
        (b'{"name":"n","cniVersion":"9.9.9"}', 1, "incompatible CNI versions"),
    ],
)
@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_a_bad_configuration_is_refused(bench, verb, conf, code, msg):
    bench.call(verb, conf=conf).assert_error(code, msg)
    assert bench.delegate.calls() == []


def test_the_details_name_both_versions(bench):
    reply = bench.call("ADD", conf=bench.conf(cniVersion="9.9.9"))
    quoted = " ".join(f'"{version}"' for version in ALL_VERSIONS)
    assert reply.details == f'config is "9.9.9", plugin supports [{quoted}]'


@pytest.mark.parametrize("version", [None, *ALL_VERSIONS])
def test_add_and_del_work_in_every_version(bench, version):
    drop = ("cniVersion",) if version is None else ()
    keys = {} if version is None else {"cniVersion": version}
    for verb in ("ADD", "DEL"):
        bench.call(verb, conf=bench.conf(drop=drop, **keys)).assert_ok()
    assert bench.delegate.verbs() == ["ADD", "DEL"]


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


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("verb", VERBS)
def test_what_only_go_can_read_is_passed_on_byte_for_byte(bench, verb, kind):
    value = FOREIGN[kind]
    path = os.path.join(bench.directory, "10-ovn.conf")
    with open(path, "wb") as file:
        file.write(b'{"type":"test-delegate","its":' + value + b"}")
    conf = json.dumps(bench.chained(delegateConf=path)).encode()
    conf = conf[:-1] + b',"runtimeConfig":' + value + b',"prevResult":{"x":' + value + b"}}"
    bench.call(verb, conf=conf).assert_ok()
    with open(os.path.join(bench.bin_dir, f"stdin.{verb}"), "rb") as file:
        got = file.read()
    for member in (b'"its":' + value, b'"runtimeConfig":' + value, b'"prevResult":{"x":' + value):
        assert member in got


@pytest.mark.parametrize(
    "keys", [{"statusCode": 7}, {"readinessFile": 7}, {"Type": "x"}, {"statuscode": 51}]
)
@pytest.mark.parametrize("verb", ["DEL", "CHECK", "GC"])
def test_a_mistake_in_what_only_the_gate_needs_blocks_no_clean_up(bench, verb, keys):
    bench.call(verb, conf=bench.conf(**keys)).assert_ok()
    assert bench.delegate.verbs() == [verb]
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


def test_the_last_word_of_a_dead_writer_ends_by_itself(bench):
    bench.record("valid=-1", "writer=0.3", "hold=0.6")
    bench.call("STATUS").assert_ok()
    until(lambda: bench.call("STATUS").status, 5, "the hold ends")
    bench.call("ADD").assert_error(11)


def test_a_missing_record_fails_and_says_what_to_start(bench):
    os.unlink(bench.readiness_file)
    for verb, code in (("ADD", 11), ("STATUS", 50)):
        reply = bench.call(verb).assert_error(code, "DPU Not Ready: ")
        assert "dpu-host-agent" in reply.msg and bench.readiness_file in reply.msg
        assert "RecordMissing" in reply.details


@pytest.mark.parametrize("code", [50, 51])
def test_the_code_of_status_can_be_chosen(bench, code):
    os.unlink(bench.readiness_file)
    bench.call("STATUS", conf=bench.conf(statusCode=code)).assert_error(code, "DPU Not Ready: ")
    bench.call("ADD", conf=bench.conf(statusCode=code)).assert_error(11, "DPU Not Ready: ")


@pytest.mark.parametrize("verb", ["DEL", "CHECK", "GC"])
@pytest.mark.parametrize("state", ["missing", "stale", "NotReady", "torn", "forbidden"])
def test_clean_up_never_looks_at_the_record(bench, verb, state):
    if state == "missing":
        os.unlink(bench.readiness_file)
    elif state == "stale":
        bench.record(*EXPIRED, "writer=-400", "hold=-100")
    elif state == "NotReady":
        bench.record("state=NotReady", "admit=false", "reason=LeaseExpired")
    elif state == "torn":
        bench.write(b"{")
    else:
        os.chmod(bench.readiness_file, 0o666)
    bench.call(verb).assert_ok()
    assert bench.delegate.verbs() == [verb]


# ---- the record as a file ---------------------------------------------------------------------


def test_a_page_without_padding_is_read(bench):
    bench.write(bench.page().rstrip())
    bench.call("STATUS").assert_ok()


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


@pytest.mark.parametrize("keys", [{"readinessFile": "relative"}, {"delegateconf": "/etc/x.conf"}])
@pytest.mark.parametrize("verb", ["ADD", "STATUS"])
def test_a_mistake_in_our_keys_is_an_invalid_configuration(bench, verb, keys):
    reply = bench.call(verb, conf=bench.conf(**keys)).assert_error(7)
    key = next(iter(keys))
    assert key.lower() in reply.msg.lower(), reply
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


def test_without_the_runtimes_part_the_delegates_own_stays(bench):
    delegate = {"type": "test-delegate", "args": {"own": 1}, "runtimeConfig": {"own": 2}}
    bench.call("DEL", conf=bench.conf(delegate=delegate)).assert_ok()
    assert bench.delegate.stdin("DEL") == {**delegate, "name": "test-net", "cniVersion": "1.1.0"}


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


@pytest.mark.parametrize(
    "content, code, words",
    [
        (None, 11, "No such file"),
        (b"[]", 6, "not an object"),
        (b'{"plugins":[{"type":"a"},{"type":"b"}]}', 7, "2 plugins"),  # DEL goes through them
        (b" " * ((16 << 20) + 1), 7, "16777216"),
    ],
    ids=lambda value: "large" if isinstance(value, bytes) and len(value) > 1000 else None,
)
def test_a_bad_delegate_conf_says_what_is_wrong(bench, content, code, words):
    path = os.path.join(bench.directory, "10-ovn.conf")
    if content is not None:
        with open(path, "wb") as file:
            file.write(content)
    for verb in VERBS:
        if verb == "DEL" and words == "2 plugins":
            continue
        wanted = 50 if verb == "STATUS" and code in (5, 11) else code
        reply = bench.call(verb, conf=bench.chained(delegateConf=path)).assert_error(wanted)
        assert words in reply.msg and (path in reply.msg or code == 7), reply


@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_delegate_is_an_error_in_every_verb(bench, verb):
    os.unlink(bench.delegate.path)
    more = os.path.join(bench.directory, "more")
    reply = bench.call(verb, env={"CNI_PATH": f"{bench.bin_dir}:{more}"})
    reply.assert_error(50 if verb == "STATUS" else 5)
    wanted = f'failed to find plugin "test-delegate" in path [{bench.bin_dir} {more}]'
    assert reply.msg == wanted


def test_the_first_regular_file_along_the_path_is_taken(bench):
    for name in ("one", "two", "three"):
        os.mkdir(os.path.join(bench.directory, name))
    one, two, three = (os.path.join(bench.directory, name) for name in ("one", "two", "three"))
    os.mkdir(os.path.join(one, "test-delegate"))
    os.symlink(bench.delegate.path, os.path.join(two, "test-delegate"))
    with open(os.path.join(three, "test-delegate"), "w", encoding="ascii") as file:
        file.write("never reached")
    bench.call("DEL", env={"CNI_PATH": f":{one}::{two}:{three}"}).assert_ok()
    assert bench.delegate.verbs() == ["DEL"]


def test_we_never_become_our_own_delegate(bench):
    os.link(bench.binary, os.path.join(bench.bin_dir, "other-name")) if os.stat(
        bench.binary
    ).st_dev == os.stat(bench.bin_dir).st_dev else os.symlink(
        bench.binary, os.path.join(bench.bin_dir, "other-name")
    )
    for verb in VERBS:
        conf = bench.conf(delegate={"type": "other-name", "delegate": {"type": "x"}})
        reply = bench.call(verb, conf=conf).assert_error(7)
        assert "dpu-gate itself" in reply.msg
    conf = bench.conf(type="my-gate", delegate={"type": "my-gate"})
    bench.call("DEL", conf=conf).assert_error(7)


def test_a_delegate_that_cannot_run_is_an_error(bench):
    os.chmod(bench.delegate.path, 0o644)
    for verb in VERBS:
        reply = bench.call(verb).assert_error(50 if verb == "STATUS" else 5)
        assert "Permission denied" in reply.msg and "test-delegate" in reply.msg


# ---- STATUS and GC ask the delegate only if it knows them -------------------------------------


@pytest.mark.parametrize("verb", ["STATUS", "GC"])
@pytest.mark.parametrize("versions, asked", [(["0.4.0", "1.0.0"], False), (["1.1.0"], True)])
def test_an_old_delegate_is_not_asked(bench, verb, versions, asked):
    delegate = Delegate(bench.bin_dir, versions=versions)
    bench.call(verb).assert_ok()
    assert delegate.calls() == ["VERSION", verb] if asked else ["VERSION"]


def test_what_version_says_on_stderr_stays_unheard(bench):
    script = 'echo noise >&2; echo \'{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}\''
    Delegate(bench.bin_dir, script=f'[ "$CNI_COMMAND" != VERSION ] || {{ {script}; }}')
    bench.call("STATUS").assert_ok()


@pytest.mark.parametrize("verb, code", [("STATUS", 50), ("GC", 11)])
def test_a_delegate_that_hangs_in_version_does_not_hang_us(bench, verb, code):
    pid_file = os.path.join(bench.directory, "hung.pid")
    Delegate(bench.bin_dir, script=f"echo $$ > {pid_file}; exec sleep 60")
    started = time.monotonic()
    bench.call(verb).assert_error(code)
    assert time.monotonic() - started < 20
    with open(pid_file, encoding="ascii") as file:
        pid = int(file.read())
    until(lambda: not os.path.exists(f"/proc/{pid}"), 5, "the hung plugin is gone")


def test_the_probed_delegate_dies_with_us(bench):
    pid_file = os.path.join(bench.directory, "probe.pid")
    Delegate(bench.bin_dir, script=f"echo $$ > {pid_file}; exec sleep 60")
    gate = subprocess.Popen(
        [bench.binary], env=bench.env("STATUS"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    gate.stdin.write(json.dumps(bench.conf()).encode())
    gate.stdin.close()

    def probe_pid():
        try:
            with open(pid_file, encoding="ascii") as file:
                return int(file.read() or 0)
        except FileNotFoundError:
            return 0

    pid = until(probe_pid, 10, "the probe runs")
    gate.send_signal(signal.SIGKILL)
    gate.wait()
    gate.stdout.close()
    until(lambda: not os.path.exists(f"/proc/{pid}"), 5, "the probe is gone")


MEMORY = "gate-delegates"


def test_the_delegates_versions_are_asked_once(bench):
    for _ in range(3):
        bench.call("STATUS").assert_ok()
        bench.call("GC").assert_ok()
    assert bench.delegate.calls() == ["VERSION", *["STATUS", "GC"] * 3]
    assert stat.S_IMODE(os.stat(os.path.join(bench.directory, MEMORY)).st_mode) == 0o600
    assert not [name for name in os.listdir(bench.directory) if name.startswith(f".{MEMORY}")]


def test_an_old_delegate_costs_nothing_once_it_is_known(bench):
    delegate = Delegate(bench.bin_dir, versions=["1.0.0"])
    for _ in range(3):
        bench.call("STATUS").assert_ok()
        bench.call("GC").assert_ok()
    assert delegate.calls() == ["VERSION"]


def test_a_garbled_answer_to_version_is_not_remembered(bench):
    flag = os.path.join(bench.directory, "garbled")
    script = (
        f'if [ "$CNI_COMMAND" = VERSION ]; then [ ! -e {flag} ] || exit 1;\n'
        'echo \'{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}\'; fi'
    )
    delegate = Delegate(bench.bin_dir, script=script)
    with open(flag, "w", encoding="ascii"):
        pass
    bench.call("STATUS").assert_ok()
    os.unlink(flag)
    bench.call("STATUS").assert_ok()
    bench.call("STATUS").assert_ok()
    assert delegate.calls() == ["VERSION", "VERSION", "STATUS", "STATUS"]


def test_status_of_a_slow_delegate_costs_one_run(bench):
    Delegate(bench.bin_dir, script="sleep 0.5\n" + ANSWERS.format(versions='["1.1.0"]'))
    bench.call("STATUS").assert_ok()
    started = time.monotonic()
    bench.call("STATUS").assert_ok()
    assert 0.5 <= time.monotonic() - started < 0.95


@pytest.mark.parametrize("code", [50, 51])
def test_a_delegate_that_hangs_in_status_is_ended_with_all_it_started(bench, code):
    pid_file = os.path.join(bench.directory, "hung.pid")
    script = ANSWERS.format(versions='["1.1.0"]')
    script += f"\n[ $CNI_COMMAND != STATUS ] || {{ sleep 60 & echo $! > {pid_file}; wait; }}"
    Delegate(bench.bin_dir, script=script)
    started = time.monotonic()
    reply = bench.call("STATUS", conf=bench.conf(statusCode=code)).assert_error(code)
    assert "test-delegate' did not answer STATUS within 10000 ms" in reply.msg
    assert 9 < time.monotonic() - started < 20
    with open(pid_file, encoding="ascii") as file:
        pid = int(file.read())
    until(lambda: not os.path.exists(f"/proc/{pid}"), 5, "what it started is gone")


@pytest.mark.parametrize("verb", ["VERSION", "STATUS"])
def test_a_daemon_that_the_delegate_leaves_keeps_no_caller_waiting(bench, verb):
    """A caller reads stdout and stderr to their ends, which the daemon has inherited."""
    pid_file = os.path.join(bench.directory, "daemon.pid")
    script = f"[ $CNI_COMMAND != {verb} ] || {{ setsid sleep 45 & echo $! > {pid_file}; }}\n"
    Delegate(bench.bin_dir, script=script + ANSWERS.format(versions='["1.1.0"]'))
    started = time.monotonic()
    reply = bench.call("STATUS", timeout_s=60)
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
    gate = subprocess.Popen(
        [bench.binary], env=bench.env("ADD"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    gate.stdin.write(json.dumps(bench.conf()).encode())
    gate.stdin.close()
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
    gate = subprocess.Popen(
        [bench.binary], env=bench.env("ADD"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    gate.stdin.write(json.dumps(bench.conf(delegate={"type": "busy"})).encode())
    gate.stdin.close()
    time.sleep(0.3)
    assert gate.poll() is None
    os.close(fd)
    assert gate.wait(10) == 0
    gate.stdout.close()


@pytest.mark.parametrize("verb", ["ADD", "DEL", "STATUS"])
def test_a_delegate_that_stays_busy_is_an_error(bench, verb):
    fd = busy(bench)
    try:
        reply = bench.call(verb, conf=bench.conf(delegate={"type": "busy"}))
    finally:
        os.close(fd)
    reply.assert_error(50 if verb == "STATUS" else 11)
    assert "Text file busy" in reply.msg


# ---- chained ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_chained_add_passes_the_previous_result_on(bench, version):
    previous = {
        "cniVersion": version,
        "interfaces": [{"name": "eth0", "future": [1.5, None]}],
        "dns": {},
    }
    conf = bench.chained(cniVersion=version, prevResult=previous)
    assert bench.call("ADD", conf=conf).assert_ok().json == previous
    for missing in ({"dns": {}}, {"dns": {}, "cniVersion": ""}):
        conf["prevResult"] = missing
        assert bench.call("ADD", conf=conf).assert_ok().json == {"dns": {}, "cniVersion": version}


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_chained_add_as_the_first_plugin_has_an_empty_result(bench, version):
    reply = bench.call("ADD", conf=bench.chained(cniVersion=version))
    if version in ("0.1.0", "0.2.0"):
        reply.assert_error(7, f"cniVersion {version}")
    else:
        assert reply.assert_ok().json == {"cniVersion": version}


@pytest.mark.parametrize("verb", ["DEL", "CHECK", "STATUS", "GC"])
def test_chained_the_other_verbs_print_nothing(bench, verb):
    assert bench.call(verb, conf=bench.chained()).assert_ok().stdout == ""


def test_chained_add_and_status_are_gated(bench):
    bench.record("state=NotReady", "admit=false", "reason=LeaseExpired", "message=dead")
    bench.call("ADD", conf=bench.chained()).assert_error(11, "DPU Not Ready: dead")
    bench.call("STATUS", conf=bench.chained()).assert_error(50, "DPU Not Ready: dead")


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
@pytest.mark.parametrize(
    "override, refused",
    [(None, True), ("", True), ("0", True), ("1", False), ("true", False), ("TRUE", False)],
)
def test_chained_our_own_network_namespace_is_refused(bench, verb, override, refused):
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


def test_a_closed_stdout_is_exit_status_one(bench):
    reader, writer = os.pipe()
    os.close(reader)
    assert bench.call("VERSION", stdout=writer).status == 1
    assert bench.call("ADD", conf=bench.chained(), stdout=writer).status == 1
    os.close(writer)


def test_a_full_stdout_is_exit_status_one(bench):
    with open("/dev/full", "wb") as full:
        assert bench.call("VERSION", stdout=full).status == 1
        assert bench.call("ADD", conf=bench.chained(), stdout=full).status == 1


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
