{{- /*
Rendered twice: what Helm leaves in braces, Liqo fills in for each GatewayServer and GatewayClient with .Name, .Namespace,
.ClusterID, .GatewayUID, .SecretName and .Spec. It goes from scalar to scalar, and makes a number of every text that is one:
so no value here may be the text of a number, and no list may grow.
*/ -}}
{{- define "wg-keepalive.numInterfaces" -}}
{{- with .Values.gatewayTemplates.numInterfaces }}{{ . }}{{ else }}
{{- "{{ if .Spec.Endpoint.Ports }}{{ len .Spec.Endpoint.Ports }}{{ else }}1{{ end }}" }}
{{- end }}
{{- end }}

{{- /* The ports as `1,2,3`; the flag for one port where there is no list. Takes "one" and "many", the names of the flags. */ -}}
{{- define "wg-keepalive.portsFlag" -}}
{{- printf "{{ if .Spec.Endpoint.Ports }}--%s={{ range $i, $port := .Spec.Endpoint.Ports }}{{ if $i }},{{ end }}{{ $port }}{{ end }}{{ else }}--%s={{ .Spec.Endpoint.Port }}{{ end }}" .many .one }}
{{- end }}

{{- define "wg-keepalive.gatewaySelector" -}}
networking.liqo.io/component: gateway
networking.liqo.io/gateway-name: {{ "{{ .Name }}" | quote }}
networking.liqo.io/gateway-namespace: {{ "{{ .Namespace }}" | quote }}
{{- end }}

{{- define "wg-keepalive.gatewayMetadata" -}}
name: {{ "{{ .Name }}" | quote }}
namespace: {{ "{{ .Namespace }}" | quote }}
labels:
  app.kubernetes.io/part-of: wg-keepalive
  {{- include "wg-keepalive.gatewaySelector" . | nindent 2 }}
{{- end }}

{{- /* Flags that Liqo's three containers share. */ -}}
{{- define "wg-keepalive.liqoFlags" -}}
- "--name={{ "{{ .Name }}" }}"
- "--namespace={{ "{{ .Namespace }}" }}"
- "--remote-cluster-id={{ "{{ .ClusterID }}" }}"
- "--gateway-uid={{ "{{ .GatewayUID }}" }}"
- --container-name={{ .container }}
- --metrics-address=:{{ .metricsPort }}
- --health-probe-bind-address=:{{ .healthPort }}
- --leader-election=false
{{- end }}

{{- define "wg-keepalive.liqoEnv" -}}
- { name: NODE_NAME, valueFrom: { fieldRef: { fieldPath: spec.nodeName } } }
- { name: POD_NAME, valueFrom: { fieldRef: { fieldPath: metadata.name } } }
{{- end }}

{{- /* Takes "root", "mode" and "wireguardFlags". Ports 8082 to 8087 are Liqo's, 8089 is ours. */ -}}
{{- define "wg-keepalive.gatewayDeployment" -}}
{{- $values := .root.Values.gatewayTemplates -}}
metadata:
  {{- include "wg-keepalive.gatewayMetadata" .root | nindent 2 }}
spec:
  replicas: 1
  strategy: { type: Recreate } # two pods would have the same tunnels
  selector:
    matchLabels:
      {{- include "wg-keepalive.gatewaySelector" .root | nindent 6 }}
  template:
    metadata:
      {{- include "wg-keepalive.gatewayMetadata" .root | nindent 6 }}
    spec:
      serviceAccountName: {{ "{{ .Name }}" | quote }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{ toJson . }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{ toJson . }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext: { fsGroup: 65532 }
      containers:
        - name: gateway
          image: {{ required "gatewayTemplates.liqoImages.gateway: the image of Liqo's gateway container, as in the template that came with Liqo" $values.liqoImages.gateway }}
          imagePullPolicy: {{ $values.pullPolicy }}
          args:
            {{- include "wg-keepalive.liqoFlags" (dict "container" "gateway" "metricsPort" 8082 "healthPort" 8083) | nindent 12 }}
            - --mode={{ .mode }}
            - --node-name=$(NODE_NAME)
            - --pod-name=$(POD_NAME)
            - --concurrent-containers-names=wireguard,geneve
            # Its own keepalive would hold port 12345 and write the same status.
            - --enable-connection-controller=false
          env:
            {{- include "wg-keepalive.liqoEnv" . | nindent 12 }}
          ports: [{ name: gw-metrics, containerPort: 8082 }, { name: gw-healthz, containerPort: 8083 }]
          securityContext: { privileged: true, capabilities: { add: [NET_ADMIN, NET_RAW] } }
          volumeMounts: [{ name: ipc, mountPath: /ipc }]
        - name: wireguard
          image: {{ required "gatewayTemplates.liqoImages.wireguard: the image of Liqo's wireguard container" $values.liqoImages.wireguard }}
          imagePullPolicy: {{ $values.pullPolicy }}
          args:
            {{- include "wg-keepalive.liqoFlags" (dict "container" "wireguard" "metricsPort" 8084 "healthPort" 8085) | nindent 12 }}
            - --mode={{ .mode }}
            - "--mtu={{ "{{ .Spec.MTU }}" }}"
            - --implementation={{ $values.wireguardImplementation }}
            {{- range .wireguardFlags }}
            - {{ . | quote }}
            {{- end }}
          ports: [{ name: wg-metrics, containerPort: 8084 }, { name: wg-healthz, containerPort: 8085 }]
          securityContext:
            {{- if eq $values.wireguardImplementation "userspace" }}
            privileged: true
            {{- end }}
            capabilities: { add: [NET_ADMIN, NET_RAW] }
          volumeMounts:
            - { name: ipc, mountPath: /ipc }
            - { name: wireguard-config, mountPath: /etc/wireguard/keys }
        - name: geneve
          image: {{ required "gatewayTemplates.liqoImages.geneve: the image of Liqo's geneve container" $values.liqoImages.geneve }}
          imagePullPolicy: {{ $values.pullPolicy }}
          args:
            {{- include "wg-keepalive.liqoFlags" (dict "container" "geneve" "metricsPort" 8086 "healthPort" 8087) | nindent 12 }}
            - --mode={{ .mode }}
            - --node-name=$(NODE_NAME)
            - --pod-name=$(POD_NAME)
            - --geneve-port={{ $values.genevePort }}
          env:
            {{- include "wg-keepalive.liqoEnv" . | nindent 12 }}
          ports: [{ name: gv-metrics, containerPort: 8086 }, { name: gv-healthz, containerPort: 8087 }]
          securityContext: { capabilities: { add: [NET_ADMIN, NET_RAW] } }
          volumeMounts: [{ name: ipc, mountPath: /ipc }]
        {{- include "wg-keepalive.gatewayContainer" . | nindent 8 }}
      volumes:
        - { name: ipc, emptyDir: {} }
        - { name: wireguard-config, secret: { secretName: {{ "{{ .SecretName }}" | quote }} } }
        # The tunnels come first: without its Secrets the keepalive measures, and waits for them.
        {{- include "wg-keepalive.natsVolumes" (dict "root" .root "user" "gateway" "optional" true) | nindent 8 }}
{{- end }}

{{- /*
The keepalive itself. It needs no capability: it opens UDP sockets above 1024 on addresses that are there, and talks to NATS.
No readiness probe: a pod that is not ready takes its tunnels out of service, and an outage of NATS is no reason for that.
*/ -}}
{{- define "wg-keepalive.gatewayContainer" -}}
{{- $values := .root.Values.gatewayTemplates -}}
- name: keepalive
  image: {{ include "wg-keepalive.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args:
    - gateway
    - "--namespace={{ "{{ .Namespace }}" }}"
    - "--name={{ "{{ .Name }}" }}"
    - --mode={{ .mode }}
    - "--remote-cluster-id={{ "{{ .ClusterID }}" }}"
    - "--gateway-uid={{ "{{ .GatewayUID }}" }}"
    - "--num-interfaces={{ include "wg-keepalive.numInterfaces" .root }}"
    - --ping-enabled={{ .root.Values.ping.enabled }}
    - --ping-loss-threshold={{ .root.Values.ping.lossThreshold }}
    - --ping-interval={{ .root.Values.ping.interval }}
    - --ping-update-status-interval={{ .root.Values.ping.updateStatusInterval }}
    {{- include "wg-keepalive.natsFlags" .root | nindent 4 }}
    - --metrics-bind-address=:8089
    - --log-level={{ .root.Values.logLevel }}
  ports: [{ name: ka-metrics, containerPort: 8089 }]
  livenessProbe: { httpGet: { path: /healthz, port: ka-metrics }, periodSeconds: 10, failureThreshold: 6 }
  resources: {{ toJson $values.resources }}
  securityContext:
    {{- include "wg-keepalive.containerSecurity" .root | nindent 4 }}
  volumeMounts:
    {{- include "wg-keepalive.natsMounts" .root | nindent 4 }}
{{- end }}
