# SPDX-License-Identifier: Apache-2.0
"""A whole machine with a kernel and systemd of its own, by QEMU's translation: it needs no KVM.

What a test says to it goes through a virtio port (tests/machines/image.sh), not its network; what
happens to it is done through QEMU's own protocol, QMP."""

import base64
import json
import os
import select
import socket
import subprocess
import time

from dpu_testing.process import Process
from dpu_testing.wait import until

# How much longer than on an idle machine anything may take here: translation, and work beside it.
SLOW = int(os.environ.get("DPU_MACHINES_SLOW", "5"))
BOOT_S = 180 * SLOW
COMMAND_S = 30 * SLOW

# By Debian's name of the architecture: QEMU, the words for its kernel. The arm64 one has the core of
# a BlueField-2. Of either the kernel serves the hot-plug port by itself, as a server's does.
NATIVE_HOTPLUG = ["-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off"]
HARDWARE = {
    "amd64": (
        ["qemu-system-x86_64", "-M", "q35", *NATIVE_HOTPLUG, "-cpu", "max"],
        "console=ttyS0 no_timer_check",
    ),
    "arm64": (["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a72"], "console=ttyAMA0"),
}


class Lines:
    """A unix socket that speaks in lines."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        until(lambda: self.socket.connect_ex(path) == 0, COMMAND_S, f"{path} answers", every_s=0.1)
        self.rest = b""

    def send(self, line):
        self.socket.settimeout(COMMAND_S)
        self.socket.sendall(line + b"\n")

    def next(self, timeout_s):
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise TimeoutError(f"not a line within {timeout_s} s")
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("the machine has ended")
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def close(self):
        self.socket.close()


class Machine:
    """`image` is what image.sh printed for `arch`. The disk is the machine's own and outlives its power;
    `srv` is a file system that it sees as /srv."""

    def __init__(self, name, arch, image, srv, directory):
        self.name, self.arch, self.image, self.srv = name, arch, image, srv
        self.directory = os.path.join(directory, name)
        os.mkdir(self.directory)
        self.disk, self.console = self._file("disk"), self._file("console.log")
        base = os.path.join(image, "disk.img")
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", self.disk], check=True
        )
        self.process = self.shell = self.monitor = self.boot_id = None
        self.asked = 0

    def _file(self, name):
        return os.path.join(self.directory, name)

    def power_on(self, *words):
        """With these words for QEMU, too. Returns before it has booted: see wait_boot."""
        for name in ("shell", "qmp"):
            if os.path.exists(self._file(name)):
                os.remove(self._file(name))
        program, kernel_words = HARDWARE[self.arch]
        command = [*program, "-name", self.name, "-nodefaults", "-nographic"]
        command += ["-accel", "tcg,thread=multi", "-m", "768", "-smp", "1"]
        command += ["-kernel", f"{self.image}/vmlinuz", "-initrd", f"{self.image}/initrd.img"]
        command += ["-append", f"root=/dev/vda quiet systemd.show_status=0 {kernel_words}"]
        command += ["-drive", f"file={self.disk},if=virtio,format=qcow2"]
        command += ["-drive", f"file={self.srv},if=virtio,format=raw,readonly=on"]
        command += ["-netdev", f"user,id=net,hostname={self.name}"]
        command += ["-device", "virtio-net-pci,netdev=net,id=nic,romfile="]
        command += ["-device", "pcie-root-port,id=empty-port,chassis=1"]
        command += ["-chardev", f"file,id=console,append=on,path={self.console}"]
        command += ["-serial", "chardev:console"]
        command += ["-chardev", f"socket,id=shell,server=on,wait=off,path={self._file('shell')}"]
        command += ["-device", "virtio-serial", "-device", "virtserialport,chardev=shell,name=machine"]
        command += ["-qmp", f"unix:{self._file('qmp')},server=on,wait=off"]
        self.process = Process([*command, *words], self._file("qemu.log"), name=self.name)
        self.shell = Lines(self._file("shell"))
        self.monitor = Lines(self._file("qmp"))
        self.monitor.next(COMMAND_S)  # its greeting
        self.qmp("qmp_capabilities")

    def qmp(self, command, **arguments):
        self.monitor.send(json.dumps({"execute": command, "arguments": arguments}).encode())
        while True:
            answer = json.loads(self.monitor.next(COMMAND_S))
            if "event" not in answer:
                assert "return" in answer, f"{self.name}: {command}: {answer}"
                return answer["return"]

    def wait_event(self, name, timeout_s=COMMAND_S):
        """Of QEMU's, one that comes after the last command."""
        deadline = time.monotonic() + timeout_s
        while json.loads(self.monitor.next(max(deadline - time.monotonic(), 0))).get("event") != name:
            pass

    def power_cut(self):
        """What was not flushed is lost, and nobody is told."""
        if self.process:
            self.process.kill()
            self.shell.close()
            self.monitor.close()
            self.process = None

    def wait_boot(self, timeout_s=BOOT_S):
        """Until its shell says that another boot is up."""
        deadline = time.monotonic() + timeout_s
        while True:
            word, _, rest = self.shell.next(max(deadline - time.monotonic(), 0)).partition(" ")
            if word == "boot" and rest != self.boot_id:
                self.boot_id = rest
                return self

    def start(self, script):
        """Begins what takes the machine, and so the answer, away."""
        self.shell.send(base64.b64encode(script.encode()))

    def run(self, script, timeout_s=COMMAND_S):
        """(status, output) of a bash script. A late answer to an earlier one is passed over."""
        self.asked += 1
        self.start(f"echo {self.asked}\n{script}")
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                status, _, output = self.shell.next(max(deadline - time.monotonic(), 0)).partition(" ")
            except TimeoutError:
                raise AssertionError(f"{self.name}: no answer in {timeout_s} s: {script}") from None
            assert status != "boot", f"{self.name}: another boot in the middle of: {script}"
            number, _, text = base64.b64decode(output).decode(errors="replace").partition("\n")
            if number == str(self.asked):
                return int(status), text.strip()

    def sh(self, script, timeout_s=COMMAND_S):
        """Output of a script that has to succeed."""
        status, output = self.run("set -e\n" + script, timeout_s)
        assert status == 0, f"{self.name}: status {status} of {script}: {output}"
        return output

    def errors(self):
        """What programs wrote to its journal at level err or worse since this was asked last. The
        kernel's errors are those of a machine that is too slow for its hardware."""
        programs = " ".join(f"_TRANSPORT={by}" for by in ("journal", "stdout", "syslog"))
        ask = f"journalctl -q -p err --no-pager --cursor-file=/var/tmp/judged {programs}"
        return self.sh(f"{ask} || [[ $? == 1 ]] # nothing\nsync").splitlines()

    def evidence(self):
        """The end of its console, and what its units said if it still answers."""
        with open(self.console, encoding="utf-8", errors="replace") as file:
            yield f"{self.name}: console", file.read()[-3000:]
        try:
            yield f"{self.name}: journal", self.run("journalctl -n 60 --no-pager")[1]
        except (AssertionError, OSError, AttributeError) as error:
            yield f"{self.name}: journal", repr(error)
