# SPDX-License-Identifier: Apache-2.0
"""The readiness record as an independent reader and writer see it (docs/architecture.md)."""

import json
import os
import time

from .wait import boottime_ns

PAGE_BYTES = 4096
NEVER_NS = 2**63 - 1


def _table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Record(dict):
    """The JSON object of one intact page."""

    @property
    def state(self):
        return self["state"]

    @property
    def reason(self):
        return self["reason"]

    @property
    def observed_ns(self):
        return self["observedBoottimeNs"]

    @property
    def lease_until_ns(self):
        return self["leaseUntilBoottimeNs"]

    def verdict(self):
        return f"{self['state']}/{self['reason']}"


class Torn(Exception):
    """The page is not intact."""


def parse(page):
    cut = page.rfind(b',"crc32c"')
    if cut < 0:
        raise Torn("no crc32c")
    try:
        record = Record(json.loads(page))
    except ValueError as error:
        raise Torn(str(error)) from None
    if int(record["crc32c"], 16) != crc32c(page[:cut]):
        raise Torn("checksum")
    return record


# What a test writes for short. Times are in seconds from now, "never" or "none".
_TIMES = {
    "observed": "observedBoottimeNs",
    "valid": "leaseUntilBoottimeNs",
    "writer": "writerUntilBoottimeNs",
    "hold": "holdUntilBoottimeNs",
}
_KINDS = {"admit": "true".__eq__, "pid": int}


def _boottime(value):
    fixed = {"never": NEVER_NS, "none": 0}
    # a machine that has just started has no long past
    return fixed[value] if value in fixed else max(boottime_ns() + int(float(value) * 1e9), 1)


def _stamp(seconds=None):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def page(*settings):
    """A page of this boot, by an agent whose DPU renewed its 40 s lease a second ago, but for the
    settings: each "KEY=VALUE"."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot_id = file.read().strip()
    lease = {
        "namespace": "ovn-kubernetes",
        "name": "ovn-dpu-worker-1",
        "uid": "6a6c2c1e-1111-2222-3333-444455556666",
        "renewTime": "2026-11-20T10:00:00.000000Z",
        "resourceVersion": "123",
        "durationSeconds": 40,
    }
    record = {
        "version": 1, "node": "worker-1", "state": "Ready", "admit": True, "reason": "LeaseRenewed",
        "message": "the DPU renews its lease", "lease": lease, "bootId": boot_id,
        "transitionTime": _stamp(), "writtenTime": _stamp(), "pid": os.getpid(),
    }  # fmt: skip
    for setting in ("observed=-1", "valid=39", "writer=14", "hold=339", *settings):
        key, _, value = setting.partition("=")
        if key in _TIMES:
            record[_TIMES[key]] = _boottime(value)
        elif key == "boot-id":
            record["bootId"] = value
        elif key == "rebooted":
            record["dpuRebootTime"] = _stamp(int(value))
        else:
            assert key in record, setting
            record[key] = _KINDS.get(key, str)(value)
    body = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()[:-1]
    body += b',"crc32c":"%08x"}' % crc32c(body)
    return body.ljust(PAGE_BYTES - 1) + b"\n"


def read(path, tries=5):
    """The record, or None if there is none. Reads again when torn, as the format asks for."""
    for attempt in range(tries):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            page = os.pread(fd, PAGE_BYTES * 16, 0)
        finally:
            os.close(fd)
        try:
            return parse(page)
        except Torn:
            if attempt == tries - 1:
                raise
    return None
