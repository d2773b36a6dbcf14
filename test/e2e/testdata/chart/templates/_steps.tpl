{{- define "shop.web.init" -}}
- wait: {for: ["k8s:job/{{ .Release.Name }}-migrate", "k8s:svc/management"]}
- generate: {what: password, to: /run/app/password, secret: "k8s:secret/{{ .Release.Name }}-db#key=password"}
- kubeGet: {for: 'k8s:node/$(NODE_NAME)#jsonpath=.metadata.labels.kubernetes\.io/os&to=os', to: /node/}
- copy: {from: configmap/{{ .Release.Name }}-defaults, to: /config/defaults}
- render: {from: configmap/{{ .Release.Name }}-templates, to: /config, values: [configmap/{{ .Release.Name }}-values/values.yaml], env: {COLOUR: secret/{{ .Release.Name }}-colour/colour}}
- merge: {from: [/config/defaults/a.yaml, /config/b.yaml], to: /config/merged.yaml}
- prepare: {paths: ["/data/uploads#mode=0770"], mountPath: /data}
- register: {url: "http://management/register", deregisterUrl: "/nodes/$(POD_NAME)", hold: true}
{{- end }}
