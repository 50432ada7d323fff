# SPDX-License-Identifier: Apache-2.0
"""What stands between an agent and its API server: a balancer, or one address of a name."""

import json
import os
import select
import socket
import threading
import time
from urllib.parse import urlsplit

from dpu_testing import kubeconfig

BACKLOG = 64


class Front:
    """Carries connections to an API server, and notes what is asked for on each, if that can be
    read. Accepts and carries nothing of a connection whose number `hangs` names, nor any while it
    `is_frozen`."""

    def __init__(self, url, address="127.0.0.1", port=0):
        server = urlsplit(url)
        self.target = (server.hostname, server.port or (443 if server.scheme == "https" else 80))
        self.asked = []  # a list for each connection, of its requests' first lines
        self.hangs = lambda number: False
        self.spoil = None  # is called before a piece is passed on: may wait; True cuts the connection
        self.is_frozen = False
        self.is_gone = False
        self.ends = []
        self.address, self.port = address, port
        self.open()
        self.url = f"{server.scheme}://{self.address}:{self.port}"

    def open(self):
        """Takes connections, again after close()."""
        self.listener = socket.create_server((self.address, self.port), backlog=BACKLOG)
        self.address, self.port = self.listener.getsockname()
        threading.Thread(target=self._serve, args=(self.listener,), daemon=True).start()

    def _serve(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                listener.close()
                return
            if self.is_gone:
                self.ends.append(client)
                return
            asked = []
            self.asked.append(asked)
            number = len(self.asked)
            threading.Thread(target=self._carry, args=(client, asked, number), daemon=True).start()

    def _carry(self, client, asked, number):
        try:
            with client, socket.create_connection(self.target) as server:
                self.ends += [client, server]
                while True:
                    for source in select.select([client, server], [], [])[0]:
                        if self.is_frozen or (source is client and self.hangs(number)):
                            time.sleep(0.02)
                            continue
                        data = source.recv(512 if self.spoil else 65536)
                        if not data or (self.spoil and self.spoil()):
                            return
                        if source is client:
                            asked.append(data.partition(b"\r\n")[0].decode(errors="replace"))
                        (server if source is client else client).sendall(data)
        except (OSError, ValueError):
            pass  # either end is gone

    def cut(self):
        """Every connection there is."""
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is gone
        self.ends = []

    def vanish(self):
        """As an address without a machine: nothing is answered, no new connection either."""
        self.is_frozen = self.is_gone = True
        self.listener.listen(0)
        for _ in range(2 * BACKLOG):  # those that are waiting, which nobody will take
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((self.address, self.port))
            self.ends.append(filler)

    def close(self):
        """Refuses connections, and ends those that there are."""
        self.ends.append(self.listener)
        self.cut()

    def kubeconfig(self, directory, user, **how):
        """Of the server behind it, by the user's token."""
        path = os.path.join(str(directory), f"{user}-front.kubeconfig")
        with open(path, "w", encoding="utf-8") as file:
            file.write(kubeconfig.dump(self.url, f"{user}-token", **how))
        return path

    def is_asked(self, words):
        return any(words in line for asked in self.asked for line in asked)

    def watches(self, since=0):
        """The connections that came to a watch."""
        return [asked for asked in self.asked[since:] if asked and "watch=true" in asked[-1]]


class Server:
    """One of several API servers over the same store. `answer` is what is wrong with it: it gets
    method and path of a request, and returns what this server answers by itself, as answer() makes
    it, or None."""

    def __init__(self):
        self.answer = None
        self.connections = 0
        self.asked = []  # (when, user, method, path)

    def asked_since(self, when, user=None):
        return [words for at, who, *words in self.asked if at >= when and user in (None, who)]


def answer(code, body=None, retry_after=None):
    """The bytes of an answer: a Status without a body of its own. Code 0: a watch that brings nothing."""
    if code == 0:
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    if body is None:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
        body["message"] = "this server is sick"
    text = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {code} X", "Content-Type: application/json", f"Content-Length: {len(text)}"]
    lines += [f"Retry-After: {retry_after}"] if retry_after is not None else []
    return "\r\n".join([*lines, "", ""]).encode() + text


class Balancer:
    """Several API servers behind one address: each new connection leads to the next of them, or to
    that of the next number in `first`, and stays with it. The store, and what a server that is well
    answers, are those of `url` (http)."""

    def __init__(self, url, servers=3):
        target = urlsplit(url)
        self.target = (target.hostname, target.port)
        self.servers = [Server() for _ in range(servers)]
        self.opened = []  # (when, server)
        self.first = []
        self.open = set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            number = self.first.pop(0) if self.first else len(self.opened) % len(self.servers)
            server = self.servers[number]
            self.opened.append((time.monotonic(), server))
            threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def _carry(self, client, server):
        self.open.add(client)
        try:
            with client, socket.create_connection(self.target) as upstream:
                inbox = b""
                while True:
                    ready = select.select([client, upstream], [], [])[0]
                    if upstream in ready:
                        data = upstream.recv(65536)
                        if not data:
                            return
                        client.sendall(data)
                    if client in ready:
                        data = client.recv(65536)
                        if not data:
                            return
                        inbox = self._take(inbox + data, client, upstream, server)
        except OSError:
            pass  # either end is gone
        finally:
            self.open.discard(client)

    def _take(self, inbox, client, upstream, server):
        """Sees to a request once it is whole, one at a time; returns what is left."""
        head, end, body = inbox.partition(b"\r\n\r\n")
        lines = head.decode(errors="replace").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        if not end or len(body) < int(fields.get("content-length", 0)):
            return inbox
        method, path, _ = lines[0].split(" ", 2)
        user = fields.get("authorization", "").removeprefix("bearer ").removesuffix("-token")
        server.asked.append((time.monotonic(), user, method, path))
        own = server.answer(method, path) if server.answer else None
        if own:
            client.sendall(own)
        else:
            upstream.sendall(inbox)
        return b""

    def last_server(self, user, words=""):
        """The one that this user asked last for something with these words in its line."""
        asked = [
            (at, number)
            for number, server in enumerate(self.servers)
            for at, who, method, path in server.asked
            if who == user and words in f"{method} {path}"
        ]
        return self.servers[max(asked)[1]]

    def opened_since(self, when):
        return sum(at >= when for at, _ in self.opened)

    def kubeconfig(self, directory, user):
        path = os.path.join(str(directory), f"{user}-balanced.kubeconfig")
        with open(path, "w", encoding="utf-8") as file:
            file.write(kubeconfig.dump(self.url, f"{user}-token"))
        return path

    def cut(self):
        """Every connection there is."""
        for end in list(self.open):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is gone

    def close(self):
        self.listener.close()
        self.cut()
