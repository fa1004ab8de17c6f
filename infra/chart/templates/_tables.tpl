{{- /*
What each function, and the page, does at the Kubernetes API: exactly this, proven with its own token against a real API server
(test/system/chart-rbac.test.ts).
*/ -}}
{{- define "wg-keepalive.rules" -}}
tunnel-status:
  - { apiGroups: [networking.liqo.io], resources: [connections], verbs: [get] }
  - { apiGroups: [networking.liqo.io], resources: [connections/status], verbs: [patch] }
connection-watch:
  - { apiGroups: [networking.liqo.io], resources: [connections, publickeies], verbs: [list, watch] }
connection-aggregate:
  - { apiGroups: [networking.liqo.io], resources: [connections], verbs: [get] }
  - { apiGroups: [networking.liqo.io], resources: [connections/status], verbs: [patch] }
connection-ensure:
  - { apiGroups: [networking.liqo.io], resources: [connections], verbs: [get, create, update] }
  - { apiGroups: [networking.liqo.io], resources: [connections/status], verbs: [patch] }
gateway-silence:
  - { apiGroups: [networking.liqo.io], resources: [connections], verbs: [get] }
{{- if include "wg-keepalive.hasPage" . }}
page:
  - { apiGroups: [networking.liqo.io], resources: [connections], verbs: [list, watch] }
{{- end }}
{{- end }}

{{- /* What waits for each function, for KEDA; as functions/<name>/manifest.ts has it (test/system/chart.test.ts). */ -}}
{{- define "wg-keepalive.consumers" -}}
tunnel-status:
{{- range until 16 }}
  - { stream: OBSERVATIONS, consumer: tunnel-status-{{ . }} }
{{- end }}
connection-watch: []
connection-aggregate:
  - { stream: CHANGES, consumer: connection-aggregate }
  - { stream: TIMERS, consumer: connection-aggregate-due }
connection-ensure:
  - { stream: GATEWAYS, consumer: connection-ensure-gateways }
  - { stream: CHANGES, consumer: connection-ensure-changes }
  - { stream: TIMERS, consumer: connection-ensure-due }
gateway-silence:
  - { stream: TIMERS, consumer: gateway-silence }
{{- end }}
