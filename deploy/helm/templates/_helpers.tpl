{{- define "ravenbot.selector" -}}
app.kubernetes.io/name: ravenbot
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ravenbot.labels" -}}
{{ include "ravenbot.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
