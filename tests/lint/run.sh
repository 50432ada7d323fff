#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/lint/run.sh [CHECK]...: all checks, or those named, even after one has failed. ./dev lint has
# installed the tools and built build/dev (the core symbols are checked by that build).
set -uo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." || exit

# A clone made by somebody else is fine: nothing of its configuration is run here.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$PWD

JOBS=$(nproc)
CHECKS=(format layers headers cores globals unused sizes states complexity tidy cppcheck shell spelling python mutants docs commits golang)

# What git knows, or would, and still exists.
files() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do
    if [[ -f $f ]]; then printf '%s\n' "$f"; fi
  done
}

check_format() { files '*.c' '*.h' | xargs clang-format --dry-run -Werror; }

check_layers() { files '*.c' '*.h' | xargs awk -f tests/lint/layers.awk; }

# Each header compiles alone; generated headers are found in the build.
check_headers() {
  local generated
  mapfile -t generated < <(find build/dev -name '*.pb-c.h' -printf '-I%h\n' | sort -u)
  files '*.h' | xargs -P "$JOBS" -I{} gcc -std=gnu11 -D_GNU_SOURCE -DDPU_VERSION='"lint"' \
    -fsyntax-only -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-parameter -I. -Icommon -Itests -Itests/support \
    -Ibuild/dev "${generated[@]}" -x c -include {} /dev/null
}

# What tests/lint/cores names is declared as a core, so that the build checks its symbols.
check_cores() {
  local path missing=0
  while read -r path; do
    if [[ -f $path ]] && ! grep -q "/$path\$" build/dev/core-sources.txt; then
      echo "$path is a core, but in no dpu_core_library"
      missing=1
    fi
  done <tests/lint/cores
  return "$missing"
}

# Variables of the programs: the log's sink, the offset of the time namespace, and the path that the
# handler of a crash reads. No other.
check_globals() {
  local found
  found=$(find build/dev/{cni,common,dpu-agent,dpuctl,dra-driver,host-agent} -name '*.c.o' ! -path '*/tests/*' -print0 |
    xargs -0 objdump -t | awk '/ O \.t?(bss|data)[ \t]/ { sub(/\..*/, "", $NF); print $NF }' | sort -u | xargs)
  [[ $found == "armed_mark offset_ns sink" ]] ||
    { echo "variables of the programs: '$found'; allowed: 'armed_mark offset_ns sink'"; return 1; }
}

# Of what is built, so that it is the products' own calls that count.
check_unused() { tests/lint/unused.py; }

# A table-driven test may be twice as long as a module.
check_sizes() {
  files '*.c' '*.h' | xargs wc -l | awk '
    { limit = $2 ~ /^tests\/unit\// ? 1200 : 1100 }
    $2 != "total" && $1 > limit { printf "%s: %d lines, the limit is %d\n", $2, $1, limit; bad = 1 }
    END { exit bad }' || return 1
  tests/lint/size.sh --limits
}

# Figures that only get better, with today's in tests/lint/*.most.
check_states() { tests/lint/ratchet.py states; }

check_complexity() { tests/lint/ratchet.py complexity; }

# On what we ship; tests and the stand-in are held to the compiler's warnings and cppcheck.
check_tidy() {
  local tidy=(clang-tidy -p build/dev --quiet --extra-arg=-Wno-unknown-warning-option)
  {
    "${tidy[@]}" common/base/err.c common/base/text.c &&
      files 'common/*.c' 'dpu-agent/*.c' 'host-agent/*.c' 'dra-driver/*.c' 'cni/*.c' 'dpuctl/*.c' |
      grep -vxE 'common/base/(err|text)\.c' |
        xargs -P "$JOBS" -n 4 "${tidy[@]}" --extra-arg=-include --extra-arg="$PWD/tests/lint/analyzer.h" \
          --extra-arg="-I$PWD/common" --extra-arg="-I$PWD"
  } 2>&1 | awk '/: (error|warning): /{ show = 3 } show-- > 0' # without the analyzer's long paths
}

# Leaks are the sanitizers' to find: cppcheck does not know the cleanup attribute. Nor can it parse a
# compound literal inside ?: (internalAstError), or know that LIST_FOREACH sets its variable.
check_cppcheck() {
  local rooms=() room
  for room in common dpu-agent host-agent dra-driver cni dpuctl tests/standin; do
    [[ -d $room ]] && rooms+=("$room")
  done
  cppcheck -q -j "$JOBS" --std=c11 --error-exitcode=1 --inline-suppr -I . -I common -D_GNU_SOURCE \
    --enable=warning,performance,portability --suppress=missingInclude \
    --suppress=missingIncludeSystem --suppress=resourceLeak --suppress=memleak --suppress=internalAstError --suppress=uninitvar:common/kube/kube_client.c --suppress=uninitvar:dra-driver/grpc/grpc_server.c "${rooms[@]}"
}

check_shell() {
  files | while read -r f; do
    if head -c 64 "$f" | tr -d '\0' | head -n 1 | grep -qE '^#!.*\b(ba)?sh\b'; then
      printf '%s\n' "$f"
    fi
  done | xargs shellcheck
}

check_spelling() {
  files ':!tests/fuzz/corpus' ':!*.sum' ':!*.pem' |
    xargs codespell --ignore-words tests/lint/spelling.ignore
}

check_python() {
  files '*.py' | xargs -r /usr/bin/python3 -c '
import ast, sys
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as source:
        ast.parse(source.read(), path)'
}

# What the listed mutants change still reads as they say.
check_mutants() {
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/mutate /usr/bin/python3 -c '
import operators

def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()

operators.listed(read("tests/mutate/safety"), read)'
}

# Every command in the documentation is run by a test, or says why not; what it names is there; what it
# compares was measured.
check_docs() {
  /usr/bin/python3 tests/lint/doc_commands.py
  local commands=$?
  /usr/bin/python3 tests/lint/doc_claims.py || commands=1
  /usr/bin/python3 tests/lint/doc_names.py && ((commands == 0))
}

check_commits() { tests/lint/commits.py; }

check_golang() {
  [[ -f tests/e2e/go.mod ]] || return 0
  if ! command -v go >/dev/null; then
    echo "no Go here: tests/e2e was not checked"
    return 0
  fi
  local unformatted
  unformatted=$(files 'tests/e2e/*.go' | xargs gofmt -l)
  [[ -z $unformatted ]] || { echo "gofmt: $unformatted"; return 1; }
  (cd tests/e2e && go vet ./... && go test -count=1 ./picture)
}

(($# > 0)) || set -- "${CHECKS[@]}"
bad=()
for check in "$@"; do
  declare -F "check_$check" >/dev/null || { echo "no check '$check'; there are: ${CHECKS[*]}" >&2; exit 2; }
  began=$SECONDS
  if out=$("check_$check" 2>&1); then
    printf 'ok      %-9s %3d s\n' "$check" $((SECONDS - began))
    if [[ ($check == golang || $check == sizes) && -n $out ]]; then echo "$out"; fi
  else
    printf 'FAILED  %-9s %3d s\n' "$check" $((SECONDS - began))
    printf '%s\n' "$out" | grep -vE '^[0-9]+ warnings? generated|^Suppressed|^Use -header' | tail -n 200
    bad+=("$check")
  fi
done
if ((${#bad[@]} > 0)); then
  echo "lint failed: ${bad[*]}"
  exit 1
fi
