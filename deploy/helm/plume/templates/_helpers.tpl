{{- define "plume.labels" -}}
app.kubernetes.io/name: plume
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "plume.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "plume.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}
