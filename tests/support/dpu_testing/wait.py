# SPDX-License-Identifier: Apache-2.0
"""Waiting for things to happen, with a deadline, and watching that they do not."""

import time


class TimedOut(AssertionError):
    """What was waited for did not happen."""


def until(check, timeout_s=10.0, what=None, every_s=0.01):
    """Polls `check` until it returns something true, and returns that."""
    deadline = time.monotonic() + timeout_s
    last = None
    while True:
        last = check()
        if last:
            return last
        if time.monotonic() > deadline:
            name = what() if callable(what) else what or getattr(check, "__name__", "condition")
            raise TimedOut(f"not within {timeout_s} s: {name} (last: {last!r})")
        time.sleep(every_s)


def never(check, during_s, what=None, every_s=0.02):
    """Polls `check` for `during_s` and fails as soon as it returns something true."""
    deadline = time.monotonic() + during_s
    while time.monotonic() < deadline:
        seen = check()
        if seen:
            name = what or getattr(check, "__name__", "condition")
            raise AssertionError(f"must not happen: {name}: {seen!r}")
        time.sleep(every_s)


def boottime_ns():
    """The clock of all deadlines in the readiness record (in the initial time namespace)."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
