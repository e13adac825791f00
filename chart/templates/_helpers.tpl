{{- define "capstan.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "capstan.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "capstan.labels" -}}
{{ include "capstan.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "capstan.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "capstan.fullname" .) .Values.serviceAccount.name }}{{ else }}{{ required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "capstan.image" -}}
{{- if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}{{ else }}{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}{{ end }}
{{- end }}

{{- /* The operator's configuration, as JSON. */ -}}
{{- define "capstan.config" -}}
{{- $plugins := dict }}
{{- $dirs := list "/usr/local/lib/capstan/plugins" }}
{{- range $name, $plugin := .Values.plugins }}
{{- if $plugin.enabled }}
{{- $one := omit $plugin "enabled" "rules" "image" }}
{{- if eq $name "etcd" }}
{{- $images := merge (dict) (dig "config" "images" dict $plugin) (dict "capstan" (include "capstan.image" $)) }}
{{- $_ := set $one "config" (merge (dict "images" $images) (default dict $plugin.config)) }}
{{- end }}
{{- $_ := set $plugins $name $one }}
{{- if $plugin.image }}{{ $dirs = append $dirs (printf "/plugins/%s" $name) }}{{ end }}
{{- end }}
{{- end }}
{{- $ops := dict "address" "0.0.0.0" "port" (int .Values.ops.port) "authentication" .Values.ops.authentication }}
{{- if .Values.ops.tlsSecret }}
{{- $_ := set $ops "tls" (dict "certificateFile" "/tls/tls.crt" "keyFile" "/tls/tls.key") }}
{{- end }}
{{- $election := dict "enabled" true "leaseName" .Values.leaderElection.leaseName "leaseNamespace" .Release.Namespace }}
{{- $base := dict "apiVersion" "config.capstan.dev/v1alpha1" "kind" "OperatorConfig" "plugins" $plugins "pluginDirs" $dirs "listeners" (dict "ops" $ops) "leaderElection" $election }}
{{- mergeOverwrite $base (deepCopy .Values.config) | toJson }}
{{- end }}
