{{/* A value as text of an environment variable: lists separated by commas, maps as label=value, integers without exponent. */}}
{{- define "sless.text" -}}
{{- if kindIs "slice" . -}}
{{- join "," . -}}
{{- else if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}{{- $pairs = append $pairs (printf "%s=%v" $key $value) -}}{{- end -}}
{{- join "," $pairs -}}
{{- else if kindIs "float64" . -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* Settings without secrets; empty ones get sless's default. One place per setting: those that have a named value are not
     accepted under `settings`. */}}
{{- define "sless.config" -}}
{{- $values := .Values -}}
{{- $given := dict
  "port" $values.service.port
  "backend" $values.backend
  "external_url" (include "sless.externalUrl" .)
  "internal_url" ($values.internalUrl | default (include "sless.internalUrl" .))
  "trusted_proxies" $values.trustedProxies
  "log_level" $values.logLevel
  "auth_mode" $values.auth.mode
  "jwks_url" $values.auth.jwksUrl
  "jwt_public_key" $values.auth.publicKey
  "jwt_audience" $values.auth.audience
  "jwt_issuer" $values.auth.issuer
  "tenant_claim" $values.auth.tenantClaim
  "rules_mode" $values.codeChecks.rules
  "llm_mode" $values.codeChecks.llm.mode
  "llm_url" $values.codeChecks.llm.url
  "llm_model" $values.codeChecks.llm.model
  "llm_timeout_sec" $values.codeChecks.llm.timeoutSec
  "operator_subs" $values.auth.operatorSubs
  "s3_endpoint" $values.s3.endpoint
  "s3_bucket" $values.s3.bucket
  "s3_region" $values.s3.region
  "event_queues_allowed" $values.rabbitmq.queuesAllowed
  "outbound_allow" $values.outboundAllow
  "pod_namespace" .Release.Namespace
  "builder_namespace" (include "sless.builderNamespace" .)
  "functions_url" $values.functions.url
  "image_build" $values.functions.imageBuild
  "runtime_image_python311" $values.runtimeImages.python311
  "runtime_image_nodejs20" $values.runtimeImages.nodejs20
  "runtime_image_go123" $values.runtimeImages.go123
  "registry_host" $values.registry.host
  "registry_project" $values.registry.project
  "registry_secret" $values.registry.existingSecret
  "registry_pull_secret" $values.registry.pullSecret
  "harbor_url" $values.registry.harbor.url
  "builder" $values.builder.kind
  "builder_image" $values.builder.image
  "builder_args" $values.builder.args
  "builder_pull_secret" $values.builder.pullSecret
  "builder_memory" $values.builder.memory
  "builder_cpu" $values.builder.cpu
  "builder_egress_allow" $values.builder.egressAllow
  "ingress_host" $values.functions.ingress.host
  "ingress_class" $values.functions.ingress.className
  "ingress_tls_secret" $values.functions.ingress.tlsSecret
  "egress_allow" $values.functions.egressAllow
  "tenant_pods" $values.functions.quota.pods
  "tenant_memory" $values.functions.quota.memory
  "tenant_cpu" $values.functions.quota.cpu
  "function_cpu" $values.functions.cpu
  "function_cpu_request" $values.functions.cpuRequest
  "runtime_class" $values.functions.runtimeClass
  "node_selector" $values.functions.nodeSelector
  "graceful_timeout_sec" $values.gracefulTimeoutSec
-}}
{{- if $values.s3.endpoint -}}{{- $_ := set $given "s3_use_ssl" (toString $values.s3.useSsl) -}}{{- end -}}
{{- if $values.registry.host -}}{{- $_ := set $given "registry_insecure" (toString $values.registry.insecure) -}}{{- end -}}
{{- if and $values.registry.username (not $values.registry.existingSecret) -}}
{{- $_ := set $given "registry_secret" (printf "%s-registry" (include "sless.fullname" .)) -}}
{{- end -}}
{{- with $values.builder.pod -}}{{- $_ := set $given "builder_pod" (toJson .) -}}{{- end -}}
{{- with $values.functions.tolerations -}}{{- $_ := set $given "tolerations" (toJson .) -}}{{- end -}}
{{- range $name, $value := $values.settings -}}
{{- if kindIs "bool" $value -}}{{- $_ := set $given $name (toString $value) -}}
{{- else if kindIs "invalid" $value -}}
{{- else -}}{{- $_ := set $given $name $value -}}{{- end -}}
{{- end -}}
SLESS_HOST: {{ $values.settings.host | default "0.0.0.0" | quote }}
SLESS_DATA_DIR: /data
{{- range $name, $value := omit $given "host" }}
{{- $text := include "sless.text" $value }}
{{- if or $text (hasKey $values.settings $name) }}
SLESS_{{ upper $name }}: {{ $text | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Secrets given as values, in base64; those in existing Secrets are in sless.secretEnv. */}}
{{- define "sless.secrets" -}}
{{- $values := .Values -}}
{{- $given := dict
  "DATABASE_URL" (ternary "" $values.database.url (not (empty $values.database.existingSecret)))
  "LLM_TOKEN" (ternary "" $values.codeChecks.llm.token (not (empty $values.codeChecks.llm.existingSecret)))
  "METRICS_TOKEN" (ternary "" $values.metrics.token (not (empty $values.metrics.existingSecret)))
  "S3_ACCESS_KEY" (ternary "" $values.s3.accessKey (not (empty $values.s3.existingSecret)))
  "S3_SECRET_KEY" (ternary "" $values.s3.secretKey (not (empty $values.s3.existingSecret)))
  "RABBITMQ_URL" (ternary "" $values.rabbitmq.url (not (empty $values.rabbitmq.existingSecret)))
  "HARBOR_USER" (ternary "" $values.registry.harbor.user (not (empty $values.registry.harbor.existingSecret)))
  "HARBOR_PASSWORD" (ternary "" $values.registry.harbor.password (not (empty $values.registry.harbor.existingSecret)))
-}}
{{- range $name, $value := $given }}
{{- if $value }}
SLESS_{{ $name }}: {{ $value | b64enc | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "sless.secretEnv" -}}
{{- $values := .Values -}}
{{- $refs := list -}}
{{- if eq $values.auth.mode "secret" -}}
{{- $refs = append $refs (list "JWT_SECRET" (include "sless.jwtSecretName" .) $values.auth.existingSecretKey) -}}
{{- end -}}
{{- $refs = append $refs (list "ENCRYPTION_KEYS" (include "sless.encryptionSecretName" .) $values.encryption.existingSecretKey) -}}
{{- with $values.database.existingSecret -}}{{- $refs = append $refs (list "DATABASE_URL" . $values.database.existingSecretKey) -}}{{- end -}}
{{- with $values.codeChecks.llm.existingSecret -}}{{- $refs = append $refs (list "LLM_TOKEN" . $values.codeChecks.llm.existingSecretKey) -}}{{- end -}}
{{- with $values.metrics.existingSecret -}}{{- $refs = append $refs (list "METRICS_TOKEN" . $values.metrics.existingSecretKey) -}}{{- end -}}
{{- with $values.s3.existingSecret -}}
{{- $refs = append $refs (list "S3_ACCESS_KEY" . $values.s3.accessKeyKey) -}}
{{- $refs = append $refs (list "S3_SECRET_KEY" . $values.s3.secretKeyKey) -}}
{{- end -}}
{{- with $values.rabbitmq.existingSecret -}}{{- $refs = append $refs (list "RABBITMQ_URL" . $values.rabbitmq.existingSecretKey) -}}{{- end -}}
{{- with $values.registry.harbor.existingSecret -}}
{{- $refs = append $refs (list "HARBOR_USER" . $values.registry.harbor.userKey) -}}
{{- $refs = append $refs (list "HARBOR_PASSWORD" . $values.registry.harbor.passwordKey) -}}
{{- end -}}
{{- range $refs }}
- name: SLESS_{{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index . 1 }}
      key: {{ index . 2 }}
{{- end }}
{{- end -}}
