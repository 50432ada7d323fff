# SPDX-License-Identifier: Apache-2.0
# The arrows between rooms that must not exist. Reads all C files; tests may include anything.

function room_of(path) {
  if (path ~ /^common\//) { sub(/^common\//, "", path); sub(/\/.*/, "", path); return path }
  if (match(path, /^(host-agent\/(install|podnet)|dra-driver\/(dra|grpc))\//)) return substr(path, 1, RLENGTH - 1)
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
  server = "dra-driver/grpc"
  plugin = "dra-driver/dra"
  install = "host-agent/install"
  podnet = "host-agent/podnet"
  host = "host-agent " install " " podnet
  driver = "dra-driver " server " " plugin
  programs = "dpu-agent cni dpuctl " host " " driver
  n = split("base contract grpc kube loop outputs probe", commons, " ")
  for (c = 1; c <= n; c++) forbid(commons[c], programs)
  forbid("base", "contract grpc kube loop outputs probe")
  forbid("contract", "grpc kube loop outputs probe")
  forbid("grpc", "contract kube outputs probe") # curl on the loop
  forbid("loop", "grpc kube outputs probe") # what a program runs on; its metrics are kube's, too
  forbid("kube", "contract grpc outputs probe")
  forbid("outputs", "grpc probe")
  forbid("probe", "grpc kube outputs")
  forbid("dpu-agent", "cni dpuctl grpc outputs " host " " driver)
  forbid("host-agent", "dpu-agent cni dpuctl " driver)
  forbid(install, "dpu-agent host-agent cni dpuctl kube grpc outputs " podnet " " driver)
  forbid(podnet, "dpu-agent host-agent cni dpuctl " install " " driver)
  # The driver knows the record and nothing of who writes it.
  forbid("dra-driver", "dpu-agent cni dpuctl probe " host)
  forbid(server, "dra-driver dpu-agent cni dpuctl kube loop contract outputs probe " plugin " " host)
  forbid(plugin, "dra-driver dpu-agent cni dpuctl probe " host)
  forbid("cni", "kube loop grpc outputs probe dpu-agent dpuctl " host " " driver)
  forbid("dpuctl", "dpu-agent cni outputs " host " " driver)
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
