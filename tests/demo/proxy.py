# SPDX-License-Identifier: Apache-2.0
"""A TCP forwarder on loopback that can be shut: how the demo takes a real API server away from
the agents without touching the cluster."""

import socket
import threading


class Proxy:
    """Forwards 127.0.0.1:`port` to `target` (host, port) while it is open."""

    def __init__(self, target):
        self.target = target
        self.port = 0
        self._listener = None
        self._pairs = set()
        self._lock = threading.Lock()
        self.accept()

    def accept(self):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def refuse(self):
        """Connections are refused, the open ones end."""
        listener, self._listener = self._listener, None
        if listener:
            _end(listener)
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            for end in pair:
                _end(end)

    def _serve(self, listener):
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(self.target, timeout=10)
                server.settimeout(None)
            except OSError:
                if self._listener is not listener:
                    return
                continue
            pair = (client, server)
            with self._lock:
                self._pairs.add(pair)
            for source, sink in (pair, pair[::-1]):
                threading.Thread(
                    target=self._pump, args=(source, sink, pair), daemon=True
                ).start()

    def _pump(self, source, sink, pair):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in pair:
            _end(end)
        with self._lock:
            self._pairs.discard(pair)


def _end(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # not connected any more
    end.close()
