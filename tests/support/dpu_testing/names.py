# SPDX-License-Identifier: Apache-2.0
"""A name of the test's own: name servers on the loopback, and programs that ask them."""

import os
import random
import socket
import struct
import threading

A_TYPE, IN_CLASS = 1, 1


class NameServer:
    """Answers every question for an address with `addresses`; with a failure while it is
    `failing`, not at all while it is `silent`."""

    def __init__(self, host):
        self.host = host
        self.addresses = []
        self.failing = False
        self.silent = False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                question, peer = self.socket.recvfrom(4096)
            except OSError:
                return
            if not self.silent:
                self.socket.sendto(self._answer(question), peer)

    def _answer(self, question):
        end = question.index(b"\0", 12) + 5  # of the first question: the name, its type, its class
        kind = struct.unpack(">H", question[end - 4 : end - 2])[0]
        found = self.addresses if kind == A_TYPE and not self.failing else []
        flags = 0x8182 if self.failing else 0x8180  # SERVFAIL, or no error
        head = question[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0)
        records = b"".join(
            struct.pack(">HHHIH", 0xC00C, A_TYPE, IN_CLASS, 60, 4) + socket.inet_aton(address)
            for address in found
        )
        return head + question[12:end] + records

    def close(self):
        self.socket.close()


def asking(directory, servers, timeout_s=1):
    """What to put before a command, so that it asks these servers. Needs root."""
    path = os.path.join(str(directory), "resolv.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(f"nameserver {server.host}\n" for server in servers))
        file.write(f"options timeout:{timeout_s} attempts:2\n")
    script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, path]


def asking_nobody(directory):
    """The same for a server that takes every question and answers none."""
    server = NameServer(f"127.{random.randrange(100, 200)}.{random.randrange(256)}.53")
    server.silent = True
    return asking(directory, [server], timeout_s=30)
