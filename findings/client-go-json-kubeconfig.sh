#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# k8s.io/client-go 0.36.3 (with sigs.k8s.io/yaml 1.6.0) reads a kubeconfig that is JSON as YAML 1.1, and so refuses
# JSON that has the escape "\/" (RFC 8259, section 7): "yaml: found unknown escape character". The same text
# with "/" is taken. Some JSON writers (PHP's json_encode by default) write each slash so.
# For the same reason it refuses a namespace that is called n, written without quotes: a boolean of YAML 1.1.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if client-go cannot be had. Needs Go and the Go module proxy.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
cd "$dir"
cat >go.mod <<'MOD'
module finding

go 1.26.0

require k8s.io/client-go v0.36.3
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	form := `{"contexts": [{"name": "a", "context": {"cluster": "c"%s}}], "clusters": [{"name": "c", "cluster": {"server": %s}}]}`
	for _, text := range []string{
		fmt.Sprintf(form, "", `"https://h"`),
		fmt.Sprintf(form, "", `"https:\/\/h"`),
		fmt.Sprintf(form, `, "namespace": n`, `"https://h"`),
	} {
		_, err := clientcmd.Load([]byte(text))
		fmt.Println(err)
	}
}
GO
go mod tidy >/dev/null 2>&1 && go build -o finding . || exit 2
seen=$(./finding)
printf '%s\n' "$seen"
[[ $(sed -n 1p <<<"$seen") == '<nil>' ]] || exit 1
[[ $(sed -n 2p <<<"$seen") == *'found unknown escape character'* ]] || exit 1
[[ $(sed -n 3p <<<"$seen") == *'cannot unmarshal bool'* ]] || exit 1
