# SPDX-License-Identifier: Apache-2.0
"""What happens to machines: they lose power, panic, reboot, hang, sleep, lose their link or their time."""

import json
import re
import time

import pytest

from dpu_testing.wait import until
from machine import BOOT_S, COMMAND_S, SLOW
from pair import AGENTS, DURATION_S, LATE_S, Verdicts

LONGEST_S = 600  # of a lease, that a host believes


def test_a_pod_gets_in_on_a_node_whose_dpu_renews(pair):
    pair.host.sh("ip netns add pod")
    assert pair.cni("ADD", "1.0.0")[0] == 0
    assert "10.77.0." in pair.host.sh("ip -n pod -4 -o addr show eth0")
    assert pair.cni("DEL", "1.0.0")[0] == 0
    pair.host.sh("ip netns del pod")


def test_power_cut_of_the_dpu(pair):
    verdicts = Verdicts(pair)
    pair.dpu.power_cut()
    print(f"refused {verdicts.until_refused('LeaseExpired'):.1f} s after the last renewal")
    status, answer = pair.cni("ADD", "1.0.0")
    assert status != 0 and json.loads(answer)["code"] == 11, answer
    pair.dpu.power_on()
    pair.dpu.wait_boot()
    verdicts.until_admitted(BOOT_S)


def test_kernel_panic_of_the_dpu(pair):
    verdicts = Verdicts(pair)
    pair.dpu.start("echo c >/proc/sysrq-trigger")
    print(f"refused {verdicts.until_refused('LeaseExpired'):.1f} s after the last renewal")
    with open(pair.dpu.console, encoding="utf-8", errors="replace") as console:
        assert "Kernel panic" in console.read()
    pair.dpu.qmp("system_reset")
    pair.dpu.wait_boot()
    verdicts.until_admitted(BOOT_S)


def test_reboot_of_the_dpu_that_takes_longer_than_the_lease(pair):
    told = pair.dpu_reboots()
    verdicts = Verdicts(pair)
    pair.dpu.start("systemctl reboot")
    pair.dpu.wait_event("RESET", BOOT_S)
    pair.dpu.qmp("stop")  # firmware that takes its time
    verdicts.until_refused("LeaseExpired")
    pair.dpu.qmp("cont")
    pair.dpu.wait_boot()
    verdicts.until_admitted(BOOT_S)
    until(lambda: pair.dpu_reboots() == told + 1, COMMAND_S, "the reboot is told", every_s=1)


def test_reboot_of_the_dpu_within_the_lease_is_told_and_refuses_nobody(pair):
    pair.set_lease_duration(LONGEST_S)
    try:
        pair.wait_ready()
        told = pair.dpu_reboots()
        verdicts = Verdicts(pair)
        began = time.monotonic()
        pair.dpu.start("systemctl reboot")
        pair.dpu.wait_event("RESET", BOOT_S)
        verdicts.stay_admitted(DURATION_S)
        pair.dpu.wait_boot()
        until(lambda: verdicts.admitted() and pair.dpu_reboots() == told + 1, BOOT_S, "it is told", every_s=1)
        print(f"told {time.monotonic() - began:.0f} s after it began")
    finally:
        pair.set_lease_duration(DURATION_S)


def test_a_dpu_whose_processor_stands_still(pair):
    verdicts = Verdicts(pair)
    pair.dpu.qmp("stop")
    verdicts.until_refused("LeaseExpired")
    pair.dpu.qmp("cont")
    verdicts.until_admitted(DURATION_S + LATE_S)


def test_link_of_the_dpu_goes_down_and_up(pair):
    verdicts = Verdicts(pair)
    pair.dpu.qmp("set_link", name="nic", up=False)
    verdicts.until_refused("LeaseExpired")
    pair.dpu.qmp("set_link", name="nic", up=True)
    verdicts.until_admitted(DURATION_S + LATE_S)


def test_link_of_the_host_goes_down_and_nobody_is_accused(pair):
    verdicts = Verdicts(pair)
    pair.host.qmp("set_link", name="nic", up=False)
    verdicts.stay_admitted(DURATION_S + LATE_S)
    assert pair.verdict() == "Unknown/ApiServerUnreachable"
    pair.host.qmp("set_link", name="nic", up=True)
    pair.wait_verdict("Ready/LeaseRenewed", DURATION_S + LATE_S)


def plug(machine):
    machine.qmp("device_add", id="function", driver="virtio-rng-pci", bus="empty-port")


def unplug(machine):
    machine.qmp("device_del", id="function")
    machine.wait_event("DEVICE_DELETED")


def configure_probe(machine, probe):
    machine.sh(
        f"cd /etc/dpu-heartbeat; cp dpu-host-agent.yaml /run/; echo 'probe: [\"{probe}\"]' >>dpu-host-agent.yaml\n"
        "systemctl restart dpu-host-agent"
    )


def test_a_function_that_leaves_the_bus_is_refused_until_it_is_back(pair):
    host = pair.host
    function = host.sh("cat /sys/bus/pci/slots/*/address") + ".0"
    plug(host)
    until(lambda: host.run(f"ls /sys/bus/pci/devices/{function}")[0] == 0, COMMAND_S, f"{function} is there")
    configure_probe(host, f"pci:{function}")
    try:
        pair.wait_ready()
        verdicts = Verdicts(pair)
        unplug(host)
        verdicts.until_refused(f"there is no PCI function '{function}'", LATE_S)
        plug(host)
        verdicts.until_admitted(DURATION_S)
    finally:
        host.sh("mv /run/dpu-host-agent.yaml /etc/dpu-heartbeat/; systemctl restart dpu-host-agent")


NIC = "nic=$(ip -o -4 route get 10.0.2.2 | sed 's/.* dev \\([^ ]*\\).*/\\1/')\n"


def test_a_network_that_loses_and_delays_packets_accuses_nobody(pair):
    verdicts = Verdicts(pair)
    for machine in pair:
        machine.sh(NIC + "tc qdisc add dev $nic root netem delay 300ms 100ms loss 20%")
    verdicts.stay_admitted(2 * DURATION_S)
    said = [machine.sh(NIC + "tc -s qdisc show dev $nic; tc qdisc del dev $nic root") for machine in pair]
    assert sum(int(lost) for lost in re.findall(r"dropped (\d+),", "".join(said))) > 0, said


def test_the_record_of_another_boot_is_not_believed(pair):
    pair.host.sh("cp /run/dpu-heartbeat/readiness.json /var/tmp/ && systemctl disable -q dpu-host-agent && sync")
    pair.host.start("systemctl reboot")
    pair.host.wait_boot()
    status, answer = pair.cni("STATUS")
    assert status != 0 and "RecordMissing" in answer, answer
    pair.host.sh("cp /var/tmp/readiness.json /run/dpu-heartbeat/")
    status, answer = pair.cni("STATUS")
    assert status != 0 and "RecordInvalid" in answer, answer
    pair.host.sh("systemctl enable -q --now dpu-host-agent")
    pair.wait_ready()


def test_power_cut_of_the_host(pair):
    pair.host.power_cut()
    pair.host.power_on()
    pair.host.wait_boot()
    pair.wait_ready()


def test_a_host_that_sleeps_longer_than_the_lease_wakes_up_admitting(pair):
    verdicts = Verdicts(pair)
    uptime = "cut -d. -f1 /proc/uptime"
    before = int(pair.host.sh(uptime))
    pair.host.start("echo mem >/sys/power/state")
    pair.host.wait_event("SUSPEND")
    time.sleep(DURATION_S + LATE_S)
    pair.host.qmp("system_wakeup")
    verdicts.stay_admitted(DURATION_S + LATE_S)
    assert int(pair.host.sh(uptime)) - before >= 2 * DURATION_S, "its clock of deadlines knows that it slept"


def test_clocks_that_are_set_while_both_run(pair):
    verdicts = Verdicts(pair)
    for hours in (20, 0):
        for machine in pair:
            machine.sh(f"date -s @{time.time() + hours * 3600:.0f}")
        verdicts.stay_admitted(DURATION_S + LATE_S)


@pytest.mark.parametrize("year", [2016, 2037])
def test_a_dpu_that_boots_with_a_clock_years_off_renews_once_it_is_set(pair, year):
    verdicts = Verdicts(pair)
    pair.dpu.power_cut()
    pair.dpu.power_on("-rtc", f"base={year}-01-01T00:00:00")
    pair.dpu.wait_boot()
    verdicts.until_refused("LeaseExpired")
    said = "journalctl -b -o cat --no-pager -u dpu-agent"
    until(lambda: "certificate" in pair.dpu.sh(said), BOOT_S, "it says what its clock does to it", every_s=1)
    pair.dpu.sh(f"date -s @{time.time():.0f}")
    verdicts.until_admitted(DURATION_S + LATE_S)
    pair.dpu.power_cut()  # with the clock of the machine


FILL = """
for at in / /run; do
  fallocate -l $(($(stat -f -c '%f * %S' $at) - (64 << 20))) $at/filler || true # most of it, fast
  if cat /dev/zero >$at/more-filler; then exit 1; fi
done
"""


@pytest.mark.explains("No space left on device")
def test_full_disks_change_nothing(pair):
    verdicts = Verdicts(pair)
    try:
        for machine in pair:
            machine.sh(FILL)
        verdicts.stay_admitted(DURATION_S + LATE_S)
        for machine in pair:
            machine.sh(f"systemctl restart {AGENTS[machine.name]}")
        verdicts.stay_admitted(DURATION_S + LATE_S)
    finally:
        for machine in pair:
            machine.run("rm -f /filler /more-filler /run/filler /run/more-filler")
