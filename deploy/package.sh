#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# package.sh [ARCHITECTURE]...: Debian packages into build/packages. Default: this machine's own
# architecture and, on amd64, arm64, cross-built with Debian's multiarch; the unit tests of a
# foreign architecture run under qemu-user.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

own=$(dpkg --print-architecture)
out=$PWD/build/packages
mkdir -p "$out"

# The same bytes from the same commit: what has a date has the commit's.
if [[ -z ${SOURCE_DATE_EPOCH:-} ]]; then
  SOURCE_DATE_EPOCH=$(git -c safe.directory="$PWD" log -1 --format=%ct 2>/dev/null || date +%s)
fi
export SOURCE_DATE_EPOCH

say() { printf '%s\n' "$*"; }

install_missing() {
  local package missing=()
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed* ]] ||
      missing+=("$package")
  done
  ((${#missing[@]} > 0)) || return 0
  say "installing ${missing[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
    >>"$out/apt.log" 2>&1 || { tail -n 20 "$out/apt.log" >&2; exit 1; }
}

configure_build_pack() { # configure_build_pack BUILD_DIRECTORY CMAKE_ARGUMENT...
  local dir=$1
  shift
  cmake -S . -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr "$@" &&
    cmake --build "$dir" &&
    (cd "$dir" && cpack -B "$out")
}

# libjansson began to version its symbols with 2.14, so that every function asks for that. Of those
# that are new there we use none: 2.13, which Ubuntu 22.04 has, will do, with a remark of the loader.
# tests/package fails where we do.
loosen_dependency() { # loosen_dependency PACKAGE
  local tree
  tree=$(mktemp -d)
  dpkg-deb -R "$1" "$tree"
  chmod 0755 "$tree" # it is the package's /
  if grep -rqE 'json_object_(getn|setn|deln|iter_key_len)' "$tree/usr"; then
    say "$(basename "$1"): uses what libjansson 2.14 added"
  else
    sed -i -E 's/(libjansson4 \(>= )2\.14\)/\12.13)/' "$tree/DEBIAN/control"
    dpkg-deb --root-owner-group -Zgzip -b "$tree" "$1" >/dev/null
  fi
  rm -rf "$tree"
}

make_packages() { # make_packages BUILD_DIRECTORY CMAKE_ARGUMENT...
  local log=$1.log
  mkdir -p "$1"
  if ! configure_build_pack "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    exit 1
  fi
}

package_native() {
  install_missing help2man dpkg-dev file
  make_packages "$PWD/build/package-$own" -DBUILD_TESTING=OFF
}

package_cross() { # package_cross ARCHITECTURE
  local arch=$1 triple dir=$PWD/build/package-$1
  case $arch in
    arm64) triple=aarch64-linux-gnu ;;
    *) say "package.sh: no cross-build for '$arch'" >&2; exit 2 ;;
  esac
  if ! dpkg --print-foreign-architectures | grep -qx "$arch"; then
    dpkg --add-architecture "$arch"
    apt-get update -q >>"$out/apt.log" 2>&1
  fi
  install_missing "crossbuild-essential-$arch" dpkg-dev file qemu-user-static protobuf-c-compiler \
    "libcurl4-openssl-dev:$arch" "libev-dev:$arch" "libjansson-dev:$arch" "libyaml-dev:$arch" \
    "libnghttp2-dev:$arch" "libprotobuf-c-dev:$arch" "libcmocka-dev:$arch" \
    "libmicrohttpd-dev:$arch" "libssl-dev:$arch"
  cat >"$out/$arch.cmake" <<TOOLCHAIN
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${triple%%-*})
set(CMAKE_C_COMPILER $triple-gcc)
set(CMAKE_NM $triple-nm)
set(CMAKE_LIBRARY_ARCHITECTURE $triple)
set(CMAKE_FIND_ROOT_PATH /usr/$triple /usr/lib/$triple /usr)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${triple%%-*}-static)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/$triple/pkgconfig:/usr/share/pkgconfig)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE $arch)
TOOLCHAIN
  make_packages "$dir" -DBUILD_TESTING=ON "-DCMAKE_TOOLCHAIN_FILE=$out/$arch.cmake" \
    "-DCPACK_DEBIAN_PACKAGE_ARCHITECTURE=$arch"
  say "unit tests of $arch under qemu-user"
  # Left out: docs.* compares generated text, which the native build has done; unit.probe waits for
  # children by pidfd, unit.delegate looks at /proc/self/exe, unit.metrics at the memory in
  # /proc/self/stat, unit.node spawns what is no program: qemu-user shows all four otherwise.
  # It also delivers a signal twice now and then: hence the second try.
  ctest --test-dir "$dir" -L unit -E '^(docs\.|unit\.(probe|delegate|metrics|node)$)' --repeat until-pass:2 -j "$(nproc)" --timeout 300 --output-on-failure >"$dir.test.log" 2>&1 ||
    { tail -n 60 "$dir.test.log" >&2; exit 1; }
  grep -E 'tests passed' "$dir.test.log"
}

((EUID == 0)) || { say "package.sh: run as root, it installs Debian packages" >&2; exit 1; }
architectures=("$@")
if ((${#architectures[@]} == 0)); then
  architectures=("$own")
  [[ $own != amd64 ]] || architectures+=(arm64)
fi
rm -f "$out"/*.deb
for arch in "${architectures[@]}"; do
  if [[ $arch == "$own" ]]; then
    package_native
  else
    package_cross "$arch"
  fi
done
for deb in "$out"/*.deb; do
  loosen_dependency "$deb"
  say "$(basename "$deb") $(stat -c %s "$deb") bytes"
done
