#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/lint/size.sh: how much there is to hold in one head, per room. ./dev size.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD

files() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do
    if [[ -f $f ]]; then printf '%s\n' "$f"; fi
  done
}

lines() { files "$@" | xargs -r cat | wc -l; }

# uses REGEX: lines of the products that match.
uses() {
  { files '*.c' '*.h' | grep -v '^tests/' | xargs grep -hE -- "$1" || true; } | wc -l
}

row() { printf '%-42s %6d\n' "$1" "$2"; }

row "common, lines of C" "$(lines common/'*.'{c,h})"
row "host-agent, lines of C" "$(lines host-agent/'*.'{c,h})"
row "dpuctl, lines of C" "$(lines dpuctl/'*.'{c,h})"
row "dpu-agent and cni, lines of C" "$(lines {dpu-agent,cni}/'*.'{c,h})"
row "products, lines of C" "$(lines '*.c' '*.h' ':!tests')"
row "products, files of C" "$(files '*.c' '*.h' ':!tests' | wc -l)"
row "tests, lines of C, Python, Go, shell" "$(lines tests/'*.'{c,h,py,go,sh})"
row "docs, pages" "$(files 'docs/*.md' | wc -l)"
row "uses of 'rc = rc == 0 ? f() : rc'" "$(uses '\b(\w+) = \1 == 0 \?')"
row "uses of '(void)snprintf'" "$(uses '\(void\)snprintf')"
row "includes that go up" "$(files '*.c' '*.h' | { xargs awk -f tests/lint/layers.awk || true; } | wc -l)"
