#!/bin/sh
# core-symbols.sh NM LIBRARY: fails if a core library needs a symbol that is neither in
# core-symbols.allow nor a function of base/ or of another core (those have prefixes of ours).
set -eu
nm=$1
lib=$2
allow=$(dirname "$0")/core-symbols.allow
bad=$("$nm" -u "$lib" | awk '$1 == "U" { print $2 }' | sort -u |
  grep -vxF -f "$allow" |
  grep -vE '^(err|mono|prng|wall|buf|text|rfc3339|fsm|crc32c|names|readiness|renewer|verdict|asking|evidence|history|origin|mark|spans|record|gate|watch_line|lease_pace|log_repeat|json_put|json_scan|json_walk)_' || true)
# A symbol defined by the library itself is fine.
for s in $bad; do
  if ! "$nm" --defined-only "$lib" | awk '{ print $3 }' | grep -qxF "$s"; then
    echo "$lib: a core must not use '$s'" >&2
    exit 1
  fi
done
