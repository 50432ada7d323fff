# SPDX-License-Identifier: Apache-2.0
"""dpuctl status and watch: beside real agents, and on a made-up node in any state."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import time

import pytest
from dpu_testing import kubeconfig, record
from dpu_testing.dpuctl import Node, Watch, home_of
from dpu_testing.names import asking_nobody
from dpu_testing.process import run
from dpu_testing.wait import never
from world import SOON_S

READY, NOT_READY, UNKNOWN = 0, 1, 2
HOSTILE = "\x1b[2J\x9b31m\x07bell\r\nnew\tline\x7f‮"
AGE = re.compile(r"\d+(\.\d+)? m?s")  # the two did not look at the same moment
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
EXPIRED = ("state=NotReady", "admit=false", "reason=LeaseExpired")


@pytest.fixture
def node(binaries, tmp_path):
    return Node(binaries, tmp_path / "node")


@pytest.fixture
def flags(target):
    """Which node of which API server."""
    where = [f"--kubeconfig={target.kubeconfig('host')}", f"--namespace={target.namespace}"]
    return [*where, f"--node-name={target.node}"]


@pytest.fixture
def watch(node):
    started = []

    def start(*flags):
        started.append(Watch(node, *flags))
        return started[-1]

    yield start
    for each in started:
        if each.popen.returncode is None:
            each.end()


# Status.


def test_a_ready_node(world, node, flags):
    world.readiness_file = node.readiness_file
    world.both()
    world.wait_renewals(2)
    code, seen = node.status(*flags)
    assert (code, seen["answer"]) == (READY, "Ready")
    assert seen["gate"].pop("forSeconds") >= 0
    admits = {"admitsPods": True, "statusCode": 0, "reason": "LeaseRenewed"}
    assert seen["gate"] == {**admits, "message": None, "note": None}
    record = seen["record"]
    assert record["state"] == "Ready" and record["problem"] is None and record["writerAlive"]
    assert 0 <= record["lastRenewalAgeSeconds"] < world.duration_s
    assert 0 < record["validSeconds"] <= world.duration_s
    lease = seen["lease"]
    assert lease["found"] and lease["uidOfRecord"] and lease["holderExpected"]
    assert lease["durationSeconds"] == world.duration_s and lease["health"] is None
    assert seen["api"]["reached"] and abs(seen["api"]["clockSkewSeconds"]) < 5
    text = node.call("status", *flags).stdout
    assert f"{world.target.node}: Ready (LeaseRenewed) for" in text
    assert "ADD passes" in text and "held by ovnkube-dpu-node" in text
    assert "\033" not in text
    yaml = node.call("status", "-o", "yaml", *flags).stdout.splitlines()
    assert yaml[0] == f'node: "{world.target.node}"' and "  admitsPods: true" in yaml


@pytest.mark.parametrize(
    "settings, code, reason, since_s, words",
    [
        ([], READY, "LeaseRenewed", None, "ADD passes"),
        (["valid=-3"], READY, "LeaseRenewed", None, "expired 3"),  # its writer alone condemns
        (["valid=-9", "writer=-3"], UNKNOWN, "LeaseRenewed", 3, "no such dpu-host-agent is visible here), overdue for 3"),
        (["valid=-9", "writer=-8", "hold=-3"], UNKNOWN, "RecordStale", 3, "ADD fails at once"),
        (["boot-id=00000000-0000-0000-0000-000000000000"], UNKNOWN, "RecordInvalid", None, "Unknown (RecordInvalid)"),
        (["observed=60"], UNKNOWN, "RecordInvalid", None, "STATUS answers 50"),
        (["state=NotReady", "admit=false", "reason=DPUShutdown"], NOT_READY, "DPUShutdown", None, "NotReady (DPUShutdown)"),
        (["state=NotReady", "admit=false", "reason=LeaseExpired", "writer=-9", "hold=-1"], NOT_READY, "LeaseExpired", None, "NotReady (LeaseExpired)"),
        (["state=Unknown", "admit=true", "reason=ApiServerUnreachable"], UNKNOWN, "ApiServerUnreachable", None, "Unknown ("),
        (["reason=FirmwareUpToDate"], READY, "FirmwareUpToDate", None, "Ready (FirmwareUpToDate)"),  # a newer agent's
        (["reason=Updating", "state=NotReady", "admit=false"], NOT_READY, "Updating", None, "NotReady (Updating)"),
        (["reason=HealthCheckDisabled", "valid=never", "hold=never"], READY, "HealthCheckDisabled", None, "health check is disabled"),
        (None, UNKNOWN, "RecordMissing", None, "No such file"),
        (b"garbage \x1b[31m", UNKNOWN, "RecordInvalid", None, "RecordInvalid"),
    ],
)  # fmt: skip
def test_the_answer_is_what_dpu_gate_would_decide(binaries, node, settings, code, reason, since_s, words):
    if isinstance(settings, bytes):
        node.write(settings)
    elif settings is not None:
        node.record(*settings)
    status, seen = node.status()
    assert (status, seen["gate"]["reason"]) == (code, reason)
    assert not since_s or since_s <= seen["gate"]["forSeconds"] < since_s + 5
    assert "--kubeconfig" in seen["api"]["problem"] and "lease" not in seen
    if reason == "HealthCheckDisabled":
        assert seen["record"]["validSeconds"] is None and seen["record"]["holdSeconds"] is None
    text = node.call("status").stdout
    assert words in text and not CONTROL.search(text)
    conf = {"cniVersion": "1.1.0", "name": "n", "type": "dpu-gate",
            "readinessFile": node.readiness_file, "delegate": {"type": "none"}}  # fmt: skip
    asked = run([binaries.path("dpu-gate")], env=node.env(CNI_COMMAND="STATUS", CNI_PATH="/none"),
                input=json.dumps(conf))  # fmt: skip
    refused = "DPU Not Ready" in asked.stdout
    assert seen["gate"]["admitsPods"] is not refused
    if refused:
        said = [json.loads(asked.stdout)["msg"], f"DPU Not Ready: {seen['gate']['message']}"]
        assert AGE.sub("", said[0]) == AGE.sub("", said[1])


@pytest.mark.parametrize(
    "reason, mend",
    [("ApiServerUnreachable", "connection to the API server"), ("ApiServerNotWriting", "etcd")],
)
def test_the_doctor_says_what_to_mend_while_a_state_is_held(node, reason, mend):
    for admit, outcome in (("true", "warn"), ("false", "fail")):  # held, and held for too long
        node.record("state=Unknown", f"admit={admit}", f"reason={reason}")
        done = json.loads(node.call("doctor", "-o", "json").stdout)
        seen = next(check for check in done["checks"] if check["link"] == "record")
        assert seen["outcome"] == outcome and reason in seen["found"] and mend in seen["mend"]


def test_names_that_nobody_gives_are_those_of_the_record(node):
    node.record("node=far-away")
    assert node.status()[1]["node"] == "far-away"
    assert node.status("--node-name=given")[1]["node"] == "given"
    assert node.status(env=node.env(NODE_NAME="told"))[1]["node"] == "told"
    node.write(record.page("node=No_Name"))
    assert node.status()[1]["node"] == os.uname().nodename.lower()


def test_the_clock_of_the_dpu_needs_no_api_server(node):
    node.record()  # its stamp is of 2026-11-20T10:00:00Z, observed a second ago
    stamped = 1795168800.0
    _, seen = node.status()
    assert abs(seen["record"]["dpuClockSkewSeconds"] - (stamped - (time.time() - 1))) < 5
    node.record("observed=none", "state=Unknown", "admit=false", "reason=AwaitingFirstRenewal")
    assert node.status()[1]["record"]["dpuClockSkewSeconds"] is None


def test_status_and_doctor_show_each_host_probe(world, node):
    pci, root = "pci:0000:03:00.0", os.path.join(world.directory, "host")
    function = os.path.join(root, "sys/bus/pci/devices/0000:03:00.0")
    os.makedirs(function)
    world.readiness_file = node.readiness_file
    world.dpu()
    world.host(probe=[pci, "netdev:no-such"], host_root=root)
    world.wait_state("Ready")
    assert node.status()[1]["record"]["hostProbes"] == [
        {"probe": pci, "says": "well"},
        {"probe": "netdev:no-such", "says": "none"},
    ]
    shown = node.call("status").stdout
    assert f"{pci}: well" in shown
    assert "netdev:no-such: has not passed since" in shown
    assert "the host probe 'netdev:no-such' has not passed" in node.call("doctor").stdout
    os.rmdir(function)
    world.wait_verdict("NotReady/HostProbeFailed")
    assert f"{pci}: failed" in node.call("status").stdout
    assert "lspci" in node.call("doctor").stdout


@pytest.mark.standin_only
def test_hostile_texts_stay_texts(node, target, flags):
    """Those of the record, the CNI configuration and the lease."""
    node.record(f"message={HOSTILE}", "state=NotReady", "admit=false", "reason=DPUReportedUnhealthy")
    with open(os.path.join(node.cni_dir, "10-\x1b[31m.conf"), "w", encoding="utf-8") as file:
        json.dump({"name": HOSTILE, "type": HOSTILE}, file)
    target.new_lease(holderIdentity="\x1b]0;title\x07" + "h" * 300, leaseDurationSeconds=40)
    said = {"dpu.k8s.ovn.org/health": "unhealthy", "dpu.k8s.ovn.org/health-message": HOSTILE}
    target.put_lease(lambda lease: lease["metadata"].update(annotations=said))
    for form in ("text", "json", "yaml"):
        done = node.call("status", f"--output={form}", *flags)
        assert done.returncode == NOT_READY and not CONTROL.search(done.stdout), form
        assert done.stdout.count("bell") >= 3 and "title" in done.stdout, form
    assert "the DPU says: unhealthy" in node.call("status", *flags).stdout


def test_a_path_that_is_no_utf8_is_still_shown(node):
    done = node.call("status", "-o", "json", b"--readiness-file=/\xff\xfe".decode(errors="surrogateescape"))
    assert json.loads(done.stdout)["record"]["file"].endswith("/??") and done.returncode == UNKNOWN


def test_the_cni_wiring(node):
    assert "no configuration" in node.call("status").stdout
    for name, text in (("05-dpu-gate.conflist", '{"name":"n","cniVersions":["1.1.0"],"plugins":[{"type":"dpu-gate"}]}'),
                       ("00-broken.conf", "{"), ("10-ovn.conf", '{"name":"n","type":"t"}'), ("README", "x")):  # fmt: skip
        with open(os.path.join(node.cni_dir, name), "w", encoding="utf-8") as file:
            file.write(text)
    seen = node.status()[1]["cni"]
    assert (seen["first"], seen["gated"], seen["statusSupported"]) == ("05-dpu-gate.conflist", True, True)
    assert "05-dpu-gate.conflist comes first (dpu-gate)\n" in node.call("status").stdout
    os.unlink(os.path.join(node.cni_dir, "05-dpu-gate.conflist"))
    assert "10-ovn.conf comes first (t), without dpu-gate" in node.call("status").stdout


@pytest.mark.parametrize("names", [("dpu.k8s.ovn.org-1234-reg.sock", "dra-1234.sock"), ("dra-0123456789abcdef-reg.sock", "dra-0123456789abcdef.sock")])
def test_the_kubelets_sockets_are_found(node, names):
    """Where driver and UID are too long together, the name is a hash: of whichever driver, unless a service is there."""
    kubelet = os.path.join(node.root, "var/lib/kubelet")
    paths = [os.path.join(kubelet, where, name) for where, name in zip(("plugins_registry", "plugins/dpu.k8s.ovn.org"), names)]
    for path, is_found in zip(paths, (not names[0].startswith("dra-"), True)):
        os.makedirs(os.path.dirname(path))
        os.mknod(path, stat.S_IFSOCK | 0o600)  # one that is bound needs a short path
        assert node.status()[1]["dra"]["registrationSocket"] is is_found
    assert node.status()[1]["dra"]["serviceSocket"] and "offered to the kubelet" in node.call("status").stdout
    assert "socket of driver" not in node.call("doctor").stdout


@pytest.mark.standin_only
def test_a_lease_that_is_not_there_or_may_not_be_read_is_an_ordinary_outcome(node, target, flags):
    node.record()
    for problem in ("not found", "forbidden"):
        code, seen = node.status(*flags)
        assert code == READY and seen["api"]["reached"] and not seen["lease"]["found"]
        assert problem in seen["lease"]["problem"].lower()
        assert problem in node.call("status", *flags).stdout
        target.without_right("host", ["get"])


@pytest.mark.parametrize("kind", ["a loop", "directory", "empty", "no server", "nobody listens"])
def test_a_kubeconfig_of_no_use_leaves_the_local_part(node, tmp_path, kind):
    path = tmp_path / "kubeconfig"
    if kind == "directory":
        path.mkdir()
    elif kind == "a loop":
        path.symlink_to(path)
    else:
        server = "https://[::1" if kind == "no server" else "http://127.0.0.1:1"
        path.write_text("" if kind == "empty" else kubeconfig.dump(server))
    node.record()
    code, seen = node.status(f"--kubeconfig={path}")
    assert code == READY and seen["api"]["problem"] and not seen["api"]["reached"]
    assert "lease" not in seen or not seen["lease"]["found"]


def test_kubectls_kubeconfig_is_the_last_resort(node, target, tmp_path):
    node.record()
    env = node.env(HOME=home_of(tmp_path, target.kubeconfig("admin")))
    assert node.status(env=env)[1]["api"]["reached"]
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text("users: [{name: u, user: {exec: {command: aws}}}]\n")
    assert not node.status(f"--kubeconfig={nowhere}", env=env)[1]["api"]["reached"]
    (tmp_path / "other").mkdir()
    code, seen = node.status(env=node.env(HOME=home_of(tmp_path / "other", nowhere)))
    assert code == READY and "dpuctl cannot use kubectl's" in seen["api"]["problem"]
    assert "set --kubeconfig" in seen["api"]["problem"]


@pytest.mark.parametrize("silent", ["server", pytest.param("name server", marks=pytest.mark.by_name)])
def test_a_server_that_says_nothing_costs_the_timeout(node, tmp_path, silent):
    path = tmp_path / "kubeconfig"
    node.record()
    words = node.words("status", f"--kubeconfig={path}", "--api-timeout=300ms")
    with socket.create_server(("127.0.0.1", 0)) as server:
        if silent == "server":
            path.write_text(kubeconfig.dump(f"http://127.0.0.1:{server.getsockname()[1]}"))
        else:
            path.write_text(kubeconfig.dump("https://api.example.test:6443"))
            words = [*asking_nobody(tmp_path), *words]
        done = run(words, env=node.env())
    assert done.returncode == READY and "no answer within 300ms" in done.stdout, done.stderr
    assert 0.25 < done.seconds < 4


@pytest.mark.parametrize("form", ["text", "json", "yaml"])
def test_a_full_disk_is_no_success(node, form):
    node.record()
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run(node.words("status", "-o", form), stdout=full, env=node.env(),
                              stderr=subprocess.PIPE, check=False)  # fmt: skip
    assert done.returncode == UNKNOWN, done.stderr


def test_the_environment_turns_colours_off_and_options_on(node):
    node.record()
    assert "\033[" in node.call("status", env=node.env(DPU_HEARTBEAT_COLOR="always")).stdout
    done = node.call("status", env=node.env(DPU_HEARTBEAT_OUTPUT="json"))
    assert json.loads(done.stdout)["answer"] == "Ready"


@pytest.mark.parametrize("command, status", [("watch", 0), ("status", UNKNOWN), ("doctor", UNKNOWN)])
def test_a_reader_that_has_gone_before_is_no_crash(node, command, status):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(node.words(command), stdout=pipe, stderr=subprocess.PIPE, env=node.env(),
                              timeout=SOON_S, check=False)  # fmt: skip
    assert (done.returncode, done.stderr) == (status, b"")


# Watch, line by line.


def test_flips_come_at_their_moment(node, watch):
    began = time.time()
    node.record("valid=0.5", "writer=1.0", "hold=2.0")
    lines = [json.loads(line) for line in watch("-o", "json").wait_lines(3)]
    assert [(line["answer"], line["reason"], line["former"]) for line in lines] == [
        ("Ready", "LeaseRenewed", None),
        ("Unknown", "LeaseRenewed", "Ready"),
        ("Unknown", "RecordStale", "Unknown"),
    ]
    assert lines[0]["formerSeconds"] is None
    for due, line in zip((1, 2), lines[1:]):
        at = time.strptime(line["time"][:19], "%Y-%m-%dT%H:%M:%S")
        late = at.tm_sec + float("0" + line["time"][19:-1]) - (began + due) % 60
        assert -0.05 < (late + 30) % 60 - 30 < 0.9, (due, line)
        assert 0.5 < line["formerSeconds"] < 2.5


def test_a_line_has_its_time_and_how_long_the_former_state_lasted_and_a_renewal_has_none(node, watch):
    node.record()
    time.sleep(1)  # of it no one has seen anything
    seen = watch()
    seen.wait_lines(1)
    for _ in range(10):
        node.rewrite()
    never(lambda: len(seen.lines()) > 1, 0.5, "a line")
    node.rewrite(*EXPIRED, f"message={HOSTILE}")
    first, second = seen.wait_lines(2)[:2]
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
    assert re.fullmatch(rf"{stamp}  Ready     LeaseRenewed: .*", first)
    lasted = re.fullmatch(rf"{stamp}  NotReady  LeaseExpired after (\d+\.\d)s Ready: .*", second)
    assert lasted and 1 <= float(lasted[1]) < 30
    assert not CONTROL.search(second)


def test_a_record_that_goes_and_comes(node, watch):
    seen = watch()
    assert "RecordMissing" in seen.wait_lines(1)[0]
    node.record()
    assert "LeaseRenewed after" in seen.wait_lines(2)[1]
    os.rename(node.run_dir, node.run_dir + ".old")
    assert "RecordMissing after" in seen.wait_lines(3)[2]
    os.mkdir(node.run_dir)
    node.record("state=NotReady", "admit=false", "reason=DPUShutdown")
    assert "DPUShutdown after" in seen.wait_lines(4)[3]
    node.write(b"torn")
    assert "RecordInvalid after" in seen.wait_lines(5)[4]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_when_asked(node, watch, number):
    seen = watch()
    seen.wait_lines(1)
    assert seen.end(number) == (0, "")


def test_it_leaves_when_its_reader_has_gone(node, watch):
    """`dpuctl watch | head -n 1` does not wait for the next change."""
    node.record()
    seen = watch()
    seen.wait_lines(1)
    seen.popen.stdout.close()
    assert seen.popen.wait(SOON_S) in (0, 1, -signal.SIGPIPE)
    assert seen.popen.stderr.read() == b""
