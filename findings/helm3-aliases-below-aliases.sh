#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Helm 3.22.0 renders a chart less than its parent asks for, without a word, where an alias stands below an alias:
#
#   top -> mid as east, mid as west;  mid -> leaf, and leaf as second
#
# has four leaves. Helm 3 makes three: west loses its second. Helm 4.3.2 makes all four. Without the alias in mid,
# both make one leaf for each mid. Exit status: 0 while that is so, 1 once it changed, 2 if Helm cannot be had.
# Needs Go and the Go module proxy; builds both Helms, which takes minutes.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

(
  cd "$dir"
  go mod init example.test/helms && go get -tool helm.sh/helm/v3/cmd/helm@v3.22.0 helm.sh/helm/v4/cmd/helm@v4.3.2 &&
    go build -trimpath -o bin3/helm helm.sh/helm/v3/cmd/helm && go build -trimpath -o bin4/helm helm.sh/helm/v4/cmd/helm
) || exit 2

chart() { # chart DIRECTORY NAME DEPENDENCIES
  mkdir -p "$dir/$1/templates" "$dir/$1/charts"
  printf '{apiVersion: v2, name: %s, version: 1.0.0, dependencies: [%s]}\n' "$2" "$3" >"$dir/$1/Chart.yaml"
}
make_charts() { # make_charts FURTHER_DEPENDENCIES_OF_MID
  rm -rf "$dir/top"
  chart top top '{name: mid, version: 1.0.0, alias: east}, {name: mid, version: 1.0.0, alias: west}'
  chart top/charts/mid mid "{name: leaf, version: 1.0.0}$1"
  chart top/charts/mid/charts/leaf leaf ''
  cat >"$dir/top/charts/mid/charts/leaf/templates/map.yaml" <<'TEMPLATE'
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Template.BasePath | trimSuffix "/templates" | replace "/charts/" "-" }}
TEMPLATE
}
names() { "$dir/$1/helm" template release "$dir/top" | sed -n 's/^  name: //p' | sort | paste -sd' '; }

expect() { # expect WHAT WANTED SEEN
  printf '%s: %s\n' "$1" "$3"
  [[ $2 == "$3" ]] || { echo "it was: $2"; exit 1; }
}
make_charts ', {name: leaf, version: 1.0.0, alias: second}'
expect "Helm 3, an alias below aliases" "top-east-leaf top-east-second top-west-leaf" "$(names bin3)"
expect "Helm 4, an alias below aliases" "top-east-leaf top-east-second top-west-leaf top-west-second" "$(names bin4)"
make_charts ''
expect "Helm 3, no alias below them" "top-east-leaf top-west-leaf" "$(names bin3)"
expect "Helm 4, no alias below them" "top-east-leaf top-west-leaf" "$(names bin4)"
