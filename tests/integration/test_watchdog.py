# SPDX-License-Identifier: Apache-2.0
"""systemd's view: a start, an end, and the watchdog, which is fed while the work is done, and only then."""

import contextlib
import ctypes
import os
import socket
import time

import pytest
from dpu_testing.process import clean_env
from dpu_testing.wait import until
from test_http import Page
from world import SOON_S

PERIOD_US = 400_000
PIDFD_GETFD = 438  # the same number on each architecture
LIBC = ctypes.CDLL(None, use_errno=True)


class Manager:
    """The service manager's side of one program."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.env = clean_env(NOTIFY_SOCKET=path, WATCHDOG_USEC=PERIOD_US)

    def wait_told(self, words):
        self.socket.settimeout(SOON_S)
        while words not in (told := self.socket.recv(4096).decode()):
            pass
        return told

    def feeds(self):
        """How often its watchdog was fed since the last call."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                count += self.socket.recv(4096, socket.MSG_DONTWAIT) == b"WATCHDOG=1"
        return count

    def wait_fed(self, times=4):
        self.feeds()
        for _ in range(times):
            until(self.feeds, 5, "it is fed")

    def starves(self, during_s):
        self.feeds()
        time.sleep(during_s)
        return self.feeds() == 0


@pytest.fixture
def managers(tmp_path):
    """One for each agent."""
    built = {name: Manager(str(tmp_path / name)) for name in ("host", "dpu")}
    yield built
    for manager in built.values():
        manager.socket.close()


def test_systemd_hears_of_the_first_verdict_and_does_not_wait_for_the_first_renewal(world, managers):
    world.dpu(env=managers["dpu"].env)
    assert "STATUS=not yet renewed" in managers["dpu"].wait_told("READY=1")
    host = world.host(env=managers["host"].env)  # makes the lease
    managers["host"].wait_told("READY=1")
    assert os.path.exists(world.readiness_file), "the record comes first"
    managers["dpu"].wait_told("STATUS=renewing")
    assert host.stop() == 0
    managers["host"].wait_told("STOPPING=1")


def test_a_second_host_agent_that_waits_is_ready_to_systemd_and_ends_when_told(world, managers):
    world.both()
    second = world.host(env=managers["host"].env)
    managers["host"].wait_told("READY=1")
    assert second.stop() == 0


def disarm_timers(pid):
    """Takes a program's deadlines away, as a bug of its own would: its timers never fire."""
    pidfd = os.pidfd_open(pid)
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"/proc/{pid}/fd/{entry}") == "anon_inode:[timerfd]":
                fd = LIBC.syscall(PIDFD_GETFD, pidfd, int(entry), 0)
                assert fd >= 0, os.strerror(ctypes.get_errno())
                assert LIBC.timerfd_settime(fd, 0, bytes(32), None) == 0
                os.close(fd)
    os.close(pidfd)


@pytest.mark.parametrize("agent", ["host", "dpu"])
def test_an_agent_that_does_not_do_its_work_feeds_no_watchdog(world, managers, agent):
    manager = managers[agent]
    process = getattr(world, agent)(env=manager.env)
    page = Page(process)
    if agent == "host":
        dpu = world.dpu()
        world.wait_state("Ready")
        dpu.kill()
    else:
        world.host()
        world.wait_state("Ready")
    manager.wait_fed()

    def is_hungry():
        disarm_timers(process.pid)
        return manager.starves(0.5)

    until(is_hungry, 30, "it starves")
    assert process.wait_log(mod="daemon", level="error", msg="does not notify systemd's watchdog")
    assert page.get("/livez", 503).startswith("failed: ")
