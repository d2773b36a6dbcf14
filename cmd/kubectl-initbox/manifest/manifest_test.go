package manifest

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const text = `# a comment
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop}
spec:
  containers: [{name: main, image: app}]
---
---
key: value
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web}
  spec:
    template:
      metadata: {annotations: {one: "1"}}
      spec:
        initContainers:
        - name: wait
          restartPolicy: Always
          image: initbox
        - {name: bad, args: one text}
        containers:
        - {name: main, image: app}
- {apiVersion: v1, kind: Service, metadata: {name: web}}
- apiVersion: batch/v1
  kind: CronJob
  metadata: {generateName: nightly-}
  spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: main, image: app}]}}}}}
- apiVersion: beat.k8s.elastic.co/v1beta1
  kind: Beat
  metadata: {name: files}
  spec: {type: filebeat, deployment: {podTemplate: {spec: {initContainers: [{name: load, image: app}]}}}}
`
	objects, err := Read("all.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.String())
	}
	if got, want := strings.Join(names, " "), "shop/Pod/a Deployment/web Service/web CronJob/nightly- Beat/files"; got != want {
		t.Fatalf("objects: %s, want %s", got, want)
	}
	web := objects[1].Pod
	if got := web.Annotations(false)["one"]; got != "1" {
		t.Errorf("annotation of the Pod: %q", got)
	}
	wait, bad := web.Containers[0], web.Containers[1]
	if wait.Path() != "spec.template.spec.initContainers[0]" || wait.Node.Line != 22 || wait.Node.Column != 11 || !wait.Sidecar() {
		t.Errorf("%s at %d:%d", wait.Path(), wait.Node.Line, wait.Node.Column)
	}
	if bad.Name != "bad" || bad.Err == nil || bad.Sidecar() {
		t.Errorf("args as a text: %q, %v", bad.Name, bad.Err)
	}
	if objects[2].Pod != nil || objects[3].Pod.Path != "spec.jobTemplate.spec.template.spec" {
		t.Error("Pods of Service and CronJob")
	}
	if load := objects[4].Pod.Containers[0]; load.Path() != "spec.deployment.podTemplate.spec.initContainers[0]" {
		t.Errorf("init container of a Beat: %s", load.Path())
	}
	_, err = Read("bad.yaml", strings.NewReader("a: b\n\tc: d\n"))
	if err == nil || !strings.Contains(err.Error(), "bad.yaml:2: not YAML: found a tab") {
		t.Errorf("no YAML: %v", err)
	}
}
