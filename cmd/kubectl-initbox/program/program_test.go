package program

import (
	"strings"
	"testing"

	"initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/manifest"
)

// container reads a container from the fields of a manifest.
func container(t *testing.T, fields string) *manifest.Container {
	t.Helper()
	objects, err := manifest.Read("pod.yaml", strings.NewReader("{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {initContainers: [{name: c, "+fields+"}]}}"))
	if err != nil {
		t.Fatal(err)
	}
	return objects[0].Pod.Containers[0]
}

func TestRuns(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]bool{
		"image: initbox": true,
		"image: 'registry.example:5000/team/initbox:1.0'":                      true,
		"image: 'initbox@sha256:0123'":                                         true,
		"image: 'registry.example/initbox-wait-for-dns:1'":                     true,
		"image: 'registry.example/initbox-other:1'":                            false,
		"image: 'registry.example/initbox/other'":                              false,
		"image: 'registry.example:5000/initbox.d/app'":                         false,
		"image: 'tools.example/any/thing:2'":                                   true, // by a pattern
		"image: busybox, command: [sleep, '5']":                                false,
		"image: busybox, command: [/bin/install, a, b]":                        false,
		"image: busybox, command: [/initbox-tools/sleep, '5']":                 true,
		"image: busybox, command: [/initbox-tools/initbox, sleep, '5']":        true,
		"image: busybox, command: [/tools/wait-for-service, 'tcp://db:5432']":  true,
		"image: busybox, command: [/tools/initbox-copy, 'a:b']":                true,
		"image: busybox, command: [/tools/initbox-other, 'a:b']":               false,
		"image: busybox, command: [sh, -c, 'initbox wait-for-service dns:db']": false,
		"image: initbox, command: [sh, -c, 'exit 1']":                          true,
	} {
		if got := Runs(container(t, fields), []string{"tools.example/any/*"}); got != want {
			t.Errorf("%s: %v", fields, got)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	unknown, address := command.Opaque(""), command.Opaque("10.0.0.1")
	for fields, want := range map[string]string{
		"image: initbox, args: [sleep, '5']":                                                                     "sleep 5",
		"image: 'initbox-sleep:1', args: ['5']":                                                                  "sleep 5",
		"image: 'initbox-sleep:1', command: [/bin/initbox, copy], args: ['a:b']":                                 "/bin/initbox copy a:b",
		"image: initbox, args: [$(A), $$(A), $(B), $5], env: [{name: A, value: x}]":                              "x $(A) $(B) $5",
		"image: initbox, args: [$(B)], env: [{name: A, value: x}, {name: B, value: $(A)}]":                       "x",
		"image: initbox, args: [$(A)], env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]":           unknown,
		"image: initbox, args: [$(A)], env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]":       address,
		"image: initbox, args: [$(A)], env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]": command.Opaque("shop"),
		"image: initbox, args: ['tcp://$(DB_SERVICE_HOST):5432']":                                                "tcp://" + address + ":5432",
		"image: initbox, args: [$(A)], envFrom: [{configMapRef: {name: c}}]":                                     unknown,
	} {
		if got := strings.Join(Words(container(t, fields)), " "); got != want {
			t.Errorf("%s: %q, want %q", fields, got, want)
		}
	}
	fields := "image: initbox, args: ['${env:PASSWORD}'], envFrom: [{secretRef: {name: s}}]"
	if got := Environment(container(t, fields))["PASSWORD"]; got != unknown {
		t.Errorf("a variable of envFrom: %q", got)
	}
}
