#!/bin/sh
# static-program.sh READELF NM PROGRAM: fails unless PROGRAM needs no loader and no library, and has
# no network code and no JSON library in it.
set -eu
readelf=$1
nm=$2
program=$3
if "$readelf" -lW "$program" | grep -qE 'INTERP|DYNAMIC'; then
  echo "$program is not static: it has a dynamic section" >&2
  exit 1
fi
if "$nm" "$program" | grep -E ' [TtWw] (curl_|ev_|nghttp2_|SSL_|json_object_)' >&2; then
  echo "$program must not contain network code or a JSON library" >&2
  exit 1
fi
