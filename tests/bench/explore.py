# SPDX-License-Identifier: Apache-2.0
"""How many steps of the verdict the explorer makes in a second of CPU time, beside the simulator's soak:
both in turn, each RUNS times. The one plays the shells, the other runs them."""

import re
import statistics
import subprocess

from bench import children_cpu_s

RUNS = 3
SIM = ["build/dev/tests/sim/sim", "soak", "/dev/null", "5", "100000"]
EXPLORE = ["build/release/tests/explore/explore", "run", "3", "6"]


def rate(command, step):
    """Steps a second of CPU time; `step` matches the number of some of them."""
    before = children_cpu_s()
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return sum(int(number) for number in re.findall(step, printed)) / (children_cpu_s() - before)


def main():
    sims, explored = [], []
    for _ in range(RUNS):
        sims.append(rate(SIM, r"(\d+)  verdict: "))
        explored.append(rate(EXPLORE, r"(\d+) steps of the verdict"))
    ratios = sorted(one / other for one, other in zip(explored, sims))
    print(f"steps of the verdict a second of CPU time: simulator {statistics.median(sims):.0f}, "
          f"explorer {statistics.median(explored):.0f}")
    print(f"ratio {statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f}) of {RUNS} runs each, in turn")


main()
