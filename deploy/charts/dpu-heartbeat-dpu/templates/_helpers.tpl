{{- define "heartbeat.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "heartbeat.selector" -}}
app.kubernetes.io/name: dpu-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "heartbeat.labels" -}}
{{ include "heartbeat.selector" . }}
app.kubernetes.io/component: network
app.kubernetes.io/part-of: dpu-heartbeat
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
