#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# requirements.sh: what is too old is named before anything is compiled.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/pc" "$work/libc"

refused() { # refused WORDS [CMAKE ARGUMENT]...
  local words=$1
  shift
  rm -rf "$work/build"
  if PKG_CONFIG_PATH=$work/pc cmake -S . -B "$work/build" -G Ninja -DBUILD_TESTING=OFF "$@" >"$work/log" 2>&1 ||
    ! tr -s ' \n' ' ' <"$work/log" | grep -qF "$words"; then
    echo "FAILED: nothing says '$words':" >&2
    tail -n 20 "$work/log" >&2
    exit 1
  fi
}

pretend() { # pretend MODULE VERSION
  printf 'Name: %s\nDescription: an old one\nVersion: %s\n' "$1" "$2" >"$work/pc/$1.pc"
}

pretend libcurl 7.80.0
refused "libcurl 7.80.0 is too old: dpu-heartbeat needs 7.81.0 or newer"
rm "$work/pc/libcurl.pc"
pretend jansson 2.12
refused "jansson 2.12 is too old: dpu-heartbeat needs 2.13 or newer"
rm "$work/pc/jansson.pc"
# A C library whose header does not declare the function.
printf '#include_next <spawn.h>\n#pragma GCC poison posix_spawn_file_actions_addclosefrom_np\n' >"$work/libc/spawn.h"
refused "needs glibc 2.34 or newer (posix_spawn_file_actions_addclosefrom_np)" "-DCMAKE_C_FLAGS=-I$work/libc"
