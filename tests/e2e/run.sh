#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The real-cluster tier: kube-apiserver, etcd, kubelet and containerd as they
# are released, on this machine, and dpu-heartbeat in front of them.
#
#   run.sh [test] [-run REGEXP] [-test.FLAG...]
#   run.sh conf [-run REGEXP]    our kubeconfig and NO_PROXY beside client-go and Go: needs no cluster, nor root
#   run.sh cluster up [--bare]   --bare: a node of ovn-kubernetes, nothing of ours but the images
#   run.sh cluster down|kubeconfig|status|path
#   run.sh cluster exec COMMAND  on the node
#   run.sh fleet [-help|FLAG...] what N DPUs cost an API server; for tests/bench/run.sh
#   run.sh draw                  docs/performance/*.svg anew from the tables in measured.md; measures nothing
#   run.sh images                build the images of this machine's architecture, print NAME=FILE for each
#   run.sh build                 make the parts and the cases, print the parts' folder
#   run.sh prometheus            make Prometheus 3 and promtool, print their folder; for ./dev nightly
#   run.sh packages              the Debian packages that it needs
#
# Exit status: 0 passed, 77 skipped (the reason is the last line), else failed.
#
# DPU_E2E=required    what would be skipped is a failure (CI)
# DPU_E2E_K8S=1.37    which Kubernetes: 1.37 (default), 1.36 or 1.34
# DPU_E2E_RUNTIME=FILE  the node's runtime: a script as runtime/containerd (default) or runtime/crio
# DPU_E2E_SUITE=whole  the integration suite as a whole, not only what depends on the server
# DPU_E2E_DIR=DIR     where all of it is put; default build/e2e. A run of its own needs one of its own
# DPU_BIN_DIR=DIR     use the dpu-agent, dpu-host-agent and dpu-gate in DIR
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dpu-heartbeat/e2e
version=${DPU_E2E_K8S:-1.37}
own=$(realpath -m "${DPU_E2E_DIR:-$root/build/e2e}")
packages=(runc util-linux buildah conmon)
DPU_E2E_RUNTIME=$(realpath "${DPU_E2E_RUNTIME:-$here/runtime/containerd}")
export DPU_E2E_RUNTIME

# The pinned versions are in kube/go.mod (and go-*.mod), node/go.mod, multus/go.mod and helm/go.mod.
case $version in
  1.37) kube_mod=go.mod ;;
  1.36 | 1.34) kube_mod=go-$version.mod ;;
  *) echo "run.sh: DPU_E2E_K8S=$version is not pinned; use 1.37, 1.36 or 1.34" >&2; exit 2 ;;
esac

# Says why the tier does not run; that is a failure where it is required.
skip() {
  if [ "${DPU_E2E:-}" = required ]; then
    echo "real-cluster tests: FAILED, they are required here: $1" >&2
    exit 1
  fi
  echo "real-cluster tests: skipped: $1"
  exit 77
}

find_go() {
  if ! command -v go >/dev/null && [ -x /usr/local/go/bin/go ]; then
    PATH=$PATH:/usr/local/go/bin
  fi
  command -v go >/dev/null ||
    skip "Go is not installed; put the version that tests/e2e/go.mod names into /usr/local/go or on the PATH"
}

check_machine() {
  [ "$(id -u)" = 0 ] || skip "they need root, to make a node's namespaces and cgroups"
  if ! { command -v runc && command -v nsenter && command -v buildah && command -v conmon; } >/dev/null; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${packages[@]}" >/dev/null ||
      skip "these packages cannot be installed: ${packages[*]}"
  fi
  allow_inotify
}

# A kubelet ends at its start if it gets no inotify instance. It takes 6, a control plane 8, and the kernel grants 128
# to all processes of a user: seven clusters at once need more. The limit stays raised until the next boot.
allow_inotify() {
  local limit=/proc/sys/fs/inotify/max_user_instances least=1024
  (($(cat "$limit") >= least)) || echo "$least" 2>/dev/null >"$limit" ||
    skip "$limit is $(cat "$limit") and cannot be raised; set it to $least"
}

# build_once NAME MODULE_DIR MOD_FILE COMMAND...: runs COMMAND with the output
# folder in $out, unless that was done before from the same sources; prints it.
build_once() {
  local name=$1 dir=$2 mod=$3 key out
  shift 3
  key=$(cd "$dir" && { go version; cat "$mod" "${mod%.mod}.sum" ./*.go 2>/dev/null; declare -f "$1"; } |
    sha256sum | cut -c1-16)
  out=$cache/$name-$key
  exec 9>"$cache/$name.lock"
  flock 9 # two runs at once build once
  if [ ! -e "$out/.complete" ]; then
    echo "real-cluster tests: building $name, once; minutes on a small machine" >&2
    rm -rf "$out"
    mkdir -p "$out"
    (cd "$dir" && out=$out "$@") >&2 || return 1
    touch "$out/.complete"
  fi
  touch "$out" # used today: what was not for two weeks goes
  find "$cache" -mindepth 1 -maxdepth 1 -type d -name "$name-*" -mtime +14 -exec rm -rf {} +
  echo "$out"
}

build_kube() { # what fails has to return: set -e does not hold where build_once is asked for its status
  local k8s part
  k8s=$(go list -modfile="$kube_mod" -m -f '{{.Version}}' k8s.io/kubernetes)
  CGO_ENABLED=0 go build -modfile="$kube_mod" -trimpath -o "$out/kube" \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$k8s \
      -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${version#1.}" . || return 1
  for part in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
    ln -sf kube "$out/$part"
  done
}

# The kubelet's own DRA manager, against dpuctl; of the newest kubelet only.
build_healthcache() {
  CGO_ENABLED=0 go test -c -trimpath -ldflags '-s -w' -o "$out/healthcache.test" .
}

build_node() {
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$out/" \
    github.com/containerd/containerd/v2/cmd/containerd \
    github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 \
    github.com/containerd/containerd/v2/cmd/ctr \
    github.com/containernetworking/plugins/plugins/main/ptp \
    github.com/containernetworking/plugins/plugins/ipam/host-local
}

# CRI-O, and the helper of its module that keeps a Pod's namespaces.
build_crio() {
  local sources
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$out/" \
    -tags 'containers_image_openpgp exclude_graphdriver_btrfs' github.com/cri-o/cri-o/cmd/crio || return 1
  sources=$(go list -m -f '{{.Dir}}' github.com/cri-o/cri-o)/pinns/src
  cc -O1 -o "$out/pinns" "$sources"/*.c
}

build_multus() {
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$out/" \
    gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/{multus,multus-daemon,multus-shim,thin_entrypoint}
}

# Both that admins have. One module pins them, so that they share what they are made of.
build_helm() {
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$out/helm" helm.sh/helm/v3/cmd/helm &&
    CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$out/helm4" helm.sh/helm/v4/cmd/helm
}

# Without the service discovery of clouds, which needs as much again to build.
build_prometheus() {
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -tags remove_all_sd -o "$out/" \
    github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool
}

# Makes DIR/pod.tar, a docker archive with the static program DIR/pod, for the tests' Pods.
pack_pod_image() { # DIR
  tar -C "$1" -cf "$1/layer.tar" pod
  cat >"$1/config.json" <<EOF
{"architecture": "$(go env GOARCH)", "os": "linux", "config": {"Entrypoint": ["/pod"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum <"$1/layer.tar" | cut -c1-64)"]}}
EOF
  echo '[{"Config": "config.json", "RepoTags": ["dpu-heartbeat.test/pod:1"], "Layers": ["layer.tar"]}]' >"$1/manifest.json"
  tar -C "$1" -cf "$1/pod.tar" manifest.json config.json layer.tar
}

# One folder with everything: links to the cached parts, and our own programs.
build_parts() {
  local parts=$own/parts-$version kube node name folder folders
  mkdir -p "$cache" "$own"
  kube=$(build_once "kube-$version" "$here/kube" "$kube_mod" build_kube) ||
    skip "Kubernetes $version cannot be built; see above"
  node=$(build_once node "$here/node" go.mod build_node) ||
    skip "containerd cannot be built; see above"
  folders=("$kube" "$node")
  # What only some cases need: they say so if it is not there.
  for name in crio multus helm; do
    folder=$(build_once "$name" "$here/$name" go.mod "build_$name") && folders+=("$folder") ||
      echo "real-cluster tests: $name cannot be built; see above" >&2
  done
  if [ "$kube_mod" = go.mod ]; then
    folder=$(build_once healthcache "$here/kube/healthcache" ../go.mod build_healthcache) && folders+=("$folder") ||
      echo "real-cluster tests: the kubelet's DRA manager cannot be built; see above" >&2
  fi
  rm -rf "$parts"
  mkdir -p "$parts"
  for folder in "${folders[@]}"; do ln -s "$folder"/* "$parts/"; done
  (
    cd "$here"
    export CGO_ENABLED=0
    go build -o "$parts/cluster" ./cluster
    go build -o "$parts/ovn-k8s-cni-overlay" ./overlay
    go build -o "$parts/pod" ./pod
  )
  pack_pod_image "$parts"
  echo "$parts"
}

# Our reading of kubeconfigs and of NO_PROXY, held against client-go and Go.
run_conf() {
  (cd "$here/conf" && CGO_ENABLED=0 go test -count=1 -v "$@") >"$own/conf.log" 2>&1 || { cat "$own/conf.log"; return 1; }
  grep -E '^(--- | +[a-z_]+\.go:)' "$own/conf.log" || true # what was looked at
}

build_cases() {
  (cd "$here" && CGO_ENABLED=0 go test -c -o "$own/cases.test" ./cases)
}

# Prints the folder with our programs as they are shipped.
build_ours() {
  if [ -n "${DPU_BIN_DIR:-}" ]; then
    (cd "$DPU_BIN_DIR" && pwd)
    return
  fi
  local out=$own/ours
  {
    (cd "$root" && cmake --preset release -Wno-dev && cmake --build --preset release) &&
      rm -rf "$out" &&
      cmake --install "$root/build/release" --prefix "$out"
  } >"$own/cmake.log" 2>&1 || { tail -30 "$own/cmake.log" >&2; return 1; }
  echo "$out"
}

# Makes the container images of this machine's architecture from its Debian packages, and prints NAME=FILE for each:
# a file is called NAME-VERSION-ARCHITECTURE.tar and holds VERSION.
build_images() {
  local machine file name
  machine=$(dpkg --print-architecture)
  mkdir -p "$root/build"
  exec 8>"$root/build/images.lock"
  flock 8 # the walk-through's cluster has them made, too
  { "$root/deploy/package.sh" "$machine" && "$root/deploy/image.sh" "$machine"; } >"$own/images.log" 2>&1 ||
    { tail -30 "$own/images.log" >&2; return 1; }
  for file in "$root"/build/images/dpu-heartbeat-*-"$machine".tar; do
    name=$(basename "$file" "-$machine.tar")
    echo "dpu-heartbeat.test/${name%-*}=$file"
  done
}

run_tests() {
  find_go
  check_machine
  local parts bin
  parts=$(build_parts) || exit $?
  bin=$(build_ours)
  cd "$here"
  export DPU_E2E_PARTS=$parts DPU_BIN_DIR=$bin
  export DPU_E2E_LOGS=${DPU_E2E_LOGS:-$own/logs}
  rm -rf "$DPU_E2E_LOGS"
  mkdir -p "$DPU_E2E_LOGS"
  run_conf "$@" || { echo "real-cluster tests: FAILED: we read a kubeconfig or NO_PROXY otherwise than client-go"; return 1; }
  build_cases
  # Its own folder: the cases find rbac/ and their data from there.
  cd "$here/cases"
  local status=0
  run_cases "$DPU_E2E_LOGS/cases.log" "${@/#-run/-test.run}" || status=$?
  if [ "$status" != 0 ]; then
    echo "real-cluster tests: FAILED; all logs are in $DPU_E2E_LOGS"
  else
    echo "real-cluster tests: passed against Kubernetes $version; logs are in $DPU_E2E_LOGS"
  fi
  return "$status"
}

# run_cases LOG FLAG...: one line per case while it runs; everything if one fails.
run_cases() {
  local log=$1 status=0
  shift
  "$own/cases.test" -test.v -test.parallel 20 -test.timeout 25m "$@" 2>&1 | tee "$log" |
    grep --line-buffered -E '^(--- |the cluster|FAIL|panic)' || status=${PIPESTATUS[0]}
  [ "$status" = 0 ] || grep -vE '^(=== |--- PASS| +--- PASS)' "$log"
  return "$status"
}

# The pid of the process that holds the cluster, if it is up or starting.
cluster_pid() {
  local pid
  pid=$(cat "$own/cluster/pid" 2>/dev/null) || return 1
  tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "--dir $own/cluster " || return 1 # else the pid is another's
  echo "$pid"
}

cluster_up() { # [--bare]
  local state=$own/cluster parts bin flags=()
  if cluster_pid >/dev/null; then
    echo "already up (pid $(cluster_pid))"
    return
  fi
  find_go
  check_machine
  parts=$(build_parts) || exit $?
  bin=$(build_ours) || bin=
  if [ "${1:-}" = --bare ]; then
    build_images >"$own/images"
    mapfile -t flags < <(echo --bare; cat "$own/images")
  fi
  rm -rf "$state"
  mkdir -p "$state"
  DPU_BIN_DIR=$bin setsid "$parts/cluster" --dir "$state" --parts "$parts" --rbac "$root/rbac" "${flags[@]}" \
    >"$state/cluster.log" 2>&1 </dev/null &
  echo $! >"$state/pid"
  until [ -e "$state/node.pid" ]; do
    kill -0 $! 2>/dev/null || { tail -60 "$state/cluster.log" >&2; return 1; }
    sleep 0.1
  done
  echo "up: kubectl --kubeconfig $state/control-plane/admin.kubeconfig get nodes"
  echo "kubectl is $parts/kubectl; logs are in $state"
}

run_cluster() {
  local state=$own/cluster parts=$own/parts-$version verb=${1:-} pid ours path
  ours=$(realpath -m "${DPU_BIN_DIR:-$own/ours}") # an installation's prefix, a build tree, or one folder
  path=$parts:$ours/sbin:$ours/bin:$ours/dpu-agent:$ours/host-agent:$ours/dpuctl:$ours
  (($# == 0)) || shift
  case $verb in
    up) cluster_up "$@"; return ;;
    path) echo "$path"; return ;;
    down | status | kubeconfig | exec) ;;
    *)
      echo "usage: $0 cluster up [--bare]|down|kubeconfig|status|path|exec COMMAND" >&2
      exit 2
      ;;
  esac
  if ! pid=$(cluster_pid); then
    echo "run.sh: no cluster is up; try: $0 cluster up" >&2
    [ "$verb" = down ]
    exit
  fi
  case $verb in
    kubeconfig) echo "$state/control-plane/admin.kubeconfig" ;;
    status) echo "up, pid $pid; node worker-1 is pid $(cat "$state/node.pid")" ;;
    exec)
      exec nsenter -t "$(cat "$state/node.pid")" -m -n -p -i -u -C -- \
        env -u KUBECONFIG PATH="$path:$PATH" "$@"
      ;;
    down)
      kill "$pid"
      while [ -e "/proc/$pid" ]; do sleep 0.1; done
      ;;
  esac
}

run_fleet() {
  local parts
  find_go
  parts=$(build_parts) || exit $?
  (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$own/fleet" ./fleet)
  DPU_E2E_PARTS=$parts exec "$own/fleet" "$@"
}

verb=${1:-test}
(($# == 0)) || shift
case $verb in
  test) run_tests "$@" ;;
  conf)
    find_go
    mkdir -p "$own"
    DPU_BIN_DIR=$(build_ours) DPU_E2E=required run_conf "$@"
    ;;
  cluster) run_cluster "$@" ;;
  fleet) run_fleet "$@" ;;
  images) mkdir -p "$own" && build_images ;;
  draw) find_go; cd "$here" && go run ./fleet -draw "$root/docs" ;;
  build) find_go; build_parts; build_cases ;;
  prometheus) find_go; mkdir -p "$cache"; build_once prometheus "$here/prometheus" go.mod build_prometheus ;;
  packages) printf '%s\n' "${packages[@]}" ;;
  *) sed -n '3,24s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
