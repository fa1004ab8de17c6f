{{- /* Names and labels. Every name starts with the release's, so that two releases do not meet. */ -}}
{{- define "wg-keepalive.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- /* "true" or nothing. Values that an older release was given, and no new ones, have no "page" at all. */ -}}
{{- define "wg-keepalive.hasPage" -}}
{{- if (.Values.page).enabled }}true{{ end }}
{{- end }}

{{- define "wg-keepalive.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Takes a dict of "root" and "component". */ -}}
{{- define "wg-keepalive.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "wg-keepalive.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* Nothing that any part of this needs is more than this: the profile "restricted" of Pod Security. */ -}}
{{- define "wg-keepalive.containerSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: { drop: [ALL] }
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "wg-keepalive.env" -}}
{{- with .Values.env }}
env:
  {{- range $name, $value := . }}
  - { name: {{ $name }}, value: {{ $value | quote }} }
  {{- end }}
{{- end }}
{{- end }}

{{- /* Flags by which a part finds NATS, and the files that they name. */ -}}
{{- define "wg-keepalive.natsFlags" -}}
- --nats-url={{ .Values.nats.url }}
{{- if .Values.nats.credentials.enabled }}
- --nats-credentials=/etc/wg-keepalive/nats/seed
{{- end }}
{{- if .Values.nats.tls.caSecret }}
- --nats-ca=/etc/wg-keepalive/nats-ca/ca.crt
{{- end }}
{{- if .Values.nats.tls.clientSecret }}
- --nats-cert=/etc/wg-keepalive/nats-client/tls.crt
- --nats-key=/etc/wg-keepalive/nats-client/tls.key
{{- end }}
{{- end }}

{{- define "wg-keepalive.natsMounts" -}}
{{- if .Values.nats.credentials.enabled }}
- { name: nats, mountPath: /etc/wg-keepalive/nats, readOnly: true }
{{- end }}
{{- if .Values.nats.tls.caSecret }}
- { name: nats-ca, mountPath: /etc/wg-keepalive/nats-ca, readOnly: true }
{{- end }}
{{- if .Values.nats.tls.clientSecret }}
- { name: nats-client, mountPath: /etc/wg-keepalive/nats-client, readOnly: true }
{{- end }}
{{- end }}

{{- /*
Takes a dict of "root" and "user", the name of the NATS user, and "optional": whether the pod starts without the Secrets.
*/ -}}
{{- define "wg-keepalive.natsVolumes" -}}
{{- $optional := .optional | default false }}
{{- with .root.Values.nats }}
{{- if .credentials.enabled }}
- { name: nats, secret: { secretName: {{ printf "%s%s" .credentials.secretPrefix $.user | quote }}, defaultMode: 288, optional: {{ $optional }} } }
{{- end }}
{{- if .tls.caSecret }}
- { name: nats-ca, secret: { secretName: {{ .tls.caSecret | quote }}, defaultMode: 288, optional: {{ $optional }} } }
{{- end }}
{{- if .tls.clientSecret }}
- { name: nats-client, secret: { secretName: {{ .tls.clientSecret | quote }}, defaultMode: 288, optional: {{ $optional }} } }
{{- end }}
{{- end }}
{{- end }}

{{- /* What containers of ours have in common. Takes a dict of "root" and "resources". */ -}}
{{- define "wg-keepalive.containerCommon" -}}
image: {{ include "wg-keepalive.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- include "wg-keepalive.env" .root }}
resources: {{ toJson .resources }}
securityContext:
  {{- include "wg-keepalive.containerSecurity" .root | nindent 2 }}
{{- end }}

{{- /* Takes a dict of "root", "component", "replicas", none where somebody else sets them, "strategy", "partOf" and "pod". */ -}}
{{- define "wg-keepalive.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "wg-keepalive.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "wg-keepalive.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  {{- if hasKey . "replicas" }}
  replicas: {{ .replicas }}
  {{- end }}
  {{- with .strategy }}
  strategy: {{ toJson . }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "wg-keepalive.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "wg-keepalive.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
        {{- with .partOf }}
        app.kubernetes.io/part-of: {{ . }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "wg-keepalive.fullname" .root }}-{{ .component }}
      {{- include "wg-keepalive.podCommon" .root | nindent 6 }}
      {{- .pod | nindent 6 }}
{{- end }}

{{- /* What pods of ours have in common. Files of Secrets belong to the group that the containers run as. */ -}}
{{- define "wg-keepalive.podCommon" -}}
automountServiceAccountToken: true
enableServiceLinks: false
securityContext: { fsGroup: 65532 }
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- /* A Go duration in milliseconds. */ -}}
{{- define "wg-keepalive.milliseconds" -}}
{{- $total := 0.0 }}
{{- range regexFindAll "[0-9]+(\\.[0-9]+)?(ms|s|m|h)" . -1 }}
{{- $unit := regexFind "[a-z]+" . }}
{{- $total = addf $total (mulf (trimSuffix $unit .) (get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit)) }}
{{- end }}
{{- $total }}
{{- end }}
