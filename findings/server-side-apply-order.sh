#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Server-side apply moves what its applier does not own. In a Deployment that one manager has applied with the init
# containers migrate and warm, in this order, another manager applies an environment variable to both, and names
# them warm, migrate: there is no conflict and nothing to force, since it shares no field but the names, and yet
# from then on warm runs first. The managed fields hold no order. The first manager's next apply, unchanged, turns
# it back, again without a conflict: each apply of either is a new revision of the Pod template, and a rollout. A
# manager that names one of the two, or a third one, moves nothing. Seen with the field manager of
# k8s.io/apimachinery 0.37.2, which API servers run. It hurts whoever adds a variable or a limit to containers by a
# tool that sorts them by name, and whose other tool applies the whole every few minutes. A MutatingAdmissionPolicy
# with an ApplyConfiguration merges alike.
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
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
)
MOD
cat >main.go <<'GO'
package main

import (
	"encoding/json"
	"fmt"

	apps "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	kind := apps.SchemeGroupVersion.WithKind("Deployment")
	fields, err := managedfields.NewDefaultFieldManager(applyconfigurations.NewTypeConverter(scheme.Scheme), scheme.Scheme, scheme.Scheme, scheme.Scheme,
		kind, kind.GroupVersion(), "", nil)
	if err != nil {
		panic(err)
	}
	var live runtime.Object = &apps.Deployment{}
	live.GetObjectKind().SetGroupVersionKind(kind)
	apply := func(manager, containers string) {
		m := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"template":{"spec":{"initContainers":[`+
			containers+`]}}}}`), &m.Object); err != nil {
			panic(err)
		}
		var err error
		if live, err = fields.Apply(live, m, manager, false); err != nil {
			panic(err)
		}
		fmt.Printf("%s applied:", manager)
		for _, c := range live.(*apps.Deployment).Spec.Template.Spec.InitContainers {
			fmt.Print(" ", c.Name)
		}
		fmt.Println()
	}
	whole := `{"name":"migrate","image":"m"},{"name":"warm","image":"w"}`
	env := `"env":[{"name":"LEVEL","value":"debug"}]`
	apply("owner", whole)
	apply("other", `{"name":"warm",`+env+`}`)
	apply("other", `{"name":"warm",`+env+`},{"name":"log","image":"l"}`)
	apply("other", `{"name":"warm",`+env+`},{"name":"migrate",`+env+`}`)
	apply("owner", whole)
	apply("other", `{"name":"warm",`+env+`},{"name":"migrate",`+env+`}`)
	apply("owner", whole)
}
GO
go mod tidy >/dev/null 2>&1 && go build -o finding . || exit 2
seen=$(./finding)
printf '%s\n' "$seen"
[[ $seen == 'owner applied: migrate warm
other applied: migrate warm
other applied: migrate warm log
other applied: warm migrate
owner applied: migrate warm
other applied: warm migrate
owner applied: migrate warm' ]] || exit 1
