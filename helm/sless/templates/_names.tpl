{{- define "sless.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "sless.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "sless.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "sless.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Names of cluster-wide objects: releases in two namespaces may have the same name. */}}
{{- define "sless.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "sless.fullname" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sless.selector" -}}
app.kubernetes.io/name: {{ include "sless.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sless.labels" -}}
{{ include "sless.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "sless.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "sless.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "sless.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "sless.builderNamespace" -}}
{{- .Values.builder.namespace | default (printf "%s-builds" .Release.Namespace) -}}
{{- end -}}

{{- define "sless.claim" -}}
{{- .Values.persistence.existingClaim | default (include "sless.fullname" .) -}}
{{- end -}}

{{/* "true" if the database is PostgreSQL. */}}
{{- define "sless.postgres" -}}
{{- if or .Values.database.url .Values.database.existingSecret -}}true{{- end -}}
{{- end -}}

{{/* "true" if the data folder has state: the SQLite file or uploaded code. */}}
{{- define "sless.keepsData" -}}
{{- if not (and (include "sless.postgres" .) .Values.s3.endpoint) -}}true{{- end -}}
{{- end -}}

{{- define "sless.volumeClaimed" -}}
{{- if and (include "sless.keepsData" .) .Values.persistence.enabled -}}true{{- end -}}
{{- end -}}

{{- define "sless.jwtSecretName" -}}
{{- .Values.auth.existingSecret | default (printf "%s-jwt" (include "sless.fullname" .)) -}}
{{- end -}}

{{- define "sless.encryptionSecretName" -}}
{{- .Values.encryption.existingSecret | default (printf "%s-encryption" (include "sless.fullname" .)) -}}
{{- end -}}

{{- define "sless.internalUrl" -}}
{{- printf "http://%s.%s.svc:%d" (include "sless.fullname" .) .Release.Namespace (int .Values.service.port) -}}
{{- end -}}

{{/* The URL for callers. Empty if each function has its own Ingress, for which sless builds the URLs. */}}
{{- define "sless.externalUrl" -}}
{{- if .Values.externalUrl -}}
{{- .Values.externalUrl -}}
{{- else if .Values.functions.ingress.host -}}
{{- else if .Values.ingress.enabled -}}
{{- printf "%s://%s" (ternary "https" "http" .Values.ingress.tls.enabled) .Values.ingress.host -}}
{{- else -}}
{{- include "sless.internalUrl" . -}}
{{- end -}}
{{- end -}}
