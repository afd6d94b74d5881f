{{/* Checks that the schema cannot express: invalid combinations of values. One message per mistake. */}}
{{- define "sless.checks" -}}
{{- $values := .Values -}}
{{- $mistakes := list -}}
{{- if gt (int $values.replicas) 1 -}}
{{- if not (include "sless.postgres" .) -}}
{{- $mistakes = append $mistakes (printf "replicas: %d replicas need PostgreSQL (database.url or database.existingSecret); SQLite allows 1" (int $values.replicas)) -}}
{{- end -}}
{{- if not $values.s3.endpoint -}}
{{- $mistakes = append $mistakes (printf "replicas: %d replicas need S3 for uploaded code (s3.endpoint); a volume allows 1" (int $values.replicas)) -}}
{{- end -}}
{{- end -}}
{{- if and $values.database.url (not (regexMatch "^postgres(ql)?(\\+psycopg)?://" $values.database.url)) -}}
{{- $mistakes = append $mistakes "database.url: expected postgresql://user:password@host/name; leave it empty for SQLite on the volume" -}}
{{- end -}}
{{- if and (eq $values.auth.mode "secret") $values.auth.jwtSecret (lt (len $values.auth.jwtSecret) 32) -}}
{{- $mistakes = append $mistakes (printf "auth.jwtSecret: expected at least 32 bytes, found %d; leave it empty to generate one" (len $values.auth.jwtSecret)) -}}
{{- end -}}
{{- range $key := splitList "," (nospace $values.encryption.keys) -}}
{{- if and $values.encryption.keys (not (regexMatch "^[A-Za-z0-9_-]{43}=$" $key)) -}}
{{- $mistakes = append $mistakes (printf "encryption.keys: expected 32 bytes in URL-safe base64 (44 characters) each, found %d characters" (len $key)) -}}
{{- end -}}
{{- end -}}
{{- if and (eq $values.auth.mode "jwks") (not $values.auth.jwksUrl) -}}
{{- $mistakes = append $mistakes "auth.jwksUrl: auth.mode jwks needs the URL of the key set" -}}
{{- end -}}
{{- if and (eq $values.auth.mode "public-key") (not $values.auth.publicKey) -}}
{{- $mistakes = append $mistakes "auth.publicKey: auth.mode public-key needs a PEM public key" -}}
{{- end -}}
{{- if and $values.functions.prePull (not (or $values.runtimeImages.python311 $values.runtimeImages.nodejs20 $values.runtimeImages.go123)) -}}
{{- $mistakes = append $mistakes "functions.prePull: set the images to keep on the nodes, runtimeImages.python311 or others" -}}
{{- end -}}
{{- if and $values.ingress.enabled (not $values.ingress.host) -}}
{{- $mistakes = append $mistakes "ingress.host: ingress.enabled needs a host name" -}}
{{- end -}}
{{- if and .Values.functions.url (eq (urlParse .Values.functions.url).hostname (urlParse (include "sless.externalUrl" .)).hostname) -}}
{{- $mistakes = append $mistakes (printf "functions.url: expected another host than that of the console, found %s" .Values.functions.url) -}}
{{- end -}}
{{- if eq (include "sless.builderNamespace" .) .Release.Namespace -}}
{{- $mistakes = append $mistakes (printf "builder.namespace: expected a namespace for builds only, found %s, where sless runs" .Release.Namespace) -}}
{{- end -}}
{{- if and $values.registry.username (not $values.registry.host) -}}
{{- $mistakes = append $mistakes "registry.host: registry.username is set, but registry.host is empty" -}}
{{- end -}}
{{- if and (not $values.s3.endpoint) (or $values.s3.bucket $values.s3.accessKey $values.s3.existingSecret) -}}
{{- $mistakes = append $mistakes "s3.endpoint: a bucket or keys are set, but no endpoint; leave them empty to keep code on the volume" -}}
{{- end -}}
{{- range $half := list (list "s3.accessKey" $values.s3.accessKey "s3.secretKey" $values.s3.secretKey) (list "registry.username" $values.registry.username "registry.password" $values.registry.password) (list "registry.harbor.user" $values.registry.harbor.user "registry.harbor.password" $values.registry.harbor.password) -}}
{{- if ne (empty (index $half 1)) (empty (index $half 3)) -}}
{{- $mistakes = append $mistakes (printf "%s and %s: expected both, found one" (index $half 0) (index $half 2)) -}}
{{- end -}}
{{- end -}}
{{- range $pair := list (list "database.url" $values.database.url $values.database.existingSecret) (list "s3.accessKey" $values.s3.accessKey $values.s3.existingSecret) (list "rabbitmq.url" $values.rabbitmq.url $values.rabbitmq.existingSecret) (list "auth.jwtSecret" $values.auth.jwtSecret $values.auth.existingSecret) (list "encryption.keys" $values.encryption.keys $values.encryption.existingSecret) (list "codeChecks.llm.token" $values.codeChecks.llm.token $values.codeChecks.llm.existingSecret) (list "metrics.token" $values.metrics.token $values.metrics.existingSecret) (list "registry.username" $values.registry.username $values.registry.existingSecret) (list "registry.harbor.user" $values.registry.harbor.user $values.registry.harbor.existingSecret) -}}
{{- if and (index $pair 1) (index $pair 2) -}}
{{- $mistakes = append $mistakes (printf "%s and existingSecret are both set: expected only one" (index $pair 0)) -}}
{{- end -}}
{{- end -}}
{{- if $mistakes -}}
{{- fail (printf "wrong values:\n  %s" (join "\n  " $mistakes)) -}}
{{- end -}}
{{- end -}}
