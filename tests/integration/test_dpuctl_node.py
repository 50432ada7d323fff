# SPDX-License-Identifier: Apache-2.0
"""dpuctl status and watch on a made-up node: time alone, hostile texts."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import time

import pytest
from dpu_testing import kubeconfig
from dpu_testing.dpuctl import Node, Watch, home_of
from dpu_testing.kube import LEASES
from dpu_testing.process import run
from dpu_testing.silent_dns import silent_dns
from dpu_testing.wait import never, until
from world import SOON_S

READY, NOT_READY, UNKNOWN, USAGE = 0, 1, 2, 64
HOSTILE = "\x1b[2J\x9b31m\x07bell\r\nnew\tline\x7f‮"
AGE = re.compile(r"\d+(\.\d+)? m?s")  # the two did not look at the same moment
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def node(binaries, tmp_path):
    return Node(binaries, tmp_path / "node")


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


@pytest.mark.parametrize(
    "settings, code, reason, since_s",
    [
        ([], READY, "LeaseRenewed", None),
        (["valid=-3"], READY, "LeaseRenewed", None),  # its writer alone condemns
        (["valid=-9", "writer=-3"], UNKNOWN, "LeaseRenewed", 3),
        (["valid=-9", "writer=-8", "hold=-3"], UNKNOWN, "RecordStale", 3),
        (["boot-id=00000000-0000-0000-0000-000000000000"], UNKNOWN, "RecordInvalid", None),
        (["observed=60"], UNKNOWN, "RecordInvalid", None),
        (["state=NotReady", "admit=false", "reason=DPUShutdown"], NOT_READY, "DPUShutdown", None),
        (["state=Unknown", "admit=true", "reason=ApiServerUnreachable"], UNKNOWN,
         "ApiServerUnreachable", None),
        (["state=Unknown", "admit=true", "reason=ApiServerNotWriting"], UNKNOWN,
         "ApiServerNotWriting", None),
        (["reason=HealthCheckDisabled", "valid=never", "hold=never"], READY,
         "HealthCheckDisabled", None),
    ],
)  # fmt: skip
def test_the_answer_is_what_dpu_gate_would_decide(binaries, node, settings, code, reason, since_s):
    node.record(*settings)
    status, seen = node.status()
    assert (status, seen["gate"]["reason"]) == (code, reason)
    if since_s:
        assert since_s <= seen["gate"]["forSeconds"] < since_s + 5
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
    [("ApiServerUnreachable", "way to the API server"), ("ApiServerNotWriting", "etcd")],
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
    node.write(node.page("node=No_Name"))
    assert node.status()[1]["node"] == os.uname().nodename.lower()


def test_the_clock_of_the_dpu_needs_no_api_server(node):
    node.record()  # its stamp is of 2026-11-20T10:00:00Z, observed a second ago
    stamped = 1795168800.0
    _, seen = node.status()
    assert abs(seen["record"]["dpuClockSkewSeconds"] - (stamped - (time.time() - 1))) < 5
    node.record("observed=none", "state=Unknown", "admit=false", "reason=AwaitingFirstRenewal")
    assert node.status()[1]["record"]["dpuClockSkewSeconds"] is None


def test_what_never_ends_has_no_seconds(node):
    node.record("reason=HealthCheckDisabled", "valid=never", "hold=never")
    record = node.status()[1]["record"]
    assert record["validSeconds"] is None and record["holdSeconds"] is None
    assert "health check is disabled" in node.call("status").stdout


def test_hostile_texts_stay_texts(node):
    node.record(f"message={HOSTILE}", "state=NotReady", "admit=false",
                "reason=DPUReportedUnhealthy")  # fmt: skip
    with open(os.path.join(node.cni_dir, "10-\x1b[31m.conf"), "w", encoding="utf-8") as file:
        json.dump({"name": HOSTILE, "type": HOSTILE}, file)
    for form in ("text", "json", "yaml"):
        done = node.call("status", f"--output={form}")
        assert done.returncode == NOT_READY and not CONTROL.search(done.stdout), form
    assert "bell" in done.stdout


@pytest.mark.standin_only
def test_a_hostile_lease_stays_text(node, target):
    annotations = {"dpu.k8s.ovn.org/health": "unhealthy",
                   "dpu.k8s.ovn.org/health-message": HOSTILE}  # fmt: skip
    target.admin.create(
        LEASES.format(ns=target.namespace),
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
         "metadata": {"name": target.lease_name(), "annotations": annotations},
         "spec": {"holderIdentity": "\x1b]0;title\x07" + "h" * 300, "leaseDurationSeconds": 40}},
    )  # fmt: skip
    node.record()
    for form in ("text", "json", "yaml"):
        done = node.call("status", f"--output={form}", f"--kubeconfig={target.kubeconfig('host')}")
        assert done.returncode == READY and not CONTROL.search(done.stdout), form
    assert "title" in done.stdout


def test_a_path_that_is_no_utf8_is_still_shown(node):
    done = node.call("status", "-o", "json", b"--readiness-file=/\xff\xfe".decode(errors="surrogateescape"))
    assert json.loads(done.stdout)["record"]["file"].endswith("/??") and done.returncode == UNKNOWN


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
def test_rights_that_are_missing_are_an_ordinary_outcome(node, target):
    node.record()
    target.without_right("host", ["get"])
    code, seen = node.status(f"--kubeconfig={target.kubeconfig('host')}")
    assert code == READY and seen["api"]["reached"]
    assert "forbidden" in seen["lease"]["problem"].lower()


@pytest.mark.parametrize("kind", ["a loop", "directory", "empty", "no server"])
def test_a_kubeconfig_of_no_use_leaves_the_local_part(node, tmp_path, kind):
    path = tmp_path / "kubeconfig"
    if kind == "directory":
        path.mkdir()
    elif kind == "a loop":
        path.symlink_to(path)
    else:
        path.write_text("" if kind == "empty" else kubeconfig.dump("https://[::1"))
    node.record()
    code, seen = node.status(f"--kubeconfig={path}")
    assert code == READY and seen["api"]["problem"] and not seen["api"]["reached"]
    assert "lease" not in seen or not seen["lease"]["found"]


def test_kubectls_kubeconfig_is_the_last_resort(node, target, tmp_path):
    node.record()
    env = node.env(HOME=home_of(tmp_path, target.kubeconfig("admin")))
    assert node.status(env=env)[1]["api"]["reached"]
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text("")
    assert not node.status(f"--kubeconfig={nowhere}", env=env)[1]["api"]["reached"]


def test_kubectls_kubeconfig_of_no_use_is_none(node, tmp_path):
    exec_plugin = tmp_path / "kubeconfig"
    exec_plugin.write_text("users: [{name: u, user: {exec: {command: aws}}}]\n")
    node.record()
    code, seen = node.status(env=node.env(HOME=home_of(tmp_path, exec_plugin)))
    assert code == READY and "kubectl's is of no use here" in seen["api"]["problem"]
    assert "give --kubeconfig" in seen["api"]["problem"]


def test_a_server_that_accepts_and_says_nothing_costs_the_timeout(node, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        path = tmp_path / "kubeconfig"
        path.write_text(kubeconfig.dump(f"http://127.0.0.1:{server.getsockname()[1]}"))
        node.record()
        done = node.call("status", f"--kubeconfig={path}", "--api-timeout=300ms")
    assert done.returncode == READY and "no answer within 300ms" in done.stdout
    assert 0.25 < done.seconds < 5


def test_a_name_server_that_says_nothing_costs_the_timeout(node, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig.dump("https://api.example.test:6443"))
    node.record()
    words = node.words("status", f"--kubeconfig={path}", "--api-timeout=500ms")
    done = run([*silent_dns(tmp_path), *words], env=node.env())
    assert done.returncode == READY and "no answer within 500ms" in done.stdout, done.stderr
    assert done.seconds < 4


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


# Watch, line by line.


def test_flips_come_at_their_moment(node, watch):
    began = time.time()
    node.record("valid=0.5", "writer=1.0", "hold=2.0")
    lines = [json.loads(line) for line in watch("-o", "json").wait_lines(3)]
    assert [(line["answer"], line["reason"]) for line in lines] == [
        ("Ready", "LeaseRenewed"),
        ("Unknown", "LeaseRenewed"),
        ("Unknown", "RecordStale"),
    ]
    assert lines[0]["former"] is None and lines[0]["formerSeconds"] is None
    assert [line["former"] for line in lines[1:]] == ["Ready", "Unknown"]
    for due, line in zip((1, 2), lines[1:]):
        at = time.strptime(line["time"][:19], "%Y-%m-%dT%H:%M:%S")
        late = at.tm_sec + float("0" + line["time"][19:-1]) - (began + due) % 60
        assert -0.05 < (late + 30) % 60 - 30 < 0.9, (due, line)
        assert 0.5 < line["formerSeconds"] < 2.5


def test_the_first_change_says_how_long_the_state_before_lasted(node, watch):
    node.record()
    time.sleep(1)
    seen = watch("-o", "json")
    seen.wait_lines(1)
    node.rewrite("state=NotReady", "admit=false", "reason=LeaseExpired")
    assert 1 <= json.loads(seen.wait_lines(2)[1])["formerSeconds"] < 30


def test_lines_have_a_time_and_the_former_state(node, watch):
    node.record()
    seen = watch()
    seen.wait_lines(1)
    node.rewrite("state=NotReady", "admit=false", "reason=LeaseExpired", f"message={HOSTILE}")
    first, second = seen.wait_lines(2)[:2]
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
    assert re.fullmatch(rf"{stamp}  Ready     LeaseRenewed: .*", first)
    assert re.fullmatch(rf"{stamp}  NotReady  LeaseExpired after \d+\.\ds Ready: .*", second)
    assert not CONTROL.search(second)


def test_a_renewal_is_no_change(node, watch):
    node.record()
    seen = watch()
    seen.wait_lines(1)
    for _ in range(10):
        node.rewrite()
    never(lambda: len(seen.lines()) > 1, 1.2, "a line")


def test_a_record_that_goes_and_comes(node, watch):
    seen = watch()
    assert "RecordMissing" in seen.wait_lines(1)[0]
    node.record()
    assert "LeaseRenewed after" in seen.wait_lines(2)[1]
    os.unlink(node.readiness_file)
    assert "RecordMissing after" in seen.wait_lines(3)[2]
    os.rmdir(node.run_dir)
    time.sleep(0.1)
    os.mkdir(node.run_dir)
    node.record("state=NotReady", "admit=false", "reason=DPUShutdown")
    assert "DPUShutdown after" in seen.wait_lines(4)[3]
    os.rename(node.run_dir, node.run_dir + ".old")
    assert "RecordMissing after" in seen.wait_lines(5)[4]
    os.mkdir(node.run_dir)
    node.write(b"torn")
    assert "RecordInvalid after" in seen.wait_lines(6)[5]


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
