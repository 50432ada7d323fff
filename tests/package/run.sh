#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs, upgrades, removes and purges build/packages with dpkg in a clean root of Debian 12, starts
# them in one of Debian 13, and holds their dependencies to what Ubuntu 22.04 has. Needs root.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

packages=$PWD/build/packages
arch=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

checks=0
check() { # check WHAT COMMAND...
  local what=$1
  shift
  if ! "$@"; then
    echo "FAILED: $what" >&2
    exit 1
  fi
  checks=$((checks + 1))
}
in_root() { chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }
absent() { [[ ! -e $root$1 ]]; }
present() { [[ -e $root$1 ]]; }

# The libraries that the packages depend on come from Debian, like everything else in the root.
depends=$(for side in dpu host; do
  dpkg-deb -f "$packages"/dpu-heartbeat-"$side"_*_"$arch".deb Depends
done | tr ',' '\n' | sed 's/ *(.*//; s/ //g' | sort -u | paste -sd,)
debootstrap --variant=minbase --include="$depends" bookworm "$root" >"$packages/debootstrap.log" 2>&1 ||
  { tail -n 20 "$packages/debootstrap.log" >&2; exit 1; }
cp "$packages"/dpu-heartbeat-*_"$arch".deb "$root/"

# Ubuntu 22.04, the oldest that they are for: no root of it is made here. tests/curl runs with its libcurl.
declare -A jammy=([libc6]=2.35 [libcurl4]=7.81.0 [libev4]=1:4.33 [libjansson4]=2.13.1 [libmicrohttpd12]=0.9.75
  [libnghttp2-14]=1.43.0 [libprotobuf-c1]=1.3.3 [libssl3]=3.0.2 [libyaml-0-2]=0.2.5 [passwd]=1:4.8.1)
asks_no_more_than_jammy_has() { # asks_no_more_than_jammy_has PACKAGE_FILE
  local name version
  while read -r name version; do
    if ! dpkg --compare-versions "${jammy[$name]:-0~none}" ge "${version:-0}"; then
      echo "Ubuntu 22.04 has $name ${jammy[$name]:-in no version that is listed here}, wanted is ${version:-any}" >&2
      return 1
    fi
  done < <(dpkg-deb -f "$1" Depends | tr ',' '\n' | sed -E 's/^ *//; s/ *\(>= *([^)]*)\)/ \1/')
}
for deb in "$packages"/dpu-heartbeat-*.deb; do
  check "$(basename "$deb") asks for nothing that Ubuntu 22.04 has not" asks_no_more_than_jammy_has "$deb"
  # shellcheck disable=SC2016 # for the shell in there
  check "$(basename "$deb") closes no directory to others" \
    sh -c '! dpkg-deb -c "$1" | grep "^d" | grep -v "^drwxr-xr-x"' sh "$deb"
done

in_root sh -c 'find / -xdev -not -path "/proc/*" -not -path "/var/lib/dpkg/*" | sort' >"$root.before"

echo "install"
in_root sh -c 'dpkg -i /dpu-heartbeat-*.deb' >/dev/null
check "dpu-agent runs" in_root dpu-agent --version
check "dpu-host-agent runs" in_root dpu-host-agent --version
check "dpu-dra-driver runs" in_root dpu-dra-driver --version
check "dpuctl runs" in_root dpuctl --version
check "it is a plugin of kubectl, too" in_root kubectl-dpu --version
check "dpu-gate runs" in_root env CNI_COMMAND=VERSION /usr/libexec/cni/dpu-gate
check "the DPU side has a user of its own" in_root getent passwd dpu-heartbeat
for file in dpu-agent dpu-host-agent dpu-dra-driver; do
  check "$file.yaml is a configuration that is understood" \
    in_root sh -c "/usr/sbin/$file --config=/etc/dpu-heartbeat/$file.yaml --kubeconfig=/nonexistent --node-name=n 2>&1 |
      grep -q \"kubeconfig '/nonexistent'\""
  check "$file has a man page" present "/usr/share/man/man8/$file.8"
  check "$file has a unit" present "/usr/lib/systemd/system/$file.service"
done
unit='/usr/lib/systemd/system/dpu-host-agent@.service'
check "a further DPU's agent has a unit whose options are understood" in_root sh -c \
  "cp /etc/dpu-heartbeat/dpu-host-agent.yaml /etc/dpu-heartbeat/dpu-host-agent-dpu1.yaml &&
    printf 'lease-name: ovn-dpu-n--dpu1\ncni-sync: true\n' >>/etc/dpu-heartbeat/dpu-host-agent-dpu1.yaml &&
    \$(sed -n 's/^ExecStart=//p' $unit | sed 's/%i/dpu1/g') --kubeconfig=/nonexistent --node-name=n 2>&1 |
    grep -q \"kubeconfig '/nonexistent'\" && rm /etc/dpu-heartbeat/dpu-host-agent-dpu1.yaml"
check "a further DPU's driver has a unit whose options are understood" in_root sh -c \
  "cp /etc/dpu-heartbeat/dpu-dra-driver.yaml /etc/dpu-heartbeat/dpu-dra-driver-dpu1.yaml &&
    \$(sed -n 's/^ExecStart=//p' '/usr/lib/systemd/system/dpu-dra-driver@.service' | sed 's/%i/dpu1/g') \
      --kubeconfig=/nonexistent --node-name=n 2>&1 |
    grep -q \"kubeconfig '/nonexistent'\" && rm /etc/dpu-heartbeat/dpu-dra-driver-dpu1.yaml"
check "dpuctl has a man page" present /usr/share/man/man8/dpuctl.8
# With a /proc of its own, where bash finds /dev/fd; both are gone with the shell.
# shellcheck disable=SC2016 # for the shell in there
check "dpuctl's words can be completed" \
  unshare -mpf --mount-proc="$root/proc" chroot "$root" bash -c '. /usr/share/bash-completion/completions/dpuctl
    PATH=/usr/bin:/bin COMP_WORDS=(dpuctl sta) COMP_CWORD=1; _dpuctl dpuctl; [[ ${COMPREPLY[*]} == status ]]'

echo "upgrade keeps what an admin changed"
in_root sh -c 'echo "#mine" >>/etc/dpu-heartbeat/dpu-agent.yaml'
in_root sh -c 'dpkg -i /dpu-heartbeat-*.deb' >/dev/null
check "dpu-agent.yaml is the admin's" in_root grep -q '^#mine' /etc/dpu-heartbeat/dpu-agent.yaml

echo "remove keeps the configuration, and takes the gate out of the way"
in_root sh -c 'mkdir -p /etc/cni/net.d /opt/cni/bin &&
  echo "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"type\":\"x\"}" >/etc/cni/net.d/77-own.conf &&
  echo "cni-source: 77-own.conf" >>/etc/dpu-heartbeat/dpu-host-agent.yaml'
in_root dpu-host-agent install-cni 2>/dev/null
check "the gate is in front" present /etc/cni/net.d/05-dpu-gate.conf
in_root dpkg -r dpu-heartbeat-dpu dpu-heartbeat-host >/dev/null
check "the program is gone" absent /usr/sbin/dpu-agent
check "the configuration is not" present /etc/dpu-heartbeat/dpu-agent.yaml
check "the gate is not in front" absent /etc/cni/net.d/05-dpu-gate.conf
check "it stays for its pods" present /opt/cni/bin/dpu-gate
in_root rm -r /etc/cni /opt/cni

echo "purge leaves nothing behind"
in_root dpkg -P dpu-heartbeat-dpu dpu-heartbeat-host >/dev/null
in_root sh -c 'find / -xdev -not -path "/proc/*" -not -path "/var/lib/dpkg/*" | sort' >"$root.after"
left=$(comm -13 "$root.before" "$root.after" | grep -vE '^/var/(log|cache)/|^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-$' || true)
rm -f "$root.before" "$root.after"
check "nothing is left: $left" test -z "$left"

echo "a group with the user's name may be there, and stay"
in_root groupadd --system dpu-heartbeat
in_root useradd --system --groups dpu-heartbeat reader
for time in first second; do
  check "the package is installed beside a group, the $time time" \
    in_root sh -c 'dpkg -i /dpu-heartbeat-dpu_*.deb >/dev/null 2>&1'
  # shellcheck disable=SC2016 # for the shell in there
  check "its user is of that group" in_root sh -c '[ "$(id -gn dpu-heartbeat)" = dpu-heartbeat ]'
  in_root dpkg -P dpu-heartbeat-dpu >/dev/null 2>&1
done
in_root userdel reader
in_root groupdel dpu-heartbeat

echo "an install succeeds where systemd does not do as it is told, or its program is missing"
in_root mkdir -p /run/systemd/system
check "they are installed without systemctl" in_root sh -c 'dpkg -i /dpu-heartbeat-*.deb >/dev/null 2>&1'
in_root dpkg -P dpu-heartbeat-dpu dpu-heartbeat-host >/dev/null 2>&1
in_root sh -c 'printf "#!/bin/sh\nexit 1\n" >/bin/systemctl && chmod +x /bin/systemctl'
check "they are installed beside a systemctl that fails" in_root sh -c 'dpkg -i /dpu-heartbeat-*.deb >/dev/null 2>&1'
in_root dpkg -P dpu-heartbeat-dpu dpu-heartbeat-host >/dev/null 2>&1
in_root rm -r /bin/systemctl /run/systemd

echo "purge succeeds whatever is missing, and a credential keeps its user"
purges=$(tests/package/purge.sh "$root")
checks=$((checks + purges))

# Its libraries have other names there, by which apt finds them.
echo "Debian 13"
rm -rf "${root:?}"/*
debootstrap --variant=minbase trixie "$root" >"$packages/debootstrap.log" 2>&1 ||
  { tail -n 20 "$packages/debootstrap.log" >&2; exit 1; }
cp "$packages"/dpu-heartbeat-*_"$arch".deb "$root/"
cp /etc/resolv.conf "$root/etc/"
# shellcheck disable=SC2016 # for the shell in there
check "it can be installed" in_root sh -c 'DEBIAN_FRONTEND=noninteractive
  apt-get install -q -y --no-install-recommends /dpu-heartbeat-*.deb >/apt.log 2>&1 || { tail -n 20 /apt.log; exit 1; }'
for program in dpu-agent dpu-host-agent dpu-dra-driver dpuctl kubectl-dpu; do
  check "$program runs without a remark" in_root sh -c "[ \"\$($program --version 2>&1 | wc -l)\" = 1 ]"
done
check "dpu-gate runs" in_root env CNI_COMMAND=VERSION /usr/libexec/cni/dpu-gate
echo "$checks passed, 0 failed"
