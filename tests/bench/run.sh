#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the release build.
#
#   run.sh [FLAG...]        what a CNI call costs, how fast the verdict moves, what the agents
#                           weigh, what `dpuctl nodes` of a large cluster costs: bench.py
#   run.sh fleet [FLAG...]  what many DPUs cost one real API server, beside upstream's scheme:
#                           tests/e2e/fleet; needs Go
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
mkdir -p build
for preset in release dev; do # dev: the stand-in
  { cmake --preset "$preset" -Wno-dev && cmake --build --preset "$preset"; } >build/bench.log 2>&1 ||
    { tail -n 40 build/bench.log >&2; exit 1; }
done
if [[ ${1:-} == fleet ]]; then
  shift
  cmake --build --preset release --target fleet >build/bench.log 2>&1 || { tail -n 40 build/bench.log >&2; exit 1; }
  DPU_FLEET=$PWD/build/release/tests/bench/fleet exec tests/e2e/run.sh fleet "$@"
fi
exec /usr/bin/python3 tests/bench/bench.py "$@"
