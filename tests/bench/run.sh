#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the release build.
#
#   run.sh [FLAG...]        what a CNI call costs, how fast the verdict moves, what the agents
#                           weigh and how that grows, what `dpuctl nodes` of a large cluster costs:
#                           bench.py
#   run.sh --against COMMIT [FLAG...] [ROW]...
#                           the same of two builds side by side, as ratios: this tree's, and one of
#                           COMMIT, which is made in a temporary folder: against.py
#   run.sh explore          how fast the explorer is beside the simulator's soak: explore.py
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
if [[ ${1:-} == explore ]]; then
  quiet cmake --build --preset dev --target sim
  quiet cmake --build --preset release --target explore
  exec "${bench[0]}" tests/bench/explore.py
fi
if [[ ${1:-} == --against ]]; then
  place=$(mktemp -d)
  git=(git -c "safe.directory=$PWD")
  trap '"${git[@]}" worktree remove --force "$place/tree" || true; rm -rf "$place"' EXIT
  quiet "${git[@]}" worktree add --detach "$place/tree" "${2:?a commit}"
  quiet cmake -S "$place/tree" -B "$place/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF -Wno-dev
  quiet cmake --build "$place/build"
  "${bench[0]}" tests/bench/against.py "$place/build" build/release "${@:3}"
  exit
fi
if [[ ${1:-} != fleet ]]; then
  exec "${bench[@]}" "$@"
fi
shift
quiet cmake --build --preset release --target fleet
quiet cmake --install build/release --strip --prefix build/installed
export DPU_FLEET=$PWD/build/release/tests/bench/fleet DPU_BIN_DIR=$PWD/build/installed/sbin
if [[ " $* " == *" -write "* ]]; then
  "${bench[@]}" --runs 60 --deaths 3 --seconds 10 --nodes 500 | tee build/bench-agents.txt
  set -- -agents "$PWD/build/bench-agents.txt" "$@"
fi
exec tests/e2e/run.sh fleet "$@"
