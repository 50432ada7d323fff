#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# image.sh [ARCHITECTURE]...: container images from scratch into build/images, as OCI archives:
# dpu-heartbeat-host (dpu-host-agent, dpu-gate, dpu-dra-driver, dpuctl) and dpu-heartbeat-dpu (dpu-agent). Each
# holds its programs, the libraries that they load, and the CA certificates; no shell, no package.
# The programs are those of the Debian packages in build/packages, which ./dev package makes.
# Default: every architecture that has packages there.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

packages=$PWD/build/packages
out=$PWD/build/images
version=$(sed -nE 's/^project\(dpu-heartbeat VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
work=$(mktemp -d)
# A store of our own: nothing stays on the machine but the archives.
store=(--storage-driver vfs --root "$work/store" --runroot "$work/run")
trap 'rm -rf "$work"' EXIT

die() {
  printf 'image.sh: %s\n' "$*" >&2
  exit 1
}

size_of() { find "$1" -type f -printf '%s\n' | awk '{ s += $1 } END { print s }'; }
mebibytes() { awk -v b="$1" 'BEGIN { printf "%.1f MiB", b / 1048576 }'; }

# The names of the libraries that an ELF file asks for, its loader included.
needed() {
  readelf -d "$1" 2>/dev/null | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p'
  readelf -l "$1" 2>/dev/null | sed -nE 's/.*interpreter: .*\/(.*)\]/\1/p'
}

# copy_libraries TREE TRIPLE: whatever the programs in TREE load, and what that loads.
copy_libraries() {
  local tree=$1 triple=$2 queue=() name found
  mapfile -t queue < <(find "$tree" -type f -perm -u+x -print0 |
    while IFS= read -r -d '' file; do needed "$file"; done | sort -u)
  mkdir -p "$tree/usr/lib/$triple"
  while ((${#queue[@]} > 0)); do
    name=${queue[0]}
    queue=("${queue[@]:1}")
    [[ ! -e $tree/usr/lib/$triple/$name ]] || continue
    found=''
    for dir in "/usr/lib/$triple" "/lib/$triple" "/usr/${triple}/lib"; do
      if [[ -e $dir/$name ]]; then
        found=$dir/$name
        break
      fi
    done
    [[ -n $found ]] || die "$name, which a program needs, is not installed for $triple"
    install -m 0755 "$(readlink -f "$found")" "$tree/usr/lib/$triple/$name"
    mapfile -t -O "${#queue[@]}" queue < <(needed "$found" | sort -u)
  done
}

# fill TREE DEB TRIPLE: what goes into the image.
fill() {
  local tree=$1 deb=$2 triple=$3 loader
  dpkg-deb --extract "$deb" "$work/deb"
  mkdir -p "$tree/usr" "$tree/etc/ssl/certs"
  for dir in sbin bin libexec; do
    [[ ! -d $work/deb/usr/$dir ]] || cp -a "$work/deb/usr/$dir" "$tree/usr/$dir"
  done
  rm -rf "$work/deb"
  own=$(size_of "$tree/usr")
  copy_libraries "$tree" "$triple"
  ln -s usr/lib "$tree/lib"
  case $triple in
    x86_64-linux-gnu)
      loader=ld-linux-x86-64.so.2
      mkdir "$tree/lib64"
      ln -s "../usr/lib/$triple/$loader" "$tree/lib64/$loader"
      ;;
    *)
      loader=ld-linux-${triple%%-*}.so.1
      ln -s "$triple/$loader" "$tree/usr/lib/$loader"
      ;;
  esac
  cp /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/"
  printf 'hosts: files dns\n' >"$tree/etc/nsswitch.conf"
}

make_image() { # make_image SIDE ARCHITECTURE ENTRYPOINT
  local side=$1 arch=$2 entrypoint=$3 name=dpu-heartbeat-$1 triple deb tree container own
  triple=$(dpkg-architecture -a"$arch" -qDEB_HOST_MULTIARCH 2>/dev/null)
  deb=$(find "$packages" -maxdepth 1 -name "${name}_${version}_$arch.deb")
  [[ -n $deb ]] || die "there is no $name of $arch in build/packages: run ./dev package $arch"
  tree=$work/tree-$side-$arch
  fill "$tree" "$deb" "$triple"
  container=$(buildah "${store[@]}" from --arch "$arch" scratch)
  buildah "${store[@]}" copy --quiet "$container" "$tree" / >/dev/null
  buildah "${store[@]}" config --arch "$arch" --entrypoint "[\"$entrypoint\"]" --cmd '' \
    --env PATH=/usr/sbin:/usr/bin --label "org.opencontainers.image.title=$name" \
    --label "org.opencontainers.image.version=$version" \
    --label org.opencontainers.image.licenses=Apache-2.0 "$container"
  buildah "${store[@]}" commit --quiet --timestamp "${SOURCE_DATE_EPOCH:-0}" --format oci \
    "$container" "localhost/$name:$version-$arch" >/dev/null
  buildah "${store[@]}" push --quiet "localhost/$name:$version-$arch" \
    "oci-archive:$out/$name-$version-$arch.tar:$version" >/dev/null
  printf '%s %s: %s, of that our programs %s; packed %s\n' "$name" "$arch" \
    "$(mebibytes "$(size_of "$tree")")" "$(mebibytes "$own")" \
    "$(mebibytes "$(stat -c %s "$out/$name-$version-$arch.tar")")"
}

command -v buildah >/dev/null || die "needs Debian's package buildah"
mkdir -p "$out"
architectures=("$@")
if ((${#architectures[@]} == 0)); then
  mapfile -t architectures < <(find "$packages" -maxdepth 1 -name "dpu-heartbeat-host_${version}_*.deb" -printf '%f\n' 2>/dev/null |
    sed -E 's/.*_(.*)\.deb/\1/' | sort)
fi
((${#architectures[@]} > 0)) || die "there are no packages in build/packages: run ./dev package"
for arch in "${architectures[@]}"; do
  make_image host "$arch" /usr/sbin/dpu-host-agent
  make_image dpu "$arch" /usr/sbin/dpu-agent
done
