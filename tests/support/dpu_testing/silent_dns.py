# SPDX-License-Identifier: Apache-2.0
"""A network of its own, whose name server takes every question and answers none."""

import os
import sys

# The program inherits the socket and knows nothing of it.
SILENT_DNS = """
import os, socket, subprocess, sys
path = sys.argv[1]
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
with open(path, "w", encoding="ascii") as file:
    file.write("nameserver 127.0.0.1\\n")
subprocess.run(["mount", "--bind", path, "/etc/resolv.conf"], check=True)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
server.set_inheritable(True)
os.execv(sys.argv[2], sys.argv[2:])
"""


def silent_dns(directory):
    """What to put before a command. Needs root."""
    return ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, "-c",
            SILENT_DNS, os.path.join(str(directory), "resolv.conf")]  # fmt: skip
