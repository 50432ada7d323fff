#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo of dpu-heartbeat: real agents, a real CNI binary, and everything that can happen to
them, in about a minute. Exit status 0 only if each step behaved.

Runs against the stand-in API server, or with --kubeconfig against a cluster, where it works in a
namespace of its own and removes it afterwards. Needs Open vSwitch and OVN, and of Python the
standard library only.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
sys.path.insert(0, HERE)

import screen  # noqa: E402
from dpu_testing.binaries import Binaries  # noqa: E402
from dpu_testing.kube import ApiError  # noqa: E402
from dpu_testing.ovn import is_installed  # noqa: E402
from setting import RealApi, Setting, StandinApi  # noqa: E402
from story import Story  # noqa: E402

REFRESH_S = 0.1


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


class Interrupted(BaseException):
    """ctrl-C or SIGTERM: no scene may catch it."""


def _interrupt(number, frame):
    raise Interrupted(signal.Signals(number).name)


class Show:
    """Plays the scenes on the screen."""

    def __init__(self, setting, view, fast):
        self.view, self.fast = view, fast
        self.story = Story(setting, view.note, self.pause)
        self.steps = []

    def pause(self):
        """Leaves the viewer time to read."""
        time.sleep(0 if self.fast else 1.5)

    def play(self):
        scenes = self.story.scenes()
        for number, (title, caption, scene) in enumerate(scenes, 1):
            step = screen.Step(number, len(scenes), title, caption)
            self.steps.append(step)
            self.view.begin(step)
            try:
                step.result = scene()
                step.outcome = True
            except Exception as error:  # whatever it is, the promise was not kept
                step.result = f"{type(error).__name__}: {error}"
                step.outcome = False
            self.view.finish(step)
            if not step.outcome:
                return False
        self.pause()
        return True


class Painter:
    """Refreshes the screen while a scene is busy."""

    def __init__(self, view, setting):
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._paint, args=(view, setting), daemon=True)
        self._thread.start()

    def _paint(self, view, setting):
        while not self._ended.wait(REFRESH_S):
            view.refresh(setting.view())

    def stop(self):
        self._ended.set()
        self._thread.join(2)


def summarize(show, title):
    print(f"\ndpu-heartbeat demo, {title}\n")
    for step in show.steps:
        mark = {True: "ok    ", False: "FAILED", None: "ended "}[step.outcome]
        print(f"  {mark}  {step.title}{': ' + step.result if step.result else ''}")
    if show.story.measured:
        width = max(len(what) for what, _ in show.story.measured)
        print()
        for what, value in show.story.measured:
            print(f"  {what:<{width}}  {value}")
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
    setting = Setting(api, binaries, directory, interval_ms=500, duration_s=3)
    header = f"dpu-heartbeat demo ({api.title}): a renewal every 0.5 s, a lease of 3 s"
    view = painter = show = None
    behaved = False
    try:
        view = screen.choose(header)
        painter = Painter(view, setting)
        show = Show(setting, view, args.fast)
        behaved = show.play()
    finally:
        if painter:
            painter.stop()
        if view:
            view.close()
        setting.cleanup()
        if show:
            summarize(show, api.title)
    return behaved


def main():
    args = parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    directory = tempfile.mkdtemp(prefix="dpu-demo-")
    keep = args.keep
    try:
        behaved = run(args, directory)
        keep = keep or not behaved
        return 0 if behaved else 1
    except Interrupted as why:
        print(f"demo: ended by {why}", file=sys.stderr)
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
