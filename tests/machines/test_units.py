# SPDX-License-Identifier: Apache-2.0
"""Our units under a real systemd: readiness, watchdog, restarts, sandbox, users and modes."""

import re
import time

import pytest

from dpu_testing.wait import until
from machine import BOOT_S, COMMAND_S, SLOW
from pair import AGENTS, DURATION_S, LATE_S, Verdicts

each_side = pytest.mark.parametrize("name", ["dpu", "host"])
# Of 10, as systemd counts what a unit leaves open; it knows of no other way to be without the node's /tmp and devices.
MOST_EXPOSED = {"dpu": 2.3, "host": 2.5}


@each_side
@pytest.mark.explains("Watchdog timeout")
def test_the_watchdog_ends_an_agent_that_hangs(pair, name):
    machine, unit = getattr(pair, name), AGENTS[name]
    verdicts = Verdicts(pair)
    main_pid = f"systemctl show -P MainPID {unit}"
    before = machine.sh(main_pid)
    machine.sh(f"systemctl kill --signal=STOP {unit}")
    began = time.monotonic()
    until(lambda: verdicts.sample() and machine.sh(main_pid) not in ("0", before), 20 + 10 * SLOW, "another process")
    print(f"{unit}: another one {time.monotonic() - began:.1f} s after it hung")
    assert "Watchdog timeout" in machine.sh(f"journalctl -b -o cat -u {unit}")
    verdicts.until_admitted(DURATION_S + LATE_S)


@each_side
@pytest.mark.explains("Failed to start dpu-")
def test_an_agent_that_cannot_start_is_tried_until_it_can(pair, name):
    machine, unit = getattr(pair, name), AGENTS[name]
    verdicts = Verdicts(pair)
    machine.sh(f"cd /etc/dpu-heartbeat; mv kubeconfig not-yet; systemctl restart --no-block {unit}")
    restarts = f"systemctl show -P NRestarts {unit}"
    # More often than systemd lets a unit by default.
    until(lambda: verdicts.sample() and int(machine.sh(restarts)) > 6, 20 * SLOW, "restarts", every_s=0.5)
    machine.sh("cd /etc/dpu-heartbeat; mv not-yet kubeconfig")
    until(lambda: machine.run(f"systemctl is-active {unit}")[1] == "active", COMMAND_S, f"{unit} is active")
    verdicts.until_admitted(DURATION_S + LATE_S)


def wait_boot_without_network(machine):
    machine.wait_boot()
    ask = f"systemctl is-active {AGENTS[machine.name]} multi-user.target"
    # What waits for the network gives up after two minutes.
    until(lambda: machine.run(ask)[1] == "active\nactive", 120 + BOOT_S, "the end of the boot", every_s=1)
    machine.sh("systemctl reset-failed systemd-networkd-wait-online")


@pytest.mark.explains("network connectivity", "Failed to start systemd-networkd-wait-online")
def test_a_boot_without_a_network_ends_and_is_ready_once_there_is_one(pair):
    for machine in pair:
        machine.power_cut()
        machine.power_on()
        machine.qmp("set_link", name="nic", up=False)
    for machine in pair:
        wait_boot_without_network(machine)
    verdict = pair.verdict()
    assert verdict.startswith("Unknown/") and pair.cni("STATUS")[0] != 0, verdict
    for machine in pair:
        machine.qmp("set_link", name="nic", up=True)
    pair.wait_ready()


@each_side
def test_exposure_as_systemd_counts_it(pair, name):
    said = getattr(pair, name).sh(f"systemd-analyze security --no-pager {AGENTS[name]} | tail -n 1")
    print(said)
    assert float(re.search(r": ([0-9.]+) ", said).group(1)) <= MOST_EXPOSED[name]


# What each unit's sandbox has to forbid, though root could: it is tried outside first.
ATTEMPTS = """touch /usr/attempt && rm /usr/attempt
touch /etc/dpu-heartbeat/attempt && rm /etc/dpu-heartbeat/attempt
touch /var/attempt && rm /var/attempt
head -c 1 /dev/vda
mount -t tmpfs none /mnt && umount /mnt
unshare --user true
unshare --mount true
hostname $(hostname)
date -s @$(date +%s)
dmesg
chrt --fifo 1 true
was=$(cat /proc/sys/kernel/sysrq) && echo $was >/proc/sys/kernel/sysrq
mkdir /sys/fs/cgroup/attempt && rmdir /sys/fs/cgroup/attempt
touch /tmp/attempt && chown 1:1 /tmp/attempt && rm /tmp/attempt
""".strip().splitlines()


@each_side
def test_what_the_sandbox_forbids_fails(pair, name):
    machine, unit = getattr(pair, name), AGENTS[name]
    for attempt in ATTEMPTS:
        machine.sh(f"({attempt}) >/dev/null")
    script = "".join(f"if ({a}) >/dev/null 2>&1; then echo '<4>allowed: {a}'; fi\n" for a in ATTEMPTS)
    machine.sh(
        f"mkdir -p /run/systemd/system/{unit}.service.d; cd /run/systemd/system/{unit}.service.d\n"
        f"cat >/run/attempts <<'END'\n{script}echo '<4>all tried by' $(id -un)\nEND\n"
        "printf '[Service]\\nExecStartPre=/bin/bash /run/attempts\\n' >attempts.conf\n"
        f"systemctl daemon-reload; systemctl restart {unit}; rm attempts.conf; systemctl daemon-reload",
        20 * SLOW,
    )
    said = machine.sh(f"journalctl -b -o cat -u {unit} -p 4").splitlines()
    print([line for line in said if "all tried by" in line])
    assert any("all tried by" in line for line in said)
    assert [line for line in said if "allowed:" in line] == []


def test_users_and_modes(pair):
    modes = pair.host.sh("stat -c '%n %a %U' / /run/dpu-heartbeat /run/dpu-heartbeat/*").splitlines()
    assert "/ 755 root" in modes and "/run/dpu-heartbeat 755 root" in modes
    assert "/run/dpu-heartbeat/readiness.json 644 root" in modes, modes
    assert not [line for line in modes if int(line.split()[1], 8) & 0o022], modes
    pair.host.sh("systemd-tmpfiles --create dpu-heartbeat.conf")
    pair.dpu.sh("systemd-sysusers dpu-heartbeat.conf")
    user = pair.dpu.sh("getent passwd dpu-heartbeat").split(":")
    assert user[5:] == ["/nonexistent", "/usr/sbin/nologin"]
    assert pair.dpu.sh("stat -c %U /proc/$(systemctl show -P MainPID dpu-agent)") == "dpu-heartbeat"
