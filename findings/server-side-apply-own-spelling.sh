#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Two managers that server-side-apply the same manifest, byte for byte, share its fields, says the documentation.
# They do not where the manifest spells a value otherwise than the API server writes it: the second manager gets a
# conflict with the first. The field manager of k8s.io/apimachinery 0.37.2, which API servers run, compares what is
# applied, as text, with what was stored, and that is "1" for a cpu of 1000m, 1Gi for 1024Mi, 500m for 0.5, and "1"
# for the number 1; a time in Z for one in +00:00, and nothing for an empty list. "1", 500m, 1Gi and a time in Z are
# shared. If each manager forces, the field goes back and forth between the two for ever, with a write each time, and
# its value never changes. So it is with two controllers, two releases of a chart, or one that changes its manager's
# name. Python's client writes all times in +00:00.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the modules cannot be had. Needs Go and the Go module
# proxy.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
cd "$dir"
cat >go.mod <<'MOD'
module finding

go 1.26.0

require (
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
)
MOD
cat >main.go <<'GO'
package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	pod   = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"a",%s}]}}`
	lease = `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a"},"spec":{%s}}`
)

func manifest(text string) *unstructured.Unstructured {
	m := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &m.Object); err != nil {
		panic(err)
	}
	return m
}

func owners(object runtime.Object) (string, string) {
	object = object.DeepCopyObject()
	a, _ := meta.Accessor(object)
	managers := ""
	for _, f := range a.GetManagedFields() {
		managers += fmt.Sprint(" ", f.Manager, " ", string(f.FieldsV1.Raw))
	}
	a.SetManagedFields(nil)
	value, _ := json.Marshal(object)
	return string(value), managers
}

func main() {
	for _, part := range []string{`"limits":{"cpu":"1"}`, `"limits":{"cpu":"500m"}`, `"limits":{"memory":"1Gi"}`, `"renewTime":"2026-01-01T00:00:00.000000Z"`,
		`"limits":{"cpu":"1000m"}`, `"limits":{"cpu":"0.5"}`, `"limits":{"cpu":1}`, `"limits":{"memory":"1024Mi"}`, `"command":[]`,
		`"renewTime":"2026-01-01T00:00:00.000000+00:00"`} {
		text := fmt.Sprintf(pod, part)
		if strings.HasPrefix(part, `"limits"`) {
			text = fmt.Sprintf(pod, `"resources":{`+part+`}`)
		} else if strings.HasPrefix(part, `"renewTime"`) {
			text = fmt.Sprintf(lease, part)
		}
		kind := manifest(text).GroupVersionKind()
		fields, err := managedfields.NewDefaultFieldManager(applyconfigurations.NewTypeConverter(scheme.Scheme), scheme.Scheme, scheme.Scheme,
			scheme.Scheme, kind, kind.GroupVersion(), "", nil)
		if err != nil {
			panic(err)
		}
		live, err := scheme.Scheme.New(kind)
		if err != nil {
			panic(err)
		}
		live.GetObjectKind().SetGroupVersionKind(kind)
		live, err = fields.Apply(live, manifest(text), "one", false)
		if err != nil {
			panic(err)
		}
		_, err = fields.Apply(live, manifest(text), "two", false)
		if err != nil && !errors.IsConflict(err) {
			panic(err)
		}
		fmt.Printf("%s: %v\n", part, err)
		if err == nil {
			continue
		}
		first, one := owners(live)
		moves := 0
		for i := range 10 {
			if live, err = fields.Apply(live, manifest(text), []string{"two", "one"}[i%2], true); err != nil {
				panic(err)
			}
			value, managers := owners(live)
			if value != first {
				panic(value)
			}
			if managers != one {
				moves++
			}
			one = managers
		}
		fmt.Printf("  forced 10 times in turn: the value never changed, its owner %d times\n", moves)
	}
}
GO
go mod tidy >/dev/null 2>&1 && go build -o finding . || exit 2
seen=$(./finding)
printf '%s\n' "$seen"
[[ $(sed -n 1,4p <<<"$seen" | grep -c ': <nil>$') == 4 ]] || exit 1
[[ $(grep -c 'conflict with "one"' <<<"$seen") == 6 ]] || exit 1
[[ $(grep -c 'its owner 10 times' <<<"$seen") == 6 ]] || exit 1
