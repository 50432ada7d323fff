#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# node-init NAME ADDRESS: a node's pid 1, in namespaces and cgroups of its own. Mounts what a node must
# not share with the machine, makes its network, says so by /run/node-ready, and then reaps orphans until
# it is killed. All that is written to those mounts is in memory and ends with it.
set -euo pipefail
name=$1 address=$2
cgroups=$(stat -f -c %T /sys/fs/cgroup)          # cgroup2fs, or where v1's hierarchies are mounted
hierarchies=$(cut -d: -f2 /proc/self/cgroup)     # of v1, by their controllers; v2's has no name
hostname "$name"

# Private first: no mount of the node may reach the machine. Then shared anew, among the node's own: the
# kubelet propagates mounts to pods.
mount --make-rprivate /
mount --make-rshared /
mount -t proc proc /proc
mount -t sysfs sysfs /sys
for dir in /run /var/lib /var/log; do mount -t tmpfs -o mode=755 tmpfs "$dir"; done
if [[ $cgroups == cgroup2fs ]]; then
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  # Below the node's root there are controllers only while no process is in it.
  mkdir /sys/fs/cgroup/init
  echo 1 >/sys/fs/cgroup/init/cgroup.procs
  read -ra controllers </sys/fs/cgroup/cgroup.controllers
  for controller in "${controllers[@]}"; do
    # One that cannot be had here is missed by the kubelet, loudly.
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control || true
  done
else
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  for controllers in $hierarchies; do
    mkdir "/sys/fs/cgroup/${controllers#name=}"
    mount -t cgroup -o "$controllers" cgroup "/sys/fs/cgroup/${controllers#name=}"
  done
fi

# The machine's own CNI configuration and programs are none of the node's.
for dir in /etc /opt; do
  mkdir -p "/run/.node$dir/upper" "/run/.node$dir/work"
  mount -t overlay -o "lowerdir=$dir,upperdir=/run/.node$dir/upper,workdir=/run/.node$dir/work" overlay "$dir"
  mkdir -p "$dir/cni"
  mount -t tmpfs -o mode=755 tmpfs "$dir/cni"
done

ip link set lo up
ip link add node0 type bridge
ip address add "$address/24" dev node0
ip link set node0 up
ip route add default dev node0 scope link src "$address" # the kubelet looks for its interface

touch /run/node-ready
while sleep infinity; do :; done
