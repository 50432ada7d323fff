#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# image.sh ARCHITECTURE PACKAGE...: a Debian 12 machine with these packages, and none of ours: made
# once, kept by what it is made of. Prints its folder, with disk.img, vmlinuz and initrd.img. Needs root.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/dpu-heartbeat/machines
arch=$1
shift
packages=(systemd-sysv "linux-image-cloud-$arch" dbus udev iproute2 "$@")

# Commands come in by a virtio port, one a line in base64, and go out as status and output: this
# works without a network, too.
write_shell() {
  cat >"$1/usr/local/sbin/machine-shell" <<'SHELL'
#!/bin/bash
until [[ -e /dev/virtio-ports/machine ]]; do sleep 0.2; done
exec <>/dev/virtio-ports/machine >&0
echo "boot $(</proc/sys/kernel/random/boot_id)"
while read -r line; do
  output=$(base64 -d <<<"$line" | HOME=/root timeout 1h bash 2>&1 | base64 -w0; exit "${PIPESTATUS[1]}")
  echo "$? $output"
done
SHELL
  chmod 755 "$1/usr/local/sbin/machine-shell"
  cat >"$1/etc/systemd/system/machine-shell.service" <<'UNIT'
[Service]
ExecStart=/usr/local/sbin/machine-shell
Restart=always
[Install]
WantedBy=multi-user.target
UNIT
}

configure() {
  local root=$1
  write_shell "$root"
  printf '/dev/vda / ext4 defaults 0 1\n/dev/vdb /srv ext4 ro 0 0\n' >"$root/etc/fstab"
  mkdir -p "$root/etc/systemd/system.conf.d" # it may be slow
  printf '[Manager]\nDefaultTimeoutStartSec=15min\nDefaultDeviceTimeoutSec=15min\n' \
    >"$root/etc/systemd/system.conf.d/slow.conf"
  printf '127.0.0.1 localhost\n10.0.2.2 kubernetes\n' >"$root/etc/hosts" # the loopback of who runs it
  printf '[Match]\nType=ether\n[Network]\nDHCP=ipv4\n' >"$root/etc/systemd/network/any.network"
  echo 'deb [trusted=yes] file:/srv/packages ./' >"$root/etc/apt/sources.list"
  echo 'Acquire::Languages "none";' >"$root/etc/apt/apt.conf.d/languages"
  mkdir -p "$root/var/log/journal" # it outlives a boot
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  chroot "$root" systemctl enable systemd-networkd machine-shell
  chroot "$root" systemctl mask apt-daily.timer apt-daily-upgrade.timer
}

# By qemu-user, as on a machine where systemd has registered that.
let_arm64_run() {
  local binfmt=/proc/sys/fs/binfmt_misc
  [[ $arch == arm64 && $(uname -m) != aarch64 ]] || return 0
  [[ -e $binfmt/register ]] || mount -t binfmt_misc none "$binfmt"
  [[ -e $binfmt/qemu-aarch64 ]] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$binfmt/register"
}

build() {
  local root=$1.root
  trap 'rm -rf "$root" "$1"' ERR
  rm -rf "$root" "$1"
  mkdir -p "$1"
  let_arm64_run
  # In mounts of its own: what removes the root never finds any of them in it.
  unshare --mount mmdebstrap --mode=root --architectures="$arch" --variant=minbase \
    --include="$(IFS=,; echo "${packages[*]}")" bookworm "$root"
  configure "$root"
  cp "$root"/boot/vmlinuz-* "$1/vmlinuz"
  cp "$root"/boot/initrd.img-* "$1/initrd.img"
  truncate -s 3G "$1/disk.img"
  mke2fs -q -t ext4 -d "$root" "$1/disk.img"
  rm -rf "$root"
}

key=$({ cat "$(readlink -f "$0")"; printf '%s\n' "${packages[@]}"; } | sha256sum | cut -c1-16)
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [[ ! -e $cache/$key/disk.img ]]; then
  echo "machines: building the image of $arch, once; minutes on a small machine" >&2
  build "$cache/$key.new" >"$cache/$key.log" 2>&1 || { tail -n 20 "$cache/$key.log" >&2; exit 1; }
  mv "$cache/$key.new" "$cache/$key"
fi
touch "$cache/$key" # used today: what was not for two weeks goes
find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
echo "$cache/$key"
