{{/*
initbox.plan returns, as JSON, everything that the public templates print: containers, volumes, mounts, preStop. All of
it follows from the list of steps, so that the parts always fit. Its argument is that of initbox.steps.

While it is made, the plan is one map that the templates in this directory add to:

  root, settings, table   what they read
  volumes, owners         volumes by name, and what each of them is for
  paths                   mount paths that containers share: {volume, app, readOnly}
  names, ports            what is used already
*/}}
{{- define "initbox.plan" -}}
{{- $root := dict -}}
{{- if kindIs "slice" . -}}{{- $root = index . 0 -}}{{- else -}}{{- $root = .root -}}{{- end -}}
{{- $steps := include "initbox.merged" (include "initbox.steps" . | fromJsonArray) | fromJsonArray -}}
{{- $plan := dict "root" $root "settings" (include "initbox.settings" $root | fromJson) "table" (include "initbox.table" $root | fromJson)
    "volumes" dict "owners" dict "paths" dict "names" dict "ports" dict "mounts" list "preStop" list -}}
{{- include "initbox.plan.hook" (dict "plan" $plan "steps" $steps "alone" (and (kindIs "map" .) .alone)) -}}
{{- $steps = $plan.steps -}}
{{- include "initbox.plan.paths" (dict "plan" $plan "steps" $steps) -}}
{{- range $step := $steps -}}
  {{- with $step.values.name -}}
    {{- if or (not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" (toString .))) (gt (len (toString .)) 63) -}}
      {{- fail (printf "%s: name: %q is not the name of a container\nhint: up to 63 of a-z, 0-9 and dashes, such as wait-for-db" $step.where (toString .)) -}}
    {{- end -}}
    {{- if hasKey $plan.names (toString .) -}}{{- fail (printf "%s: name: another step has the name %s" $step.where .) -}}{{- end -}}
    {{- $_ := set $plan.names (toString .) true -}}
  {{- end -}}
  {{- range $key := list "http" "startupProbe" -}}
    {{- with get $step.values $key -}}
      {{- $port := include "initbox.text" . | regexFind "[0-9]+$" -}}
      {{- if and $port (hasKey $plan.ports $port) -}}{{- fail (printf "%s: %s: another step has the port %s" $step.where $key $port) -}}{{- end -}}
      {{- $_ := set $plan.ports ($port | default "none") true -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- $containers := list -}}
{{- range $step := $steps -}}
  {{- $containers = append $containers (include "initbox.plan.container" (dict "plan" $plan "step" $step) | fromJson) -}}
{{- end -}}
{{- range $path, $p := $plan.paths -}}
  {{- if $p.app -}}
    {{- $mount := dict "name" $p.volume "mountPath" $path -}}
    {{- if $p.readOnly -}}{{- $_ := set $mount "readOnly" true -}}{{- end -}}
    {{- $_ := set $plan "mounts" (append $plan.mounts $mount) -}}
  {{- end -}}
{{- end -}}
{{- dict "containers" $containers "volumes" $plan.volumes "mounts" $plan.mounts "preStop" $plan.preStop | toJson -}}
{{- end -}}

{{/*
initbox.plan.hook finds the preStop hook: it deregisters what "register" steps register, by the program that an
"install" step leaves in a volume. It sets plan.steps: without those of "deregister", which are the hook's settings and
no containers, and with the "install" step.
*/}}
{{- define "initbox.plan.hook" -}}
{{- $plan := .plan -}}
{{- $steps := list -}}
{{- $settings := dict -}}
{{- $states := list -}}
{{- $tools := "" -}}
{{- $wanted := "" -}}
{{- range $i, $step := .steps -}}
  {{- if eq $step.step "deregister" -}}
    {{- $settings = $step.values -}}
    {{- $wanted = $step.where -}}
  {{- else -}}
    {{- if eq $step.step "register" -}}
      {{- if not $step.values.state -}}
        {{- $_ := set $step.values "state" (printf "/initbox-state/registered%s" (ternary "" (printf "-%d" (len $states)) (empty $states))) -}}
      {{- end -}}
      {{- if or $step.values.deregisterUrl $step.values.preset -}}
        {{- $states = append $states $step.values.state -}}
        {{- $_ := set $step "hook" true -}}
      {{- end -}}
    {{- else if and (eq $step.step "install") (not $tools) -}}
      {{- $tools = $step.values.to | default "/initbox-tools" -}}
    {{- end -}}
    {{- $steps = append $steps $step -}}
  {{- end -}}
{{- end -}}
{{- if and $wanted (not $states) -}}
  {{- fail (printf "%s: no step registers anything that can be deregistered\nhint: a register step needs preset or deregisterUrl; this step sets the flags of its preStop hook" $wanted) -}}
{{- end -}}
{{- if and $states (not .alone) -}}
  {{- if not $tools -}}
    {{- $tools = "/initbox-tools" -}}
    {{- $steps = prepend $steps (dict "step" "install" "values" (dict "to" $tools) "where" "the install step of the preStop hook") -}}
  {{- end -}}
  {{- $flags := mustMergeOverwrite (dict "timeout" "10s" "terminationLog" "") (omit $settings "state" "name" "env" "resources" "securityContext" "volume" "mountPath" "mounts" "readOnly") -}}
  {{- $words := list (printf "%s/initbox" (trimSuffix "/" $tools)) -}}
  {{- range $i, $state := $states -}}
    {{- if $i -}}{{- $words = append $words "--" -}}{{- end -}}
    {{- $words = concat $words (include "initbox.words" (dict "plan" $plan "container" (dict "mounts" dict) "step" (dict "step" "deregister" "values" (set (deepCopy $flags) "state" $state) "where" $wanted)) | fromJsonArray) -}}
  {{- end -}}
  {{- $_ := set $plan "preStop" $words -}}
{{- end -}}
{{- $_ := set $plan "hookPaths" (ternary (list $tools) list (and (not (empty $states)) (ne $tools ""))) -}}
{{- range $states -}}{{- $_ := set $plan "hookPaths" (append $plan.hookPaths (dir .)) -}}{{- end -}}
{{- $_ := set $plan "steps" $steps -}}
{{- end -}}

{{/*
initbox.plan.paths finds the mount paths that containers share: those of "volume", and then those that steps write to,
each of which is an emptyDir unless it lies in a path that is there already.
*/}}
{{- define "initbox.plan.paths" -}}
{{- $plan := .plan -}}
{{- $written := dict -}}
{{- range $step := .steps -}}
  {{- $v := $step.values -}}
  {{- $outs := include "initbox.outputs" $step | fromJsonArray -}}
  {{- if $v.volume -}}
    {{- $path := $v.mountPath | default (first $outs) -}}
    {{- if and (not $path) (kindIs "slice" $v.paths) -}}{{- if eq (len $v.paths) 1 -}}{{- $path = regexFind "^[^:#]+" (first $v.paths) -}}{{- end -}}{{- end -}}
    {{- if not $path -}}{{- fail (printf "%s: volume: where is it mounted?\nhint: mountPath: /data" $step.where) -}}{{- end -}}
    {{- include "initbox.addPath" (dict "plan" $plan "where" $step.where "path" $path "volume" $v.volume "hidden" (eq $step.step "sysctl") "readOnly" (ternary $v.readOnly (ne $step.step "prepare") (hasKey $v "readOnly"))) -}}
  {{- else if $v.mountPath -}}
    {{- $_ := set $written (trimSuffix "/" $v.mountPath) $step -}}
  {{- end -}}
  {{- range $outs -}}{{- if not (hasKey $written .) -}}{{- $_ := set $written . $step -}}{{- end -}}{{- end -}}
{{- end -}}
{{- /* Shorter paths first: /config has a volume before /config/certs is looked at. */ -}}
{{- $order := list -}}
{{- range $path, $step := $written -}}{{- $order = append $order (printf "%05d %s" (len $path) $path) -}}{{- end -}}
{{- range $entry := sortAlpha $order -}}
  {{- $path := substr 6 (len $entry) $entry -}}
  {{- $step := get $written $path -}}
  {{- if not (include "initbox.within" (dict "plan" $plan "path" $path)) -}}
    {{- if has $path (list "" "/" "/bin" "/boot" "/dev" "/etc" "/lib" "/lib64" "/proc" "/root" "/sbin" "/sys" "/usr" "/var") -}}
      {{- fail (printf "%s: a volume at %s would hide what the application has there\nhint: write to a directory of its own, such as /config; mountPath and volume say where another volume is" $step.where (default "/" $path)) -}}
    {{- end -}}
    {{- include "initbox.addPath" (dict "plan" $plan "where" $step.where "path" $path "volume" "emptyDir" "readOnly" (ternary $step.values.readOnly true (hasKey $step.values "readOnly"))) -}}
  {{- end -}}
{{- end -}}
{{- /* The state is of no use to the application, unless its hook reads it. */ -}}
{{- with get $plan.paths "/initbox-state" -}}{{- $_ := set . "app" false -}}{{- end -}}
{{- range $path := $plan.hookPaths -}}
  {{- with get $plan.paths (include "initbox.within" (dict "plan" $plan "path" $path)) -}}
    {{- if .owned -}}{{- $_ := set (set . "app" true) "readOnly" (eq $path (first $plan.hookPaths)) -}}{{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/* initbox.outputs returns the directories that a step writes to, as a JSON array. */}}
{{- define "initbox.outputs" -}}
{{- $v := .values -}}
{{- $outs := list -}}
{{- $destinations := list -}}
{{- with $v.to -}}
  {{- if not (hasPrefix "/" (toString .)) -}}{{- fail (printf "%s: to: %q is not an absolute path, such as /config" $.where (toString .)) -}}{{- end -}}
  {{- $destinations = append $destinations (toString .) -}}
{{- end -}}
{{- if has .step (list "render" "copy") -}}
  {{- range include "initbox.list" $v.paths | fromJsonArray -}}
    {{- with regexFind ":/[^#]*" (toString .) -}}{{- $destinations = append $destinations (trimPrefix ":" .) -}}{{- end -}}
  {{- end -}}
{{- end -}}
{{- range $to := $destinations -}}
  {{- $to = regexFind "^[^#]*" $to -}}
  {{- $isFile := or (eq $.step "merge") (and (eq $.step "generate") (ne (toString $v.what) "certificate")) -}}
  {{- if not (has $.step (list "gitClone" "install" "keystore" "trustBundle")) -}}
    {{- $isFile = or $isFile (and (regexMatch "[^/]\\.[A-Za-z][A-Za-z0-9]*$" $to) (not (hasSuffix ".d" $to))) -}}
  {{- end -}}
  {{- if contains "$(" $to -}}
    {{- /* No volume can be mounted at a path that only the kubelet knows: it is mounted above it. */ -}}
    {{- $to = regexFind "^[^$]*" $to -}}
    {{- $isFile = not (hasSuffix "/" $to) -}}
  {{- end -}}
  {{- $outs = append $outs (ternary (dir $to) (trimSuffix "/" $to) (and $isFile (not (hasSuffix "/" $to)))) -}}
{{- end -}}
{{- range $key := list "pem" "jks" "pkcs12" "output" "touch" "envFile" "once" "state" "gitDir" "startupProbe" -}}
  {{- $file := include "initbox.text" (get $v $key) -}}
  {{- if hasPrefix "/" $file -}}{{- $outs = append $outs (dir $file) -}}{{- end -}}
{{- end -}}
{{- with $v.hashDir -}}{{- $outs = append $outs (trimSuffix "/" .) -}}{{- end -}}
{{- uniq $outs | toJson -}}
{{- end -}}

{{/* initbox.within returns the shared mount path that a path lies in, the longest one, or nothing. */}}
{{- define "initbox.within" -}}
{{- $path := .path -}}
{{- $found := "" -}}
{{- range $mount, $_ := .plan.paths -}}
  {{- if and (hasPrefix (printf "%s/" $mount) (printf "%s/" $path)) (gt (len $mount) (len $found)) -}}{{- $found = $mount -}}{{- end -}}
{{- end -}}
{{- $found -}}
{{- end -}}

{{/*
initbox.addPath mounts a volume at a path that containers share. The volume is emptyDir, pvc/NAME, the name of one that
the Pod has, such as that of a volumeClaimTemplate, or a map, as in the Pod's volumes.
*/}}
{{- define "initbox.addPath" -}}
{{- $plan := .plan -}}
{{- $path := trimSuffix "/" .path -}}
{{- if not (hasPrefix "/" $path) -}}{{- fail (printf "%s: mountPath: %q is not an absolute path, such as /data" .where .path) -}}{{- end -}}
{{- $name := "" -}}
{{- $owned := true -}}
{{- if kindIs "map" .volume -}}
  {{- if and (hasKey .volume "name") (not (regexMatch "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" (include "initbox.text" .volume.name))) -}}
    {{- fail (printf "%s: volume: name: %q is not the name of a volume\nhint: up to 63 of a-z, 0-9 and dashes, such as shared-data" .where (toString .volume.name)) -}}
  {{- end -}}
  {{- $name = include "initbox.addVolume" (dict "plan" $plan "key" (printf "map %s" (default $path .volume.name)) "name" (include "initbox.text" .volume.name | default (trimPrefix "/" $path)) "exact" (hasKey .volume "name") "spec" (omit .volume "name")) -}}
{{- else if eq (toString .volume) "emptyDir" -}}
  {{- $name = include "initbox.addVolume" (dict "plan" $plan "key" (printf "path %s" $path) "name" (trimPrefix "/" $path | trimPrefix "initbox-") "spec" (dict "emptyDir" dict)) -}}
{{- else if hasPrefix "pvc/" .volume -}}
  {{- $claim := trimPrefix "pvc/" .volume -}}
  {{- if not (regexMatch "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" $claim) -}}{{- fail (printf "%s: volume: %q is not the name of a claim; is a value empty?" .where .volume) -}}{{- end -}}
  {{- $name = include "initbox.addVolume" (dict "plan" $plan "key" .volume "name" (printf "pvc-%s" $claim) "spec" (dict "persistentVolumeClaim" (dict "claimName" $claim))) -}}
{{- else if regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" .volume -}}
  {{- $name = .volume -}}
  {{- $owned = false -}}
{{- else -}}
  {{- fail (printf "%s: volume: %q is not a volume\nhint: emptyDir, pvc/NAME, the name of a volume of the Pod, or a map such as {nfs: {server: …, path: …}}" .where .volume) -}}
{{- end -}}
{{- with get $plan.paths $path -}}
  {{- if ne .volume $name -}}{{- fail (printf "%s: two volumes are mounted at %s: %s and %s" $.where $path .volume $name) -}}{{- end -}}
{{- end -}}
{{- $before := get $plan.paths $path | default (dict "readOnly" true) -}}
{{- $_ := set $plan.paths $path (dict "volume" $name "app" (and $owned (not .hidden)) "owned" $owned "readOnly" (and .readOnly $before.readOnly)) -}}
{{- end -}}

{{/* initbox.addVolume adds a volume, once, and returns its name: a DNS label after initbox-, unless it is exact. */}}
{{- define "initbox.addVolume" -}}
{{- $name := .name -}}
{{- if not .exact -}}
  {{- $name = printf "initbox-%s" .name -}}
  {{- $other := get .plan.owners $name | default .key -}}
  {{- if or (not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $name)) (gt (len $name) 63) (ne $other .key) -}}
    {{- $plain := regexReplaceAll "[^a-z0-9]+" (lower .name) "-" | trunc 44 | trimAll "-" -}}
    {{- $name = printf "initbox-%s-%s" $plain (sha256sum .key | trunc 8) -}}
  {{- end -}}
{{- end -}}
{{- $_ := set .plan.owners $name .key -}}
{{- $_ := set .plan.volumes $name .spec -}}
{{- $name -}}
{{- end -}}
