# SPDX-License-Identifier: Apache-2.0
"""What the viewer sees: one live screen on a terminal, plain lines elsewhere.

Both have the same four calls: begin(step), note(text), finish(step), refresh(view). The live
screen uses the terminal's alternate buffer, follows its size, and always gives it back.
"""

import os
import shutil
import sys
import textwrap
import time

RESET, BOLD, DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
RED, GREEN, YELLOW, CYAN = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"
STATE_COLORS = {"Ready": GREEN, "NotReady": RED, "Unknown": YELLOW}


class Step:
    """One scene: a title, a caption for the viewer, and what came of it."""

    def __init__(self, number, total, title, caption):
        self.number, self.total = number, total
        self.title, self.caption = title, caption
        self.outcome = None  # None: running; else True or False
        self.result = ""


class Plain:
    """Lines for pipes, logs and CI."""

    def __init__(self, out, header):
        self.out = out
        self.started = time.monotonic()
        self._verdict = None
        self._line(header)

    def _line(self, text):
        print(f"[{time.monotonic() - self.started:5.1f} s] {text}", file=self.out, flush=True)

    def begin(self, step):
        self._line(f"{step.number}/{step.total} {step.title}: {step.caption}")

    def note(self, text):
        self._line(f"    {text}")

    def finish(self, step):
        self._line(f"    {'ok' if step.outcome else 'FAILED'}: {step.result}")

    def refresh(self, view):
        verdict = (view.verdict, view.status_text)
        if verdict != self._verdict:
            self._verdict = verdict
            self._line(f"    readiness {view.verdict}; CNI STATUS {view.status_text}")

    def close(self):
        pass


class Live:
    """The whole terminal, drawn anew some times a second."""

    def __init__(self, out, header):
        self.out = out
        self.header = header
        self.started = time.monotonic()
        self.steps = []
        self.notes = []
        encoding = (out.encoding or "").lower().replace("-", "")
        self.mark = ("●", "✓", "✗", "█", "░") if encoding == "utf8" else ("*", "+", "x", "#", ".")
        self.out.write("\x1b[?1049h\x1b[?25l")  # alternate buffer, no cursor

    def begin(self, step):
        self.steps.append(step)
        self.notes = []

    def note(self, text):
        self.notes.append(text)

    def finish(self, step):
        self.notes = []

    def close(self):
        self.out.write("\x1b[?25h\x1b[?1049l")
        self.out.flush()

    def _process(self, name, state):
        color = {"running": GREEN, "stopped": YELLOW}.get(state, RED)
        return f"{color}{self.mark[0]}{RESET} {name} {state}"

    def _bar(self, view, width):
        share = max(0.0, min(1.0, view.left_s / view.duration_s)) if view.duration_s else 0.0
        full = round(share * width)
        color = GREEN if share > 0.4 else YELLOW if share > 0 else RED
        return color + self.mark[3] * full + RESET + DIM + self.mark[4] * (width - full) + RESET

    def _picture(self, view, width):
        color = STATE_COLORS.get(view.state, "")
        status = GREEN if view.status_ok else RED
        add = GREEN if view.add_ok else RED
        bar = self._bar(view, max(10, min(40, width - 46)))
        return [
            f"  {BOLD}DPU{RESET}             {self._process('dpu-agent', view.dpu_state)}"
            f"   {self._process('ovn-controller', view.service_state)}",
            f"  {BOLD}Kubernetes API{RESET}  {self._process('api server', view.api_state)}"
            f"   Lease {view.lease_name}",
            f"                  renewed {view.age_text} ago   {bar}"
            f" {max(0.0, view.left_s):4.1f} s left",
            f"  {BOLD}Host{RESET}            {self._process('dpu-host-agent', view.host_state)}",
            f"                  {color}{BOLD}{view.verdict}{RESET}",
            f"                  {DIM}{view.message}{RESET}",
            f"  {BOLD}CNI{RESET}             STATUS {status}{view.status_text}{RESET}",
            f"                  ADD    {add}{view.add_text}{RESET}",
        ]

    def _story(self, width):
        lines = []
        busy = bool(self.steps) and self.steps[-1].outcome is None
        for step in self.steps[:-1] if busy else self.steps:
            mark = f"{GREEN}{self.mark[1]}" if step.outcome else f"{RED}{self.mark[2]}"
            lines.append(f"  {mark}{RESET} {step.title}  {DIM}{step.result}{RESET}")
        if busy:
            step = self.steps[-1]
            lines += ["", f"  {CYAN}{BOLD}{step.number}/{step.total} {step.title}{RESET}"]
            lines += [f"      {line}" for line in textwrap.wrap(step.caption, max(20, width - 7))]
            lines += [f"      {DIM}{note}{RESET}" for note in self.notes[-3:]]
        return lines

    def refresh(self, view):
        width, height = shutil.get_terminal_size()
        clock = f"{time.monotonic() - self.started:5.1f} s"
        lines = [f"  {BOLD}{self.header}{RESET}  {DIM}{clock}{RESET}", ""]
        lines += self._picture(view, width) + [""]
        story = self._story(width)
        room = max(0, height - 1 - len(lines))
        lines += story[-room:] if room else []
        frame = "\x1b[H"
        for line in lines[: height - 1]:
            frame += clip(line, width) + RESET + "\x1b[K\r\n"
        self.out.write(frame + "\x1b[J")
        self.out.flush()


def clip(line, width):
    """The line cut to `width` visible columns; escape sequences take none."""
    shown, visible, at = "", 0, 0
    while at < len(line):
        if line[at] == "\x1b":
            end = line.index("m", at) + 1
            shown += line[at:end]
            at = end
        elif visible < width:
            shown += line[at]
            visible += 1
            at += 1
        else:
            at += 1
    return shown


def choose(header):
    """Live on a terminal that can move its cursor, else plain."""
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return Live(sys.stdout, header)
    return Plain(sys.stdout, header)
