#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/model/run.sh BUILD [TRACES] [follow]: visits every state of the model, then lets the C core
# follow so many of its simulations (200); with `follow` only the latter. Its files: BUILD/model.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
build=$(readlink -f "$1")
traces=${2:-200}
model=$PWD/tests/model/heartbeat.pml
replay=$build/tests/model/model_replay
DEPTH=4000000  # of the search; one that is cut short is not complete, and fails
MEMORY_MB=4000
STATEMENTS=6000 # of one simulation: about a hundred steps

mkdir -p "$build/model"
cd "$build/model"
rm -f ./*.trail
cp "$model" heartbeat.pml

visit_every_state() {
  spin -a heartbeat.pml >spin.log
  gcc -w -O2 -DSAFETY -DNOFAIR -DMEMLIM="$MEMORY_MB" -o pan pan.c
  ./pan -m"$DEPTH" >pan.log 2>&1 || true
  if ! grep -q 'errors: 0' pan.log || grep -qE 'not completed|max search depth too small' pan.log; then
    cat pan.log
    if [[ -f heartbeat.pml.trail ]]; then
      echo "how it comes about (written writes reads watch delivered accused host phase admits):"
      spin -T -t heartbeat.pml | grep -E 'STEP|Error|failed'
    fi
    exit 1
  fi
  awk '/states, stored/ { states = $1 } /elapsed time/ { seconds = $4 }
    END { printf "every run: %d states, no violation, %s s\n", states, seconds }' pan.log
}
if [[ ${3:-} != follow ]]; then visit_every_state; fi

# Of each step that the core followed.
FIELDS=(written writes reads watch delivered accused host phase admits)
WANTED=(written=1 writes=0 reads=0 watch=WORKS watch=BROKEN watch=SILENT delivered=1 accused=1 host=0 phase=AWAITING
  phase=FRESH phase=HOLDING phase=EXPIRED admits=0 admits=1)
: >followed.log
for ((seed = 1; seed <= traces; seed++)); do
  spin -T -n"$seed" -u"$STATEMENTS" heartbeat.pml >trace.log
  if ! "$replay" <trace.log >replay.log; then
    echo "seed $seed: model and core differ:"
    cat replay.log
    exit 1
  fi
  awk -v many="$(sed -n 's/^\([0-9]*\) steps.*/\1/p' replay.log)" '/STEP/ && step++ < many' \
    trace.log >>followed.log
done
echo "$traces simulations: $(wc -l <followed.log) steps, model and core agree in all of them"
awk -v fields="${FIELDS[*]}" -v wanted="${WANTED[*]}" '
  BEGIN { split(fields, field); many = split(wanted, want) }
  { for (i in field) count[field[i] "=" $(i + 1)]++ }
  END {
    for (i = 1; i <= many; i++) { printf "%8d  %s\n", count[want[i]], want[i]; missing += !count[want[i]] }
    if (missing) print "where so little happens nothing is proven"
    exit missing > 0
  }' followed.log
