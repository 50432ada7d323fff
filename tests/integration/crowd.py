#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""crowd.py PORT COUNT: clients of an agent's page that are idle, half through a request, slow, or
never content with an answer; who is shown out comes again at once. Says "here" once all have come;
runs until it is killed or the agent ends."""

import resource
import selectors
import socket
import sys
import time

HALF = b"GET /livez HTTP/1.1\r\nX: "
KEEP = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
GREEDY = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50
KINDS = ["idle", "half", "slow", "keep", "greedy"]
FIRST = {"idle": b"", "half": HALF, "slow": HALF, "keep": KEEP, "greedy": GREEDY}


def come(selector, port, kind):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setblocking(False)
    if FIRST[kind]:
        connection.send(FIRST[kind])
    selector.register(connection, selectors.EVENT_READ, kind)


def look(selector, port, connection, kind):
    try:
        got = connection.recv(1 if kind == "greedy" else 65536)
        if got and kind == "keep":
            connection.send(KEEP)
    except BlockingIOError:
        return
    except OSError:
        got = b""
    if not got:
        selector.unregister(connection)
        connection.close()
        come(selector, port, kind)


def main():
    port, count = int(sys.argv[1]), int(sys.argv[2])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    selector = selectors.DefaultSelector()
    for i in range(count):
        come(selector, port, KINDS[i % len(KINDS)])
    print("here", flush=True)
    dribble = time.monotonic()
    while True:
        for key, _ in selector.select(0.1):
            try:
                look(selector, port, key.fileobj, key.data)
            except ConnectionRefusedError:
                return  # the agent has ended
        if time.monotonic() > dribble + 0.5:
            dribble = time.monotonic()
            for key in list(selector.get_map().values()):
                if key.data == "slow":
                    try:
                        key.fileobj.send(b"y")
                    except OSError:
                        pass  # seen as its end above


main()
