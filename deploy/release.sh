#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# release.sh [--once] [ARCHITECTURE]...: what is published of the last commit, into build/release-VERSION:
#
#   dpu-heartbeat-VERSION.tar.gz                    the sources
#   dpu-heartbeat-{host,dpu}_VERSION_ARCH.deb       as ./dev package makes them
#   dpu-heartbeat-{host,dpu}-VERSION-ARCH.tar       the images, OCI archives, as ./dev image makes them
#   dpu-heartbeat-{host,dpu}-VERSION.tgz            the charts
#   dpu-heartbeat-VERSION.spdx.json                 what each of them consists of (deploy/sbom.py)
#   SHA256SUMS                                      of all of these
#
# It is built in clones, so that nothing of the working tree gets in: twice, in two folders, and the bytes
# are compared (--once leaves that out, and says so). Then it is installed: the packages in clean roots,
# the images' programs in their own root, the charts are rendered. Default architectures: as of
# deploy/package.sh. Needs root, Debian 12 and its package buildah. Nothing is published: see
# CONTRIBUTING.md.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
here=$PWD

die() {
  printf 'release.sh: %s\n' "$*" >&2
  exit 1
}
say() { printf '%s\n' "$*"; }

git() { command git -c safe.directory=\* "$@"; }

version_of() { sed -nE 's/^project\(dpu-heartbeat VERSION ([0-9.]+).*/\1/p' CMakeLists.txt; }

# What a reader would stumble over: a version that differs, a release without its changes.
check_tree() {
  local chart
  [[ -z $(git status --porcelain) ]] || die "there are changes that are not committed; a release is a commit"
  for chart in deploy/charts/*/Chart.yaml; do
    if ! grep -qx "version: $version" "$chart" || ! grep -qx "appVersion: \"$version\"" "$chart"; then
      die "$chart is not of version $version, which CMakeLists.txt has"
    fi
  done
  grep -q "^## $version" CHANGELOG.md || die "CHANGELOG.md has no section '## $version'"
}

# The same archive wherever and whenever it is made.
pack() { # pack ARCHIVE FOLDER NAME
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=u-w,u+rw \
    --dereference --format=gnu -C "$2" -c "$3" | gzip -9n >"$1"
}

# An OCI archive has the time of its making in it; its files are named by their content.
repack_image() { # repack_image ARCHIVE
  local tree
  tree=$(mktemp -d -p "$work")
  tar -C "$tree" -xf "$1"
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go=u-w,u+rw \
    --format=gnu -C "$tree" -cf "$1" .
  rm -rf "$tree"
}

# make_all NUMBER OUT [ARCHITECTURE]...: builds a clone, and collects.
make_all() {
  local tree=$work/tree$1 out=$2 chart archive
  shift 2
  git clone -q --no-hardlinks "$here" "$tree"
  mkdir -p "$out"
  (
    cd "$tree"
    export CCACHE_DISABLE=1
    deploy/package.sh "$@"
    deploy/image.sh
  ) >"$tree.log" 2>&1 || { tail -n 40 "$tree.log" >&2; die "the build failed"; }
  cp "$tree"/build/packages/*.deb "$tree"/build/images/*.tar "$out/"
  for archive in "$out"/*.tar; do repack_image "$archive"; done
  for chart in host dpu; do
    pack "$out/dpu-heartbeat-$chart-$version.tgz" "$tree/deploy/charts" "dpu-heartbeat-$chart"
  done
  git -C "$tree" archive --format=tar --prefix="dpu-heartbeat-$version/" HEAD | gzip -9n >"$out/dpu-heartbeat-$version.tar.gz"
  /usr/bin/python3 deploy/sbom.py "$version" "$commit" "$SOURCE_DATE_EPOCH" "$out" >"$work/sbom"
  mv "$work/sbom" "$out/dpu-heartbeat-$version.spdx.json"
  (cd "$out" && sha256sum -- *) >"$work/sums" # in the order of LC_ALL
  mv "$work/sums" "$out/SHA256SUMS"
}

# Starts each program of an image in a root that holds nothing else; one of another architecture by
# qemu's emulator, which deploy/package.sh has installed for the unit tests.
run_image() { # run_image ARCHIVE PROGRAM...
  local tree layer program arch emulator runner=()
  arch=${1##*-} arch=${arch%.tar}
  tree=$(mktemp -d -p "$work")
  mkdir "$tree/oci" "$tree/root"
  tar -C "$tree/oci" -xf "$1"
  while read -r layer; do
    tar -C "$tree/root" -xzf "$tree/oci/blobs/sha256/$layer"
  done < <(jq -r '.manifests[0].digest' "$tree/oci/index.json" | sed 's/.*://' |
    xargs -I{} jq -r '.layers[].digest' "$tree/oci/blobs/sha256/{}" | sed 's/.*://')
  if [[ $arch != "$own" ]]; then
    emulator=$(command -v "qemu-${arch/arm64/aarch64}-static" || true)
    if [[ -z $emulator ]]; then
      say "NOT CHECKED: $(basename "$1"): its programs were not started: there is no emulator for $arch"
      rm -rf "$tree"
      return 0
    fi
    cp "$emulator" "$tree/root/emulator"
    runner=(/emulator)
  fi
  for program in "${@:2}"; do
    chroot "$tree/root" "${runner[@]}" "$program" --version | grep -qF " $version (commit $commit)" ||
      die "$(basename "$1"): $program is not $version of $commit"
    checks=$((checks + 1))
  done
  rm -rf "$tree"
}

# Rendered from the archive, a chart says what it says from the sources.
render_charts() {
  local helm=${HELM:-$(command -v helm || true)} chart from
  if [[ -z $helm ]]; then
    say "NOT CHECKED: the charts were not rendered: there is no helm (HELM=FILE names one)"
    return 0
  fi
  for chart in host dpu; do
    for from in "$out/dpu-heartbeat-$chart-$version.tgz" "deploy/charts/dpu-heartbeat-$chart"; do
      "$helm" template dpu "$from" --kube-version 1.34.0 >"$work/$(basename "$from").yaml" 2>"$work/helm.log" ||
        { cat "$work/helm.log" >&2; die "$from cannot be rendered"; } # it remarks on each link otherwise
    done
    cmp "$work/dpu-heartbeat-$chart-$version.tgz.yaml" "$work/dpu-heartbeat-$chart.yaml" ||
      die "the chart of the $chart is another one in its archive"
    checks=$((checks + 1))
  done
}

verify() {
  local own image
  own=$(dpkg --print-architecture)
  checks=0
  (cd "$out" && sha256sum --quiet -c SHA256SUMS) || die "the checksums are wrong"
  for image in "$out/dpu-heartbeat-host-$version-"*.tar; do
    run_image "$image" /usr/sbin/dpu-host-agent /usr/sbin/dpu-dra-driver /usr/bin/dpuctl
  done
  for image in "$out/dpu-heartbeat-dpu-$version-"*.tar; do run_image "$image" /usr/sbin/dpu-agent; done
  render_charts
  if [[ -e $out/dpu-heartbeat-host_${version}_$own.deb ]]; then
    say "the packages, in clean roots:"
    rm -f "$work/tree1/build/packages/"*.deb # what is published is what is installed
    cp "$out"/*.deb "$work/tree1/build/packages/"
    (cd "$work/tree1" && tests/package/run.sh) || die "the packages are not as they should be"
  else
    say "NOT CHECKED: the packages were not installed: none is of this machine's architecture, $own"
  fi
  say "$checks checks of images and charts passed"
}

is_once=
[[ ${1:-} != --once ]] || { is_once=yes; shift; }
((EUID == 0)) || die "run as root: packages are installed in roots of their own"
for tool in buildah jq debootstrap; do
  command -v "$tool" >/dev/null || die "needs Debian's package $tool"
done
version=$(version_of)
check_tree
commit=$(git rev-parse --short=12 HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
out=$here/build/release-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"

say "building $version of $commit"
make_all 1 "$out" "$@"
if [[ -z $is_once ]]; then
  say "building it once more, elsewhere"
  make_all 2 "$work/again" "$@"
  diff -r "$out" "$work/again" || die "two builds of one commit differ"
  say "both have the same bytes"
else
  say "NOT CHECKED: whether a second build has the same bytes (--once)"
fi
verify
say "$out:"
(cd "$out" && stat -c '%s %n' -- *) | awk '{ printf "  %9d  %s\n", $1, $2 }'
