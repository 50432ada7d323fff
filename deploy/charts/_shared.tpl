{{- /*
What both charts define, as one file: charts with one parent share their definitions, so two different ones of one
name would take each other's place.
*/ -}}

{{/*
The name of a chart's objects. Of a release of its own: the release's, as it always was. Below a parent: the release's
and the chart's, or its alias, since there the release may have several of them. One that would be too long, or is no
name of Kubernetes, is shortened and gets a digest of the whole.
*/}}
{{- define "heartbeat.name" -}}
{{- $below := include "heartbeat.below" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride }}
{{- else if not $below }}
{{- regexReplaceAll "[-.]+$" (trunc 40 .Release.Name) "" }}
{{- else }}
{{- $whole := printf "%s-%s" .Release.Name $below }}
{{- $tail := $below | lower | replace "_" "-" | trunc 40 | trimAll "-" }}
{{- if or (gt (len $whole) 63) (not (hasSuffix (printf "-%s" $tail) $whole)) }}
{{- $tail = printf "%s-%s" (sha256sum $whole | trunc 8) $tail }}
{{- end }}
{{- printf "%s-%s" (regexReplaceAll "[-.]+$" (trunc (int (sub 62 (len $tail))) .Release.Name) "") $tail }}
{{- end }}
{{- end }}

{{/* The path of a chart below its parent, as PARENT-CHART; empty for a release of its own. */}}
{{- define "heartbeat.below" -}}
{{- rest (splitList "/charts/" .Template.BasePath) | join "-" | trimSuffix "/templates" }}
{{- end }}

{{/* What the DaemonSet finds its Pods by, which cannot change: list PROGRAM ROOT. */}}
{{- define "heartbeat.selector" -}}
{{- $root := index . 1 }}
app.kubernetes.io/name: {{ index . 0 }}
app.kubernetes.io/instance: {{ ternary (include "heartbeat.name" $root) $root.Release.Name (ne (include "heartbeat.below" $root) "") }}
{{- end }}

{{- define "heartbeat.labels" -}}
{{- $root := index . 1 }}
{{- include "heartbeat.selector" . }}
app.kubernetes.io/component: network
app.kubernetes.io/part-of: dpu-heartbeat
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- end }}

{{/* A value as the text of an environment variable; a number as JSON, since toString makes 1e+06 of a million. */}}
{{- define "heartbeat.text" -}}
{{- if kindIs "float64" . }}{{ toJson . }}{{ else if not (kindIs "invalid" .) }}{{ toString . }}{{ end }}
{{- end }}

{{/*
A container's environment as JSON: list OWN OPTIONS. OWN is what the manifest has, OPTIONS are values by name. Of one
name the option counts, in its place, because others refer to it; an empty option takes it away.
*/}}
{{- define "heartbeat.environment" -}}
{{- $options := index . 1 }}
{{- $env := list }}
{{- $own := dict }}
{{- range index . 0 }}
{{- $_ := set $own .name true }}
{{- if not (hasKey $options .name) }}
{{- $env = append $env . }}
{{- else if ne (include "heartbeat.text" (get $options .name)) "" }}
{{- $env = append $env (dict "name" .name "value" (include "heartbeat.text" (get $options .name))) }}
{{- end }}
{{- end }}
{{- range $name, $value := $options }}
{{- $text := include "heartbeat.text" $value }}
{{- if and (ne $text "") (not (hasKey $own $name)) }}
{{- $env = append $env (dict "name" $name "value" $text) }}
{{- end }}
{{- end }}
{{- toJson $env }}
{{- end }}

{{/* Of the names that an option has, the one that counts, as agents look for it: list OPTIONS NAME. Empty: none. */}}
{{- define "heartbeat.which" -}}
{{- $options := index . 0 }}
{{- $which := "" }}
{{- range list "DPU_HEARTBEAT_DPU_NODE_LEASE_" "DPU_NODE_LEASE_" "OVNKUBE_NODE_LEASE_" "OVNKUBE_NODE_DPU_LEASE_" }}
{{- $name := print . (index $ 1) }}
{{- if and (not $which) (ne (include "heartbeat.text" (get $options $name)) "") }}
{{- $which = $name }}
{{- end }}
{{- end }}
{{- $which }}
{{- end }}

{{/* A timer in milliseconds: list WHO TEXT. */}}
{{- define "heartbeat.milliseconds" -}}
{{- $text := index . 1 }}
{{- if not (regexMatch "^[0-9]+([.][0-9]{1,9})?(ms|s|m|h)?$" $text) }}
{{- fail (printf "%s: '%s' is not a duration; allowed: seconds like 10 or 0.5, or 500ms, 10s, 1m, 2h" (index . 0) $text) }}
{{- end }}
{{- $unit := regexFind "[a-z]+$" $text | default "s" }}
{{- mulf (regexFind "^[0-9.]+" $text) (get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit) | toJson }}
{{- end }}

{{/*
Refuses timers that the agents refuse at their start, which the schema cannot compare: list OPTIONS VALUES DEFAULTS.
DEFAULTS says whether the agent's defaults hold for a timer that is not set; otherwise a file may set it.
*/}}
{{- define "heartbeat.checkTimers" -}}
{{- $options := index . 0 }}
{{- $given := index . 1 }}
{{- $known := index . 2 }}
{{- $timers := dict }}
{{- range $key, $timer := dict "RENEW_INTERVAL" (list "renewInterval" "10") "DURATION" (list "leaseDuration" "40") }}
{{- $which := include "heartbeat.which" (list $options $key) }}
{{- $text := include "heartbeat.text" (get $options $which) }}
{{- $who := printf "env.%s" $which }}
{{- if not $which }}
{{- $who = printf "the default of dpuHealthCheck.%s" (index $timer 0) }}
{{- $text = ternary (index $timer 1) "" $known }}
{{- else if not (hasKey ($given.env | default dict) $which) }}
{{- $who = printf "dpuHealthCheck.%s" (index $timer 0) }}
{{- end }}
{{- if ne $text "" }}
{{- $ms := include "heartbeat.milliseconds" (list $who $text) | float64 }}
{{- if gt $ms 600000.0 }}
{{- fail (printf "%s: %s is too long; allowed: 0 to 600s" $who $text) }}
{{- end }}
{{- $_ := set $timers $key (dict "who" $who "text" $text "ms" $ms) }}
{{- end }}
{{- end }}
{{- $interval := get $timers "RENEW_INTERVAL" }}
{{- $duration := get $timers "DURATION" }}
{{- /* Either timer at 0 turns the check off; the other may then be anything. */}}
{{- $off := or (and $interval (eq $interval.ms 0.0)) (and $duration (eq $duration.ms 0.0)) }}
{{- if and $interval (not $off) (lt $interval.ms 100.0) }}
{{- fail (printf "%s: %s is too short; allowed: 0 (off), or at least 100ms" $interval.who $interval.text) }}
{{- end }}
{{- if and $duration (not $off) (ne (mod (int64 (mulf $duration.ms 1000000)) 1000000000) 0) }}
{{- fail (printf "%s: %s is not allowed; allowed: whole seconds" $duration.who $duration.text) }}
{{- end }}
{{- if and $interval $duration (not $off) (le $duration.ms $interval.ms) }}
{{- fail (printf "%s: %s is not allowed: it must be longer than the renew interval, which is %s (%s)"
  $duration.who $duration.text $interval.text $interval.who) }}
{{- end }}
{{- end }}

{{/* Lets the kubelet ask for an agent's pages where they are: list CONTAINER ADDRESS. All addresses include the loopback's. */}}
{{- define "heartbeat.askPages" -}}
{{- $agent := index . 0 }}
{{- $address := include "heartbeat.text" (index . 1) }}
{{- if regexMatch ":[0-9]+$" $address }}
{{- $host := regexReplaceAll ":[0-9]+$" $address "" | trimPrefix "[" | trimSuffix "]" }}
{{- range list $agent.livenessProbe $agent.readinessProbe }}
{{- $_ := set .httpGet "port" (regexFind "[0-9]+$" $address | int) }}
{{- $_ := set .httpGet "host" (has $host (list "" "0.0.0.0" "::" "localhost") | ternary "127.0.0.1" $host) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The names, the labels, and what the values say of all Pods of a chart, for one of its DaemonSets: list DAEMONSET PROGRAM NAME ROOT. */}}
{{- define "heartbeat.dress" -}}
{{- $ds := index . 0 }}
{{- $name := index . 2 }}
{{- $root := index . 3 }}
{{- $who := list (index . 1) $root }}
{{- $pod := $ds.spec.template }}
{{- $labels := include "heartbeat.labels" $who | fromYaml }}
{{- with $root.Values.serviceDaemonSet }}
{{- if .nodeSelector }}
{{- $_ := unset $pod.spec "nodeSelector" }}
{{- $_ := set $pod.spec "affinity" (dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" .nodeSelector)) }}
{{- end }}
{{- $_ := set $pod.metadata "labels" (merge (deepCopy $labels) .labels) }}
{{- with merge ($pod.metadata.annotations | default dict) .annotations }}
{{- $_ := set $pod.metadata "annotations" . }}
{{- end }}
{{- end }}
{{- with $root.Values.imagePullSecrets }}
{{- $_ := set $pod.spec "imagePullSecrets" . }}
{{- end }}
{{- $_ := set $ds "metadata" (dict "name" $name "namespace" $root.Release.Namespace "labels" $labels) }}
{{- $_ := set $ds.spec "selector" (dict "matchLabels" (include "heartbeat.selector" $who | fromYaml)) }}
{{- end }}
