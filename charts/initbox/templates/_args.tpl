{{/*
initbox.words returns the arguments of one step as a JSON array: its subcommand, what the subcommand takes as
arguments, and its flags in the order of their keys, each as --flag=VALUE, so that no value is taken for a flag. What
the words refer to (configmap/NAME, secret/NAME, …) is mounted into the container.
*/}}
{{- define "initbox.words" -}}
{{- $in := . -}}
{{- $step := .step -}}
{{- $v := .step.values -}}
{{- $row := get .plan.table $step.step -}}
{{- $words := list $row.command -}}
{{- range $word := include "initbox.positional" . | fromJsonArray -}}
  {{- if hasPrefix "-" $word -}}{{- fail (printf "%s: %q would be taken for a flag: its key is written beside this one" $step.where $word) -}}{{- end -}}
  {{- $words = append $words $word -}}
{{- end -}}
{{- range $key := keys $row.flags | sortAlpha -}}
  {{- if hasKey $v $key -}}
    {{- $flag := get $row.flags $key -}}
    {{- $value := get $v $key -}}
    {{- if kindIs "bool" $value -}}
      {{- if $value -}}{{- $words = append $words $flag.flag -}}{{- end -}}
    {{- else -}}
      {{- range $one := include "initbox.list" $value | fromJsonArray -}}
        {{- if and (kindIs "float64" $one) (or (has $key (list "mode" "dirMode" "fileMode" "ref")) (ne $one (floor $one))) -}}
          {{- fail (printf "%s: %s: write this in quotes: YAML reads 0640 as 416, and 1.10 as 1.1" $step.where $key) -}}
        {{- end -}}
        {{- $text := include "initbox.text" $one -}}
        {{- if or $flag.file (has $key (list "each" "files" "podInfo")) -}}{{- $text = include "initbox.ref" (dict "plan" $in.plan "container" $in.container "where" (printf "%s: %s" $step.where $key) "text" $text "flag" true) -}}{{- end -}}
        {{- include "initbox.noPassword" (dict "where" (printf "%s: %s" $step.where $key) "text" $text) -}}
        {{- $words = append $words (printf "%s=%s" $flag.flag $text) -}}
      {{- end -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- toJson $words -}}
{{- end -}}

{{/* initbox.positional returns what stands before the flags, as a JSON array. */}}
{{- define "initbox.positional" -}}
{{- $in := . -}}
{{- $step := .step -}}
{{- $v := .step.values -}}
{{- $takes := get (dict "wait" (list "for") "waitForDns" (list "for") "request" (list "url") "render" (list "paths") "merge" (list "from" "to")
    "gitClone" (list "url" "to") "fetch" (list "url" "to") "copy" (list "paths") "prepare" (list "paths") "sysctl" (list "set") "kubeGet" (list "for" "to")
    "generate" (list "what" "to") "trustBundle" (list "from") "sleep" (list "for") "install" (list "to" "links")) $step.step | default list -}}
{{- $needs := without $takes "links" -}}
{{- if eq $step.step "generate" -}}{{- $needs = list "what" -}}{{- end -}}
{{- if has $step.step (list "render" "copy") -}}{{- $needs = list -}}{{- end -}}
{{- if and (has $step.step (list "render" "copy")) (not $v.paths) (not $v.inline) -}}{{- $needs = list "from" "to" -}}{{- end -}}
{{- if and (eq $step.step "gitClone") $v.config -}}{{- $needs = list -}}{{- end -}}
{{- if and (eq $step.step "kubeGet") $v.envFile -}}{{- $needs = list "for" -}}{{- end -}}
{{- if and (eq $step.step "fetch") $v.list -}}{{- $needs = list "to" -}}{{- end -}}
{{- if and (eq $step.step "sysctl") $v.file -}}{{- $needs = list -}}{{- end -}}
{{- range $key := $needs -}}
  {{- if or (not (hasKey $v $key)) (kindIs "invalid" (get $v $key)) (eq (get $v $key | toString) "" "[]" "map[]") -}}
    {{- fail (printf "%s: %s is missing: %s needs it" $step.where $key $step.step) -}}
  {{- end -}}
{{- end -}}
{{- $words := list -}}
{{- range $key := $takes -}}
  {{- $value := get $v $key -}}
  {{- if and (eq $key "set") (kindIs "map" $value) -}}
    {{- range $name, $text := $value -}}{{- $words = append $words (printf "%s=%s" $name (include "initbox.text" $text)) -}}{{- end -}}
  {{- else if hasKey $v $key -}}
    {{- range $one := include "initbox.list" $value | fromJsonArray -}}
      {{- $text := include "initbox.text" $one -}}
      {{- if has $key (list "from" "paths") -}}
        {{- $text = include "initbox.ref" (dict "plan" $in.plan "container" $in.container "where" (printf "%s: %s" $step.where $key) "text" $text) -}}
      {{- else if eq $key "for" -}}
        {{- include "initbox.noPassword" (dict "where" (printf "%s: for" $step.where) "text" $text) -}}
      {{- else if eq $key "url" -}}
        {{- $text = include "initbox.url" (dict "plan" $in.plan "container" $in.container "step" $step "url" $text) -}}
      {{- end -}}
      {{- $words = append $words $text -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if has $step.step (list "render" "copy") -}}
  {{- range $from := include "initbox.list" $v.from | fromJsonArray -}}
    {{- if regexMatch "^[A-Za-z0-9_.-]+$" (toString $from) -}}
      {{- fail (printf "%s: from: %q is neither an absolute path nor a reference\nhint: configmap/%s or secret/%s for one of the cluster, /%s for a path" $step.where (toString $from) $from $from $from) -}}
    {{- end -}}
    {{- $source := include "initbox.ref" (dict "plan" $in.plan "container" $in.container "where" (printf "%s: from" $step.where) "text" (toString $from)) -}}
    {{- $words = append $words (printf "%s:%s" $source (required (printf "%s: to is missing: %s needs it" $step.where $step.step) $v.to)) -}}
  {{- end -}}
{{- end -}}
{{- toJson $words -}}
{{- end -}}

{{/*
initbox.ref returns the path of what a text refers to, and mounts it, read-only: configmap/NAME[/KEY],
secret/NAME[/KEY], pvc/NAME[/PATH], volume/NAME[/PATH]. Settings may follow, and in a flag a name and = may stand before
it. Other texts stay.
*/}}
{{- define "initbox.ref" -}}
{{- $before := "" -}}
{{- $text := .text -}}
{{- if and .flag (regexMatch "^[^=]*=(configmap|secret|pvc|volume)/" $text) -}}
  {{- $before = regexFind "^[^=]*=" $text -}}
  {{- $text = trimPrefix $before $text -}}
{{- end -}}
{{- $kind := regexFind "^[A-Za-z]+/" $text | trimSuffix "/" -}}
{{- $meant := get (dict "configmaps" "configmap" "cm" "configmap" "secrets" "secret" "pvcs" "pvc" "persistentvolumeclaim" "pvc" "volumes" "volume") (lower $kind) | default (lower $kind) -}}
{{- if and (ne $kind $meant) (has $meant (list "configmap" "secret" "pvc" "volume")) -}}
  {{- fail (printf "%s: %q is not a reference: did you mean %s/%s?" .where $text $meant (trimPrefix (printf "%s/" $kind) $text)) -}}
{{- end -}}
{{- if regexMatch "^(configmap|secret|pvc|volume)/" $text -}}
  {{- if or (regexMatch "^[^:#]*/[.][.](/|:|#|$)" $text) (not (regexMatch "^(configmap|secret|pvc|volume)/[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[^:#]+)?([:#].*)?$" $text)) -}}
    {{- fail (printf "%s: %q is not a reference\nhint: configmap/NAME, configmap/NAME/KEY, secret/NAME, secret/NAME/KEY, pvc/NAME/PATH, volume/NAME/PATH" .where $text) -}}
  {{- end -}}
  {{- $after := regexFind "[:#].*$" $text -}}
  {{- $parts := splitList "/" (trimSuffix $after $text) -}}
  {{- $kind := index $parts 0 -}}
  {{- $name := index $parts 1 -}}
  {{- $path := printf "/initbox/%s/%s" $kind $name -}}
  {{- $volume := $name -}}
  {{- if ne $kind "volume" -}}
    {{- $spec := get (dict "configmap" (dict "configMap" (dict "name" $name)) "secret" (dict "secret" (dict "secretName" $name))
        "pvc" (dict "persistentVolumeClaim" (dict "claimName" $name))) $kind -}}
    {{- $volume = include "initbox.addVolume" (dict "plan" .plan "key" (printf "%s/%s" $kind $name) "name" (printf "%s-%s" $kind $name) "spec" $spec) -}}
  {{- end -}}
  {{- $_ := set .container.mounts $path (dict "name" $volume "mountPath" $path "readOnly" true) -}}
  {{- $text = printf "%s%s%s" $path (ternary "" (printf "/%s" (join "/" (slice $parts 2))) (eq (len $parts) 2)) $after -}}
{{- end -}}
{{- printf "%s%s" $before $text -}}
{{- end -}}

{{/*
initbox.login returns a step's values, as JSON, with the flags that "secret" stands for. They name files in the Secret,
so no credential is an argument. The keys are those of the standard types of Secrets.
*/}}
{{- define "initbox.login" -}}
{{- $where := .where -}}
{{- $v := deepCopy .values -}}
{{- if and $v.secret (ne .step "generate") -}}
  {{- $secret := toString $v.secret -}}
  {{- if not (regexMatch "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[-._a-zA-Z0-9]+)?$" $secret) -}}
    {{- fail (printf "%s: secret: %q is not the name of a Secret, or NAME/KEY" $where $secret) -}}
  {{- end -}}
  {{- $parts := splitList "/" $secret -}}
  {{- $name := printf "secret/%s" (first $parts) -}}
  {{- $key := "" -}}
  {{- if gt (len $parts) 1 -}}{{- $key = last $parts -}}{{- end -}}
  {{- $v = omit $v "secret" -}}
  {{- $urls := include "initbox.list" $v.url | fromJsonArray | join " " -}}
  {{- if eq .step "keystore" -}}
    {{- $v = mustMergeOverwrite (dict "certFile" (printf "%s/tls.crt" $name) "keyFile" (printf "%s/tls.key" $name)) $v -}}
  {{- else if and (eq .step "gitClone") (not (regexMatch "^(https?://|\\$)" $urls)) -}}
    {{- $files := dict "sshKeyFile" (printf "%s/%s" $name (default "ssh-privatekey" $key)) -}}
    {{- if not (or $v.knownHosts $v.knownHostsKey $v.sshAcceptNew) -}}{{- $_ := set $files "knownHosts" (printf "%s/known_hosts" $name) -}}{{- end -}}
    {{- $v = mustMergeOverwrite $files $v -}}
  {{- else if and (eq .step "fetch") (regexMatch "(^| )(oci|docker)://" $urls) -}}
    {{- $v = mustMergeOverwrite (dict "dockerConfig" (printf "%s/%s" $name (default ".dockerconfigjson" $key))) $v -}}
  {{- else if $v.user -}}
    {{- $v = mustMergeOverwrite (dict "passwordFile" (printf "%s/%s" $name (default "password" $key))) $v -}}
  {{- else if $key -}}
    {{- fail (printf "%s: secret: %s is a password, and needs a user\nhint: user: x-access-token for GitHub, oauth2 for GitLab; for a bearer token, tokenFile: secret/%s" $where $secret $secret) -}}
  {{- else if regexMatch "^(https?://[^/@ ]+(/[^ ]*)?( |$))+$" $urls -}}
    {{- $_ := set $v "login" $name -}}
  {{- else -}}
    {{- fail (printf "%s: secret: the URL has a user already, or is not one of http or https\nhint: with user, the Secret's key password is used; passwordFile: secret/%s/KEY names another" $where (first $parts)) -}}
  {{- end -}}
{{- end -}}
{{- toJson $v -}}
{{- end -}}

{{/* initbox.url returns a URL with the login that "secret" stands for: references to its files, which initbox reads. */}}
{{- define "initbox.url" -}}
{{- include "initbox.noPassword" (dict "where" .step.where "text" .url "hint" "secret: NAME, or ") -}}
{{- if .step.values.login -}}
  {{- $files := include "initbox.ref" (dict "plan" .plan "container" .container "where" .step.where "text" .step.values.login) -}}
  {{- $scheme := regexFind "^https?://" .url -}}
  {{- printf "%s${file:%s/username}:${file:%s/password}@%s" $scheme $files $files (trimPrefix $scheme .url) -}}
{{- else -}}
  {{- .url -}}
{{- end -}}
{{- end -}}

{{/* initbox.noPassword fails if a text is a URL with a password: (dict "where" TEXT "text" URL "hint" "secret: NAME, or "). */}}
{{- define "initbox.noPassword" -}}
{{- if regexMatch "^[A-Za-z0-9+.-]+://[^/@$]*:[^/@$]+@" .text -}}
  {{- fail (printf "%s: a password in the URL would show in the Pod's specification\nhint: %s${env:PASSWORD} in its place, and env: {PASSWORD: secret/NAME/KEY}" .where (.hint | default "")) -}}
{{- end -}}
{{- end -}}
