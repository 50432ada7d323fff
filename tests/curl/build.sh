#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh VERSION...: builds libcurl of these versions, each once, and prints the folder of each: with
# lib/libcurl.so.4, the headers and the pkg-config file. The sources are those that the Rust package curl-sys
# carries along, as a cargo of 1.70 or newer fetches them. Symbols have Debian's version, so that programs
# that were linked to Debian's libcurl run with it, too (LD_LIBRARY_PATH).
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/dpu-heartbeat/curl
declare -A crates=([7.81.0]=0.4.52 [8.5.0]=0.4.70 [8.14.1]=0.4.82 [8.20.0]=0.4.89
  [8.21.0]=0.4.90 [8.22.0]=0.4.91)

# The folder with the sources of one version, fetched below the given folder.
fetch() { # fetch VERSION FOLDER
  mkdir -p "$2/src"
  : >"$2/src/lib.rs"
  printf '[package]\nname = "sources"\nversion = "0.0.0"\n[dependencies]\ncurl-sys = { version = "=%s", default-features = false }\n' \
    "${crates[$1]}" >"$2/Cargo.toml"
  (cd "$2" && CARGO_HOME=$2/cargo cargo fetch -q --target x86_64-unknown-linux-gnu) >&2
  echo "$2"/cargo/registry/src/*/curl-sys-*+curl-"$1"/curl
}

# HTTP alone, by OpenSSL and nghttp2, with the resolver's threads and the authorities of Debian's.
options() {
  printf -- '-D%s\n' CMAKE_BUILD_TYPE=Release CMAKE_INSTALL_LIBDIR=lib BUILD_CURL_EXE=OFF BUILD_SHARED_LIBS=ON \
    BUILD_TESTING=OFF CURL_USE_OPENSSL=ON CURL_USE_LIBSSH2=OFF USE_NGHTTP2=ON ENABLE_THREADED_RESOLVER=ON HTTP_ONLY=ON \
    CURL_USE_LIBPSL=OFF USE_LIBIDN2=OFF CURL_ZLIB=OFF CURL_BROTLI=OFF CURL_ZSTD=OFF ENABLE_MANUAL=OFF \
    ENABLE_CURL_MANUAL=OFF BUILD_LIBCURL_DOCS=OFF BUILD_MISC_DOCS=OFF BUILD_EXAMPLES=OFF CURL_DISABLE_LDAP=ON CURL_DISABLE_LDAPS=ON \
    CURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt CURL_CA_PATH=/etc/ssl/certs
}

build() { # build VERSION PREFIX WORK_FOLDER
  local version=$1 prefix=$2 work=$3 sources arguments
  sources=$(fetch "$version" "$work") || return 1
  mkdir -p "$sources/docs" # newer crates leave out what CMake asks for
  touch "$sources/docs/CMakeLists.txt"
  printf 'CURL_OPENSSL_4 { global: curl_*; local: *; };\n' >"$work/map"
  mapfile -t arguments < <(options)
  cmake -S "$sources" -B "$work/build" -G Ninja -Wno-dev "${arguments[@]}" -DCMAKE_INSTALL_PREFIX="$prefix" \
    "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--version-script=$work/map -Wl,-soname,libcurl.so.4" &&
    cmake --build "$work/build" && cmake --install "$work/build" || return 1
  # Which names there are depends on the version: the one that programs look for, and the linker's.
  [[ -e $prefix/lib/libcurl.so.4 ]] || ln -s libcurl.so "$prefix/lib/libcurl.so.4"
}

command -v cargo >/dev/null || { echo "build.sh: there is no cargo; Debian 12's package is cargo-web" >&2; exit 1; }
mkdir -p "$cache"
for version in "$@"; do
  [[ -n ${crates[$version]:-} ]] || { echo "build.sh: it knows no sources of libcurl $version" >&2; exit 2; }
  prefix=$cache/$version
  exec 9>"$cache/$version.lock"
  flock 9 # two runs at once build once
  if [[ ! -e $prefix/lib/.complete ]]; then
    rm -rf "$prefix"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    build "$version" "$prefix" "$work" >"$cache/$version.log" 2>&1 || { tail -n 30 "$cache/$version.log" >&2; exit 1; }
    rm -rf "$work"
    touch "$prefix/lib/.complete"
  fi
  echo "$prefix"
done
