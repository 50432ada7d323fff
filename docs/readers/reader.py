#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""reader.py [FILE]: whether Pods are admitted, as the readiness record of dpu-host-agent says.

Prints "admit" or "reject", the state and the reason; exits with 0 or 1. It follows docs/architecture.md,
"How to read it", and needs nothing but Python.
"""

import json
import os
import stat
import sys
import time

MAX_BYTES = 64 << 10
TRIES = 5  # it may be rewritten while we read


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def parse(page):
    """The members of a whole page; ValueError if it is torn, or no record of version 1."""
    body, found, tail = page.rstrip(b" \n").rpartition(b',"crc32c":"')
    if not found or tail != b'%08x"}' % crc32c(body):
        raise ValueError("the checksum does not match")
    record = json.loads(body + b"}")
    times = [record[name] for name in ("observedBoottimeNs", "writerUntilBoottimeNs", "holdUntilBoottimeNs")]
    known = record["state"] in ("Ready", "NotReady", "Unknown") and all(isinstance(t, int) for t in times)
    if record["version"] != 1 or not known or not isinstance(record["admit"], bool):
        raise ValueError("another version, or a member that is not what it should be")
    return record


def read(path):
    """The record; FileNotFoundError, or ValueError for one that cannot be used."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            raise ValueError("no regular file, or too large")
        if os.geteuid() == 0 and (found.st_uid != 0 or found.st_mode & 0o022):
            raise ValueError("others than root may write it")
        for i in range(TRIES):
            try:
                return parse(os.pread(fd, MAX_BYTES, 0))
            except (ValueError, KeyError, TypeError):
                time.sleep(0.0002 * 4**i)
        raise ValueError("it is torn, or no record")
    finally:
        os.close(fd)


def now_ns():
    """CLOCK_BOOTTIME of the initial time namespace."""
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    try:
        with open("/proc/self/timens_offsets", encoding="ascii") as file:
            offsets = {clock: int(s) * 10**9 + int(ns) for clock, s, ns in map(str.split, file)}
    except FileNotFoundError:
        offsets = {}
    return now - offsets.get("boottime", 0)


def judge(path):
    """(admit, state, reason), as dpu-gate would decide."""
    try:
        record = read(path)
    except (FileNotFoundError, NotADirectoryError):
        return False, "Unknown", "RecordMissing"
    except (ValueError, OSError):
        return False, "Unknown", "RecordInvalid"
    now = now_ns()
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        is_this_boot = record["bootId"] == file.read().strip()
    if not is_this_boot or record["observedBoottimeNs"] > now + 10**9:
        return False, "Unknown", "RecordInvalid"
    if record["state"] == "NotReady" or not record["admit"]:
        return False, record["state"], record["reason"]
    if now < record["writerUntilBoottimeNs"]:
        return True, record["state"], record["reason"]
    # The writer is overdue: nobody knows the state. Pods are admitted a while longer.
    is_held = now < record["holdUntilBoottimeNs"]
    return is_held, "Unknown", record["reason"] if is_held else "RecordStale"


if __name__ == "__main__":
    is_admitted, state, reason = judge(sys.argv[1] if len(sys.argv) > 1 else "/run/dpu-heartbeat/readiness.json")
    print("admit" if is_admitted else "reject", state, reason)
    sys.exit(not is_admitted)
