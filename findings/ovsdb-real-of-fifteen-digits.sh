#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ovsdb-server 4.0.0 (Debian sid; 3.5.0 of Debian 13 does the same) computes and compares a column of type real with all
# the bits of a double, but writes it with 15 digits, to clients, to its file and to other servers, although it takes 17
# to tell a double. So of a real that needs more, as a third does:
# - No client can read what is there, and a "wait" (RFC 7047, section 5.2.6) for what was just read fails. A client
#   that verifies what it read before it writes, as those of the IDL do, never gets to.
# - A relay holds another value than its source: the same condition selects the row of the one and not of the other.
# - The value changes when the server is started again: the condition that found nothing finds the row then.
# Integers, and reals of up to 15 digits, stay what they are.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the packages cannot be had. Needs root, mmdebstrap and
# a mirror of Debian.
set -euo pipefail
dir=$(mktemp -d)
servers=()
end() {
  for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
  wait
  rm -rf "$dir"
}
trap end EXIT

unshare --mount mmdebstrap --mode=root --variant=minbase --dpkgopt=force-unsafe-io \
  --aptopt='Acquire::Check-Valid-Until "false"' --include=openvswitch-common,openvswitch-switch sid "$dir/sid" \
  >"$dir/log" 2>&1 || { tail -n 5 "$dir/log"; exit 2; }
start() { # start NAME DATABASE: its socket is /NAME
  chroot "$dir/sid" ovsdb-server "$2" --remote="punix:/$1" --unixctl="/$1.ctl" -vconsole:off -vsyslog:off &
  servers+=("$!")
}
ask() { chroot "$dir/sid" ovsdb-client transact "unix:/$1" "[\"Notes\", $2]" 2>/dev/null; }
rows() { ask "$1" '{"op": "select", "table": "Note", "where": [["x", "==", 0.333333333333333]], "columns": ["x"]}'; }
await() { # until the server answers, with the row
  for _ in $(seq 100); do
    seen=$(ask "$1" '{"op": "select", "table": "Note", "where": [], "columns": ["x"]}') || true
    [[ $seen != *'"x":'* ]] || return 0
    sleep 0.1
  done
  return 1
}

echo '{"name": "Notes", "version": "1.0.0", "tables": {"Note": {"isRoot": true, "columns": {"x": {"type": "real"}}}}}' \
  >"$dir/sid/schema"
chroot "$dir/sid" ovsdb-server --version | head -n 1
chroot "$dir/sid" ovsdb-tool create /db /schema
start source /db
for _ in $(seq 100); do
  ask source '' >/dev/null && break
  sleep 0.1
done
ask source '{"op": "insert", "table": "Note", "row": {"x": 1}},
  {"op": "mutate", "table": "Note", "where": [], "mutations": [["x", "/=", 3]]}' >/dev/null
start relay relay:Notes:unix:/source
await source
read_back=$seen
await relay
relayed=$seen
waited=$(ask source '{"op": "wait", "table": "Note", "where": [], "columns": ["x"], "until": "==",
  "rows": [{"x": 0.333333333333333}], "timeout": 0}')
lines=$(printf '%s\n' "the source has: $read_back" "its relay has: $relayed" \
  "the source waits for it: $waited" "that value, at the source: $(rows source)" "that value, at the relay: $(rows relay)")
kill "${servers[0]}"
wait "${servers[0]}" || true
start source /db
await source
lines+=$(printf '\n%s' "that value, at the source once it was started again: $(rows source)")
printf '%s\n' "$lines"
found='[{"rows":[{"x":0.333333333333333}]}]'
[[ $lines == "the source has: $found
its relay has: $found
the source waits for it: [{\"details\":\"\\\"where\\\" clause test failed\",\"error\":\"timed out\"}]
that value, at the source: [{\"rows\":[]}]
that value, at the relay: $found
that value, at the source once it was started again: $found" ]]
