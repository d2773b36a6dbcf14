{{/* initbox.plan.container returns the container of one step, as JSON. */}}
{{- define "initbox.plan.container" -}}
{{- $plan := .plan -}}
{{- $settings := .plan.settings -}}
{{- $name := include "initbox.containerName" . -}}
{{- $step := deepCopy .step -}}
{{- $_ := set $step "values" (include "initbox.login" .step | fromJson) -}}
{{- $v := $step.values -}}
{{- $container := dict "name" $name "image" (include "initbox.image" (dict "settings" $settings "root" $plan.root)) "mounts" dict -}}
{{- with $settings.image.pullPolicy -}}{{- $_ := set $container "imagePullPolicy" . -}}{{- end -}}
{{- include "initbox.sidecar" (dict "plan" $plan "step" $step "container" $container) -}}
{{- $env := include "initbox.env" (dict "plan" $plan "step" $step) | fromJsonArray -}}
{{- if eq $step.step "render" -}}
  {{- range $variable, $value := $v.env | default dict -}}
    {{- if and (kindIs "string" $value) (hasPrefix "secret/" $value) -}}
      {{- $_ := set $v "secretEnv" (append (include "initbox.list" $v.secretEnv | fromJsonArray) $variable) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $words := include "initbox.words" (dict "plan" $plan "step" $step "container" $container) | fromJsonArray -}}
{{- $_ := set $container "args" $words -}}
{{- /* Kubernetes replaces $(NAME) in the value of a variable, too, by that of one before it. */ -}}
{{- $secrets := list -}}
{{- range $entry := $env -}}
  {{- $from := "" -}}
  {{- if hasKey ($entry.valueFrom | default dict) "secretKeyRef" -}}{{- $from = $entry.name -}}{{- end -}}
  {{- range $secrets -}}{{- if contains (printf "$(%s)" .) ($entry.value | default "" | toString) -}}{{- $from = $entry.name -}}{{- end -}}{{- end -}}
  {{- if $from -}}{{- $secrets = append $secrets $from -}}{{- end -}}
{{- end -}}
{{- range $secrets -}}
  {{- if contains (printf "$(%s)" .) (join " " $words) -}}
    {{- fail (printf "%s: $(%s) would put a secret into the arguments of a process\nhint: ${env:%s}, which initbox itself reads, or the flag for a file with secret/NAME/KEY" $step.where . .) -}}
  {{- end -}}
{{- end -}}
{{- $_ := set $container "env" $env -}}
{{- with $v.resources | default $settings.resources -}}{{- $_ := set $container "resources" . -}}{{- end -}}
{{- $_ := set $container "securityContext" (include "initbox.securityContext" (dict "plan" $plan "step" $step "words" $words) | fromJson) -}}
{{- range $path, $ref := $v.mounts | default dict -}}
  {{- include "initbox.addMount" (dict "plan" $plan "container" $container "where" (printf "%s: mounts" $step.where) "path" $path "ref" $ref) -}}
{{- end -}}
{{- range $path, $p := $plan.paths -}}
  {{- $mentions := printf "(^|[=:,]|file://)%s($|[/:#&,])" (regexQuoteMeta $path) -}}
  {{- $wanted := or (eq $path (trimSuffix "/" ($v.mountPath | default "none"))) (has $path (include "initbox.outputs" $step | fromJsonArray)) -}}
  {{- range $words -}}{{- if regexMatch $mentions . -}}{{- $wanted = true -}}{{- end -}}{{- end -}}
  {{- if $wanted -}}{{- $_ := set $container.mounts $path (dict "name" $p.volume "mountPath" $path) -}}{{- end -}}
{{- end -}}
{{- if eq $step.step "prepare" -}}
  {{- range include "initbox.list" $v.paths | fromJsonArray -}}
    {{- $path := regexFind "^[^#{$]*" (toString .) | trimSuffix "/" -}}
    {{- if not (include "initbox.within" (dict "plan" $plan "path" $path)) -}}
      {{- fail (printf "%s: paths: %s lies in no volume\nhint: volume: NAME, mountPath: %s" $step.where $path $path) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if $step.hook -}}
  {{- /* The hook reads the credentials again, at the paths that register read them from. */ -}}
  {{- range $path, $mount := $container.mounts -}}
    {{- if and (hasPrefix "/initbox/" $path) (not (has $mount $plan.mounts)) -}}{{- $_ := set $plan "mounts" (append $plan.mounts $mount) -}}{{- end -}}
  {{- end -}}
{{- end -}}
{{- $sorted := list -}}
{{- range $path, $mount := $container.mounts -}}{{- $sorted = append $sorted $mount -}}{{- end -}}
{{- $_ := set $container "volumeMounts" $sorted -}}
{{- omit $container "mounts" | toJson -}}
{{- end -}}

{{/* initbox.containerName returns name, or the subcommand with the next free number, such as git-clone-2. */}}
{{- define "initbox.containerName" -}}
{{- $plan := .plan -}}
{{- if .step.values.name -}}
  {{- toString .step.values.name -}}
{{- else -}}
  {{- $kind := kebabcase .step.step -}}
  {{- $name := "" -}}
  {{- range $n := untilStep 1 (int (add 2 (len $plan.names))) 1 -}}
    {{- $try := printf "%s-%d" $kind $n -}}
    {{- if and (not $name) (not (hasKey $plan.names $try)) -}}{{- $name = $try -}}{{- end -}}
  {{- end -}}
  {{- $_ := set $plan.names $name true -}}
  {{- $name -}}
{{- end -}}
{{- end -}}

{{/* initbox.image returns the name of the image: by digest, by tag, or with the chart's own version. */}}
{{- define "initbox.image" -}}
{{- $image := .settings.image -}}
{{- if not $image.repository -}}
  {{- fail "initbox: the values lack initbox.image.repository, or global.initbox.image.repository\nhint: --set initbox.image.repository=registry.example/initbox" -}}
{{- end -}}
{{- if $image.digest -}}
  {{- if not (regexMatch "^sha256:[0-9a-f]{64}$" $image.digest) -}}
    {{- fail (printf "initbox: image.digest: %q is not a digest, sha256: and 64 hexadecimal digits" $image.digest) -}}
  {{- end -}}
  {{- printf "%s%s@%s" $image.repository (ternary (printf ":%s" $image.tag) "" (not (empty $image.tag))) $image.digest -}}
{{- else -}}
  {{- printf "%s:%s" $image.repository (default (include "initbox.version" .root) $image.tag) -}}
{{- end -}}
{{- end -}}

{{/*
initbox.sidecar makes the container of a step that stays running a sidecar: with restartPolicy: Always, and a startup
probe, so that the containers after it start when it has done its work for the first time. Its port is used once in the
list.
*/}}
{{- define "initbox.sidecar" -}}
{{- $plan := .plan -}}
{{- $v := .step.values -}}
{{- $stays := or (and $v.watch (has .step.step (list "gitClone" "kubeGet" "keystore" "render"))) (and (eq .step.step "register") (eq (toString $v.hold) "true")) -}}
{{- if $stays -}}
  {{- $_ := set .container "restartPolicy" "Always" -}}
  {{- if not (or (hasKey $v "http") (hasKey $v "startupProbe")) -}}
    {{- $port := "" -}}
    {{- range $n := untilStep 19500 (int (add 19502 (len $plan.ports))) 1 -}}
      {{- if and (not $port) (not (hasKey $plan.ports (toString $n))) -}}{{- $port = toString $n -}}{{- end -}}
    {{- end -}}
    {{- $_ := set $plan.ports $port true -}}
    {{- $_ := set $v "http" (printf ":%s" $port) -}}
  {{- end -}}
  {{- /* initbox itself ends when its deadline passes, and says why; the probe must not end it before. */ -}}
  {{- $timeout := include "initbox.text" ($v.timeout | default $plan.settings.timeout | default "5m") -}}
  {{- $seconds := include "initbox.seconds" $timeout | int -}}
  {{- if eq $seconds 0 -}}{{- $seconds = 86400 -}}{{- end -}}
  {{- $key := ternary "http" "startupProbe" (hasKey $v "http") -}}
  {{- $probe := include "initbox.text" (get $v $key) -}}
  {{- if regexMatch "^(127\\.|localhost|\\[::1\\])" $probe -}}
    {{- fail (printf "%s: %s: %s: the kubelet cannot reach this address\nhint: a port number, or leave the key out" $.step.where $key $probe) -}}
  {{- end -}}
  {{- if hasPrefix "/" $probe -}}
    {{- $_ := set .container "startupProbe" (dict "exec" (dict "command" (list "/bin/initbox" "wait-for-service" (printf "file://%s" $probe) "--timeout=20s" "--termination-log="))
        "timeoutSeconds" 25 "periodSeconds" 1 "failureThreshold" (max 1 (div (add $seconds 40) 20))) -}}
  {{- else -}}
    {{- $_ := set .container "startupProbe" (dict "httpGet" (dict "port" (regexFind "[0-9]+$" $probe | int)) "periodSeconds" 1 "failureThreshold" (add $seconds 10)) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/*
initbox.env returns a container's variables as a JSON array. First what initbox reads about the Pod, since later ones
may refer to it; then the chart's values, extraEnv and env. Of variables with the same name, the last wins.
*/}}
{{- define "initbox.env" -}}
{{- $settings := .plan.settings -}}
{{- $v := .step.values -}}
{{- $where := .step.where -}}
{{- $all := toJson (list (omit $v "resources" "securityContext") $settings.extraEnv) -}}
{{- $entries := dict -}}
{{- $order := list -}}
{{- $pod := list (list "POD_NAME" "metadata.name") (list "POD_NAMESPACE" "metadata.namespace") (list "POD_UID" "metadata.uid") -}}
{{- $reads := or (has .step.step (list "register" "render" "request")) (eq (toString $v.pod) "true") -}}
{{- range list (list "POD_IP" "status.podIP") (list "POD_IPS" "status.podIPs") (list "HOST_IP" "status.hostIP") (list "NODE_NAME" "spec.nodeName") (list "POD_SERVICE_ACCOUNT" "spec.serviceAccountName") -}}
  {{- if or $reads (contains (printf "$(%s)" (first .)) $all) -}}{{- $pod = append $pod . -}}{{- end -}}
{{- end -}}
{{- range $pod -}}
  {{- $order = append $order (first .) -}}
  {{- $_ := set $entries (first .) (dict "name" (first .) "valueFrom" (dict "fieldRef" (dict "fieldPath" (last .)))) -}}
{{- end -}}
{{- $own := dict -}}
{{- range $variable, $key := dict "INITBOX_TIMEOUT" "timeout" "INITBOX_LOG_FORMAT" "logFormat" "INITBOX_LOG_LEVEL" "logLevel" -}}
  {{- with get $settings $key -}}{{- $_ := set $own $variable (dict "value" (include "initbox.text" .)) -}}{{- end -}}
{{- end -}}
{{- range $layer := list $own $settings.extraEnv ($v.env | default dict) -}}
  {{- if not (kindIs "map" $layer) -}}{{- fail (printf "%s: env: want a map of names and values, such as {LANG: C, PGPASSWORD: secret/db/password}" $where) -}}{{- end -}}
  {{- range $variable, $value := $layer -}}
    {{- if has $variable (list "true" "false") -}}
      {{- fail (printf "%s: env: %s is not a variable: YAML reads y, n, yes, no, on and off as true or false, so write the name in quotes" $where $variable) -}}
    {{- end -}}
    {{- if not (hasKey $entries $variable) -}}{{- $order = append $order $variable -}}{{- end -}}
    {{- $_ := set $entries $variable (include "initbox.variable" (dict "where" (printf "%s: env: %s" $where $variable) "name" $variable "value" $value) | fromJson) -}}
  {{- end -}}
{{- end -}}
{{- $env := list -}}
{{- range $order -}}{{- $env = append $env (get $entries .) -}}{{- end -}}
{{- toJson $env -}}
{{- end -}}

{{/* initbox.variable returns one variable, as JSON, from secret/NAME/KEY, configmap/NAME/KEY, field/PATH, resource/… or text. */}}
{{- define "initbox.variable" -}}
{{- $entry := dict "name" .name -}}
{{- $text := include "initbox.text" .value -}}
{{- if kindIs "map" .value -}}
  {{- if not (or (hasKey .value "value") (hasKey .value "valueFrom")) -}}{{- fail (printf "%s: want value or valueFrom, as in a container's env" .where) -}}{{- end -}}
  {{- $entry = mustMergeOverwrite $entry .value -}}
{{- else if kindIs "slice" .value -}}
  {{- fail (printf "%s: a list is not the value of a variable" .where) -}}
{{- else if regexMatch "^(secret|configmap)/" $text -}}
  {{- if not (regexMatch "^(secret|configmap)/[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-._a-zA-Z0-9]+$" $text) -}}
    {{- fail (printf "%s: %q is not a reference\nhint: secret/NAME/KEY or configmap/NAME/KEY; a text that begins like one is {value: …}" .where $text) -}}
  {{- end -}}
  {{- $parts := splitList "/" $text -}}
  {{- $kind := get (dict "secret" "secretKeyRef" "configmap" "configMapKeyRef") (index $parts 0) -}}
  {{- $_ := set $entry "valueFrom" (dict $kind (dict "name" (index $parts 1) "key" (index $parts 2))) -}}
{{- else if hasPrefix "field/" $text -}}
  {{- $_ := set $entry "valueFrom" (dict "fieldRef" (dict "fieldPath" (trimPrefix "field/" $text))) -}}
{{- else if hasPrefix "resource/" $text -}}
  {{- $parts := splitList "/" $text -}}
  {{- $ref := dict "resource" (last $parts) -}}
  {{- if eq (len $parts) 3 -}}{{- $_ := set $ref "containerName" (index $parts 1) -}}{{- end -}}
  {{- if or (gt (len $parts) 3) (not (regexMatch "^(limits|requests)\\..+$" (last $parts))) -}}
    {{- fail (printf "%s: %q is not a reference\nhint: resource/limits.memory, or resource/CONTAINER/limits.memory for that of another container" .where $text) -}}
  {{- end -}}
  {{- $_ := set $entry "valueFrom" (dict "resourceFieldRef" $ref) -}}
{{- else -}}
  {{- $_ := set $entry "value" $text -}}
{{- end -}}
{{- toJson $entry -}}
{{- end -}}

{{/* initbox.addMount mounts what "mounts" names at a path, read-only: a reference, or a volume of the Pod. */}}
{{- define "initbox.addMount" -}}
{{- $ref := toString .ref -}}
{{- if not (hasPrefix "/" .path) -}}{{- fail (printf "%s: %q is not an absolute path" .where .path) -}}{{- end -}}
{{- if not (contains "/" $ref) -}}{{- $ref = printf "volume/%s" $ref -}}{{- end -}}
{{- $scratch := dict "mounts" dict -}}
{{- $text := include "initbox.ref" (dict "plan" .plan "container" $scratch "where" .where "text" $ref) -}}
{{- if not $scratch.mounts -}}
  {{- fail (printf "%s: %q is not a reference\nhint: configmap/NAME, secret/NAME/KEY, pvc/NAME, or the name of a volume of the Pod" .where $ref) -}}
{{- end -}}
{{- range $at, $mount := $scratch.mounts -}}
  {{- $mount = set $mount "mountPath" $.path -}}
  {{- with trimPrefix $at $text | trimPrefix "/" -}}{{- $_ := set $mount "subPath" . -}}{{- end -}}
  {{- $_ := set $.container.mounts $.path $mount -}}
{{- end -}}
{{- end -}}

{{/*
initbox.securityContext returns a container's securityContext, as JSON: what Pod Security calls restricted, but for
steps that give files to other users, which run as root with the capabilities for that, and for sysctl. The chart's
values and then those of the step are merged over it.
*/}}
{{- define "initbox.securityContext" -}}
{{- $v := .step.values -}}
{{- $context := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "runAsNonRoot" true "capabilities" (dict "drop" (list "ALL")) "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- $context = mustMergeOverwrite $context (deepCopy .plan.settings.securityContext) -}}
{{- if .plan.settings.openshift -}}{{- $context = omit $context "runAsUser" "runAsGroup" -}}{{- end -}}
{{- $own := $v.securityContext | default dict -}}
{{- $arguments := list -}}
{{- range rest .words -}}{{- if not (hasPrefix "--" .) -}}{{- $arguments = append $arguments . -}}{{- end -}}{{- end -}}
{{- $modes := list $v.mode $v.dirMode -}}
{{- $owners := include "initbox.list" $v.owner | fromJsonArray -}}
{{- if has .step.step (list "prepare" "copy" "fetch" "kubeGet" "trustBundle") -}}
  {{- /* These take settings in their arguments, too. */ -}}
  {{- range $word := $arguments -}}
    {{- range regexFindAll "[#&]owner=[^&]*" $word -1 -}}{{- $owners = append $owners (regexReplaceAll "^.owner=" . "") -}}{{- end -}}
    {{- $modes = append $modes (regexFindAll "[#&](dir-)?mode=[^&]*" $word -1) -}}
  {{- end -}}
{{- end -}}
{{- $gives := false -}}
{{- range $owners -}}{{- if ne (include "initbox.text" . | splitList "=" | last) "auto" -}}{{- $gives = true -}}{{- end -}}{{- end -}}
{{- if eq (toString $v.dryRun) "true" -}}
{{- else if eq .step.step "sysctl" -}}
  {{- if eq (get $own "privileged" | toString) "false" -}}
  {{- else if and (not $v.file) (regexMatch "^(/[^\n]*(\n|$))+$" (join "\n" $arguments)) (not (regexMatch "(?m)^/(sys|proc)/" (join "\n" $arguments))) -}}
    {{- $context = mustMergeOverwrite $context (dict "runAsUser" 0 "runAsNonRoot" false) -}}
  {{- else -}}
    {{- $context = mustMergeOverwrite (omit $context "allowPrivilegeEscalation" "capabilities" "seccompProfile") (dict "privileged" true "runAsUser" 0 "runAsNonRoot" false) -}}
  {{- end -}}
{{- else if $gives -}}
  {{- $add := list "CHOWN" "DAC_OVERRIDE" "FOWNER" -}}
  {{- if regexMatch "(^|[^0-7])0?[2367][0-7]{3}([^0-7]|$)|g?[+=][rwxX]*s" (toString $modes) -}}{{- $add = append $add "FSETID" -}}{{- end -}}
  {{- $context = mustMergeOverwrite $context (dict "runAsUser" 0 "runAsNonRoot" false "capabilities" (dict "drop" (list "ALL") "add" $add)) -}}
{{- end -}}
{{- mustMergeOverwrite $context (deepCopy $own) | toJson -}}
{{- end -}}
