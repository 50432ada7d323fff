#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The type check of a ValidatingAdmissionPolicy, whose warnings stand in its status, has other types than its
# evaluation. k8s.io/apiserver 0.37.2 checks with those of the OpenAPI document, where a Secret's data are bytes and
# a creationTimestamp is a timestamp; it evaluates the object as JSON, where both are text. So the check is wrong
# both ways:
#
# - It finds nothing amiss with data.mode == b'off', which is false for a Secret whose mode is "off" (and != is
#   true), with a size() of 8 for the token "secret" (that of its Base64 text), and with creationTimestamp ==
#   timestamp(...), which is false for the very same time. There is no error, as CEL compares any two types.
# - It warns of what does work: data.mode == 'b2Zm', startsWith(), creationTimestamp as text.
#
# With < instead of ==, evaluation fails ("no such overload"), which rejects all requests by failurePolicy. Only
# timestamp(object.metadata.creationTimestamp) is right for both. In the rules of a CustomResourceDefinition the
# types are those of the schema, so that an expression that was tested there, and passes the check here, says
# something else here.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if the modules cannot be had. Needs Go and the Go module
# proxy; builds parts of the API server, which takes minutes.
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
	k8s.io/apiserver v0.37.2
	k8s.io/client-go v0.37.2
)
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"strings"

	registration "k8s.io/api/admissionregistration/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
)

// The OpenAPI documents of an API server, as client-go has them for tests.
type published struct{ discovery.DiscoveryInterface }

func (published) OpenAPIV3() openapi.Client { return openapitest.NewEmbeddedFileClient() }

func main() {
	kind, resource := core.SchemeGroupVersion.WithKind("Secret"), core.SchemeGroupVersion.WithResource("secrets")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(kind, meta.RESTScopeNamespace)
	checker := validating.TypeChecker{SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: published{}}, RestMapper: mapper}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		panic(err)
	}
	secret := &core.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", CreationTimestamp: metav1.Unix(1767225600, 0)},
		Data:       map[string][]byte{"mode": []byte("off"), "token": []byte("secret")}}
	attributes := admission.NewAttributesRecord(secret, nil, kind, "b", "a", resource, "", admission.Create, &metav1.CreateOptions{}, false, nil)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: admission.NewLazyObject(secret),
		VersionedOldObject: admission.NewLazyObject(nil)}
	request := cel.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(resource), metav1.GroupVersionKind(kind))
	rule := registration.NamedRuleWithOperations{RuleWithOperations: registration.RuleWithOperations{Operations: []registration.OperationType{registration.Create},
		Rule: registration.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}}}}

	for _, expression := range []string{
		`object.data.mode == b'off'`,
		`object.data.mode != b'off'`,
		`object.data.token.size() >= 8`,
		`object.metadata.creationTimestamp == timestamp('2026-01-01T00:00:00Z')`,
		`object.metadata.creationTimestamp < timestamp('2027-01-01T00:00:00Z')`,
		`object.data.mode == 'b2Zm'`,
		`object.data.mode.startsWith('b2')`,
		`object.metadata.creationTimestamp == '2026-01-01T00:00:00Z'`,
		`timestamp(object.metadata.creationTimestamp) < timestamp('2027-01-01T00:00:00Z')`,
	} {
		policy := &registration.ValidatingAdmissionPolicy{Spec: registration.ValidatingAdmissionPolicySpec{
			MatchConstraints: &registration.MatchResources{ResourceRules: []registration.NamedRuleWithOperations{rule}},
			Validations:      []registration.Validation{{Expression: expression}}}}
		check := "no warning"
		if warnings := checker.Check(policy); len(warnings) > 0 {
			_, check, _ = strings.Cut(strings.Split(warnings[0].Warning, "\n")[0], ": found ")
		}
		condition := compiler.CompileCondition([]cel.ExpressionAccessor{&validating.ValidationCondition{Expression: expression}},
			cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
		results, _, err := condition.ForInput(context.Background(), versioned, request, cel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
		if err != nil {
			panic(err)
		}
		result := fmt.Sprint(results[0].EvalResult)
		if results[0].Error != nil {
			_, result, _ = strings.Cut(results[0].Error.Error(), "resulted in ")
		}
		fmt.Printf("%s\n  check: %s\n  result: %s\n", expression, check, result)
	}
}
GO
go mod tidy >/dev/null 2>&1 && go build -o finding . || exit 2
seen=$(./finding)
printf '%s\n' "$seen"
[[ $(grep '^  ' <<<"$seen") == "  check: no warning
  result: false
  check: no warning
  result: true
  check: no warning
  result: true
  check: no warning
  result: false
  check: no warning
  result: error: no such overload
  check: no matching overload for '_==_' applied to '(bytes, string)'
  result: true
  check: no matching overload for 'startsWith' applied to 'bytes.(string)'
  result: true
  check: no matching overload for '_==_' applied to '(timestamp, string)'
  result: true
  check: no warning
  result: true" ]] || exit 1
