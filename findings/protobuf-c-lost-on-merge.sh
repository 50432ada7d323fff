#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Protobuf lets a field that is a message come in several pieces, which its reader merges: what only the first piece
# has, stays. protobuf-c 1.5.1 (Debian sid; 1.4.1 of Debian 12 does the same) merges so for proto2. For proto3 it
# loses each number, boolean and enum of the first piece without a word, while texts, repeated fields and messages
# below are kept as they should: {num: 5, text: "t", list: [1]} and {other: 6, list: [2]} become
# {num: 0, other: 6, text: "t", list: [1, 2]}. Google's protoc reads num: 5 by either syntax.
# That hurts whoever changes a message by appending to its bytes, as one may, and has a reader in C: the numbers that
# it did not mean to change are 0 there.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the packages cannot be had. Needs root, mmdebstrap and
# a mirror of Debian.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

unshare --mount mmdebstrap --mode=root --variant=minbase --dpkgopt=force-unsafe-io \
  --aptopt='Acquire::Check-Valid-Until "false"' \
  --include=gcc,libc6-dev,libprotobuf-c-dev,protobuf-c-compiler,protobuf-compiler sid "$dir/sid" >"$dir/log" 2>&1 ||
  { tail -n 5 "$dir/log"; exit 2; }
work=$dir/sid/finding
mkdir "$work"

message() { # message SYNTAX LABEL
  cat <<PROTO
syntax = "$1";
message Part {
  $2 int32 num = 1;
  $2 bool flag = 2;
  $2 string text = 3;
  repeated int32 list = 4;
  $2 int32 other = 5;
}
message Whole { $2 Part part = 1; }
PROTO
}
message proto2 optional >"$work/proto2.proto"
message proto3 '' >"$work/proto3.proto"

cat >"$work/main.c" <<'C'
#include FROM
#include <stdio.h>
#include <stdint.h>

int main(void)
{
    uint8_t bytes[64];
    Whole *whole = whole__unpack(NULL, fread(bytes, 1, sizeof(bytes), stdin), bytes);
    if (!whole) {
        return 1;
    }
    const Part *p = whole->part;
    printf("num %d, flag %d, text '%s', list", p->num, p->flag, p->text);
    for (size_t i = 0; i < p->n_list; i++) {
        printf(" %d", p->list[i]);
    }
    printf(", other %d\n", p->other);
    return 0;
}
C
cat >"$work/run" <<'SH'
set -eu
cd /finding
dpkg-query -W -f '${Package} ${Version}\n' libprotobuf-c1 protobuf-compiler
# part {num: 5, flag: true, text: "t", list: [1]}, then part {list: [2], other: 6}
printf '\012\011\010\005\020\001\032\001t\040\001\012\004\040\002\050\006' >bytes
for syntax in proto2 proto3; do
  protoc-c --c_out=. $syntax.proto 2>/dev/null
  gcc -DFROM="\"$syntax.pb-c.h\"" -o $syntax main.c $syntax.pb-c.c -lprotobuf-c
  echo "$syntax, protobuf-c: $(./$syntax <bytes)"
  echo "$syntax, protoc:     $(protoc --decode=Whole $syntax.proto <bytes | tr -s '\n{} ' ' ')"
done
SH
seen=$(chroot "$dir/sid" sh /finding/run)
printf '%s\n' "$seen"
[[ $(tail -n 4 <<<"$seen") == "proto2, protobuf-c: num 5, flag 1, text 't', list 1 2, other 6
proto2, protoc:     part num: 5 flag: true text: \"t\" list: 1 list: 2 other: 6 
proto3, protobuf-c: num 0, flag 0, text 't', list 1 2, other 6
proto3, protoc:     part num: 5 flag: true text: \"t\" list: 1 list: 2 other: 6 " ]]
