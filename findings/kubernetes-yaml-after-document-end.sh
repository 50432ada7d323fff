#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What stands after the line "..." of a YAML file is lost without a word where Kubernetes reads it: by the decoder
# of k8s.io/apimachinery 0.36.3, which kubectl reads manifests with, and by kustomize's kyaml 0.21.0. In YAML 1.2 the
# line ends a document and another may follow as it is (section 9.1.3); js-yaml 4.1.0 reads both. go.yaml.in/yaml
# 3.0.4, on the stream, says that it misses a "---". The two of Kubernetes divide the text at "---" alone, and take
# of each part its first document, so that even text that is no YAML passes. Only a "---" after the "..." brings
# back what follows. Who joins manifests that each end with "...", as some writers end them, has but the first.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the packages cannot be had. Needs Go and the Go module
# proxy, Node.js and the npm registry.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
cd "$dir"
cat >go.mod <<'MOD'
module finding

go 1.26.0

require (
	go.yaml.in/yaml/v3 v3.0.4
	k8s.io/apimachinery v0.36.3
	sigs.k8s.io/kustomize/kyaml v0.21.0
)
MOD
cat >main.go <<'GO'
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/kyaml/kio"
)

// all returns the kinds of the objects that decode brings, and why it ended, unless at the end.
func all(decode func(any) error) string {
	var kinds []string
	for {
		var object struct {
			Kind string `json:"kind"`
		}
		err := decode(&object)
		if errors.Is(err, io.EOF) {
			return strings.Join(kinds, " ")
		}
		if err != nil {
			return strings.Join(append(kinds, err.Error()), " ")
		}
		kinds = append(kinds, object.Kind)
	}
}

func kyaml(text string) string {
	nodes, err := (&kio.ByteReader{Reader: strings.NewReader(text)}).Read()
	if err != nil {
		return err.Error()
	}
	var kinds []string
	for _, node := range nodes {
		kinds = append(kinds, node.GetKind())
	}
	return strings.Join(kinds, " ")
}

func main() {
	for _, name := range os.Args[1:] {
		bytes, err := os.ReadFile(name)
		if err != nil {
			panic(err)
		}
		text := string(bytes)
		fmt.Printf("%s, apimachinery: %s\n", name, all(yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096).Decode))
		fmt.Printf("%s, kyaml: %s\n", name, kyaml(text))
		fmt.Printf("%s, yaml/v3: %s\n", name, all(yaml3.NewDecoder(strings.NewReader(text)).Decode))
	}
}
GO
go mod tidy >/dev/null 2>&1 && go build -o finding . || exit 2
npm install --silent --no-audit --no-fund js-yaml@4.1.0 >/dev/null 2>&1 || exit 2

printf '%s\n' 'kind: First' '...' 'kind: Second' '...' >dots
printf '%s\n' 'kind: First' '...' ']] no YAML: [' >rest
printf '%s\n' 'kind: First' '...' '---' 'kind: Second' >both
seen=$(./finding dots rest both
  node -e 'const text = require("fs").readFileSync("dots", "utf8");
    console.log("dots, js-yaml: " + require("js-yaml").loadAll(text).map(object => object.kind).join(" "))')
printf '%s\n' "$seen"
[[ $seen == 'dots, apimachinery: First
dots, kyaml: First
dots, yaml/v3: First yaml: line '*' did not find expected <document start>
rest, apimachinery: First
rest, kyaml: First
rest, yaml/v3: First yaml: '*'
both, apimachinery: First Second
both, kyaml: First Second
both, yaml/v3: First Second
dots, js-yaml: First Second' ]]
