{{/* 52 characters, because the names of a StatefulSet's and a CronJob's pods add to it. */}}
{{- define "load-data-service.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name }}
{{- .Values.fullnameOverride | default (ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name)) | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "load-data-service.verifyName" -}}
{{ include "load-data-service.fullname" . | trunc 45 | trimSuffix "-" }}-verify
{{- end }}

{{- define "load-data-service.instanceLabels" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The labels by which the Service and the workload find the service's pods, but not those of its Jobs. */}}
{{- define "load-data-service.selectorLabels" -}}
{{ include "load-data-service.instanceLabels" . }}
app.kubernetes.io/component: service
{{- end }}

{{/* Labels of an object. Arguments: root, component. */}}
{{- define "load-data-service.labels" -}}
{{ include "load-data-service.instanceLabels" .root }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "load-data-service.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "load-data-service.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "load-data-service.fileStorage" -}}
{{ .Values.config.FILE_STORAGE | default "local" }}
{{- end }}

{{- define "load-data-service.identityProvider" -}}
{{ .Values.config.IDENTITY_PROVIDER | default "embedded" }}
{{- end }}

{{- define "load-data-service.basePath" -}}
{{ .Values.config.BASE_PATH | default "" }}
{{- end }}

{{/* The URL of clients in the cluster, unless an Ingress gives the service another one. */}}
{{- define "load-data-service.publicUrl" -}}
{{- if .Values.ingress.enabled -}}
{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}
{{- else -}}
http://{{ include "load-data-service.fullname" . }}.{{ .Release.Namespace }}.svc{{ if ne (int .Values.service.port) 80 }}:{{ .Values.service.port }}{{ end }}
{{- end -}}
{{ include "load-data-service.basePath" . }}
{{- end }}

{{/* The name of the job in Prometheus. The dashboard is for jobs whose names contain load-data. */}}
{{- define "load-data-service.job" -}}
{{- $name := include "load-data-service.fullname" . -}}
{{ ternary $name (printf "load-data-%s" $name) (contains "load-data" $name) }}
{{- end }}

{{/* In shape embedded, no other pod could take over during that time. */}}
{{- define "load-data-service.preStopSeconds" -}}
{{ ternary .Values.preStopSeconds 0 (eq .Values.shape "distributed") }}
{{- end }}

{{/* The service's variables with their values, as a YAML map of texts. */}}
{{- define "load-data-service.environment" -}}
{{- $variables := dict "HOST" "0.0.0.0" "TRUST_PROXY" (ternary "1" "0" .Values.ingress.enabled) "PUBLIC_URL" (include "load-data-service.publicUrl" .) }}
{{- range $name, $value := .Values.config }}
{{- /* Helm reads 5368709120 as a float, whose text would be 5.36870912e+09. */}}
{{- $isWhole := and (kindIs "float64" $value) (eq (float64 $value) (floor $value)) }}
{{- $_ := set $variables $name (ternary (int64 $value) $value $isWhole | toString) }}
{{- end }}
{{- merge (dict "NODE_ENV" "production" "PORT" "3000" "DATA_DIR" "/data") $variables | toYaml }}
{{- end }}

{{/* A container's `env`. Arguments: root, variables (a map), secrets (a list of maps with existingSecret and keys). */}}
{{- define "load-data-service.env" -}}
env:
  {{- range $name, $value := .variables }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  {{- range $secret := .secrets }}
  {{- range $name, $key := $secret.keys }}
  - name: {{ $name }}
    valueFrom:
      secretKeyRef:
        name: {{ $secret.existingSecret }}
        key: {{ $key | quote }}
  {{- end }}
  {{- end }}
  {{- with .root.Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What all containers have in common. */}}
{{- define "load-data-service.container" -}}
{{- $image := .Values.image -}}
image: {{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
imagePullPolicy: {{ $image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  privileged: false
  readOnlyRootFilesystem: true
{{- end }}

{{/* What all pods have in common. */}}
{{- define "load-data-service.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- merge (dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault")) (.Values.podSecurityContext | default dict) | toYaml | nindent 2 }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The mounts of all containers. The service doesn't need /tmp, but an adapter or SDK that is added to the image may. */}}
{{- define "load-data-service.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "load-data-service.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: 256Mi
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The metadata and spec of the service's pods. */}}
{{- define "load-data-service.podTemplate" -}}
{{- $basePath := include "load-data-service.basePath" . }}
{{- $environment := include "load-data-service.environment" . | fromYaml }}
{{- $preStopSeconds := include "load-data-service.preStopSeconds" . | int -}}
metadata:
  labels:
    {{- include "load-data-service.labels" (dict "root" . "component" "service") | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "load-data-service.pod" . | nindent 2 }}
  serviceAccountName: {{ include "load-data-service.serviceAccountName" . }}
  {{- /* The time of preStop counts too. Besides SHUTDOWN_DELAY_MS and SHUTDOWN_TIMEOUT_MS, the service takes up to 3 seconds. */}}
  terminationGracePeriodSeconds: {{ add $preStopSeconds (divf (add ($environment.SHUTDOWN_DELAY_MS | default "0") ($environment.SHUTDOWN_TIMEOUT_MS | default "10000")) 1000 | ceil) 5 }}
  {{- if eq .Values.shape "distributed" }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    - {{ toYaml . | nindent 6 | trim }}
      matchLabelKeys: [pod-template-hash]
      labelSelector:
        matchLabels:
          {{- include "load-data-service.selectorLabels" $ | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: service
      {{- include "load-data-service.container" . | nindent 6 }}
      {{- include "load-data-service.env" (dict "root" . "variables" $environment "secrets" (list .Values.secret)) | nindent 6 }}
      ports:
        - name: http
          containerPort: 3000
      {{- with $preStopSeconds }}
      lifecycle:
        preStop:
          sleep:
            seconds: {{ . }}
      {{- end }}
      startupProbe:
        httpGet: { path: {{ $basePath }}/health/live, port: http }
        {{- toYaml .Values.startupProbe | nindent 8 }}
      readinessProbe:
        httpGet: { path: {{ $basePath }}/health/ready, port: http }
        {{- toYaml .Values.readinessProbe | nindent 8 }}
      livenessProbe:
        httpGet: { path: {{ $basePath }}/health/live, port: http }
        {{- toYaml .Values.livenessProbe | nindent 8 }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- if eq .Values.shape "embedded" }}
        - name: data
          mountPath: /data
        {{- end }}
        {{- include "load-data-service.volumeMounts" . | nindent 8 }}
  volumes:
    {{- if and (eq .Values.shape "embedded") .Values.persistence.existingClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ .Values.persistence.existingClaim }}
    {{- end }}
    {{- include "load-data-service.volumes" . | nindent 4 }}
{{- end }}
