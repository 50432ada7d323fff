#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# kustomize (api 0.21.2; by its source also 0.21.3, of kustomize 5.8.3) renames a ValidatingAdmissionPolicy with
# namePrefix or nameSuffix, and its binding's policyName with it. Of a MutatingAdmissionPolicy it renames both objects,
# and leaves the binding's policyName as it was: the binding then names no policy. The references of dynamic resource
# allocation stay as well: deviceClassName, and a Pod's resourceClaimTemplateName and resourceClaimName, while its
# ConfigMap and PriorityClass are followed. What worked as a base stops to work in an overlay.
# It hurts whoever installs such a policy or claims twice in a cluster, by overlays with a prefix; "configurations"
# with a nameReference of one's own mends it, and the last case shows that.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if kustomize cannot be had. Needs Go and the Go module
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
	sigs.k8s.io/kustomize/api v0.21.2
	sigs.k8s.io/kustomize/kyaml v0.21.2
)
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), os.Args[1])
	if err != nil {
		panic(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		panic(err)
	}
	fmt.Print(string(text))
}
GO
go mod tidy >/dev/null 2>&1 && go build -o build . || exit 2

mkdir base plain mended
cat >base/kustomization.yaml <<'YAML'
resources: [all.yaml]
YAML
cat >base/all.yaml <<'YAML'
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: checks}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: checks}
spec: {policyName: checks, validationActions: [Deny]}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: mutates}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mutates}
spec: {policyName: mutates}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: class}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: template}
spec: {spec: {devices: {requests: [{name: one, exactly: {deviceClassName: class}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim}
spec: {devices: {requests: [{name: one, exactly: {deviceClassName: class}}]}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: priority}, value: 1}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: config}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  priorityClassName: priority
  containers: [{name: a, image: a, envFrom: [{configMapRef: {name: config}}]}]
  resourceClaims:
    - {name: one, resourceClaimTemplateName: template}
    - {name: two, resourceClaimName: claim}
YAML
cat >plain/kustomization.yaml <<'YAML'
namePrefix: east-
resources: [../base]
YAML
cat >mended/kustomization.yaml <<'YAML'
namePrefix: east-
resources: [../base]
configurations: [references.yaml]
YAML
cat >mended/references.yaml <<'YAML'
nameReference:
  - kind: MutatingAdmissionPolicy
    fieldSpecs: [{kind: MutatingAdmissionPolicyBinding, path: spec/policyName}]
  - kind: DeviceClass
    fieldSpecs:
      - {kind: ResourceClaimTemplate, path: spec/spec/devices/requests/exactly/deviceClassName}
      - {kind: ResourceClaim, path: spec/devices/requests/exactly/deviceClassName}
  - kind: ResourceClaimTemplate
    fieldSpecs: [{kind: Pod, path: spec/resourceClaims/resourceClaimTemplateName}]
  - kind: ResourceClaim
    fieldSpecs: [{kind: Pod, path: spec/resourceClaims/resourceClaimName}]
YAML
references() { # references OVERLAY
  ./build "$1" >"$1.yaml"
  sed -n 's/^ *\(- \)\{0,1\}\(policyName\|deviceClassName\|resourceClaim[A-Za-z]*Name\|priorityClassName\): /\2 /p' "$1.yaml" | LC_ALL=C sort
  awk '/configMapRef:/ {getline; print "configMapRef", $2}' "$1.yaml"
  grep -cE '^  name: east-' "$1.yaml"
}
plain=$(references plain)
mended=$(references mended)
printf 'With a prefix:\n%s\nWith nameReferences:\n%s\n' "$plain" "$mended"
[[ $plain == 'deviceClassName class
deviceClassName class
policyName east-checks
policyName mutates
priorityClassName east-priority
resourceClaimName claim
resourceClaimTemplateName template
configMapRef east-config
10' ]] || exit 1
[[ $mended == 'deviceClassName east-class
deviceClassName east-class
policyName east-checks
policyName east-mutates
priorityClassName east-priority
resourceClaimName east-claim
resourceClaimTemplateName east-template
configMapRef east-config
10' ]] || exit 1
