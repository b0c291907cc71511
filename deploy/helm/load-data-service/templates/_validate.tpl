{{/*
Refuses values that can't work, with one sentence for each. Types and names are refused by values.schema.json before. What
only the service knows, such as whether a URL is one, it refuses itself when it starts.
*/}}
{{- define "load-data-service.validate" -}}
{{- $problems := list }}
{{- $values := .Values }}
{{- $config := .Values.config }}
{{- $isDistributed := eq .Values.shape "distributed" }}
{{- $fileStorage := include "load-data-service.fileStorage" . }}
{{- $identityProvider := include "load-data-service.identityProvider" . }}
{{- $environment := include "load-data-service.environment" . | fromYaml }}
{{- $isSecret := "(SECRET|PASSWORD|CONNECTION_STRING|ACCESS_KEY|TOKEN|WEBHOOK_URL|HEADERS)$" }}

{{- /* Which variables the pods have. */}}
{{- $sources := dict }}
{{- range $name, $value := $environment }}
{{- if ne $value "" }}
{{- $_ := set $sources $name (ternary "config" "the chart itself" (hasKey $config $name)) }}
{{- end }}
{{- end }}
{{- range $name, $key := .Values.secret.keys }}
{{- if hasKey $sources $name }}
{{- $problems = append $problems (printf "%s is in secret.keys and set by %s: set it once." $name (get $sources $name)) }}
{{- end }}
{{- $_ := set $sources $name "secret.keys" }}
{{- end }}
{{- range .Values.extraEnv }}
{{- if hasKey $sources .name }}
{{- $problems = append $problems (printf "%s is in extraEnv and set by %s: set it once, in config or in secret.keys." .name (get $sources .name)) }}
{{- end }}
{{- $_ := set $sources .name "extraEnv" }}
{{- if and (hasKey . "value") (regexMatch $isSecret .name) }}
{{- $problems = append $problems (printf "extraEnv contains the value of %s, which is a secret: put it into a Secret, and name its key in secret.keys." .name) }}
{{- end }}
{{- end }}
{{- /* A secret may also be in a file, whose path is in a variable with the suffix _FILE. */}}
{{- range $file := keys $sources | sortAlpha }}
{{- $secret := trimSuffix "_FILE" $file }}
{{- if and (ne $secret $file) (regexMatch $isSecret $secret) }}
{{- if hasKey $sources $secret }}
{{- $problems = append $problems (printf "%s is set by %s, and %s by %s: set only one of them." $secret (get $sources $secret) $file (get $sources $file)) }}
{{- end }}
{{- $_ := set $sources $secret (get $sources $file) }}
{{- end }}
{{- end }}
{{- range $name, $value := $config }}
{{- if regexMatch $isSecret $name }}
{{- $problems = append $problems (printf "config contains %s, which is a secret: put it into a Secret, and name its key in secret.keys." $name) }}
{{- end }}
{{- end }}

{{- /* The shapes. */}}
{{- if $isDistributed }}
{{- if eq $fileStorage "local" }}
{{- $problems = append $problems "shape distributed needs a bucket, because its pods have no volume: set config.FILE_STORAGE to s3 or azure." }}
{{- end }}
{{- if eq $identityProvider "embedded" }}
{{- $problems = append $problems "shape distributed needs an identity provider that its pods share: set config.IDENTITY_PROVIDER to keycloak or auth0." }}
{{- end }}
{{- else }}
{{- if gt (.Values.replicaCount | default 1 | int) 1 }}
{{- $problems = append $problems (printf "replicaCount is %d, but shape embedded runs one pod, because only one process may use a volume: use shape distributed." (int .Values.replicaCount)) }}
{{- end }}
{{- if .Values.autoscaling.enabled }}
{{- $problems = append $problems "autoscaling is enabled, but shape embedded runs one pod, because only one process may use a volume: use shape distributed." }}
{{- end }}
{{- if and (has $fileStorage (list "s3" "azure")) (has $identityProvider (list "keycloak" "auth0")) }}
{{- $problems = append $problems (printf "shape embedded has a volume, on which nothing is kept with FILE_STORAGE %s and IDENTITY_PROVIDER %s: use shape distributed." $fileStorage $identityProvider) }}
{{- end }}
{{- end }}
{{- if .Values.autoscaling.enabled }}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) }}
{{- $problems = append $problems (printf "autoscaling.minReplicas (%d) is greater than autoscaling.maxReplicas (%d)." (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}
{{- end }}
{{- if .Values.replicaCount }}
{{- $problems = append $problems "replicaCount is set, but autoscaling decides on the number of pods: leave one of them out." }}
{{- end }}
{{- end }}

{{- /* What the chosen adapters need. Variables of extraEnvFrom can't be seen. */}}
{{- $needed := dict }}
{{- $secrets := dict }}
{{- if eq $fileStorage "s3" }}
{{- $_ := set $needed "FILE_STORAGE s3" (list "S3_BUCKET") }}
{{- else if eq $fileStorage "azure" }}
{{- $_ := set $needed "FILE_STORAGE azure" (list "AZURE_STORAGE_CONTAINER") }}
{{- end }}
{{- if eq $identityProvider "keycloak" }}
{{- $_ := set $needed "IDENTITY_PROVIDER keycloak" (list "KEYCLOAK_URL" "KEYCLOAK_REALM" "KEYCLOAK_CLIENT_ID") }}
{{- $_ := set $secrets "IDENTITY_PROVIDER keycloak" (list "KEYCLOAK_CLIENT_SECRET") }}
{{- else if eq $identityProvider "auth0" }}
{{- $_ := set $needed "IDENTITY_PROVIDER auth0" (list "AUTH0_DOMAIN" "AUTH0_CLIENT_ID" "OIDC_AUDIENCE") }}
{{- $_ := set $secrets "IDENTITY_PROVIDER auth0" (list "AUTH0_CLIENT_SECRET") }}
{{- end }}
{{- if hasKey $sources "EVENTS_WEBHOOK_URL" }}
{{- $_ := set $secrets "EVENTS_WEBHOOK_URL" (list "EVENTS_WEBHOOK_SECRET") }}
{{- end }}
{{- if not .Values.extraEnvFrom }}
{{- range $chosen, $names := $needed }}
{{- range $names }}
{{- if not (hasKey $sources .) }}
{{- $problems = append $problems (printf "config.%s must be set, because %s needs it." . $chosen) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $chosen, $names := $secrets }}
{{- range $names }}
{{- if not (hasKey $sources .) }}
{{- $problems = append $problems (printf "secret.keys.%s must name a key in secret.existingSecret, or config.%s_FILE the path of a file, because %s needs it." . . $chosen) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq $fileStorage "azure") (eq (hasKey $sources "AZURE_STORAGE_ACCOUNT_URL") (hasKey $sources "AZURE_STORAGE_CONNECTION_STRING")) }}
{{- $problems = append $problems "FILE_STORAGE azure needs either config.AZURE_STORAGE_ACCOUNT_URL or secret.keys.AZURE_STORAGE_CONNECTION_STRING (or config.AZURE_STORAGE_CONNECTION_STRING_FILE)." }}
{{- end }}
{{- end }}
{{- if and .Values.secret.keys (not .Values.secret.existingSecret) }}
{{- $problems = append $problems "secret.keys has keys, but secret.existingSecret doesn't name the Secret that contains them." }}
{{- end }}
{{- if and .Values.secret.existingSecret (not .Values.secret.keys) }}
{{- $problems = append $problems "secret.existingSecret names a Secret, but secret.keys doesn't say which variable is in which key." }}
{{- end }}

{{- /* The address. */}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- $problems = append $problems "ingress.host must be set: PUBLIC_URL, which clients see, follows from it." }}
{{- end }}
{{- if not (regexMatch "^(/[^/]+)*$" (include "load-data-service.basePath" .)) }}
{{- $problems = append $problems (printf "config.BASE_PATH must begin with \"/\" and not end with it; it is %q." $config.BASE_PATH) }}
{{- else if not (hasSuffix (include "load-data-service.basePath" .) $environment.PUBLIC_URL) }}
{{- $problems = append $problems (printf "config.PUBLIC_URL must end with config.BASE_PATH (%s)." $config.BASE_PATH) }}
{{- end }}

{{- /* Texts of a certain form. Kubernetes would refuse them too, but one after the other, or only when they are used. */}}
{{- range $name := list "nameOverride" "fullnameOverride" }}
{{- $text := get $values $name }}
{{- if not (regexMatch "^([a-z]([a-z0-9-]*[a-z0-9])?)?$" $text) }}
{{- $problems = append $problems (printf "%s must be letters in lower case, digits and hyphens, and begin with a letter; it is %q." $name $text) }}
{{- end }}
{{- end }}
{{- range $label := keys .Values.podLabels | sortAlpha }}
{{- if hasKey (include "load-data-service.labels" (dict "root" $ "component" "service") | fromYaml) $label }}
{{- $problems = append $problems (printf "podLabels contains %s, which the chart sets itself: take another label." $label) }}
{{- end }}
{{- end }}
{{- $quantity := "^[0-9]+(\\.[0-9]+)?([kMGTPE]|[KMGTPE]i)?$" }}
{{- if or (not (regexMatch $quantity .Values.persistence.size)) (regexMatch "^[0.]+[A-Za-z]*$" .Values.persistence.size) }}
{{- $problems = append $problems (printf "persistence.size must be a quantity of bytes, such as 20Gi; it is %q." .Values.persistence.size) }}
{{- end }}
{{- if not (regexMatch "^([0-9]+m|[0-9]+(\\.[0-9]+)?)$" .Values.autoscaling.targetCPU) }}
{{- $problems = append $problems (printf "autoscaling.targetCPU must be a quantity of cores, such as 700m; it is %q." .Values.autoscaling.targetCPU) }}
{{- end }}
{{- if not (regexMatch "^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every [0-9a-z.]+|([0-9A-Za-z*/,?-]+ +){4}[0-9A-Za-z*/,?-]+)$" .Values.verifyStore.schedule) }}
{{- $problems = append $problems (printf "verifyStore.schedule must be five fields of cron, such as \"23 3 * * 0\", or a name such as @weekly; it is %q." .Values.verifyStore.schedule) }}
{{- end }}
{{- if not (regexMatch "^([0-9]+(ms|[smhdwy]))+$" .Values.serviceMonitor.interval) }}
{{- $problems = append $problems (printf "serviceMonitor.interval must be a duration of Prometheus, such as 30s; it is %q." .Values.serviceMonitor.interval) }}
{{- end }}
{{- if not (regexMatch "^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?$" .Values.ingress.host) }}
{{- $problems = append $problems (printf "ingress.host must be a host name in lower case, without https:// and a port; it is %q." .Values.ingress.host) }}
{{- end }}

{{- /* The Jobs. */}}
{{- if .Values.identitySetup.enabled }}
{{- $credentials := get (dict "keycloak" (list "KEYCLOAK_ADMIN_USERNAME" "KEYCLOAK_ADMIN_PASSWORD") "auth0" (list "AUTH0_SETUP_CLIENT_ID" "AUTH0_SETUP_CLIENT_SECRET")) $identityProvider }}
{{- if not $credentials }}
{{- $problems = append $problems (printf "identitySetup is enabled, but IDENTITY_PROVIDER %s needs no set-up: it is for keycloak and auth0." $identityProvider) }}
{{- else if or (not .Values.identitySetup.existingSecret) (ne (keys .Values.identitySetup.keys | sortAlpha | join " ") ($credentials | sortAlpha | join " ")) }}
{{- $problems = append $problems (printf "identitySetup needs identitySetup.existingSecret, and its keys for %s in identitySetup.keys." (join " and " $credentials)) }}
{{- end }}
{{- end }}
{{- if and .Values.verifyStore.enabled (hasPrefix "module:" $fileStorage) }}
{{- $problems = append $problems "verifyStore is enabled, but only FILE_STORAGE local, s3 and azure can be checked by it." }}
{{- end }}
{{- if and .Values.verifyStore.enabled (eq $fileStorage "local") (eq .Values.persistence.accessMode "ReadWriteOncePod") (not .Values.persistence.existingClaim) }}
{{- $problems = append $problems "verifyStore is enabled, but a volume with persistence.accessMode ReadWriteOncePod can't be read by a second pod: use ReadWriteOnce." }}
{{- end }}

{{- if $problems }}
{{- printf "\n- %s" (join "\n- " $problems) | fail }}
{{- end }}
{{- end }}
