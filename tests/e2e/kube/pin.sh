#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# pin.sh 1.N.M [MOD_FILE]: rewrites go.mod (or MOD_FILE) for that release.
# k8s.io/kubernetes requires its staging modules at v0.0.0 and finds them in its
# own tree, which a module download leaves out: each must be replaced by its
# release of the same number.
set -euo pipefail
cd "$(dirname "$0")"
version=${1:?usage: pin.sh 1.N.M [go-1.N.mod]}
file=${2:-go.mod}
upstream=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
{
  printf 'module dpu-heartbeat.test/kube\n\n'
  sed -n 's/^go .*/&\n/p' "$upstream"
  printf 'require k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
  sed -n "s|^\t\(k8s.io/[a-z-]*\) => ./staging/.*|\t\1 => \1 v0.${version#1.}|p" "$upstream"
  printf ')\n'
} >"$file"
go mod tidy -e -modfile="$file"
go list -modfile="$file" -m k8s.io/kubernetes
