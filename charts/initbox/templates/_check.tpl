{{- /*
initbox.check fails if a step or a key of it does not exist, or if a value cannot be one of its flag.
(dict "step" "gitClone" "values" $map "where" "shop.web.init: step 2")
*/ -}}
{{- define "initbox.check" -}}
{{- $table := include "initbox.table" . | fromJson }}
{{- $step := get $table .step }}
{{- if not $step }}
  {{- $near := include "initbox.check.near" (list .step (keys $table)) }}
  {{- fail (printf "%s: unknown step %q: %s" .where .step ($near | default (printf "steps are %s" (keys $table | sortAlpha | join ", ")))) }}
{{- end }}
{{- $where := printf "%s (%s)" .where .step }}
{{- range $key := keys .values | sortAlpha }}
  {{- if not (or (hasKey $step.flags $key) (has $key $step.keys)) }}
    {{- $known := concat (keys $step.flags) $step.keys }}
    {{- $near := include "initbox.check.near" (list $key $known) }}
    {{- fail (printf "%s: unknown key %q: %s" $where $key ($near | default (printf "keys are %s, and the flags that initbox %s --help shows, in camelCase" ($step.keys | sortAlpha | join ", ") $step.command))) }}
  {{- end }}
{{- end }}
{{- range $key, $flag := $step.flags }}
  {{- if hasKey $.values $key }}
    {{- $problem := include "initbox.check.problem" (list $flag.kind (get $.values $key)) }}
    {{- if $problem }}
      {{- fail (printf "%s: %s: %s" $where $key $problem) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* initbox.check.problem says why a value cannot be one of a flag of a kind: (list KIND VALUE). It yields nothing if it can. */ -}}
{{- define "initbox.check.problem" -}}
{{- $kind := index . 0 }}
{{- $value := index . 1 }}
{{- $type := kindOf $value }}
{{- if and (eq $kind "bool") (ne $type "bool") -}}
  want true or false, without quotes
{{- else if and (has $kind (list "string" "list")) (eq $type "bool") -}}
  want text, got {{ $value }}: YAML reads yes, no, on and off as true or false, so write the value in quotes
{{- else if or (eq $type "map") (and (eq $type "slice") (ne $kind "list")) -}}
  want {{ ternary "a text or a list of texts" "a text" (eq $kind "list") }}, got a {{ ternary "map" "list" (eq $type "map") }}
{{- else if eq $type "slice" -}}
  {{- $wrong := list }}
  {{- range $i, $one := $value }}
    {{- if has (kindOf $one) (list "map" "slice" "bool" "invalid") -}}
      {{- $wrong = append $wrong (printf "item %d: want text%s" (add1 $i) (ternary ": YAML reads yes, no, on and off as true or false, so write the value in quotes" "" (kindIs "bool" $one))) -}}
    {{- end }}
  {{- end }}
  {{- if $wrong }}{{ first $wrong }}{{ end }}
{{- end }}
{{- end }}

{{- /*
initbox.check.near asks for the name that a misspelt one was meant to be: (list NAME KNOWN). It is one that is the same in
another case or with other separators, one with which it begins or that begins with it, or one that differs in at most
two characters, and in fewer than half of them. It yields nothing if there is none.
*/ -}}
{{- define "initbox.check.near" -}}
{{- $name := index . 0 | lower | replace "-" "" | replace "_" "" | trunc 40 }}
{{- $best := "" }}
{{- $least := 3 }}
{{- range $known := index . 1 | sortAlpha }}
  {{- $other := lower $known }}
  {{- $gap := max (sub (len $name) (len $other)) (sub (len $other) (len $name)) }}
  {{- $n := 3 }}
  {{- if and (ge (len $name) 3) (ge (len $other) 3) (or (hasPrefix $other $name) (hasPrefix $name $other)) }}
    {{- $n = min 1 $gap }}
  {{- else if le $gap 2 }}
    {{- $n = include "initbox.check.slips" (list $name $other) | int }}
  {{- end }}
  {{- if and (lt (int $n) (int $least)) (lt (mul 2 $n) (len $name)) }}
    {{- $best = $known }}
    {{- $least = int $n }}
  {{- end }}
{{- end }}
{{- with $best }}did you mean {{ . }}?{{ end }}
{{- end }}

{{- /*
initbox.check.slips counts the characters to leave out, to add, to replace or to swap with the next one to make the second
text of the first: (list A B).
*/ -}}
{{- define "initbox.check.slips" -}}
{{- $a := index . 0 | splitList "" }}
{{- $b := index . 1 | splitList "" }}
{{- $above := list }}
{{- $row := untilStep 0 (int (add1 (len $b))) 1 }}
{{- range $i, $x := $a }}
  {{- $next := list (add1 $i) }}
  {{- range $j, $y := $b }}
    {{- $n := min (add1 (last $next)) (add1 (index $row (int (add1 $j)))) (add (index $row $j) (ternary 0 1 (eq $x $y))) }}
    {{- if and $i $j }}
      {{- if and (eq $x (index $b (int (sub $j 1)))) (eq $y (index $a (int (sub $i 1)))) }}
        {{- $n = min $n (add1 (index $above (int (sub $j 1)))) }}
      {{- end }}
    {{- end }}
    {{- $next = append $next $n }}
  {{- end }}
  {{- $above = $row }}
  {{- $row = $next }}
{{- end }}
{{- last $row }}
{{- end }}
