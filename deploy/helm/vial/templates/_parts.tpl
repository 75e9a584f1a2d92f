{{/* What more than one object has. */}}
{{- define "vial.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "vial.nodes" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: node
{{- end }}
{{- define "vial.proxy" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: proxy
{{- end }}
{{- define "vial.settings" -}}
serve:
  listen: [tcp:0.0.0.0:8443]
  tls_cert: /etc/vial/tls/tls.crt
  tls_key: /etc/vial/tls/tls.key
  tokens: /etc/vial/tokens/tokens.yaml
  hosts: {{ concat (list .Values.proxy.checkHost) .Values.hosts | toJson }}
  agent: tcp:0.0.0.0:{{ .Values.proxy.agentPort }}
  watch: {{ .Values.rotation }}s
  notice: {{ .Values.drain.notice }}s
  drain_sessions: {{ .Values.drain.sessions }}s
  drain: {{ .Values.drain.runs }}s
  keeper: "off" # the pod's user has nothing that a keeper could keep from the front
{{- if .Values.serve }}
{{- toYaml .Values.serve | nindent 2 }}
{{- end }}
{{- if .Values.settings }}
{{- toYaml .Values.settings | nindent 0 }}
{{- end }}
{{- end }}
{{- define "vial.server" -}}
{{ .Values.proxy.server | default (printf "%s-%%d.%s-nodes.%s.svc.%s:8443" .Release.Name .Release.Name .Release.Namespace .Values.clusterDomain) }}
{{- end }}
{{- define "vial.tokensSecret" -}}
{{ .Values.tokens.secret | default (printf "%s-tokens" .Release.Name) }}
{{- end }}
{{/* What a container of a node may do, and have. */}}
{{- define "vial.rights" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- if eq .Values.rights.procMount "Unmasked" }}
procMount: Unmasked
{{- end }}
seccompProfile:
  type: {{ .Values.rights.seccomp }}
  {{- if eq .Values.rights.seccomp "Localhost" }}
  localhostProfile: {{ .Values.rights.seccompProfile }}
  {{- end }}
{{- end }}
{{- define "vial.amounts" -}}
cpu: {{ .Values.resources.cpu | quote }}
memory: {{ .Values.resources.memory | quote }}
ephemeral-storage: {{ .Values.resources.disk | quote }}
{{- end }}
