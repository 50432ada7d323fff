#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/lint/size.sh [--limits]: lines per room. --limits fails where there are more pages or files than
# may be, and warns where the products have grown past the last figure that a commit gave a reason for.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD

files() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do
    if [[ -f $f ]]; then printf '%s\n' "$f"; fi
  done
}

lines() { files "$@" | xargs -r cat | wc -l; }

# At most, per row: one place to look for a reader, one idea per file.
declare -A limits=(["products, files of C"]=164 ["docs, pages"]=12)
# What the products had when somebody last looked. Growth past it is no failure: the commit that raises
# this figure says what the lines are for.
declare -A ratchet=(["products, lines of C"]=38357)
only_limits=
[[ ${1:-} != --limits ]] || only_limits=yes
bad=0

row() {
  local limit=${limits[$1]:-} last=${ratchet[$1]:-}
  if [[ -n $limit && $2 -gt $limit ]]; then
    printf '%s: %d, the limit is %d\n' "$1" "$2" "$limit"
    bad=1
  elif [[ -n $last && $2 -gt $last ]]; then
    printf 'warning: %s: %d, %d more than when last explained (tests/lint/size.sh)\n' "$1" "$2" $(($2 - last))
  elif [[ -z $only_limits ]]; then
    printf '%-42s %6d\n' "$1" "$2"
  fi
}

row "common, lines of C" "$(lines common/'*.'{c,h})"
row "host-agent, lines of C" "$(lines host-agent/'*.'{c,h})"
row "dpuctl, lines of C" "$(lines dpuctl/'*.'{c,h})"
row "dpu-agent and cni, lines of C" "$(lines {dpu-agent,cni}/'*.'{c,h})"
row "dra-driver, lines of C" "$(lines dra-driver/'*.'{c,h})"
row "products, lines of C" "$(lines '*.c' '*.h' ':!tests' ':!docs')"
row "products, files of C" "$(files '*.c' '*.h' ':!tests' ':!docs' | wc -l)"
row "tests, lines of C, Python, Go, shell" "$(lines tests/'*.'{c,h,py,go,sh})"
# Without docs/performance/, which a measurement writes.
pages=(':(glob)docs/*.md')
row "docs, pages" "$(files "${pages[@]}" | wc -l)"
row "docs, words" "$(files "${pages[@]}" README.md CONTRIBUTING.md SECURITY.md | xargs cat | wc -w)"
[[ -z $only_limits ]] || exit "$bad"
