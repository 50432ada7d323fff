{{- define "heartbeat.name" -}}
{{- if hasPrefix "dpu-agent-" .Release.Name }}
{{- fail (printf "release '%s': the hosts' account gets its name, and accounts dpu-agent-... are those of DPUs; choose another" .Release.Name) }}
{{- end }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "heartbeat.selector" -}}
app.kubernetes.io/name: dpu-host-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "heartbeat.labels" -}}
{{ include "heartbeat.selector" . }}
app.kubernetes.io/component: network
app.kubernetes.io/part-of: dpu-heartbeat
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* A manifest of the project's, in the release's namespace and by its names: list FILE ROOT. */}}
{{- define "heartbeat.manifest" -}}
{{- $root := index . 1 }}
{{- $name := include "heartbeat.name" $root }}
{{- $text := $root.Files.Get (printf "files/%s.yaml" (index . 0)) }}
{{- $text = regexReplaceAll "(?m)^ *#.*\n" $text "" }}
{{- $text = $text | replace "ovn-kubernetes" $root.Release.Namespace }}
{{- $text = regexReplaceAll "name: dpu-host-agent" $text (printf "name: %s" $name) }}
{{- $text = regexReplaceAll ":dpu-host-agent'" $text (printf ":%s'" $name) }}
{{- $text = regexReplaceAll "(?m)name: dpu-agent$" $text (printf "name: %s-dpu" $name) }}
{{- $text = regexReplaceAll "([nN]ame): dpu-heartbeat-" $text (printf "${1}: %s-" $name) }}
{{- regexReplaceAll "(?m)name: dpu-heartbeat$" $text (printf "name: %s" $name) }}
{{- end }}
