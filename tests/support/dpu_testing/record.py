# SPDX-License-Identifier: Apache-2.0
"""The readiness record as an independent reader sees it (docs/architecture.md)."""

import json
import os

PAGE_BYTES = 4096


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
