{{/*
A manifest of the project's, in the release's namespace and by its names: list FILE ROOT. The name goes in last, since
it may look like one that is replaced.
*/}}
{{- define "dpu-heartbeat-host.manifest" -}}
{{- $root := index . 1 }}
{{- $text := $root.Files.Get (printf "files/%s.yaml" (index . 0)) }}
{{- $text = regexReplaceAll "(?m)^ *#.*\n" $text "" }}
{{- $text = regexReplaceAll "name: dpu-host-agent" $text "name: <NAME>" }}
{{- $text = regexReplaceAll ":dpu-host-agent'" $text ":<NAME>'" }}
{{- $text = regexReplaceAll "name: dpu-dra-driver" $text "name: <NAME>-dra" }}
{{- $text = regexReplaceAll ":dpu-dra-driver'" $text ":<NAME>-dra'" }}
{{- $text = regexReplaceAll "(?m)name: dpu-agent$" $text "name: <NAME>-dpu" }}
{{- $text = regexReplaceAll "([nN]ame): dpu-heartbeat-" $text "${1}: <NAME>-" }}
{{- $text = regexReplaceAll "(?m)name: dpu-heartbeat$" $text "name: <NAME>" }}
{{- $text | replace "ovn-kubernetes" $root.Release.Namespace | replace "<NAME>" (include "heartbeat.name" $root) }}
{{- end }}

{{/* Refuses OPTIONS, by name, that the agent refuses at its start because they do not go together. */}}
{{- define "dpu-heartbeat-host.checkOptions" -}}
{{- $action := include "heartbeat.text" .DPU_HEARTBEAT_ON_LOST_NETWORK | default "report" }}
{{- $source := include "heartbeat.text" .DPU_HEARTBEAT_CNI_SOURCE }}
{{- $isSynced := has (include "heartbeat.text" .DPU_HEARTBEAT_CNI_SYNC) (list "true" "on") }}
{{- if and (ne $action "report") (eq (include "heartbeat.text" .DPU_HEARTBEAT_CRI_SOCKET) "") }}
{{- fail (printf "pods.onLostNetwork: %s needs pods.criSocket, or the agent cannot check Pods" $action) }}
{{- end }}
{{- if hasPrefix "ovn-dpu-$(NODE_NAME)--" (include "heartbeat.text" .DPU_HEARTBEAT_LEASE_NAME) }}
{{- if $isSynced }}
{{- fail "DPU_HEARTBEAT_CNI_SYNC: only the first DPU's agent keeps the conflist; for a further DPU (dpu.name, or its lease's name) turn it off and set gate: off" }}
{{- end }}
{{- if ne $action "report" }}
{{- fail "dpu.name: the agent of a further DPU cannot tell which Pods are its DPU's; set pods.onLostNetwork: report" }}
{{- end }}
{{- end }}
{{- if and $source (or (hasPrefix "." $source) (contains "/" $source) (le $source "00-dpu-gate.conflist")) }}
{{- fail (printf "cni.source: '%s' is not allowed; allowed: the name of a file in cni.confDir that sorts after 00-dpu-gate.conflist" $source) }}
{{- end }}
{{- end }}

{{/* Refuses a container that mounts two volumes at one path, as two values that name one directory make it. */}}
{{- define "dpu-heartbeat-host.checkMounts" -}}
{{- $mounts := dict }}
{{- range .volumeMounts }}
{{- $path := clean .mountPath }}
{{- if hasKey $mounts $path }}
{{- fail (printf "cni.confDir, cni.binDir, pods.criSocket: the volumes '%s' and '%s' would both be at %s" (get $mounts $path) .name $path) }}
{{- end }}
{{- $_ := set $mounts $path .name }}
{{- end }}
{{- end }}
