#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the release build.
#
#   run.sh [FLAG...]        what a CNI call costs, how fast the verdict moves, what the agents
#                           weigh and how that grows, what `dpuctl nodes` of a large cluster costs:
#                           bench.py
#   run.sh fleet [FLAG...]  what many DPUs cost one real API server, beside upstream's scheme:
#                           tests/e2e/fleet; needs Go. -write docs: docs/performance/measured.md
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
mkdir -p build

quiet() { "$@" >build/bench.log 2>&1 || { tail -n 40 build/bench.log >&2; exit 1; }; }

quiet cmake --preset release -Wno-dev
quiet cmake --build --preset release
quiet cmake --preset dev -Wno-dev # the stand-in, and the stage of a runtime
quiet cmake --build --preset dev --target dpu-standin cri-stage
bench=(/usr/bin/python3 tests/bench/bench.py)
if [[ ${1:-} != fleet ]]; then
  exec "${bench[@]}" "$@"
fi
shift
quiet cmake --build --preset release --target fleet
quiet cmake --install build/release --strip --prefix build/release/installed
export DPU_FLEET=$PWD/build/release/tests/bench/fleet DPU_BIN_DIR=$PWD/build/release/installed/sbin
if [[ " $* " == *" -write "* ]]; then
  "${bench[@]}" --runs 60 --deaths 3 --seconds 10 --nodes 500 | tee build/bench-agents.txt
  set -- -agents "$PWD/build/bench-agents.txt" "$@"
fi
exec tests/e2e/run.sh fleet "$@"
