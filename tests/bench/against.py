# SPDX-License-Identifier: Apache-2.0
"""Holds one release build against another, as ratios: against.py BEFORE AFTER [ROW]...

BEFORE and AFTER are directories of builds; a ROW is printed if its name begins with a word that is
given. Both builds run at the same time against one API server, a stand-in, and in each window of time
what one used is divided by what the other used. So a busy machine troubles both alike.

  beat    each agent, per heartbeat (an interval of 0.5 s): instructions of its own and of its libraries
          (valgrind's callgrind, not the kernel's), CPU time of both (the scheduler's statistics), system
          calls (strace), wake-ups (what the kernel calls voluntary switches), private memory
  probe   dpu-agent --probe=ovn-kubernetes beside the real services of OVS and OVN, with its default
          times: wake-ups, CPU time and system calls per second, private memory
  gate    one STATUS of a ready DPU: instructions; CPU time, pair by pair
  nodes   `dpuctl nodes` of a cluster of 500: CPU time, pair by pair
"""

import argparse
import glob
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import bench

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

from dpu_testing import ovn, record, wait  # noqa: E402
from dpu_testing.binaries import Binaries  # noqa: E402
from dpu_testing.process import Process, clean_env  # noqa: E402
from dpu_testing.standin import RULES  # noqa: E402

INTERVAL_S = 0.5
NODES = 500
SIDES = ("before", "after")
AGENTS = ("dpu-agent", "dpu-host-agent")


def rules():
    """Those of the stand-in, for both sides' users."""
    of_side = [
        {**rule, "users": [f"{user}-{side}" for user in rule["users"]]}
        for rule in RULES["rules"]
        for side in SIDES
        if "admin" not in rule["users"]
    ]
    return {"users": RULES["users"], "rules": RULES["rules"] + of_side}


def first_number(path, pattern):
    with open(path, encoding="ascii") as file:
        return int(re.search(pattern, file.read(), re.M).group(1))


def wake_ups(pid):
    return first_number(f"/proc/{pid}/status", r"^voluntary_ctxt_switches:\s+(\d+)")


class Rows:
    """Each row's values of both sides, window by window."""

    def __init__(self, wanted):
        self.wanted = wanted
        self.values = {}

    def wants(self, part):
        """Any row of this part."""
        return not self.wanted or any(word.startswith(part) for word in self.wanted)

    def add(self, name, before, after):
        self.values.setdefault(name, []).append((before, after))

    def show(self):
        for name, pairs in self.values.items():
            if self.wanted and not any(name.startswith(word) for word in self.wanted):
                continue
            ratios = sorted(after / before for before, after in pairs if before)
            if not ratios:
                continue
            middle = [statistics.median(side) for side in zip(*pairs)]
            print(
                f"{name:<42} {statistics.median(ratios):5.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f}, "
                f"n={len(ratios)})  {middle[0]:.1f} to {middle[1]:.1f} {unit_of(name)}"
            )
        self.values.clear()
        sys.stdout.flush()


def unit_of(name):
    units = {"memory": "KiB", "CPU": "us", "instructions": "thousands"}
    return next((unit for word, unit in units.items() if word in name), "")


class Fleet(bench.Cluster):
    """Of each build the agents of one node, beside the stand-in."""

    def __init__(self, directory, before, after):
        super().__init__(directory, nodes=SIDES, rules=rules())
        self.builds = {"before": Binaries(before), "after": Binaries(after)}
        self.running = {}

    def record_of(self, side):
        return os.path.join(self.directory, side, "readiness.json")

    def start(self, wrapper=(), dpu_flags=(), interval_s=INTERVAL_S, apart_s=INTERVAL_S / 2):
        """Both sides' agents; returns once each has been seen renewing. They start apart: an agent
        that asks at the same moment as the other side's waits for the server."""
        for side in SIDES:
            time.sleep(apart_s)
            for name in reversed(AGENTS):
                user = ("host-" if name == "dpu-host-agent" else "dpu-") + side
                words = [
                    f"--kubeconfig={self.kubeconfig(user)}", f"--node-name={side}",
                    f"--dpu-node-lease-renew-interval={interval_s}",
                    f"--dpu-node-lease-duration={max(3, int(4 * interval_s))}", "--http-bind-address=127.0.0.1:0",
                ]  # fmt: skip
                if name == "dpu-host-agent":
                    words += [f"--readiness-file={self.record_of(side)}"]
                else:
                    words += dpu_flags
                self.running[side, name] = Process(
                    [*wrapper, self.builds[side].path(name), *words],
                    os.path.join(self.directory, f"{side}-{name}.log"),
                    env=clean_env(DPU_HEARTBEAT_DRA="off"),  # of an older one, whose host agent has a driver in it
                )
        for side in SIDES:
            wait.until(lambda side=side: self.state(side) == "Ready", 60, f"the DPU '{side}' is ready")

    def state(self, side):
        found = record.read(self.record_of(side))
        return found.state if found else None

    def stop(self):
        for process in self.running.values():
            process.cleanup()
        self.running.clear()

    def beats(self):
        """PUTs of each side since the last call."""
        made = self.standin.requests()
        self.standin.count_anew()
        return {side: made[f"dpu-{side} update leases 200"] for side in SIDES}

    def cleanup(self):
        self.stop()
        super().cleanup()


def dump_instructions(fleet, directory):
    """Thousands of instructions of each process since the last call."""
    found = {}
    for key, process in fleet.running.items():
        pattern = os.path.join(directory, f"callgrind.{process.pid}.*")
        subprocess.run(
            ["callgrind_control", "--dump", str(process.pid)],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        newest = wait.until(lambda pattern=pattern: glob.glob(pattern), 30, "a dump of callgrind")[0]
        found[key] = wait.until(lambda newest=newest: total_of(newest), 30, "a whole dump") / 1000
        os.remove(newest)
    return found


def total_of(dump):
    with open(dump, encoding="ascii") as file:
        found = re.search(r"^totals: (\d+)", file.read(), re.M)
    return int(found.group(1)) if found else 0


def count_instructions(fleet, rows, windows, seconds):
    out = os.path.join(fleet.directory, "callgrind.%p")
    fleet.start(wrapper=("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}"))
    time.sleep(seconds)
    dump_instructions(fleet, fleet.directory)
    fleet.beats()
    for _ in range(windows):
        time.sleep(seconds)
        used, beats = dump_instructions(fleet, fleet.directory), fleet.beats()
        for name in AGENTS:
            rows.add(f"beat: {name}, instructions", *(used[s, name] / beats[s] for s in SIDES))
    fleet.stop()


def count_calls(fleet, seconds):
    """System calls of each process, by strace."""
    tracers = {}
    for key, process in fleet.running.items():
        out = os.path.join(fleet.directory, f"strace.{process.pid}")
        tracers[key] = (out, subprocess.Popen(["strace", "-q", "-c", "-o", out, "-p", str(process.pid)]))
    time.sleep(1)
    fleet.beats()
    time.sleep(seconds)
    beats = fleet.beats()
    made = {}
    for key, (out, tracer) in tracers.items():
        tracer.send_signal(signal.SIGINT)
        tracer.wait(10)
        made[key] = first_number(out, r"^100\.00\s+\S+\s+\S+\s+(\d+)") * seconds / (seconds + 1)
    return made, beats


def weigh(fleet, rows, windows, seconds, title, agents, per_beat):
    """What the processes use in each window: for a beat, or for a second."""

    def look():
        return {key: (1000 * bench.cpu_ms(p.pid), wake_ups(p.pid)) for key, p in fleet.running.items()}

    fleet.beats()
    for _ in range(windows):
        before = look()
        time.sleep(seconds)
        after, beats = look(), fleet.beats()
        for name in agents:
            share = {side: beats[side] if per_beat else seconds for side in SIDES}
            for index, what in enumerate(("CPU", "wake-ups")):
                rows.add(
                    f"{title}: {name}, {what}",
                    *((after[s, name][index] - before[s, name][index]) / share[s] for s in SIDES),
                )
    for name in agents:
        rows.add(f"{title}: {name}, memory", *(bench.smaps_kib(fleet.running[s, name].pid, "Anonymous") for s in SIDES))
    for _ in range(3):
        made, beats = count_calls(fleet, seconds)
        for name in agents:
            share = {side: beats[side] if per_beat else seconds for side in SIDES}
            rows.add(f"{title}: {name}, system calls", *(made[s, name] / share[s] for s in SIDES))


def measure_beat(fleet, rows, args):
    fleet.start()
    time.sleep(3)
    weigh(fleet, rows, args.windows, args.seconds, "beat", AGENTS, per_beat=True)
    fleet.stop()
    count_instructions(fleet, rows, max(3, args.windows // 3), args.seconds)


def measure_probe(fleet, rows, args):
    if not ovn.is_installed():
        print("probe: needs openvswitch-switch, ovn-central and ovn-host")
        return
    services = ovn.Ovn()
    beat = None
    try:
        services.start_all()
        beat = ovn.Ovnkube(services)
        flags = ["--probe=ovn-kubernetes", f"--ovs-rundir={services.run_dir}",
                 f"--ovn-rundir={services.ovn_run_dir}"]  # fmt: skip
        fleet.start(dpu_flags=flags, interval_s=10, apart_s=2.5)
        time.sleep(20)
        weigh(fleet, rows, args.windows, 2 * args.seconds, "probe", ("dpu-agent",), per_beat=False)
    finally:
        fleet.stop()
        if beat:
            beat.stop()
        services.cleanup()


def cpu_us_of(command, **kw):
    before = bench.children_cpu_s()
    bench.time_ms(command, **kw)
    return 1e6 * (bench.children_cpu_s() - before)


def measure_gate(fleet, rows, args):
    path = os.path.join(fleet.directory, "gate.json")
    with open(path, "wb") as file:
        file.write(record.page())
    call = bench.status_call(path)
    gates = [fleet.builds[side].path("dpu-gate") for side in SIDES]
    for _ in range(20 * args.windows):
        rows.add("gate: STATUS, CPU", *(cpu_us_of([gate], **call) for gate in gates))
    counted = []
    for gate in gates:
        out = os.path.join(fleet.directory, "callgrind.gate")
        subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", gate],
            **call, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        counted.append(total_of(out) / 1000)
    rows.add("gate: STATUS, instructions", *counted)


def measure_nodes(fleet, rows, args):
    fleet.fill(NODES)
    words = ["nodes", f"--kubeconfig={fleet.kubeconfig('admin')}"]
    for _ in range(args.windows):
        used = (cpu_us_of([fleet.builds[side].path("dpuctl"), *words]) for side in SIDES)
        rows.add("nodes: dpuctl nodes, CPU", *used)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before", help="directory of a build")
    parser.add_argument("after", help="directory of the other")
    parser.add_argument("row", nargs="*", help="what a row's name begins with")
    parser.add_argument("--windows", type=int, default=10, help="of time, or pairs of calls")
    parser.add_argument("--seconds", type=float, default=10, help="of a window")
    args = parser.parse_args()
    rows = Rows(args.row)
    print("row                                        after/before (least to most)  medians", flush=True)
    with tempfile.TemporaryDirectory(prefix="dpu-against-", dir="/dev/shm") as directory:
        fleet = Fleet(directory, args.before, args.after)
        try:
            for measure in (measure_beat, measure_probe, measure_gate, measure_nodes):
                if rows.wants(measure.__name__.removeprefix("measure_")):
                    measure(fleet, rows, args)
                    rows.show()
        finally:
            fleet.cleanup()


if __name__ == "__main__":
    main()
