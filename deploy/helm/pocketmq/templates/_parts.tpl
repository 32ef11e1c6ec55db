{{- define "pocketmq.name" -}}
{{- if contains "pocketmq" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-pocketmq" (.Release.Name | trunc 31) }}{{ end -}}
{{- end -}}

{{- define "pocketmq.labels" -}}
app.kubernetes.io/name: pocketmq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The name servers, each by the name of its pod: a service's one address would hide the others. */}}
{{- define "pocketmq.namesrvAddr" -}}
{{- $name := include "pocketmq.name" . -}}
{{- range $i := until (int .Values.namesrv.replicas) }}{{ if $i }};{{ end }}{{ $name }}-namesrv-{{ $i }}.{{ $name }}-namesrv.{{ $.Release.Namespace }}.svc.{{ $.Values.clusterDomain }}:9876{{ end -}}
{{- end -}}

{{- define "pocketmq.checks" -}}
{{- $pods := mul .Values.broker.sets .Values.broker.members | int -}}
{{- if and (gt (int .Values.broker.members) 1) (gt (int .Values.namesrv.replicas) 1) (not .Values.broker.controllerAddr) }}
{{- fail "broker.members > 1 needs an arbiter: name an etcd in broker.controllerAddr, or have one name server (namesrv.replicas: 1)" }}
{{- end }}
{{- if and .Values.external.enabled (ne (len .Values.external.addresses) $pods) }}
{{- fail (printf "external.addresses needs host:port for each of the %d brokers' pods" $pods) }}
{{- end }}
{{- if and .Values.external.enabled (eq .Values.external.type "NodePort") (ne (len .Values.external.nodePorts) $pods) }}
{{- fail (printf "external.nodePorts needs a port for each of the %d brokers' pods" $pods) }}
{{- end }}
{{- $metrics := .Values.metrics }}
{{- if and (not $metrics.enabled) (or $metrics.serviceMonitor.enabled $metrics.rules.enabled) }}
{{- fail "metrics.serviceMonitor and metrics.rules need metrics.enabled: without it there is nothing to scrape" }}
{{- end }}
{{- if and .Values.security.enabled (or (not .Values.security.admin.password) (not .Values.security.inner.secretKey)) }}
{{- fail "security.enabled needs security.admin.password and security.inner.secretKey" }}
{{- end }}
{{- end -}}

{{/* Settings that name servers and brokers share. */}}
{{- define "pocketmq.common" -}}
bindAddress: 0.0.0.0
healthPort: 8088
healthHost: 0.0.0.0
{{- if .Values.security.enabled }}
authenticationEnabled: true
authorizationEnabled: true
initAuthenticationUser: {{ toJson .Values.security.admin }}
innerClientAuthenticationCredentials: {{ toJson .Values.security.inner }}
{{- else }}
insecure: true
{{- end }}
{{- if .Values.metrics.enabled }}
metricsExporterType: PROM
metricsPromExporterPort: 5557
metricsPromExporterHost: 0.0.0.0
{{- end }}
{{- if .Values.security.tlsSecret }}
tlsServerMode: enforcing
tlsServerCertPath: /etc/pocketmq-tls/tls.crt
tlsServerKeyPath: /etc/pocketmq-tls/tls.key
tlsClientTrustCertPath: /etc/pocketmq-tls/ca.crt
{{- end }}
{{- end -}}

{{/* The pod of a server; takes root, kind, port, settings and grace. */}}
{{- define "pocketmq.pod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "pocketmq.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .kind }}
  annotations:
    checksum/settings: {{ include (print $root.Template.BasePath "/settings.yaml") $root | sha256sum }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .grace }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets: {{ toJson . }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    seccompProfile: {type: RuntimeDefault}
    {{- with $root.Values.podSecurityContext }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "pocketmq.labels" $root | nindent 16 }}
                app.kubernetes.io/component: {{ .kind }}
  {{- with .values.nodeSelector }}
  nodeSelector: {{ toJson . }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations: {{ toJson . }}
  {{- end }}
  containers:
    - name: {{ .kind }}
      image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [{{ .kind }}, -c, /etc/pocketmq/$(POD_NAME).yaml]
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
      ports:
        - {name: {{ .kind }}, containerPort: {{ .port }}}
        - {name: health, containerPort: 8088}
        {{- if $root.Values.metrics.enabled }}
        - {name: metrics, containerPort: 5557}
        {{- end }}
      # Probes are answered while the data is read, too. Only an event loop that stands for two
      # minutes is ended.
      livenessProbe:
        httpGet: {path: /live, port: health}
        initialDelaySeconds: 20
        periodSeconds: 20
        timeoutSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /ready, port: health}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 2
      resources: {{ toJson .values.resources }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: data, mountPath: /var/lib/pocketmq}
        - {name: settings, mountPath: /etc/pocketmq, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if $root.Values.security.tlsSecret }}
        - {name: tls, mountPath: /etc/pocketmq-tls, readOnly: true}
        {{- end }}
  volumes:
    - name: settings
      secret: {secretName: {{ include "pocketmq.name" $root }}-settings, defaultMode: 0440}
    - name: tmp
      emptyDir: {sizeLimit: 256Mi}
    {{- if $root.Values.security.tlsSecret }}
    - name: tls
      secret: {secretName: {{ $root.Values.security.tlsSecret }}, defaultMode: 0440}
    {{- end }}
{{- end -}}

{{/* A stateful set with its headless service and its disruption budget; further: replicas. */}}
{{- define "pocketmq.servers" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "pocketmq.name" $root) .kind -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
  labels: {{- include "pocketmq.labels" $root | nindent 4 }}
spec:
  clusterIP: None
  # Servers and clients find a pod by its name before it is ready: members of a set have to.
  publishNotReadyAddresses: true
  selector:
    {{- include "pocketmq.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .kind }}
  ports:
    - {name: {{ .kind }}, port: {{ .port }}, targetPort: {{ .kind }}}
    {{- if $root.Values.metrics.enabled }}
    - {name: metrics, port: 5557, targetPort: metrics}
    {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  labels: {{- include "pocketmq.labels" $root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "pocketmq.labels" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .kind }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels: {{- include "pocketmq.labels" $root | nindent 4 }}
spec:
  serviceName: {{ $name }}
  replicas: {{ .replicas }}
  # All start at once: which member of a set has the newest messages is not known before.
  podManagementPolicy: Parallel
  # Updates go from the last pod to the first, each when the one before is ready.
  updateStrategy: {type: RollingUpdate}
  minReadySeconds: 10
  selector:
    matchLabels:
      {{- include "pocketmq.labels" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .kind }}
  template:
    {{- include "pocketmq.pod" . | nindent 4 }}
  volumeClaimTemplates:
    - metadata:
        name: data
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .values.storage.className }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ .values.storage.size }}
{{- end -}}
