{{/* What happens before the shop starts, and beside it. */}}
{{- define "shop.web.init" }}
- wait: {for: ["postgres://app@{{ .Release.Name }}-pg/shop", "k8s:job/{{ .Release.Name }}-migrate"], timeout: 10m, env: {PGPASSWORD: secret/{{ .Release.Name }}-pg/password}}
- render: {from: configmap/{{ .Release.Name }}-web-templates, to: /config, values: [configmap/{{ .Release.Name }}-web-values, secret/{{ .Release.Name }}-pg], mode: "0640", validate: true, volume: {name: config, emptyDir: {medium: Memory}}}
- gitClone: {url: {{ .Values.git.url | quote }}, ref: main, to: /site, link: current, watch: 30s, user: {{ .Values.git.user }}, secret: {{ .Release.Name }}-git/token}
{{- end }}

{{/* The migration only waits for the database. */}}
{{- define "shop.migrate.init" }}
- wait: {for: ["postgres://app@{{ .Release.Name }}-pg/shop"], timeout: 10m, env: {PGPASSWORD: secret/{{ .Release.Name }}-pg/password}}
{{- end }}
