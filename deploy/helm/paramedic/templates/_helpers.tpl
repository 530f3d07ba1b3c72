{{- define "paramedic.selector" -}}
app.kubernetes.io/name: paramedic
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "paramedic.labels" -}}
{{ include "paramedic.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* The names of everything: the release's name, which should hold "paramedic". */ -}}
{{- define "paramedic.name" -}}
{{- if contains "paramedic" .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-paramedic" .Release.Name }}{{ end }}
{{- end }}

{{- define "paramedic.executor" -}}
{{ include "paramedic.name" . }}-first-aid
{{- end }}

{{- define "paramedic.writes" -}}
{{- if has .Values.mode (list "approve" "auto") }}yes{{ end }}
{{- end }}

{{- /* paramedic.yaml: the user's config, and the keys that follow from other values. */ -}}
{{- define "paramedic.config" -}}
{{- $config := deepCopy .Values.config }}
{{- range $key := list "listen" "state" }}
{{- if hasKey $config $key }}
{{- fail (printf "the chart sets config.%s itself: remove it, and use the value state or service" $key) }}
{{- end }}
{{- end }}
{{- if hasKey ($config.remediate | default dict) "mode" }}
{{- fail "set the value mode instead of config.remediate.mode: it also decides which verbs are granted" }}
{{- end }}
{{- $nats := .Values.state.nats }}
{{- $state := dict "retain" .Values.state.retain }}
{{- if $nats.url }}
{{- $external := dict "url" $nats.url "replicas" (int $nats.replicas) }}
{{- $files := dict "credentials_file" $nats.credentialsKey "ca_file" $nats.tls.caKey "cert_file" $nats.tls.certKey
  "key_file" $nats.tls.privateKey }}
{{- range $key, $name := $files }}
{{- if $name }}
{{- $_ := set $external $key (printf "/etc/paramedic/secrets/%s" $name) }}
{{- end }}
{{- end }}
{{- $_ := set $state "nats" $external }}
{{- else }}
{{- $_ := set $state "dir" "/var/lib/paramedic/state" }}
{{- end }}
{{- if include "paramedic.writes" . }}
{{- range $config.clusters }}
{{- if and (hasKey . "kubernetes") (not (.kubernetes | default dict).kubeconfig) }}
{{- $account := printf "%s/%s" $.Release.Namespace (include "paramedic.executor" $) }}
{{- $_ := set . "kubernetes" (merge (.kubernetes | default dict) (dict "first_aid_account" $account)) }}
{{- end }}
{{- end }}
{{- end }}
{{- $own := dict "listen" "0.0.0.0:8080" "state" $state "remediate" (dict "mode" .Values.mode) }}
{{- toYaml (mergeOverwrite $config $own) }}
{{- end }}

{{- define "paramedic.scheme" -}}
{{- if (.Values.config.tls | default dict).cert_file }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{- define "paramedic.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}
