#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo of dpu-heartbeat: real agents, a real CNI binary, and everything that can happen to
them, in about a minute. Exit status 0 only if each step behaved.

Runs against the stand-in API server, or with --kubeconfig against a cluster, where it works in a
namespace of its own and removes it afterwards. Needs Open vSwitch and OVN, and of Python no more than
PyYAML.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, *(os.path.join(os.path.dirname(HERE), room) for room in ("integration", "support"))]

from dpu_testing.binaries import Binaries  # noqa: E402
from dpu_testing.kube import ApiError  # noqa: E402
from dpu_testing.ovn import is_installed  # noqa: E402
from setting import RealApi, Setting, StandinApi  # noqa: E402
from story import Story  # noqa: E402


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--kubeconfig", metavar="FILE", help="run against this cluster")
    parser.add_argument("--node-name", metavar="NODE", help="an existing Node of that cluster")
    parser.add_argument("--bin-dir", metavar="DIR", help="where the programs were built")
    parser.add_argument("--fast", action="store_true", help="no pauses for reading")
    parser.add_argument("--keep", action="store_true", help="keep the logs, and say where")
    args = parser.parse_args()
    if bool(args.kubeconfig) != bool(args.node_name):
        parser.error("--kubeconfig and --node-name go together")
    return args


class Show:
    """Plays the scenes, and tells of each in lines."""

    def __init__(self, fast):
        self.fast = fast
        self.started = time.monotonic()
        self.story = None
        self.steps = []  # (ok, title, what came of it)

    def tell(self, text):
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", flush=True)

    def note(self, text):
        self.tell(f"    {text}")

    def pause(self):
        """Leaves the viewer time to read."""
        time.sleep(0 if self.fast else 1.5)

    def play(self, setting):
        self.story = Story(setting, self.note, self.pause)
        scenes = self.story.scenes()
        for number, (title, scene) in enumerate(scenes, 1):
            self.tell(f"{number}/{len(scenes)} {title}: {scene.__doc__}")
            try:
                said, is_kept = scene(), True
            except Exception as error:  # whatever it is, the promise was not kept
                said, is_kept = f"{type(error).__name__}: {error}", False
            self.note(f"{'ok' if is_kept else 'FAILED'}: {said}")
            self.steps.append((is_kept, title, said))
            if not is_kept:
                return False
        return True


def summarize(show, title):
    print(f"\ndpu-heartbeat demo, {title}\n")
    for is_kept, step, said in show.steps:
        print(f"  {'ok    ' if is_kept else 'FAILED'}  {step}: {said}")
    if show.story:
        print()
        for what, value in show.story.measured:
            print(f"  {what:<45}  {value}")
    print()


def run(args, directory):
    binaries = Binaries(args.bin_dir)
    for name in ("dpu-agent", "dpu-host-agent", "dpu-gate"):
        binaries.path(name)
    if not is_installed():
        raise FileNotFoundError("needs Open vSwitch and OVN: what a DPU runs")
    if args.kubeconfig:
        api = RealApi(args.kubeconfig, args.node_name, directory)
    else:
        api = StandinApi(binaries, directory)
    show = Show(args.fast)
    show.tell(f"dpu-heartbeat demo ({api.title}): a renewal every 0.5 s, a lease of 3 s")
    setting = Setting(binaries, api, directory, show.note)
    try:
        return show.play(setting)
    finally:
        setting.cleanup()
        summarize(show, api.title)


def main():
    args = parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # no scene catches that
    directory = tempfile.mkdtemp(prefix="dpu-demo-")
    keep = args.keep
    try:
        behaved = run(args, directory)
        keep |= not behaved
        return int(not behaved)
    except KeyboardInterrupt:
        print("demo: ended by a signal", file=sys.stderr)
        return 130
    except (FileNotFoundError, ApiError, OSError, ValueError, KeyError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    finally:
        if keep:
            print(f"demo: logs are in {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
