{{- /*
initbox.rbac yields the Role and the RoleBinding that the k8s: targets of a list of steps need, and where it takes them,
a ClusterRole or Roles in other namespaces: what initbox rbac prints for the same command lines. Without such targets, it
yields nothing. (list $ "shop.web.init" SERVICEACCOUNT), or with the NAME of the objects as a fourth item, by default
initbox-SERVICEACCOUNT, and initbox-NAMESPACE-SERVICEACCOUNT outside the release's namespace. A list of steps may stand
for the name of their template.

Where $(NAME) of an environment variable is a part of a name, the rule is for all objects of the kind: a Role cannot name
what is known only in the Pod. The namespace is known, and so are variables with a plain text in the step's env or in
extraEnv.
*/ -}}
{{- define "initbox.rbac" -}}
{{- $root := index . 0 }}
{{- $account := index . 2 }}
{{- $namespace := $root.Release.Namespace }}
{{- if not (and $account (kindIs "string" $account)) }}
  {{- fail ("initbox.rbac: want (list $ NAME SERVICEACCOUNT), where SERVICEACCOUNT is the name of the Pod's service account") }}
{{- end }}
{{- $name := "" }}
{{- if gt (len .) 3 }}{{ $name = index . 3 }}{{ end }}
{{- $needs := list }}
{{- $steps := list $root (index . 1) }}
{{- if kindIs "slice" (index . 1) }}{{ $steps = dict "root" $root "steps" (index . 1) }}{{ end }}
{{- $extra := (include "initbox.settings" $root | fromJson).extraEnv | default dict }}
{{- range include "initbox.steps" $steps | fromJsonArray }}
  {{- $values := .values | default dict }}
  {{- $env := merge (dict) ($values.env | default dict) $extra }}
  {{- $own := include "initbox.rbac.needs" (dict "step" .step "values" $values "env" $env "where" .where "namespace" $namespace) }}
  {{- $needs = concat $needs (fromJsonArray $own) }}
{{- end }}
{{- $rules := include "initbox.rbac.rules" $needs | fromJsonArray }}
{{- range $rules }}
  {{- $elsewhere := or .cluster (ne .namespace $namespace) }}
  {{- $_ := set . "role" ($name | default (ternary (printf "initbox-%s-%s" $namespace $account) (printf "initbox-%s" $account) $elsewhere)) }}
{{- end }}
{{- $last := "" }}
{{- range $i, $r := $rules }}
  {{- $of := ternary "ClusterRole" (printf "Role %s" $r.namespace) $r.cluster }}
  {{- if ne $of $last }}
    {{- if $i }}{{ include "initbox.rbac.binding" (dict "rule" (index $rules (int (sub $i 1))) "account" $account "namespace" $namespace) }}
---
{{ end }}
    {{- $last = $of -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "ClusterRole" "Role" $r.cluster }}
metadata: {{ include "initbox.rbac.metadata" (list $r.role $r.namespace) }}
rules:
{{ else }}
{{ end }}
  {{- include "initbox.rbac.rule" $r }}
{{- end }}
{{- with last $rules }}{{ include "initbox.rbac.binding" (dict "rule" . "account" $account "namespace" $namespace) }}
{{ end }}
{{- end }}

{{- /* initbox.rbac.binding yields the binding that follows the Role of a rule. */ -}}
{{- define "initbox.rbac.binding" }}
{{- $kind := ternary "ClusterRole" "Role" .rule.cluster }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata: {{ include "initbox.rbac.metadata" (list .rule.role .rule.namespace) }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ $kind }}, name: {{ include "initbox.rbac.word" .rule.role }}}
subjects: [{kind: ServiceAccount, name: {{ include "initbox.rbac.word" .account }}, namespace: {{ include "initbox.rbac.word" .namespace }}}]
{{- end }}

{{- /* initbox.rbac.metadata yields (list NAME NAMESPACE) as a map; NAMESPACE may be empty. */ -}}
{{- define "initbox.rbac.metadata" -}}
{name: {{ include "initbox.rbac.word" (index . 0) }}{{ with index . 1 }}, namespace: {{ include "initbox.rbac.word" . }}{{ end }}}
{{- end }}

{{- /* initbox.rbac.rule yields one rule of a Role. */ -}}
{{- define "initbox.rbac.rule" -}}
- {apiGroups: [{{ include "initbox.rbac.word" .group }}], resources: [{{ include "initbox.rbac.word" .resource }}]
{{- with .names }}, resourceNames: [{{ include "initbox.rbac.words" . }}]{{ end }}, verbs: [{{ include "initbox.rbac.words" .verbs }}]}
{{- with .comment }} # {{ . }}{{ end }}
{{- end }}

{{- /* initbox.rbac.word quotes a text that YAML would not read as one. */ -}}
{{- define "initbox.rbac.word" -}}
{{- if and (regexMatch "^[a-z][a-z0-9.-]*$" .) (not (regexMatch "^(y|n|yes|no|on|off|true|false|null)$" .)) }}{{ . }}{{ else }}{{ quote . }}{{ end }}
{{- end }}

{{- /* initbox.rbac.words joins texts. */ -}}
{{- define "initbox.rbac.words" -}}
{{- $words := list }}
{{- range . }}{{ $words = append $words (include "initbox.rbac.word" .) }}{{ end }}
{{- join ", " $words }}
{{- end }}

{{- /*
initbox.rbac.rules merges needs, and sorts them by namespace, group and resource, as initbox rbac does. Rules for names are
merged only if they have the same verbs, so that no name gets those of another one.
*/ -}}
{{- define "initbox.rbac.rules" -}}
{{- $rules := list }}
{{- range $n := . }}
  {{- $about := printf "%s %s %s %s" (ternary "0" "1" $n.cluster) $n.namespace $n.group $n.resource }}
  {{- $same := dict }}
  {{- range $r := $rules }}
    {{- if and (not $same) (eq $r.about $about) (eq (empty $r.names) (empty $n.names)) (or (empty $n.names) (deepEqual $r.verbs $n.verbs)) }}
      {{- $same = $r }}
    {{- end }}
  {{- end }}
  {{- if not $same }}
    {{- $rules = append $rules (merge (dict "about" $about) $n) }}
  {{- else }}
    {{- $_ := set $same "names" (concat $same.names $n.names | uniq | sortAlpha) }}
    {{- $more := list }}
    {{- range $n.verbs }}{{ if not (has . $same.verbs) }}{{ $more = append $more . }}{{ end }}{{ end }}
    {{- $fewer := false }}
    {{- range $same.verbs }}{{ if not (has . $n.verbs) }}{{ $fewer = true }}{{ end }}{{ end }}
    {{- if $more }}
      {{- $_ := set $same "verbs" (concat $same.verbs $more) }}
      {{- $_ := set $same "comment" $n.comment }}
    {{- else if and (not $n.comment) (not $fewer) }}
      {{- $_ := set $same "comment" "" }}
    {{- end }}
  {{- end }}
{{- end }}
{{- $sorted := dict }}
{{- range $i, $n := $rules }}
  {{- $redundant := false }}
  {{- range $r := $rules }}
    {{- if and $n.names (eq $r.about $n.about) (empty $r.names) }}
      {{- $all := true }}
      {{- range $n.verbs }}{{ if not (has . $r.verbs) }}{{ $all = false }}{{ end }}{{ end }}
      {{- if $all }}{{ $redundant = true }}{{ end }}
    {{- end }}
  {{- end }}
  {{- if not $redundant }}{{ $_ := set $sorted (printf "%s %04d" $n.about $i) $n }}{{ end }}
{{- end }}
{{- $result := list }}
{{- range keys $sorted | sortAlpha }}{{ $result = append $result (get $sorted .) }}{{ end }}
{{- toJson $result }}
{{- end }}

{{- /* initbox.rbac.needs yields what one step does at the API server, as a list of rules in JSON. */ -}}
{{- define "initbox.rbac.needs" -}}
{{- $needs := list }}
{{- $v := .values }}
{{- range $flag := list "fromK8sWaitFor" "fromKubernetesEntrypoint" "compat" }}
  {{- if and (has $.step (list "wait" "kubeGet")) (get $v $flag) }}
    {{- fail (printf "%s: initbox.rbac does not read the command lines of other tools: write for: with targets instead of %s, or a Role as initbox rbac prints it" $.where $flag) }}
  {{- end }}
{{- end }}
{{- if eq .step "wait" }}
  {{- range include "initbox.rbac.targets" (list . $v.for) | fromJsonArray }}
    {{- $needs = concat $needs (include "initbox.rbac.needs.wait" (list $ .) | fromJsonArray) }}
  {{- end }}
{{- else if eq .step "kubeGet" }}
  {{- $watch := or $v.watch $v.folderAnnotation $v.uniqueNames $v.gunzip $v.fetchUrls }}
  {{- range include "initbox.rbac.targets" (list . $v.for) | fromJsonArray }}
    {{- $namespace := .namespace | default (get .settings "namespace" | default list | join "") | default ($v.namespace | default "") }}
    {{- $n := include "initbox.rbac.need" (list $ . $namespace (ternary "get" "list" (hasKey . "name")) $watch) | fromJson }}
    {{- if and $watch (eq $namespace "*") }}{{ $_ := set (set $n "cluster" true) "namespace" "" }}{{ end }}
    {{- $needs = append $needs $n }}
  {{- end }}
{{- else if eq .step "trustBundle" }}
  {{- range include "initbox.rbac.targets" (list . $v.from) | fromJsonArray }}
    {{- if eq (regexFind "^[^.]*" .kind | lower | trimSuffix "s") "clustertrustbundle" }}
      {{- $_ := set . "found" (dict "group" "certificates.k8s.io" "resource" "clustertrustbundles" "namespaced" false) }}
    {{- end }}
    {{- $needs = append $needs (include "initbox.rbac.need" (list $ . .namespace (ternary "get" "list" (hasKey . "name")) nil) | fromJson) }}
  {{- end }}
{{- else if eq .step "generate" }}
  {{- range include "initbox.rbac.targets" (list . $v.secret) | fromJsonArray }}
    {{- $get := include "initbox.rbac.need" (list $ . .namespace "get" nil) | fromJson }}
    {{- $create := set (merge (dict "verbs" (list "create") "comment" "any Secret: create cannot be limited to a name") $get) "names" list }}
    {{- if $v.renew }}{{ $_ := set $get "verbs" (list "get" "update") }}{{ end }}
    {{- $needs = concat $needs (list $create $get) }}
    {{- if $v.ownerReference }}
      {{- $owner := include "initbox.rbac.target" (list $ (printf "k8s:%s" $v.ownerReference)) | fromJson }}
      {{- $needs = append $needs (include "initbox.rbac.need" (list $ $owner .namespace "get" nil) | fromJson) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- toJson $needs }}
{{- end }}

{{- /* initbox.rbac.needs.wait yields what the wait for a target needs: (list STEP TARGET). */ -}}
{{- define "initbox.rbac.needs.wait" -}}
{{- $step := index . 0 }}
{{- $target := index . 1 }}
{{- $on := dict }}
{{- range $key, $setting := dict "condition" "condition" "jsonpath" "jsonpath" "exists" "exists" "address" "address" "gone" "gone" "ifFailed" "if-failed" "sameNode" "same-node" "namespace" "namespace" }}
  {{- $value := get $target.settings $setting }}
  {{- if not (hasKey $target.settings $setting) }}{{ $value = get $step.values $key }}{{ end }}
  {{- if kindIs "slice" $value }}{{ $value = join "," $value | default (hasKey $target.settings $setting) }}{{ end }}
  {{- $_ := set $on $key $value }}
{{- end }}
{{- $n := include "initbox.rbac.need" (list $step $target ($target.namespace | default $on.namespace) "list" true) | fromJson }}
{{- $needs := list $n }}
{{- $pods := dict "cluster" false "namespace" $n.namespace "group" "" "resource" "pods" "names" list "verbs" (list "list") "comment" "" }}
{{- $judged := or $on.condition $on.jsonpath $on.exists $on.gone }}
{{- if and (eq $n.resource "services") (eq $n.group "") (not (or $judged $on.address)) }}
  {{- $needs = append $needs (merge (dict "group" "discovery.k8s.io" "resource" "endpointslices" "verbs" (list "list" "watch")) $pods) }}
{{- end }}
{{- if and (eq $n.resource "jobs") (eq $n.group "batch") (not $judged) (ne ($on.ifFailed | default "") "ok") }}
  {{- $needs = append $needs (merge (dict "comment" "to report why a Job failed; may be left out") $pods) }}
{{- end }}
{{- with $on.sameNode }}
  {{- $of := include "initbox.rbac.known" (list $step .) | splitList "/" }}
  {{- $names := list (last $of) }}
  {{- if or (gt (len $of) 2) (not (regexMatch "^([A-Za-z0-9._-]|[$][(][A-Za-z0-9._-]+[)])+$" (last $of))) }}
    {{- fail (printf "%s: same-node: %q is not the name of a Pod, or NAMESPACE/NAME; is a value empty?" $step.where .) }}
  {{- end }}
  {{- if contains "$(" (last $of) }}{{ $names = list }}{{ end }}
  {{- $where := ternary (first $of) $step.namespace (eq (len $of) 2) }}
  {{- $needs = append $needs (merge (dict "namespace" $where "names" $names "verbs" (list "list" "watch")) $pods) }}
  {{- if and (eq $n.resource "daemonsets") (eq $n.group "apps") }}
    {{- $needs = append $needs (merge (dict "verbs" (list "list" "watch")) $pods) }}
  {{- end }}
{{- end }}
{{- toJson $needs }}
{{- end }}

{{- /* initbox.rbac.need yields one rule: (list STEP TARGET NAMESPACE VERB WATCH). */ -}}
{{- define "initbox.rbac.need" -}}
{{- $step := index . 0 }}
{{- $target := index . 1 }}
{{- $namespace := include "initbox.rbac.known" (list $step (index . 2 | default "")) }}
{{- if contains "$(" $namespace }}
  {{- fail (printf "%s: %s: initbox.rbac needs to know the namespace; write it, or set the variable to a plain text in the step's env" $step.where $target.text) }}
{{- end }}
{{- $r := $target.found | default (include "initbox.rbac.resource" $target.kind | fromJson) }}
{{- if and $r.guess (eq $r.group "") }}
  {{- fail (printf "%s: k8s:%s: no such kind without a group: write k8s:PLURAL.GROUP/NAME, as in k8s:certificates.cert-manager.io/web; kubectl api-resources lists the kinds of your cluster with their groups" $step.where $target.kind) }}
{{- end }}
{{- $names := list }}
{{- if hasKey $target "name" }}{{ $names = list $target.name }}{{ end }}
{{- if contains "$(" ($target.name | default "") }}{{ $names = list }}{{ end }}
{{- $verbs := list (index . 3) }}
{{- if index . 4 }}{{ $verbs = list "list" "watch" }}{{ end }}
{{- $comment := ternary "a guess: kubectl api-resources shows the plural, and whether it has a namespace" "" (default false $r.guess) }}
{{- if and (hasKey $target "name") (not $names) }}{{ $comment = printf "all, since %s is known only in the Pod" $target.name }}{{ end }}
{{- toJson (dict "cluster" (not $r.namespaced) "namespace" (ternary ($namespace | default $step.namespace) "" $r.namespaced) "group" $r.group "resource" $r.resource "names" $names "verbs" $verbs "comment" $comment) }}
{{- end }}

{{- /* initbox.rbac.resource finds the resource that kubectl would take a kind for; of others it guesses the plural. */ -}}
{{- define "initbox.rbac.resource" -}}
{{- $kind := lower . }}
{{- $word := regexFind "^[^.]*" $kind }}
{{- $rest := trimPrefix $word $kind | trimPrefix "." }}
{{- $found := dict }}
{{- $all := include "initbox.resources" . | fromJsonArray }}
{{- range $called := list "names" "short" }}
  {{- range $r := $all }}
    {{- if and (not $found) (has $word (get $r $called)) }}
      {{- if has $rest (list "" (printf "%s.%s" $r.version $r.group) ($r.group | default $r.version)) }}{{ $found = $r }}{{ end }}
    {{- end }}
  {{- end }}
{{- end }}
{{- if not $found }}
  {{- $group := regexReplaceAll "^v[0-9]+((alpha|beta)[0-9]+)?[.]" $rest "" }}
  {{- $plural := printf "%ss" $word }}
  {{- if hasSuffix "s" $word }}{{ $plural = $word }}{{ else if hasSuffix "y" $word }}{{ $plural = printf "%sies" (trimSuffix "y" $word) }}{{ end }}
  {{- $found = dict "group" $group "resource" $plural "namespaced" true "guess" true }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* initbox.rbac.targets yields those of a text or list of texts that are k8s: targets, parsed: (list STEP TARGETS). */ -}}
{{- define "initbox.rbac.targets" -}}
{{- $step := index . 0 }}
{{- $all := index . 1 | default list }}
{{- if not (kindIs "slice" $all) }}{{ $all = list $all }}{{ end }}
{{- $targets := list }}
{{- range $all }}
  {{- $text := include "initbox.rbac.known" (list $step .) }}
  {{- if hasPrefix "k8s:" (lower $text) }}{{ $targets = append $targets (include "initbox.rbac.target" (list $step $text) | fromJson) }}{{ end }}
{{- end }}
{{- toJson $targets }}
{{- end }}

{{- /*
initbox.rbac.target parses k8s:KIND/NAME?QUERY#SETTINGS: (list STEP TEXT). Settings are lists of decoded values. name is
missing if the target is a selector. What initbox refuses fails here, too: a rule for the name "" would be one for the
lists of all objects, and a group may be "*".
*/ -}}
{{- define "initbox.rbac.target" -}}
{{- $step := index . 0 }}
{{- $text := index . 1 }}
{{- $forms := "want k8s:KIND/NAME, k8s:KIND?selector=LABELS or k8s:KIND?all" }}
{{- $whole := regexFind "^[^#]*" $text }}
{{- $objects := regexFind "^[^?]*" $whole }}
{{- $opaque := substr 4 -1 $objects }}
{{- $kind := include "initbox.rbac.decoded" (regexFind "^[^/]*" $opaque) }}
{{- if or (not $kind) (contains "$(" $kind) (hasPrefix "/" $opaque) }}
  {{- fail (printf "%s: %s: initbox.rbac needs to know the kind: %s" $step.where $text $forms) }}
{{- end }}
{{- if not (regexMatch "^[A-Za-z0-9._-]+$" $kind) }}
  {{- fail (printf "%s: %q: the kind must be one that kubectl takes, such as pod, deploy or jobs.batch: %s" $step.where $text $forms) }}
{{- end }}
{{- $target := dict "text" $text "kind" $kind "namespace" "" "settings" dict }}
{{- if contains "/" $opaque }}
  {{- $name := include "initbox.rbac.decoded" (regexReplaceAll "^[^/]*/" $opaque "") }}
  {{- if not (regexMatch "^([A-Za-z0-9._:-]|[$][(][A-Za-z0-9._-]+[)])*$" $name) }}
    {{- fail (printf "%s: %q: the name after the kind is not a valid object name: %s" $step.where $text $forms) }}
  {{- end }}
  {{- $_ := set $target "name" $name }}
{{- end }}
{{- $several := false }}
{{- range trimPrefix $objects $whole | trimPrefix "?" | splitList "&" }}
  {{- $parameter := regexFind "^[^=]*" . }}
  {{- $value := include "initbox.rbac.decoded" (trimPrefix $parameter . | trimPrefix "=") }}
  {{- if eq $parameter "namespace" }}
    {{- if or $target.namespace (not (regexMatch "^([A-Za-z0-9._-]|[$][(][A-Za-z0-9._-]+[)])+$" $value)) }}
      {{- fail (printf "%s: %q: want one namespace after ?namespace=" $step.where $text) }}
    {{- end }}
    {{- $_ := set $target "namespace" $value }}
  {{- else if has $parameter (list "selector" "field-selector" "all") }}
    {{- if or $value (eq $parameter "all") }}{{ $several = true }}{{ end }}
  {{- else if . }}
    {{- fail (printf "%s: %s: the parameter after ? is unknown: valid ones are selector, field-selector, namespace, all; expectations follow a #" $step.where $text) }}
  {{- end }}
{{- end }}
{{- if or (hasKey $target "name" | eq $several) (and (hasKey $target "name") (not $target.name)) }}
  {{- fail (printf "%s: %s: which objects? %s" $step.where $text $forms) }}
{{- end }}
{{- range trimPrefix $whole $text | trimPrefix "#" | splitList "&" }}
  {{- $name := regexFind "^[^=]*" . }}
  {{- $value := include "initbox.rbac.decoded" (trimPrefix $name . | trimPrefix "=") }}
  {{- if $name }}{{ $_ := set $target.settings $name (append (get $target.settings $name | default list) $value) }}{{ end }}
{{- end }}
{{- toJson $target }}
{{- end }}

{{- /* initbox.rbac.decoded decodes percent-encoding. */ -}}
{{- define "initbox.rbac.decoded" -}}
{{- if contains "%" . }}{{ trimPrefix "/" (urlParse (printf "x:/%s" (replace "?" "%3F" . | replace "#" "%23"))).path }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- /* initbox.rbac.known replaces the variables of a text whose values are known now: (list STEP TEXT). */ -}}
{{- define "initbox.rbac.known" -}}
{{- $step := index . 0 }}
{{- $text := index . 1 | toString | replace "$(POD_NAMESPACE)" $step.namespace }}
{{- range $name, $value := $step.env }}
  {{- if eq (toString $value) "field/metadata.namespace" }}{{ $value = $step.namespace }}{{ end }}
  {{- if kindIs "map" $value }}{{ $value = get $value "value" | default "field/" }}{{ end }}
  {{- if not (regexMatch "^(secret|configmap|field|resource)/" (toString $value)) }}
    {{- $text = replace (printf "$(%s)" $name) (toString $value) $text }}
  {{- end }}
{{- end }}
{{- $text }}
{{- end }}
