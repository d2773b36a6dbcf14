{{/*
initbox.steps returns the checked steps of a list as a JSON array of {step, values, where}: the step's name, its keys,
and the place that messages name. Its argument is that of the public templates:

  (list $ "shop.web.init")                       a named template that yields the list
  (dict "root" $ "steps" (list (dict "wait" …)))  the list itself
  (dict "root" $ "step" (dict "wait" …))          a list of one
*/}}
{{- define "initbox.steps" -}}
{{- $place := "initbox" -}}
{{- $list := list -}}
{{- if kindIs "slice" . -}}
  {{- if ne (len .) 2 -}}{{- fail "initbox: want (list $ \"NAME\"), with the name of the template that has the steps" -}}{{- end -}}
  {{- $place = index . 1 -}}
  {{- $list = include $place (index . 0) | fromYamlArray -}}
{{- else if not (hasKey . "root") -}}
  {{- fail "initbox: want (list $ \"NAME\"), or (dict \"root\" $ \"step\" STEP)" -}}
{{- else if hasKey . "step" -}}
  {{- $list = list .step | toYaml | fromYamlArray -}}
{{- else if hasKey . "steps" -}}
  {{- $list = .steps | toYaml | fromYamlArray -}}
{{- end -}}
{{- /* fromYamlArray returns an error as the only element. */ -}}
{{- if and (eq (len $list) 1) (kindIs "string" (first $list)) (contains "error" (first $list)) -}}
  {{- $hint := "each step is a line such as - wait: {for: \"tcp://db:5432\"}; quote texts with a colon, # or braces" -}}
  {{- if contains "cannot unmarshal" (first $list) -}}
    {{- fail (printf "%s: this is not a list of steps: a step begins with a dash\nhint: %s" $place $hint) -}}
  {{- end -}}
  {{- fail (printf "%s: this is not a list of steps: %s\nhint: %s" $place (first $list) $hint) -}}
{{- end -}}
{{- if not $list -}}
  {{- fail (printf "%s: the list has no steps\nhint: leave out the calls of initbox if there is nothing to do" $place) -}}
{{- end -}}
{{- $steps := list -}}
{{- range $i, $step := $list -}}
  {{- $where := printf "%s: step %d" $place (add1 $i) -}}
  {{- if not (kindIs "map" $step) -}}
    {{- fail (printf "%s: %s is not a step\nhint: a step is a map of one key, such as - wait: {for: \"tcp://db:5432\"}" $where (toJson $step)) -}}
  {{- end -}}
  {{- if ne (len $step) 1 -}}
    {{- fail (printf "%s: a step has one key, and this one has %s\nhint: begin each step with a dash, and indent its keys further than its name" $where (keys $step | sortAlpha | join ", " | default "none")) -}}
  {{- end -}}
  {{- range $name, $values := $step -}}
    {{- if kindIs "invalid" $values -}}{{- $values = dict -}}{{- end -}}
    {{- if not (kindIs "map" $values) -}}
      {{- include "initbox.check" (dict "step" $name "values" dict "where" $where) -}}
      {{- $key := get (dict "request" "url" "gitClone" "url" "fetch" "url" "render" "from" "copy" "from" "merge" "from" "prepare" "paths"
          "sysctl" "set" "generate" "what" "trustBundle" "from" "keystore" "secret" "install" "to" "register" "url" "deregister" "timeout") $name | default "for" -}}
      {{- fail (printf "%s (%s): %s is not a map of keys\nhint: - %s: {%s: %s}" $where $name (toJson $values) $name $key (toJson $values)) -}}
    {{- end -}}
    {{- $set := dict -}}
    {{- range $key, $value := $values -}}{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $set $key $value -}}{{- end -}}{{- end -}}
    {{- include "initbox.check" (dict "step" $name "values" $set "where" $where) -}}
    {{- $checked := dict "step" $name "values" $set "where" (printf "%s (%s)" $where $name) -}}
    {{- include "initbox.shapes" $checked -}}
    {{- $steps = append $steps $checked -}}
  {{- end -}}
{{- end -}}
{{- toJson $steps -}}
{{- end -}}

{{/* initbox.shapes fails unless the keys of a step that are no flags have values of the right kind. */}}
{{- define "initbox.shapes" -}}
{{- $step := . -}}
{{- $lists := list "for" "from" "links" "paths" "url" -}}
{{- $shapes := dict "env" "map" "mounts" "map" "resources" "map" "securityContext" "map" "merge" "true or false" "readOnly" "true or false"
    "name" "text" "mountPath" "text" "to" "text" "what" "text" "secret" "text" "volume" "string or map" "set" "list of texts or a map" -}}
{{- range $lists -}}{{- $_ := set $shapes . "text or a list of texts" -}}{{- end -}}
{{- if has .step (list "render" "merge") -}}{{- $shapes = omit $shapes "set" -}}{{- end -}}
{{- if eq .step "register" -}}{{- $shapes = omit $shapes "url" -}}{{- end -}}
{{- range $key, $want := $shapes -}}
  {{- if hasKey $step.values $key -}}
    {{- $value := get $step.values $key -}}
    {{- $kind := kindOf $value -}}
    {{- $fits := or (contains $kind $want) (and (eq $kind "bool") (contains "true" $want)) (and (has $kind (list "string" "float64")) (contains "text" $want)) -}}
    {{- if and (eq $kind "slice") (contains "list" $want) -}}
      {{- $fits = true -}}
      {{- range $value -}}{{- if not (has (kindOf .) (list "string" "float64")) -}}{{- $fits = false -}}{{- end -}}{{- end -}}
    {{- end -}}
    {{- if not $fits -}}{{- fail (printf "%s: %s: want %s%s, got %s" $step.where $key (ternary "" "a " (hasPrefix "true" $want)) (get (dict "env" "map of names and values, such as {LANG: C, PGPASSWORD: secret/db/password}" "mounts" "map such as {/ca.crt: configmap/ca/ca.crt}") $key | default (replace "string" "text" $want)) (toJson $value)) -}}{{- end -}}
  {{- end -}}
{{- end -}}
{{- range $path, $ref := .values.mounts | default dict -}}
  {{- if not (kindIs "string" $ref) -}}{{- fail (printf "%s: mounts: %s: want a text such as configmap/NAME, got %s" $step.where $path (toJson $ref)) -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/*
initbox.merged joins waits that follow one another and have the same keys but for their targets, since one container
waits for all at once. "any" and "min" count the targets, and outputs have one writer, so these stay apart.
*/}}
{{- define "initbox.merged" -}}
{{- $merged := list -}}
{{- $last := dict -}}
{{- range $step := . -}}
  {{- $rest := omit $step.values "for" -}}
  {{- $joins := and (has $step.step (list "wait" "waitForDns")) (hasKey $step.values "for") (get $step.values "merge" | toString | ne "false") -}}
  {{- range $key := list "any" "min" "output" "print" -}}{{- if hasKey $rest $key -}}{{- $joins = false -}}{{- end -}}{{- end -}}
  {{- if and $joins $last (eq (get $last "step") $step.step) (eq (toJson (get $last "rest")) (toJson $rest)) -}}
    {{- $_ := set $last.values "for" (concat (include "initbox.list" $last.values.for | fromJsonArray) (include "initbox.list" $step.values.for | fromJsonArray)) -}}
  {{- else -}}
    {{- $copy := deepCopy $step -}}
    {{- $merged = append $merged $copy -}}
    {{- $last = ternary (dict "step" $step.step "rest" $rest "values" $copy.values) dict $joins -}}
  {{- end -}}
{{- end -}}
{{- toJson $merged -}}
{{- end -}}

{{/* initbox.list returns a value as a JSON array: nothing, one, or what is a list already. */}}
{{- define "initbox.list" -}}
{{- if kindIs "slice" . -}}{{- toJson . -}}{{- else if kindIs "invalid" . -}}[]{{- else -}}{{- list . | toJson -}}{{- end -}}
{{- end -}}

{{/* initbox.text returns a value as text. YAML's numbers are floats in templates, which print as 1e+06. */}}
{{- define "initbox.text" -}}
{{- if kindIs "float64" . -}}
  {{- if eq . (floor .) -}}{{- printf "%.0f" . -}}{{- else -}}{{- . -}}{{- end -}}
{{- else if not (kindIs "invalid" .) -}}{{- toString . -}}{{- end -}}
{{- end -}}

{{/* initbox.seconds returns a duration such as 1h30m, 90s or 90 in whole seconds. */}}
{{- define "initbox.seconds" -}}
{{- $seconds := 0.0 -}}
{{- if regexMatch "^[0-9.]+$" . -}}{{- $seconds = float64 . -}}
{{- else -}}
  {{- range $part := regexFindAll "[0-9.]+(ms|[dhms])" . -1 -}}
    {{- $number := regexFind "^[0-9.]+" $part | float64 -}}
    {{- $unit := get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0) (regexFind "[a-z]+$" $part) -}}
    {{- $seconds = addf $seconds (mulf $number $unit) -}}
  {{- end -}}
{{- end -}}
{{- printf "%.0f" (ceil $seconds) -}}
{{- end -}}

{{/*
initbox.settings returns, as JSON, the values of the chart that uses this one: .Values.initbox, and what is empty there
from .Values.global.initbox. A tag or a digest replaces both of the layer below.
*/}}
{{- define "initbox.settings" -}}
{{- $values := .Values -}}
{{- $settings := dict "image" dict "openshift" "auto" "extraEnv" dict "securityContext" dict "podSecurityContext" dict
    "resources" (dict "requests" (dict "cpu" "10m" "memory" "32Mi")) -}}
{{- range $layer := list (get (get $values "global" | default dict) "initbox" | default dict) (get $values "initbox" | default dict) -}}
  {{- range $key, $value := $layer -}}
    {{- if eq $key "image" -}}
      {{- if or (get $value "tag") (get $value "digest") -}}{{- $_ := unset (unset $settings.image "tag") "digest" -}}{{- end -}}
      {{- range $k, $v := $value -}}{{- if $v -}}{{- $_ := set $settings.image $k (include "initbox.text" $v) -}}{{- end -}}{{- end -}}
    {{- else if has $key (list "extraEnv" "securityContext" "podSecurityContext") -}}
      {{- $_ := set $settings $key (mustMergeOverwrite (deepCopy (get $settings $key)) (deepCopy ($value | default dict))) -}}
    {{- else if or (kindIs "bool" $value) $value -}}
      {{- $_ := set $settings $key $value -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if eq (toString $settings.openshift) "auto" -}}
  {{- $_ := set $settings "openshift" (.Capabilities.APIVersions.Has "security.openshift.io/v1") -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}
