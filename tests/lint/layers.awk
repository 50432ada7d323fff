# SPDX-License-Identifier: Apache-2.0
# The arrows between rooms that must not exist. Reads all C files; tests may include anything.

function room_of(path) {
  if (path ~ /^common\//) { sub(/^common\//, "", path); sub(/\/.*/, "", path); return path }
  if (match(path, /^host-agent\/(grpc|dra|install|outputs|podnet)\//)) return substr(path, 1, RLENGTH - 1)
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
  server = "host-agent/grpc"
  plugin = "host-agent/dra"
  install = "host-agent/install"
  outputs = "host-agent/outputs"
  podnet = "host-agent/podnet"
  programs = "dpu-agent host-agent cni dpuctl " server " " plugin " " install " " outputs " " podnet
  n = split("base contract grpc kube loop probe", commons, " ")
  for (c = 1; c <= n; c++) forbid(commons[c], programs)
  forbid("base", "contract grpc kube loop probe")
  forbid("contract", "grpc kube loop probe")
  forbid("grpc", "contract kube probe") # curl on the loop
  forbid("loop", "grpc kube probe") # what a program runs on; its metrics are kube's, too
  forbid("kube", "contract grpc probe")
  forbid("probe", "grpc kube")
  forbid("dpu-agent", "host-agent cni dpuctl grpc " server " " plugin " " install " " outputs " " podnet)
  forbid("host-agent", "dpu-agent cni dpuctl")
  forbid(server, "host-agent dpu-agent cni dpuctl kube loop " plugin " " install " " outputs " " podnet)
  forbid(plugin, "dpu-agent host-agent cni dpuctl " install " " podnet)
  forbid(install, "dpu-agent host-agent cni dpuctl kube grpc " server " " plugin " " outputs " " podnet)
  forbid(outputs, "dpu-agent host-agent cni dpuctl grpc probe " server " " plugin " " install " " podnet)
  forbid(podnet, "dpu-agent host-agent cni dpuctl " server " " plugin " " install)
  forbid("cni", "kube loop grpc probe dpu-agent host-agent dpuctl " server " " plugin " " install " " outputs " " podnet)
  forbid("dpuctl", "dpu-agent host-agent cni " server " " plugin " " install " " outputs " " podnet)
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
