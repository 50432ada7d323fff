#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# minutes.sh [STAGE]...: how long ./dev test (or these stages of it) takes from a clean clone of the last
# commit, where nothing is built, and once more, where all is. It judges nothing but whether they pass: a
# machine's minutes are its own. Two cores took 22 minutes and 13 in November 2026, and .ci/run 32; the
# parts of the real cluster were built before.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
git -c safe.directory="$PWD" clone -q --no-hardlinks . "$place/tree"
export CCACHE_DISABLE=1

# Prints each stage's share, and all.
measure() { # measure cold|warm [STAGE]...
  local how=$1 began=$SECONDS result=passed
  shift
  (cd "$place/tree" && ./dev test "$@") >"$place/$how.log" 2>&1 || result=FAILED
  sed -n "s/^-- \(.*\) took /minutes: $how  \1  /p" "$place/$how.log"
  printf 'minutes: %s  all  %d.%d min, %s\n' "$how" $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60 / 6)) "$result"
  [[ $result == passed ]] || { tail -n 40 "$place/$how.log" >&2; exit 1; }
}

printf 'minutes: commit %s, %d cores\n' "$(git -c safe.directory="$PWD" rev-parse --short HEAD)" "$(nproc)"
measure cold "$@"
measure warm "$@"
