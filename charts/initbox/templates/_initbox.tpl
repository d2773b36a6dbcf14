{{/*
The templates that charts call. Their argument is (list $ "NAME"), with the name of a template that yields the list of
steps; or (dict "root" $ "step" STEP), (dict "root" $ "steps" LIST). README.md has an example of each.
*/}}

{{/* initbox.initContainers yields the Pod's initContainers. */}}
{{- define "initbox.initContainers" -}}
{{- $items := list -}}
{{- range (include "initbox.plan" . | fromJson).containers -}}
  {{- $items = append $items (include "initbox.print" . | indent 2 | trim | printf "- %s") -}}
{{- end -}}
{{- join "\n" $items -}}
{{- end -}}

{{/* initbox.container yields one container, without a dash before it: (dict "root" $ "step" STEP). */}}
{{- define "initbox.container" -}}
{{- if not (kindIs "map" .) -}}
  {{- fail "initbox.container: want (dict \"root\" $ \"step\" STEP)\nhint: initbox.initContainers yields the containers of a list" -}}
{{- end -}}
{{- $plan := include "initbox.plan" (set (pick . "root" "step" "steps") "alone" true) | fromJson -}}
{{- if ne (len $plan.containers) 1 -}}
  {{- fail (printf "initbox.container: these steps are %d containers, and not one\nhint: initbox.initContainers yields the containers of a list" (len $plan.containers)) -}}
{{- end -}}
{{- include "initbox.print" (first $plan.containers) -}}
{{- end -}}

{{/* initbox.volumes yields the volumes of the Pod that the steps need, each once. */}}
{{- define "initbox.volumes" -}}
{{- $items := list -}}
{{- range $name, $spec := (include "initbox.plan" . | fromJson).volumes -}}
  {{- $items = append $items (printf "- %s%s" (dict "name" $name | toYaml) (toYaml $spec | nindent 2)) -}}
{{- end -}}
{{- join "\n" $items -}}
{{- end -}}

{{/* initbox.mounts yields the volumeMounts of the application: what the steps have made, read-only. */}}
{{- define "initbox.mounts" -}}
{{- $items := list -}}
{{- range (include "initbox.plan" . | fromJson).mounts -}}
  {{- $items = append $items (printf "- %s\n  mountPath: %s%s" (dict "name" .name | toYaml) (toJson .mountPath) (ternary "\n  readOnly: true" "" (eq (toString .readOnly) "true"))) -}}
{{- end -}}
{{- join "\n" $items -}}
{{- end -}}

{{/* initbox.lifecycle yields the lifecycle of the application's container: a preStop hook that deregisters the Pod. */}}
{{- define "initbox.lifecycle" -}}
{{- with (include "initbox.plan" . | fromJson).preStop -}}
{{- dict "preStop" (dict "exec" (dict "command" .)) | toYaml -}}
{{- end -}}
{{- end -}}

{{/*
initbox.podSecurityContext yields the Pod's securityContext. Its argument is $, or a map of what is to be added, such as
(dict "fsGroup" 2000), with "root" $ for the chart's values. On OpenShift, which assigns users and groups, they are left
out.
*/}}
{{- define "initbox.podSecurityContext" -}}
{{- $root := dict -}}
{{- $add := dict -}}
{{- if hasKey . "Values" -}}{{- $root = . -}}{{- else -}}{{- $root = .root -}}{{- $add = omit . "root" -}}{{- end -}}
{{- $context := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- $openshift := false -}}
{{- if $root -}}
  {{- $settings := include "initbox.settings" $root | fromJson -}}
  {{- $context = mustMergeOverwrite $context $settings.podSecurityContext -}}
  {{- $openshift = $settings.openshift -}}
{{- end -}}
{{- $context = mustMergeOverwrite $context (toYaml $add | fromYaml) -}}
{{- if $openshift -}}{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" "supplementalGroups" -}}{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{/* initbox.imagePullSecrets yields the Pod's imagePullSecrets; the argument is $. */}}
{{- define "initbox.imagePullSecrets" -}}
{{- $items := list -}}
{{- range (include "initbox.settings" . | fromJson).imagePullSecrets -}}
  {{- $name := . -}}
  {{- if kindIs "map" . -}}{{- $name = .name -}}{{- end -}}
  {{- $items = append $items (printf "- name: %s" (toJson $name)) -}}
{{- end -}}
{{- join "\n" $items -}}
{{- end -}}

{{/* initbox.print yields a container as YAML, with its keys in the order in which people write them. */}}
{{- define "initbox.print" -}}
{{- $container := . -}}
{{- $lines := list -}}
{{- range $key := list "name" "image" "imagePullPolicy" "restartPolicy" "args" "env" "startupProbe" "resources" "securityContext" "volumeMounts" -}}
  {{- with get $container $key -}}{{- $lines = append $lines (dict $key . | toYaml) -}}{{- end -}}
{{- end -}}
{{- join "\n" $lines -}}
{{- end -}}
