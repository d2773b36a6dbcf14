#!/usr/bin/env bash
# lint.sh prints how long kubectl initbox lint takes for COUNT manifests (1000), each a Deployment with a Service, a Role
# and two containers of initbox that have to be read, in one file and in COUNT files.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-1000}
make --silent plugin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/files"
for ((i = 0; i < count; i++)); do
	cat >"$work/files/web-$i.yaml" <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-$i, namespace: shop}
spec:
  selector: {matchLabels: {app: web-$i}}
  template:
    metadata: {labels: {app: web-$i}}
    spec:
      serviceAccountName: web-$i
      securityContext: {runAsUser: 10001, runAsNonRoot: true, fsGroup: 10001}
      initContainers:
      - name: wait
        image: registry.example/initbox:1.2.3
        args: [wait-for-service, "postgres://app@db-$i/app", "k8s:job/migrate-$i", "http://api-$i:8080/health#json=.status==UP", --timeout, 5m]
        env:
        - {name: PGPASSWORD, valueFrom: {secretKeyRef: {name: db-$i, key: password}}}
      - name: files
        image: registry.example/initbox:1.2.3
        args: [render, "/templates:/config", --values, /values/values.yaml]
        volumeMounts:
        - {name: templates, mountPath: /templates}
        - {name: values, mountPath: /values}
        - {name: config, mountPath: /config}
      containers:
      - name: web
        image: registry.example/web:1.2.3
        ports: [{containerPort: 8080}]
        volumeMounts:
        - {name: config, mountPath: /config, readOnly: true}
      volumes:
      - {name: templates, configMap: {name: web-templates-$i}}
      - {name: values, configMap: {name: web-values-$i}}
      - {name: config, emptyDir: {}}
---
apiVersion: v1
kind: Service
metadata: {name: web-$i, namespace: shop}
spec: {selector: {app: web-$i}, ports: [{port: 80, targetPort: 8080}]}
---
END
done
bin/kubectl-initbox rbac -f "$work/files" >"$work/roles"
mv "$work/roles" "$work/files/roles.yaml"
cat "$work"/files/*.yaml >"$work/all.yaml"
TIMEFORMAT='%R s, of which %U s of processor time'
echo "$count manifests in one file, $(stat -c %s "$work/all.yaml") bytes:"
time bin/kubectl-initbox lint -f "$work/all.yaml"
echo "in $count files:"
time bin/kubectl-initbox lint -f "$work/files"
