# SPDX-License-Identifier: Apache-2.0
# The arrows between rooms that must not exist. Reads all C files; tests may include anything.

function room_of(path) {
  if (path ~ /^common\//) { sub(/^common\//, "", path); sub(/\/.*/, "", path); return path }
  if (path ~ /^host-agent\/(grpc|dra)\//) { sub(/^host-agent\//, "", path); sub(/\/.*/, "", path); return path }
  sub(/\/.*/, "", path)
  return path
}

# The room that an #include "path" leads to; common/ is an include root.
function target_room(path) {
  if (path !~ /\//) return ""
  return room_of(path)
}

function forbid(from, list,   i, n, names) {
  n = split(list, names, " ")
  for (i = 1; i <= n; i++) bad[from, names[i]] = 1
}

BEGIN {
  programs = "dpu-agent host-agent grpc dra cni dpuctl"
  n = split("base json contract kube loop", commons, " ")
  for (c = 1; c <= n; c++) forbid(commons[c], programs)
  forbid("base", "json contract kube loop")
  forbid("json", "contract kube loop")
  forbid("contract", "kube loop")
  forbid("dpu-agent", "host-agent grpc dra cni dpuctl")
  forbid("host-agent", "dpu-agent cni dpuctl")
  forbid("grpc", "dra host-agent dpu-agent cni dpuctl")
  forbid("dra", "dpu-agent cni dpuctl")
  forbid("cni", "kube loop dpu-agent host-agent grpc dra dpuctl")
  forbid("dpuctl", "dpu-agent host-agent grpc dra cni")
}

FILENAME ~ /^tests\// { next }

/^#include "/ {
  path = $0
  sub(/^#include "/, "", path)
  sub(/".*/, "", path)
  from = room_of(FILENAME)
  to = target_room(path)
  if (to == "" && path !~ /\.pb-c\.h$/) {
    printf "%s:%d: include \"%s\" by its path from the root\n", FILENAME, FNR, path
    failed = 1
  } else if (path ~ /^tests\// || (from, to) in bad) {
    printf "%s:%d: %s must not know %s (\"%s\")\n", FILENAME, FNR, from, to, path
    failed = 1
  }
}

END { exit failed }
