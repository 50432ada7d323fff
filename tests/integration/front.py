# SPDX-License-Identifier: Apache-2.0
"""What stands between an agent and its API server: a balancer, or one address of a name."""

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
