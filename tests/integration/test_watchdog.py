# SPDX-License-Identifier: Apache-2.0
"""systemd's watchdog: fed while the work is done, and only then."""

import contextlib
import ctypes
import os
import socket
import time

import pytest
from dpu_testing.process import clean_env
from dpu_testing.wait import until
from test_http import Page

PIDFD_GETFD = 438  # the same number on each architecture
LIBC = ctypes.CDLL(None, use_errno=True)


class Manager:
    """The service manager's side: counts what feeds its watchdog."""

    def __init__(self, path, period_s):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.setblocking(False)
        self.env = clean_env(
            NOTIFY_SOCKET=path, WATCHDOG_USEC=str(int(period_s * 1e6))
        )

    def feeds(self):
        """How often since the last call."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                count += self.socket.recv(4096) == b"WATCHDOG=1"
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
def manager(world):
    manager = Manager(os.path.join(world.directory, "notify"), period_s=0.4)
    yield manager
    manager.socket.close()


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
def test_an_agent_that_does_not_do_its_work_feeds_no_watchdog(world, target, manager, agent):
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
