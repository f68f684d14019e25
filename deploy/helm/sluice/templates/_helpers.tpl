{{/* The name of all objects. */}}
{{- define "sluice.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains "sluice" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-sluice" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of a component: (list . "node"). The name is "sluice" for all releases: alerts expect it as the job. */}}
{{- define "sluice.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "sluice.labels" -}}
{{- $root := index . 0 -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "sluice.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* Not empty if the database is PostgreSQL. */}}
{{- define "sluice.postgres" -}}
{{- or .Values.postgres.url .Values.postgres.existingSecret -}}
{{- end -}}

{{/* Not empty if there may be several nodes. */}}
{{- define "sluice.many" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) -}}true{{- end -}}
{{- end -}}

{{/* What cannot work is refused before anything is changed. */}}
{{- define "sluice.check" -}}
{{- $config := .Values.config | default "{}" | fromYaml -}}
{{- with $config.Error -}}
{{- fail (printf "config is not YAML: %s" .) -}}
{{- end -}}
{{- range $key, $section := dict "database" .Values.postgres "redis" .Values.redis "storage" .Values.storage -}}
{{- if hasKey $config $key -}}
{{- fail (printf "config sets %s: remove it there, and set %s.url" $key (ternary "postgres" $key (eq $key "database"))) -}}
{{- end -}}
{{- if and $section.url $section.existingSecret -}}
{{- fail (printf "both url and existingSecret of %s are set: choose one" (ternary "postgres" $key (eq $key "database"))) -}}
{{- end -}}
{{- end -}}
{{- if and (include "sluice.many" .) (not (include "sluice.postgres" .)) -}}
{{- fail "several nodes need PostgreSQL: set postgres.url or postgres.existingSecret" -}}
{{- end -}}
{{- if and (include "sluice.many" .) (not (or .Values.redis.url .Values.redis.existingSecret)) (ne (toString $config.cluster) "approximate") -}}
{{- fail "several nodes count limits in Redis: set redis.url, or \"cluster: approximate\" in config" -}}
{{- end -}}
{{- if and (include "sluice.postgres" .) (not .Values.existingSecret) -}}
{{- fail "with PostgreSQL all nodes need the same SLUICE_SECRET: set existingSecret to the name of a secret that has it" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (not .Values.autoscaling.cpu) (not .Values.autoscaling.streams) -}}
{{- fail "the autoscaler has nothing to go by: set autoscaling.cpu or autoscaling.streams" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs names no gateway" -}}
{{- end -}}
{{- end -}}

{{/* The content of sluice.yaml. */}}
{{- define "sluice.config" -}}
{{- with .Values.postgres.url }}
database: {{ . | quote }}
{{- end }}
{{- with .Values.redis.url }}
redis: {{ . | quote }}
{{- end }}
{{- with .Values.storage.url }}
storage: {{ . | quote }}
{{- end }}
{{ .Values.config }}
{{- end -}}

{{/* The variables of every container. */}}
{{- define "sluice.env" -}}
- {name: SLUICE_CONFIG, value: /etc/sluice/sluice.yaml}
- {name: GOMEMLIMIT, value: {{ .Values.goMemLimit | quote }}}
{{- range $name, $section := dict "SLUICE_DATABASE" .Values.postgres "SLUICE_REDIS" .Values.redis }}
{{- if $section.existingSecret }}
- {name: {{ $name }}, valueFrom: {secretKeyRef: {name: {{ $section.existingSecret | quote }}, key: {{ $section.key | quote }}}}}
{{- end }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "sluice.envFrom" -}}
{{- with .Values.existingSecret }}
envFrom:
  - secretRef: {name: {{ . | quote }}}
{{- end }}
{{- end -}}

{{/* Mounts and volumes of every container: the configuration, and secrets. The argument has the name of the ConfigMap. */}}
{{- define "sluice.mounts" -}}
# The whole folder: a single file with subPath would never change.
- {name: config, mountPath: /etc/sluice, readOnly: true}
{{- range .Values.mountSecrets }}
- {name: {{ printf "secret-%s" . | quote }}, mountPath: {{ printf "/run/secrets/%s" . | quote }}, readOnly: true}
{{- end }}
{{- end -}}

{{- define "sluice.volumes" -}}
{{- $root := index . 0 -}}
- name: config
  configMap: {name: {{ index . 1 }}}
{{- range $root.Values.mountSecrets }}
- name: {{ printf "secret-%s" . | quote }}
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{/* What all pods have: the standard "restricted", no service account, and where they may run. */}}
{{- define "sluice.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false # they would set SLUICE_PORT and the like
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  # Only a new volume is changed. Otherwise the group could read the data folder after a restart.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "sluice.container" -}}
image: {{ include "sluice.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- include "sluice.envFrom" . }}
{{- end -}}
