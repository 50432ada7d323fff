#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the documentation's blocks marked `run: local` (blocks.py), as they stand.

They run in namespaces of their own, as a host called worker-1: a stand-in API server, both agents
with their defaults (pages on 9412 and 9413, the record in /run/dpu-heartbeat), a kubelet's
directories, and a network plugin configured in /etc/cni/net.d. Everything that is written is in
memory and gone at the end. Each block gets an empty directory. Exit status 77: skipped, since this
machine gives out no namespaces.

An sh block has to end with exit=N (0 without it) and say says="WORDS". A console block's commands
have to answer what stands below them; `...` stands for anything.
"""

import argparse
import fcntl
import glob
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
sys.dont_write_bytecode = True

import blocks  # noqa: E402
from dpu_testing.binaries import Binaries  # noqa: E402
from dpu_testing.process import Process, clean_env  # noqa: E402
from dpu_testing.standin import Standin  # noqa: E402
from dpu_testing.wait import until  # noqa: E402

NODE = "worker-1"
SKIPPED = 77
LIMIT_S = 60
INSIDE = "--inside"
PROGRAMS = {"dpu-agent": "sbin", "dpu-host-agent": "sbin", "dpu-dra-driver": "sbin", "dpuctl": "bin", "dpu-gate": "libexec/cni"}
EMPTY = ["opt/cni/bin", "etc/cni/net.d", "etc/dpu-heartbeat", "run", "tmp", "var/tmp",
         "var/lib/kubelet/plugins", "var/lib/kubelet/plugins_registry"]  # fmt: skip
PLUGIN_CONF = '{"cniVersion": "1.1.0", "name": "ovn-kubernetes", "type": "ovn-k8s-cni-overlay"}\n'
PLUGIN = "#!/bin/sh\ncat >/dev/null\n[ \"$CNI_COMMAND\" = STATUS ] || echo '{\"cniVersion\": \"1.0.0\"}'\n"


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def mount(*words):
    subprocess.run(["mount", *words], check=True)


def bind(source, target):
    os.makedirs(target, exist_ok=True)
    mount("--rbind", source, target)


def build_root(root, bin_dir):
    """A root directory in memory: the machine's programs and devices, our own /etc, /run, /opt,
    /var, /tmp and /usr/local."""
    mount("-t", "tmpfs", "docs", root)
    for path in EMPTY:
        os.makedirs(os.path.join(root, path), exist_ok=True)
    for name in sorted(os.listdir("/")):
        path, target = "/" + name, os.path.join(root, name)
        if os.path.islink(path):
            os.symlink(os.readlink(path), target)
        elif name in ("bin", "sbin", "lib", "lib64", "usr", "dev", "proc", "sys"):
            bind(path, target)
    for name in ("alternatives", "ld.so.cache", "passwd", "group", "nsswitch.conf", "hosts", "ssl"):
        if os.path.isdir("/etc/" + name):
            shutil.copytree("/etc/" + name, f"{root}/etc/{name}", symlinks=True, ignore=unreadable)
        elif os.path.exists("/etc/" + name):
            shutil.copy("/etc/" + name, f"{root}/etc/{name}")
    bind(ROOT, root + ROOT)
    mount("-t", "tmpfs", "docs", root + "/usr/local")
    binaries = Binaries(bin_dir)
    for name, folder in PROGRAMS.items():
        os.makedirs(f"{root}/usr/local/{folder}", exist_ok=True)
        shutil.copy(binaries.path(name), f"{root}/usr/local/{folder}/{name}")
    shutil.copy(binaries.path("dpu-standin"), f"{root}/usr/local/bin/dpu-standin")


def unreadable(folder, names):
    return [name for name in names if not os.access(os.path.join(folder, name), os.R_OK)]


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS, up and running


class Host:
    """worker-1 with its DPU, Ready."""

    def __init__(self):
        self.programs = []
        write("/etc/cni/net.d/10-ovn-kubernetes.conf", PLUGIN_CONF)
        write("/opt/cni/bin/ovn-k8s-cni-overlay", PLUGIN, 0o755)
        self.standin = Standin("/usr/local/bin/dpu-standin", "/tmp", nodes=[NODE])
        self.programs.append(self.standin)
        os.rename(self.standin.kubeconfig("dpu"), "/etc/dpu-heartbeat/dpu.kubeconfig")
        os.rename(self.standin.kubeconfig("host"), "/etc/dpu-heartbeat/kubeconfig")
        os.rename(self.standin.kubeconfig("dra"), "/etc/dpu-heartbeat/dra.kubeconfig")
        write("/etc/dpu-heartbeat/dpu-host-agent.yaml",
              "kubeconfig: /etc/dpu-heartbeat/kubeconfig\n")  # fmt: skip
        write("/etc/dpu-heartbeat/dpu-dra-driver.yaml",
              "kubeconfig: /etc/dpu-heartbeat/dra.kubeconfig\n")  # fmt: skip
        write("/etc/dpu-heartbeat/dpu-agent.yaml",
              f"kubeconfig: /etc/dpu-heartbeat/dpu.kubeconfig\nnode-name: {NODE}\n")  # fmt: skip
        subprocess.run(["dpu-host-agent", "install-cni"], check=True, capture_output=True, env=clean_env())
        self.start("dpu-host-agent")
        self.start("dpu-dra-driver")
        self.start("dpu-agent")
        until(self.is_ready, 30, lambda: f"{NODE} is Ready: " + "".join(p.tail() for p in self.programs[1:]))

    def start(self, name):
        self.programs.append(
            Process(["/usr/local/sbin/" + name, f"--config=/etc/dpu-heartbeat/{name}.yaml"], f"/tmp/{name}.log")
        )

    def is_ready(self):
        """For the gate, and as the DRA driver shows it."""
        looks = (["dpuctl", "status"], ["dpuctl", "dra", "watch", "--once"])
        return all(subprocess.run(look, capture_output=True, env=clean_env(), check=False).returncode == 0 for look in looks)

    def cleanup(self):
        for program in reversed(self.programs):
            program.cleanup()


def run_shell(text):
    """(exit status, what it said) of a script, in an empty directory."""
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run(
            ["bash", "-c", "set -euo pipefail\n" + text], cwd=directory, env=clean_env(),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    return done.returncode, done.stdout


def answers(said, wanted):
    """True if these lines are what stands in the page."""
    pattern = "\n".join(wanted).rstrip()
    pattern = ".*".join(re.escape(part) for part in pattern.split("..."))
    return re.fullmatch(pattern, said.rstrip(), re.DOTALL) is not None


def check(block):
    """What went wrong with a block, None if nothing."""
    code, says = blocks.LOCAL.match(block.marker[1]).groups()
    for command, wanted in block.commands():
        got, said = run_shell(command)
        if block.language == "sh" and got != int(code or 0):
            return f"{command}\n{said}exit status {got}"
        if says and says not in said:
            return f"{command}\n{said}does not say '{says}'"
        if block.language == "console" and not answers(said, wanted):
            return f"{command}\nanswers\n{said}and not\n" + "\n".join(wanted)
    return None


def inside(bin_dir, pages):
    found = [b for p in pages for b in blocks.read(p)[0] if b.marker and b.marker[1].startswith("local")]
    root = tempfile.mkdtemp()  # the mount on it ends with the namespace, and main() removes it
    build_root(root, bin_dir)
    socket.sethostname(NODE)
    loopback_up()
    os.chroot(root)
    os.chdir("/")
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    tempfile.tempdir = "/tmp"
    host = None
    failed = 0
    try:
        host = Host()
        for block in found:
            began = time.monotonic()
            wrong = check(block)
            failed += wrong is not None
            print(f"{'FAILED' if wrong else 'ok'}  {block}  {time.monotonic() - began:.1f} s", flush=True)
            if wrong:
                print(wrong, flush=True)
    finally:
        if host:
            host.cleanup()
    if not found:
        print("no block is marked 'run: local'")
    return 1 if failed or not found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin-dir", help="build directory (default build/dev)")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.chdir(ROOT)
    if arguments.inside:
        return inside(arguments.bin_dir, ["README.md", *sorted(glob.glob("docs/*.md"))])
    unshare = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        unshare += ["--user", "--map-root-user"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: no namespaces for us here")
        return SKIPPED
    with tempfile.TemporaryDirectory() as directory:  # where the root is mounted, in there only
        own = ["/usr/bin/python3", os.path.abspath(__file__), INSIDE]
        own += [f"--bin-dir={os.path.abspath(arguments.bin_dir)}"] if arguments.bin_dir else []
        return subprocess.run([*unshare, *own], env={**os.environ, "TMPDIR": directory}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
