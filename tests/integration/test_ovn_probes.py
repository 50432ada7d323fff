# SPDX-License-Identifier: Apache-2.0
"""The services of a DPU that runs ovn-kubernetes, real ones: what dpu-agent says of them when they
die, freeze, lose each other, come back, and while they are only restarted."""

import os
import random
import threading
import time

import pytest
from dpu_testing.ovn import DAEMONS, OVN_DAEMONS, Activation, Ovn, Ovnkube, is_installed
from dpu_testing.process import run
from dpu_testing.wait import never, until
from world import SOON_S

HEALTH = "dpu.k8s.ovn.org/health"
# The proportions of the defaults, a tenth of their time. The daemons answer within milliseconds, but
# this machine may be busy.
QUICK = "interval=200ms,timeout=1s,refused=600ms,silent=3s,missing=4s,wrong=4s"

pytestmark = [
    pytest.mark.standin_only,
    pytest.mark.skipif(not is_installed(), reason="openvswitch-switch, ovn-central, ovn-host"),
]


@pytest.fixture
def ovn(request):
    built = Ovn(**getattr(request, "param", {}))
    try:
        yield built.start_all()
    finally:
        built.cleanup()


@pytest.fixture
def beat(ovn):
    built = Ovnkube(ovn)
    yield built
    built.stop()


def start(world, target, ovn, *probes, **options):
    """dpu-agent with these probes, renewing."""
    ovn.set_ids(**{"host-k8s-nodename": target.node})
    target.new_lease()
    dpu = world.dpu(probe=list(probes), ovs_rundir=ovn.run_dir, **options)
    until(lambda: target.lease()["spec"].get("renewTime"), SOON_S, "a renewal")
    return dpu


def message(target):
    """What the DPU reports on the lease; None while it renews."""
    annotations = target.lease()["metadata"].get("annotations") or {}
    return annotations.get(HEALTH) and annotations[HEALTH + "-message"]


def wait_message(target, *words, timeout_s=SOON_S):
    return until(
        lambda: (seen := message(target)) and all(word in seen for word in words) and seen,
        timeout_s,
        lambda: f"a report with {words}; it is {message(target)!r}",
    )


def wait_renewed(target, timeout_s=SOON_S):
    before = target.lease()["spec"].get("renewTime")
    until(
        lambda: not message(target) and target.lease()["spec"].get("renewTime") != before,
        timeout_s,
        lambda: f"a renewal; the report is {message(target)!r}",
    )


def test_a_service_that_is_killed_is_named_at_once_and_so_is_its_return(world, target, ovn):
    start(world, target, ovn, *(f"{QUICK};{daemon}" for daemon in DAEMONS))
    for daemon in DAEMONS:
        ovn.kill(daemon)
        wait_message(target, f"probe '{daemon}'", "Connection refused", timeout_s=5)
        ovn.start(daemon)
        wait_renewed(target)


def test_a_service_that_is_frozen_is_silent_and_one_that_is_stopped_is_missing_after_a_while(world, target, ovn):
    start(world, target, ovn, f"{QUICK};ovsdb", f"{QUICK};vswitchd")
    ovn.freeze("ovsdb", "vswitchd")  # each is asked in a way of its own
    never(lambda: message(target), 1.5, "a report before its patience is over")
    wait_message(target, "probe 'ovsdb'", "no answer to", "within 1s", "'vswitchd'", timeout_s=10)
    ovn.thaw("ovsdb", "vswitchd")
    wait_renewed(target)
    ovn.stop("vswitchd")
    never(lambda: message(target), 2, "a report before its patience is over")
    wait_message(target, "probe 'vswitchd'", "No such file", timeout_s=10)
    ovn.start("vswitchd")
    wait_renewed(target)


def test_a_database_that_whoever_connects_would_start_stays_stopped(world, target, ovn):
    start(world, target, ovn, f"{QUICK};ovsdb", node_name=None)  # which asks for the node's name, too
    ovn.stop("ovn-controller", "vswitchd", "ovsdb")  # the others would start it, too
    socket_unit = Activation(ovn)
    try:
        wait_message(target, "probe 'ovsdb'", "ovsdb-server.pid", "No such file")
        never(lambda: socket_unit.count, 6, "a start of the database")  # the name is asked for each 5 s
        assert message(target)
        ovn.vsctl("--retry", "show")  # somebody wants it
        assert socket_unit.count == 1
        wait_renewed(target)
    finally:
        socket_unit.stop()


@pytest.mark.skipif("DPU_OWN_SYSTEMD" not in os.environ, reason="stops the machine's OVS: tests/distros has one to stop")
def test_a_database_that_systemd_would_start_stays_stopped(world, target):
    """The real socket unit of OVS's package, in place of the played one above."""

    def systemctl(*words):
        return run(["systemctl", *words]).stdout.strip()

    def is_up():
        return systemctl("is-active", "ovsdb-server.service") != "inactive"

    systemctl("start", "openvswitch-switch")
    run(["ovs-vsctl", "--no-wait", "set", "Open_vSwitch", ".", f"external_ids:host-k8s-nodename={target.node}"])
    target.new_lease()
    world.dpu(probe=[f"{QUICK};ovsdb"], node_name=None)
    until(lambda: target.lease()["spec"].get("renewTime"), SOON_S, "a renewal")
    systemctl("stop", "openvswitch-switch")
    assert systemctl("is-active", "ovsdb-server.socket") == "active", "nobody would start it: this proves nothing"
    wait_message(target, "probe 'ovsdb'", "ovsdb-server.pid", "No such file")
    never(is_up, 12, "a start of the database")  # the name is asked for each 5 s
    assert run(["ovs-vsctl", "--timeout=10", "show"]).returncode == 0 and is_up()  # somebody wants it
    systemctl("start", "openvswitch-switch")
    wait_renewed(target)


@pytest.mark.parametrize("ovn", [{}, {"ovn_apart": True}], indirect=True, ids=["one directory", "two"])
def test_all_services_are_asked_and_each_that_fails_is_named(world, target, ovn, beat):
    start(world, target, ovn, f"{QUICK};ovn-kubernetes", ovn_rundir=ovn.ovn_run_dir)
    ovn.kill("vswitchd", "ovn-nb")
    wait_message(target, "probe 'vswitchd'", "(and 'ovn-nb'")
    ovn.start("vswitchd", "ovn-nb")
    wait_renewed(target)
    beat.stop()
    assert "e2e_timestamp" in wait_message(target, "probe 'ovnkube'")


def test_who_lost_its_peer_says_so(world, target, ovn):
    """The peer's own probe is quicker; alone, these two tell."""
    start(world, target, ovn, f"{QUICK};ovn-controller", f"{QUICK};ovn-northd")
    ovn.kill("ovn-sb")
    seen = wait_message(target, "probe 'ovn-controller'", "'ovn-northd'", timeout_s=15)
    assert "'not connected' instead of 'connected'" in seen
    ovn.start("ovn-sb")
    wait_renewed(target, 30)


@pytest.mark.parametrize("victim, words", [("ovn-sb", "no answer to 'transact'"), ("ovn-northd", "has not changed for 4s")])
def test_a_frozen_database_or_northd_stops_the_beat_although_clients_say_connected(world, target, ovn, beat, victim, words):
    start(world, target, ovn, *(f"{QUICK};{d}" for d in ("ovn-controller", "ovnkube")))
    ovn.freeze(victim)
    wait_message(target, "probe 'ovnkube'", words, timeout_s=15)
    assert ovn.ask("ovn-controller", "connection-status") == "connected\n"
    ovn.thaw(victim)
    wait_renewed(target)


def test_an_ovn_controller_that_is_paused_is_named_although_it_says_connected(world, target, ovn):
    start(world, target, ovn, f"{QUICK};ovn-controller")
    ovn.ask("ovn-controller", "debug/pause")
    wait_message(target, "probe 'ovn-controller'", "'paused' instead of 'running'")
    assert ovn.ask("ovn-controller", "connection-status") == "connected\n"
    ovn.ask("ovn-controller", "debug/resume")
    wait_renewed(target)


@pytest.mark.parametrize("is_gone", [True, False], ids=["row gone", "row kept"])
def test_a_chassis_whose_address_another_one_has_is_named(world, target, ovn, is_gone):
    """Its ovn-controller answers well, and can write nothing."""
    start(world, target, ovn, f"{QUICK};ovn-controller")
    if is_gone:
        ovn.add_chassis("former", "127.0.0.1", in_place_of="dpu-1")
    else:
        ovn.add_chassis("former", "127.0.0.2")
        ovn.set_ids(**{"ovn-encap-ip": "127.0.0.2"})
    wait_message(target, "probe 'ovn-controller'", "'former' has", "address", "'dpu-1'")
    assert ovn.ask("ovn-controller", "connection-status") == "connected\n"
    assert ovn.ask("ovn-controller", "coverage/read-counter", "lflow_run") != "0\n"
    ovn.delete_chassis("former")
    wait_renewed(target, 30)


def test_a_chassis_that_does_not_follow_is_named(world, target, ovn):
    """ovn-controller itself is well; what it computes reaches nobody."""
    ovn.load(addresses=10, rules=2)
    start(world, target, ovn, f"{QUICK};ovn-controller")
    ovn.ask_for_change()
    never(lambda: message(target), 5, "a report of a chassis that follows")
    ovn.freeze("vswitchd")
    ovn.nbctl("acl-add", "switch", "to-lport", "7", "ip4.src == $many && tcp.dst == 77", "drop")
    ovn.ask_for_change()
    wait_message(target, "probe 'ovn-controller'", "'dpu-1' has not followed", "nb_cfg 1")
    ovn.thaw("vswitchd")
    wait_renewed(target)


def test_a_vswitchd_that_waits_for_its_database_says_so(world, target, ovn):
    start(world, target, ovn, f"{QUICK};vswitchd")
    ovn.kill("vswitchd", "ovsdb")
    ovn.start("vswitchd")
    seen = wait_message(target, "probe 'vswitchd'", "waits for its database")
    assert "\\" not in seen and "not a valid command" not in seen
    ovn.start("ovsdb")
    wait_renewed(target)


def test_a_bridge_that_is_gone_is_named(world, target, ovn):
    ovn.vsctl("add-br", "br-ex")
    start(world, target, ovn, f"{QUICK};vswitchd:br-ex", f"{QUICK};vswitchd")
    ovn.vsctl("del-br", "br-ex")
    seen = wait_message(target, "probe 'vswitchd:br-ex'")
    assert "'ofproto/list' answers 'br-int" in seen
    assert "'vswitchd'" not in seen


def test_a_first_boot_holds_the_lease_back_until_all_services_answer(world, target, ovn, beat):
    ovn.stop(*DAEMONS[1:])
    target.new_lease()
    world.dpu(probe=[f"{QUICK};ovn-kubernetes"], ovs_rundir=ovn.run_dir)
    never(lambda: target.lease()["spec"].get("renewTime"), 1.5, "a renewal")
    ovn.start(*DAEMONS[1:])
    wait_renewed(target, 30)


def test_a_bridge_of_a_mapped_network_that_is_gone_is_named(world, target, ovn):
    """Of a gateway, of a localnet, or of the uplink of a user-defined network."""
    ovn.vsctl("add-br", "br-ex", "--", "add-br", "br-blue")
    ovn.set_ids(**{"ovn-bridge-mappings": '"physnet:br-ex,blue.network:br-blue"'})
    start(world, target, ovn, f"{QUICK};vswitchd")
    ovn.vsctl("del-br", "br-blue")
    wait_message(target, "probe 'vswitchd'", "no bridge 'br-blue'", "ovn-bridge-mappings")
    ovn.set_ids(**{"ovn-bridge-mappings": "physnet:br-ex"})  # nobody wants it any more
    wait_renewed(target)
    ovn.vsctl("del-br", "br-int")
    never(lambda: message(target), 2, "a report of a bridge that ovn-controller makes anew")


# ---- no false alarms ----------------------------------------------------------------------------


def reports(target, action):
    """All that was reported while `action` ran."""
    seen = set()
    over = threading.Event()

    def watch():
        while not over.wait(0.05):
            seen.add(message(target))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        action()
    finally:
        over.set()
        thread.join()
    return seen - {None}


def test_restarts_of_ovs_are_no_alarm(world, target, ovn):
    """Each up long enough to be asked once: a daemon that never answers is no restart."""
    quick = QUICK.replace("200ms", "100ms")
    dpu = start(world, target, ovn, f"{quick};ovsdb", f"{quick};vswitchd")
    chance = random.Random(50)

    def restart():
        for _ in range(10):
            ovn.stop("vswitchd", "ovsdb")
            time.sleep(chance.choice((0, 0.05, 0.2)))
            ovn.start("ovsdb", "vswitchd")
            time.sleep(chance.choice((0.25, 0.4)))

    assert not reports(target, restart)
    assert dpu.lines(level="debug", msg="missing"), "no restart was noticed: the test proves nothing"


def test_a_rollout_of_all_ovn_daemons_is_no_alarm(world, target, ovn, beat):
    start(world, target, ovn, f"{QUICK},missing=20s,wrong=20s;ovn-kubernetes")

    def roll():
        ovn.stop(*OVN_DAEMONS)
        time.sleep(3)
        ovn.start(*OVN_DAEMONS)
        ovn.wait_serving()

    assert not reports(target, roll)


def test_seconds_of_real_work_are_no_alarm_with_the_patience_that_is_shipped(
    world, target, ovn, beat
):
    """Asked more often and for less long than by default, so that the silence is noticed."""
    ovn.load(addresses=2000, rules=50)
    dpu = start(world, target, ovn, "interval=200ms,timeout=300ms;ovn-kubernetes")

    def work():
        for daemon, command in (
            ("ovn-controller", "inc-engine/recompute"),
            ("ovn-sb", "ovsdb-server/compact"),
            ("ovn-nb", "ovsdb-server/compact"),
        ):
            ovn.ask(daemon, command)
            ovn.ask(daemon, "version")  # it has done that
        ovn.freeze(*frozen)
        time.sleep(3)
        ovn.thaw(*frozen)

    frozen = ("ovn-controller", "ovn-sb", "vswitchd")
    assert not reports(target, work)
    for daemon in frozen:
        unheard = dpu.lines(level="debug", msg=f"probe '{daemon}': silent")
        assert len(unheard) >= 3, f"nobody missed {daemon}: the test proves nothing"


def test_a_southbound_database_that_takes_no_writes_accuses_no_ovn_controller(world, target, ovn):
    """It could not follow if it would."""
    start(world, target, ovn, f"{QUICK},silent=30s;ovn-controller")

    def forbid_writes():
        ovn.freeze("ovn-controller")  # before it can follow
        ovn.ask_for_change()
        until(lambda: ovn.sb_global("nb_cfg") == 1, SOON_S, "the change", 0)
        ovn.ask("ovn-sb", "ovsdb-server/set-active-ovsdb-server", "tcp:127.0.0.1:9")
        ovn.ask("ovn-sb", "ovsdb-server/connect-active-ovsdb-server")
        ovn.thaw("ovn-controller")
        time.sleep(8)
        assert ovn.nb_cfg_of("dpu-1") == 0, "it followed: this proves nothing"
        ovn.ask("ovn-sb", "ovsdb-server/disconnect-active-ovsdb-server")
        until(lambda: ovn.sb_global("nb_cfg") == ovn.nb_cfg_of("dpu-1"), SOON_S, "it follows")

    assert not reports(target, forbid_writes)


def test_what_is_configured_for_the_chassis_alone_is_what_counts(world, target, ovn):
    """As ovn-controller(8) has it: 'ovn-encap-ip-CHASSIS' overrides 'ovn-encap-ip'."""
    ovn.vsctl("add-br", "br-ex")
    ovn.add_chassis("other", "127.0.0.2")
    ids = {"ovn-encap-ip": ("127.0.0.2", "127.0.0.1"), "ovn-bridge-mappings": ("net:br-other", "net:br-ex")}
    for key, (of_all, own) in ids.items():
        ovn.set_ids(**{f"{key}-dpu-1": own})
        ovn.set_ids(**{key: of_all})
    start(world, target, ovn, f"{QUICK};ovn-controller", f"{QUICK};vswitchd")
    never(lambda: message(target), 6, "a report")
    assert ovn.ask("ovn-controller", "connection-status") == "connected\n"
    ovn.add_chassis("former", "127.0.0.1", in_place_of="dpu-1")
    wait_message(target, "probe 'ovn-controller'", "'former' has", "address", "'dpu-1'")


def test_a_storm_of_recomputes_is_no_alarm(world, target, ovn):
    """Changes faster than they are computed: the chassis is behind at each look, and moves on."""
    ovn.load(addresses=1000, rules=25)
    dpu = start(world, target, ovn, f"{QUICK},silent=10s;ovn-controller")

    def storm():
        over = time.monotonic() + 10
        while time.monotonic() < over:
            ovn.ask_for_change()
            ovn.ask("ovn-controller", "inc-engine/recompute")

    assert not reports(target, storm)
    assert dpu.is_running()


# ---- rights -------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
def test_a_socket_that_may_not_be_opened_is_an_error_with_a_remedy(world, target, ovn):
    """Root without its capabilities, as in a pod; the socket is somebody else's, as on RHEL."""
    os.chown(ovn.path("db.sock"), 1, 1)
    os.chmod(ovn.path("db.sock"), 0o750)
    target.new_lease()
    words = world.flags("dpu", probe=[f"{QUICK};ovsdb"], ovs_rundir=ovn.run_dir)
    dpu = world.start("dpu-agent", words, wrapper=["setpriv", "--bounding-set=-all"])
    error = dpu.wait_log(SOON_S, level="error", msg="db.sock")
    for word in (ovn.path("db.sock"), "of user 1", "mode 0750", "CAP_DAC_OVERRIDE"):
        assert word in error["msg"], error
    wait_message(target, "CAP_DAC_OVERRIDE")
    os.chown(ovn.path("db.sock"), 0, 0)
    wait_renewed(target)
