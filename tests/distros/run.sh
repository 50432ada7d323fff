#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [--sample] [SUITE]...: this tree in clean roots of other releases of Debian (by default of trixie and
# sid, which are newer than what anybody runs): the build, where warnings are errors, the unit tests, the
# integration tests with that release's OVS and OVN, the socket unit of its OVS under its systemd, and Debian
# 12's packages from build/packages, installed, installed again and purged. --sample: the build and the unit
# tests alone. Prints the rows of a table. Needs root. Nothing outside of the root is written, and the tests
# have a network of their own.
# shellcheck disable=SC2317 # step calls them
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

build_packages=(build-essential cmake ninja-build pkg-config libcurl4-openssl-dev libev-dev libjansson-dev
  libmicrohttpd-dev libssl-dev libyaml-dev libnghttp2-dev libprotobuf-c-dev protobuf-c-compiler libcmocka-dev
  ca-certificates git iproute2 openssl procps python3 python3-yaml)
test_packages=(python3-pytest python3-pytest-xdist containernetworking-plugins help2man jq curl prometheus
  openvswitch-switch ovn-central ovn-host frr)
logs=$PWD/build/logs/distros
arch=$(dpkg --print-architecture)
is_sample=false
if [[ ${1:-} == --sample ]]; then
  is_sample=true
  shift
fi
(($# > 0)) || set -- trixie sid

# The root is a mount of its own there, as tests expect that make mounts; /sys shows the network.
in_root() { # in_root [--net] COMMAND...
  local own=()
  if [[ $1 == --net ]]; then
    own=(--net)
    shift
  fi
  # shellcheck disable=SC2016 # for the shell in there
  unshare --mount --pid --fork --kill-child --propagation private "${own[@]}" sh -c '
    mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount -t sysfs sysfs "$0/sys" &&
      mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup" && mount --rbind /dev "$0/dev" &&
      mount -t tmpfs tmpfs "$0/run" || exit 1
    ip link set lo up
    # No exec: as the first process it has to wait for what others left behind.
    chroot "$0" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 TERM=dumb \
        DEBIAN_FRONTEND=noninteractive sh -c "cd /src && exec \"\$@\"" sh "$@"
    status=$?
    exit $status' "$root" "$@"
}

make_root() { # make_root SUITE
  local packages=("${build_packages[@]}")
  $is_sample || packages+=("${test_packages[@]}")
  # In mounts of its own: what removes the root never finds any of them in it. A list that is signed may
  # be old, as on a mirror that stands still.
  unshare --mount mmdebstrap --mode=root --variant=minbase --dpkgopt=force-unsafe-io \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --include="$(IFS=,; echo "${packages[*]}")" "$1" "$root" || return 1
  mkdir -p "$root/src" "$root/packages" || return 1
  git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard |
    tar -c --null -T - | tar -x -C "$root/src" || return 1
  $is_sample || cp "$PWD"/build/packages/dpu-heartbeat-*_"$arch".deb "$root/packages" || return 1
  cp /etc/resolv.conf "$root/etc/"
}

build() {
  in_root cmake --preset dev -Wno-dev && in_root cmake --build --preset dev -j "$(nproc)"
}

# renewer_pace counts for a minute what no library decides. In the machine's network: test_pod_net fails in
# one of its own.
unit_tests() {
  in_root ctest --test-dir build/dev -L unit -E renewer_pace -j "$(nproc)" --output-on-failure
}

integration() {
  in_root --net env DPU_BIN_DIR=/src/build/dev python3 -m pytest -q -o "addopts=-ra --strict-markers" \
    tests/integration -n "$((3 * $(nproc)))"
}

# systemd as the first process of the root, for one service, with whose end it ends, too. It has a group of
# processes, devices and a network of its own, and reads the machine's settings only.
under_systemd() { # under_systemd COMMAND...
  local status=0
  printf '%s\n' '[Unit]' SuccessAction=exit FailureAction=exit '[Service]' Type=oneshot TimeoutStartSec=300 \
    WorkingDirectory=/src StandardOutput=truncate:/case.log StandardError=inherit "ExecStart=$*" \
    >"$root/etc/systemd/system/case.service"
  # shellcheck disable=SC2016 # for the shells in there
  unshare --mount --propagation private sh -c '
    own=/sys/fs/cgroup/distros-$$
    mount -t cgroup2 cgroup2 /sys/fs/cgroup && mkdir "$own" && echo $$ >"$own/cgroup.procs" || exit 1
    unshare --mount --pid --fork --kill-child --net --uts --ipc --cgroup sh -c '\''
      mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --bind "$0/proc/sys" "$0/proc/sys" &&
        mount -o remount,bind,ro "$0/proc/sys" && mount -t sysfs -o ro sysfs "$0/sys" &&
        mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup" && mount -t tmpfs -o mode=755 tmpfs "$0/run" &&
        mount -t tmpfs -o mode=755 tmpfs "$0/dev" || exit 1
      for device in null zero full random urandom; do
        touch "$0/dev/$device" && mount --bind "/dev/$device" "$0/dev/$device" || exit 1
      done
      ip link set lo up
      exec chroot "$0" env -i container=distros PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        /lib/systemd/systemd --unit=case.service'\'' "$0"
    status=$?
    echo $$ >/sys/fs/cgroup/cgroup.procs
    find "$own" -depth -type d -exec rmdir {} +
    exit "$status"' "$root" || status=$?
  cat "$root/case.log"
  return "$status"
}

# For an OVS that comes with a socket unit (4.0). Its ovs-vswitchd does without the kernel's datapath.
socket_unit() {
  mkdir -p "$root/etc/systemd/system/ovs-vswitchd.service.d"
  printf '%s\n' '[Service]' ExecStart= \
    'ExecStart=/usr/sbin/ovs-vswitchd --enable-dummy=system --disable-system --pidfile --detach' \
    >"$root/etc/systemd/system/ovs-vswitchd.service.d/dummy.conf"
  under_systemd env PATH=/usr/sbin:/usr/bin DPU_OWN_SYSTEMD=1 DPU_BIN_DIR=/src/build/dev python3 -m pytest -q \
    --override-ini=addopts=--strict-markers tests/integration/test_ovn_probes.py -k systemd_would
}

packages() {
  # shellcheck disable=SC2016 # for the shell in there
  in_root sh -euc 'apt-get update -q; apt-get install -q -y --no-install-recommends /packages/*.deb
    for program in dpu-agent dpu-host-agent dpu-dra-driver dpuctl kubectl-dpu; do
      test "$($program --version 2>&1 | wc -l)" = 1
    done
    CNI_COMMAND=VERSION /usr/libexec/cni/dpu-gate
    echo "#mine" >>/etc/dpu-heartbeat/dpu-agent.yaml
    dpkg -i /packages/*.deb
    grep -q "^#mine" /etc/dpu-heartbeat/dpu-agent.yaml
    dpkg -P dpu-heartbeat-dpu dpu-heartbeat-host
    test ! -e /etc/dpu-heartbeat'
}

# As part of a condition, a step goes on after a command that fails (set -e is off there): each has its own "|| return".
step() { # step NAME COMMAND...: one row; one that fails is also a failure of the whole
  local name=$1 began=$SECONDS result=passed log
  shift
  log=$logs/$suite-$name.log
  "$@" >"$log" 2>&1 || { result=FAILED; bad=1; }
  printf '| Debian %s | %s | %s | %d s |\n' "$suite" "$name" "$result" $((SECONDS - began))
  [[ $result == passed ]] || tail -n 40 "$log"
  [[ $result == passed ]]
}

# What the table in tests/README.md names.
print_versions() {
  # shellcheck disable=SC2016 # for dpkg-query
  printf '| Debian %s | %s\n' "$suite" "$(chroot "$root" dpkg-query -W \
    -f '${source:Package} ${source:Upstream-Version} | ' 'gcc-[1-9][0-9]' libc6 libcurl4t64 libssl-dev libcmocka-dev \
    python3-minimal systemd openvswitch-switch ovn-host frr prometheus 2>/dev/null)"
}

run_suite() {
  step root make_root "$suite" || return 0
  print_versions
  step build build || return 0 # nothing to test
  step unit unit_tests || true
  $is_sample || step integration integration || true
  if ! $is_sample && [[ -e $root/usr/lib/systemd/system/ovsdb-server.socket ]]; then
    step socket-unit socket_unit || true
  fi
  $is_sample || step packages packages || true
}

mkdir -p "$logs"
bad=0
trap 'rm -rf "${root:-}"' EXIT
for suite in "$@"; do
  root=$(mktemp -d)
  chmod 755 "$root" # others than root look into it, too
  run_suite
  rm -rf "$root"
done
exit "$bad"
