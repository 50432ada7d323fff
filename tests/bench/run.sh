#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the release build: what a CNI call costs, how fast the verdict moves, what the agents
# weigh. See bench.py.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
mkdir -p build
for preset in release dev; do # dev: the stand-in
  { cmake --preset "$preset" -Wno-dev && cmake --build --preset "$preset"; } >build/bench.log 2>&1 ||
    { tail -n 40 build/bench.log >&2; exit 1; }
done
exec /usr/bin/python3 tests/bench/bench.py "$@"
