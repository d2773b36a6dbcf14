package convert

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
)

// containerOf returns the container of a Pod with these lines in its specification.
func containerOf(t *testing.T, container, pod string) *manifest.Container {
	t.Helper()
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  initContainers:\n  - {name: a, %s}\n  containers: [{name: app, image: app}]\n%s", container, pod)
	objects, err := manifest.Read("web.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects[0].Pod.Containers[0]
}

// TestPlace pins in which image and as which user what writes files runs: the owner of the files must stay what it was.
func TestPlace(t *testing.T) {
	t.Parallel()
	write := []Step{{Subcommand: "prepare", Args: []string{"/data"}, Writes: true}}
	network := []Step{{Subcommand: "wait-for-service", Args: []string{"tcp://db:5432"}}, {Subcommand: "wait-for-dns", Args: []string{"db"}}}
	for _, tt := range []struct {
		container, pod string
		steps          []Step
		want           string
	}{
		{"image: busybox", "", network, "image of initbox"},
		{"image: example.com/tools", "", network, "image of initbox"},
		{"image: example.com/tools", "", []Step{{Subcommand: "wait-for-service", Args: []string{"file:///data/ready"}}}, "own image"},
		{"image: example.com/tools", "", []Step{{Subcommand: "wait-for-service", Args: []string{"https://db#ca-file=/ca"}}}, "own image"},
		{"image: busybox", "", write, "image of initbox, user 0"},
		{"image: 'docker.io/library/busybox:1.36@sha256:00'", "", write, "image of initbox, user 0"},
		{"image: 'registry.example/mirror/library/alpine:3'", "", write, "image of initbox, user 0"},
		{"image: example.com/busybox", "", write, "own image"}, // its Dockerfile may set a user
		{"image: busybox, securityContext: {runAsUser: 0}", "", write, "image of initbox"},
		{"image: busybox, securityContext: {runAsUser: 1000}", "", write, "image of initbox"},
		{"image: 'alpine:3', securityContext: {runAsUser: 999}", "", write, "image of initbox"},
		{"image: 'alpine:3', securityContext: {runAsUser: 405}", "", write, "own image"},
		{"image: ubuntu, securityContext: {runAsUser: 1000}", "", write, "own image"}, // has a group of its own, 1000
		{"image: busybox, securityContext: {runAsUser: 33}", "", write, "own image"},  // its group is in /etc/passwd
		{"image: app, securityContext: {runAsUser: 1000}", "", write, "own image"},
		{"image: app, securityContext: {runAsUser: 1000}", "  securityContext: {runAsGroup: 1000}", write, "image of initbox"},
		{"image: app", "  securityContext: {runAsUser: 0}", write, "image of initbox"},
		{"image: app", "", write, "own image"},
		{"image: busybox, volumeMounts: [{name: a, mountPath: /bin/}]", "", network, "own image"},
		{"image: busybox, volumeMounts: [{name: a, mountPath: /sleep}]", "", network, "own image"},
		{"image: busybox, volumeMounts: [{name: a, mountPath: /data}]", "", network, "image of initbox"},
		{"image: busybox", "", []Step{{Subcommand: "copy", Args: []string{"/a:/b"}, Inside: true}}, "own image"},
	} {
		c := &Change{Result: &Result{Container: containerOf(t, tt.container, tt.pod), Steps: tt.steps}}
		if err := c.fill("initbox"); err != nil {
			t.Errorf("%s: %v", tt.container, err)
			continue
		}
		got := "image of initbox"
		if c.Inside {
			got = "own image"
		}
		if c.User != nil {
			got += fmt.Sprintf(", user %d", *c.User)
		}
		if got != tt.want {
			t.Errorf("%s %s: %v in %s, want %s", tt.container, tt.pod, c.Words, got, tt.want)
		}
	}
}

// TestRefused pins what is kept whatever the rules know.
func TestRefused(t *testing.T) {
	t.Parallel()
	write := []Step{{Subcommand: "prepare", Args: []string{"/data"}, Writes: true}}
	for _, tt := range []struct {
		container string
		steps     []Step
		want      string
	}{
		{"image: busybox, securityContext: {runAsNonRoot: true}", write, "runs as root, which runAsNonRoot forbids"},
		{"image: busybox", []Step{{Subcommand: "prepare", Args: []string{"/data#no-such-setting"}}}, "initbox would refuse"},
		{"image: busybox", []Step{{Subcommand: "wait-for-service", Args: []string{"tcp://db:70000"}}}, "initbox would refuse"},
		{"image: busybox", []Step{{Args: []string{"/app/server"}, Inside: true}}, "it runs its own program"},
		{"image: busybox", nil, "there is nothing in it for initbox to do"},
	} {
		c := &Change{Result: &Result{Container: containerOf(t, tt.container, ""), Steps: tt.steps}}
		if err := c.fill("initbox"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.container, err, tt.want)
		}
	}
	for container, want := range map[string]string{
		"image: busybox, command: [sh]":                       "reads its script from its input",
		"image: busybox, command: [sh, /init.sh]":             "it runs the script /init.sh, which is not in the manifest",
		"image: busybox, command: [bash, --rcfile, a, -c, b]": "--rcfile: an option of bash that convert does not know",
		"image: app":                   "it runs the program of its image, app",
		"image: app, args: [sh]":       "it runs the program of its image, app",
		"image: app, command: [sh, 1]": "the API server would refuse it",
	} {
		if change := Container(containerOf(t, container, ""), "initbox", nil); change.Verdict != Kept || !strings.Contains(change.Why, want) {
			t.Errorf("%s: %s, %s; want %q", container, change.Verdict, change.Why, want)
		}
	}
}

// TestWindows pins that the init containers of Pods that are not for Linux are kept.
// TestTools pins what containers become that run the program of their image.
func TestTools(t *testing.T) {
	t.Parallel()
	for container, want := range map[string]string{
		"image: velero/velero-plugin-for-aws:v1.5.0":                            "/initbox-tools/initbox copy /plugins/velero-plugin-for-aws:/target/#mode=go-w",
		"image: docker.io/velero/velero-plugin-for-gcp:v1.11.0":                 "/initbox-tools/initbox copy /plugins/velero-plugin-for-gcp:/target/#mode=go-w",
		"image: bitnami/velero-plugin-for-aws:1":                                "kept: not an image of Velero's",
		"image: velero/velero-plugin-for-aws:v1.5.0, args: [x]":                 "kept: not an image of Velero's without arguments",
		"image: velero/velero-plugin-for-aws:v1.5.0, command: [cp]":             "kept: ",
		"image: k8s.gcr.io/git-sync:v3.1.2, env: [ENV]":                         "/initbox-tools/initbox git-clone --compat=git-sync --root=/tmp/git",
		"image: k8s.gcr.io/git-sync:v3.1.2, env: [ENV], args: [--root=/target]": "/initbox-tools/initbox git-clone --compat=git-sync --root=/target",
		"image: registry.k8s.io/git-sync/git-sync:v4.2.3, env: [ENV]":           "kept: in no volume",
		"image: k8s.gcr.io/git-sync:v2.0.6, env: [ENV]":                         "kept: in no volume",
		"image: app, command: [wait-for, 'db:5432', -t, '30', --, echo, up]":    "wait-for-service tcp://db:5432 --timeout 30s",
		"image: app, command: [wait-for-it.sh, 'db:5432', --, echo, up]":        "kept: when the timeout has passed",
		"image: app, command: [wait-for, 'db:5432', -t, '30', --, /app/run]":    "kept: a program of the image",
	} {
		container = strings.ReplaceAll(container, "ENV", "{name: GIT_SYNC_REPO, value: 'https://git.example/a'}, {name: GIT_SYNC_ONE_TIME, value: 'true'}")
		c := containerOf(t, container+", volumeMounts: [{name: v, mountPath: /target}, {name: v, mountPath: /tmp/git}]", "  volumes: [{name: v, emptyDir: {}}]\n")
		change := Container(c, "initbox", []*manifest.Object{c.Pod.Object})
		why, kept := strings.CutPrefix(want, "kept: ")
		if kept != (change.Verdict == Kept) || kept && !strings.Contains(change.Why, why) || !kept && strings.Join(change.Words, " ") != want {
			t.Errorf("%s: %s, %q, %s; want %s", container, change.Verdict, change.Words, change.Why, want)
		}
	}
}

// TestFileText pins the result of $(cat FILE) in a text that is written.
func TestFileText(t *testing.T) {
	t.Parallel()
	const trimmed = "{{ regexReplaceAll `\\n+\\z` (.Files.Get \"a\") `` }}"
	trimmed2 := strings.Replace(trimmed, `"a"`, `"t"`, 1)
	for script, want := range map[string]string{
		`P=$(cat /secret/a); echo "x $P" > /data/f`:                                                                    "render --inline /data/f=x " + trimmed + "\n --files /secret --mode 0644",
		"export HOME=/tmp; cat <<EOF > /data/f\nx $(cat /secret/a)\nEOF":                                               "render --inline /data/f=x " + trimmed + "\n --files /secret --mode 0644",
		"umask 077; printf '%s' \"$(cat /secret/a)\" > /data/f":                                                        "render --inline /data/f=" + trimmed + " --files /secret --mode 0600",
		`echo "$(cat /part/a)" > /data/f`:                                                                              "render --inline /data/f=" + trimmed + "\n --files /part --mode 0644",
		`P=$(cat /secret/a); echo "$P" > /data/f; echo x >> /data/f`:                                                   "render --inline /data/f=" + trimmed + "\nx\n --files /secret --mode 0644",
		"e() { sed ':a;N;$!ba;s/\\n/\\\\n/g' \"$1\"; }; echo \"x: $(e /secret/a)\" > /data/f":                          "render --inline /data/f=x: {{ (.Files.Get \"a\") | trimSuffix \"\\n\" | replace \"\\n\" \"\\\\n\" }}\n --files /secret --mode 0644",
		`tr -dc A-F0-9 < /dev/urandom | dd bs=1 count=32 > /data/t; T=$(cat /data/t); echo "$T" > /data/f`:             "generate password /data/t --length 32 --alphabet A-F0-9 --mode 0644 -- render --inline /data/f=" + trimmed2 + "\n --files /data --mode 0644",
		`tr -dc A-F0-9 < /dev/urandom | dd bs=1 count=32 > /data/t; echo x > /data/t; echo "$(cat /data/t)" > /data/f`: "kept: not a file that is mounted",
		`echo $(cat /secret/a) > /data/f`:                                                                              "kept: $(cat /secret/a): what is in a file, without quotes",
		`echo "$(cat /secret)" > /data/f`:                                                                              "kept: not a file that is mounted",
		`echo "$(cat /data/a)" > /data/f`:                                                                              "kept: not a file that is mounted",
		`echo "$(cat /etc/a)" > /data/f`:                                                                               "kept: not a file that is mounted",
		`echo "$(cat /loose/b/a)" > /data/f`:                                                                           "kept: not a file that is mounted",
		`echo "$(cat /secret/a)$(cat /part/a)" > /data/f`:                                                              "kept: a file of a second directory",
		`echo x > /data/f; echo "$(cat /secret/a)" >> /data/f`:                                                         "kept: >> of what is in another file",
		`sed "s/x/$(cat /secret/a)/" /config/f > /data/f`:                                                              "kept: ",
		`mkdir /data/$(cat /secret/a)`:                                                                                 "kept: $(cat /secret/a)",
		`cp /data/a "$(cat /secret/a)"`:                                                                                "kept: $(cat /secret/a)",
		`[ "$(cat /secret/a)" = x ] && touch /data/a; true`:                                                            "kept: a condition that is not on a file",
		`P=$(cat /secret/a); if [ -n "$P" ]; then touch /data/a; fi`:                                                   "kept: a condition that is not on a file",
		`P=$(cat /secret/a); until PGPASSWORD=$P psql -h db -U a -c 'select 1'; do sleep 1; done`:                      "kept: $(cat /secret/a)",
	} {
		c := containerOf(t, "image: busybox, volumeMounts: [{name: data, mountPath: /data}, {name: secret, mountPath: /secret}, {name: secret, mountPath: /part/a, subPath: b}, {name: config, mountPath: /config}, {name: loose, mountPath: /loose}]",
			"  volumes: [{name: data, emptyDir: {}}, {name: secret, secret: {secretName: s}}, {name: config, configMap: {name: c}}, {name: loose, configMap: {name: l, items: [{key: a, path: b/a}]}}]\n")
		c.Command = []string{"sh", "-c", script}
		change := Container(c, "initbox", []*manifest.Object{c.Pod.Object})
		why, kept := strings.CutPrefix(want, "kept: ")
		if kept != (change.Verdict == Kept) || kept && !strings.Contains(change.Why, why) || !kept && strings.Join(change.Words, " ") != want {
			t.Errorf("%s: %s, %q, %s; want %s", script, change.Verdict, change.Words, change.Why, want)
		}
	}
}

func TestWindows(t *testing.T) {
	t.Parallel()
	change := Container(containerOf(t, "image: busybox, command: [sh, -c, sleep 1]", "  os: {name: windows}\n"), "initbox", nil)
	if change.Verdict != Kept || change.Why != "it runs on windows" {
		t.Errorf("%s, %s", change.Verdict, change.Why)
	}
}

// TestMountedScript pins which file of which ConfigMap is the script that a container runs.
func TestMountedScript(t *testing.T) {
	t.Parallel()
	objects, err := manifest.Read("web.yaml", bytes.NewReader([]byte(`apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data: {wait.sh: the script, other.sh: another}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: scripts, namespace: elsewhere}
data: {more.sh: a third}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  volumes:
  - {name: all, configMap: {name: scripts}}
  - {name: one, configMap: {name: scripts, items: [{key: other.sh, path: dir/renamed.sh}]}}
  - {name: data, emptyDir: {}}
  initContainers:
  - name: a
    image: busybox
    volumeMounts:
    - {name: all, mountPath: /scripts/}
    - {name: one, mountPath: /scripts/one}
    - {name: all, mountPath: /wait, subPath: wait.sh}
    - {name: data, mountPath: /scripts/data}
  containers: [{name: app, image: app}]
`)))
	if err != nil {
		t.Fatal(err)
	}
	c := objects[2].Pod.Containers[0]
	for file, want := range map[string]string{
		"/scripts/wait.sh":            "the script",
		"/scripts/../scripts/wait.sh": "the script",
		"/wait":                       "the script",
		"/scripts/one/dir/renamed.sh": "another",
		"/scripts/one/other.sh":       "",
		"/scripts/data/wait.sh":       "",
		"/scripts/more.sh":            "",
		"/elsewhere/wait.sh":          "",
	} {
		if got, _ := mountedScript(file, c, objects); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
}

// TestShellOfScript checks that a mounted script is read by the grammar of the shell in its first line.
func TestShellOfScript(t *testing.T) {
	t.Parallel()
	for first, verdict := range map[string]Verdict{"#!/bin/bash": Replaced, "#!/usr/bin/env bash": Replaced, "#!/bin/sh": Kept} {
		objects, err := manifest.Read("web.yaml", strings.NewReader(`apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data: {run.sh: "`+first+`\nif [ a == a ]; then mkdir -p /data/a; fi"}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  volumes: [{name: all, configMap: {name: scripts}}, {name: data, emptyDir: {}}]
  initContainers:
  - {name: a, image: app, command: [/scripts/run.sh], volumeMounts: [{name: all, mountPath: /scripts}, {name: data, mountPath: /data}]}
  containers: [{name: app, image: app}]
`))
		if err != nil {
			t.Fatal(err)
		}
		change := Container(objects[1].Pod.Containers[0], "initbox", objects)
		if kept := change.Verdict == Kept; kept != (verdict == Kept) || kept && !strings.Contains(change.Why, "==") {
			t.Errorf("%s: %s, %s", first, change.Verdict, change.Why)
		}
	}
}

// TestEnvFrom checks which variables of envFrom are known: those of objects in the same input.
func TestEnvFrom(t *testing.T) {
	t.Parallel()
	const objects = `apiVersion: v1
kind: ConfigMap
metadata: {name: plain}
data: {HOST: db, PORT: "5432", not-a.name: x}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
data: {NAME: ZGI=}
stringData: {HOST: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: far, namespace: elsewhere}
data: {HOST: db}
---
`
	for _, tt := range []struct{ source, script, want string }{
		{"{configMapRef: {name: plain}}", "until nc -z $HOST $PORT; do sleep 1; done", "wait-for-service tcp://$(HOST):$(PORT) --timeout 5m"},
		{"{configMapRef: {name: plain}, prefix: DB_}", "until nc -z $DB_HOST $DB_PORT; do sleep 1; done", "wait-for-service tcp://$(DB_HOST):$(DB_PORT) --timeout 5m"},
		{"{secretRef: {name: secret}}", "until nc -z $NAME 1; do sleep 1; done", "wait-for-service tcp://${env:NAME:-unset.invalid}:1 --timeout 5m"},
		{"{secretRef: {name: secret}}", "until nc -z $HOST $NAME; do sleep 1; done", "wait-for-service tcp://${env:HOST:-unset.invalid}:${env:NAME:-0} --timeout 5m"},
		{"{configMapRef: {name: plain}}, {secretRef: {name: secret}}", "until nc -z $HOST 1; do sleep 1; done", "wait-for-service tcp://${env:HOST:-unset.invalid}:1 --timeout 5m"},
		{"{configMapRef: {name: plain}}", "until nc -z $OTHER 1; do sleep 1; done", "-not in env, but the image may set it"},
		{"{configMapRef: {name: plain}}, {secretRef: {name: unknown}}", "until nc -z $HOST 1; do sleep 1; done", "-it may come from envFrom"},
		{"{configMapRef: {name: far}}", "until nc -z $HOST 1; do sleep 1; done", "-it may come from envFrom"},
	} {
		all, err := manifest.Read("web.yaml", strings.NewReader(objects+`apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers: [{name: a, image: app, command: [sh, -c, "`+tt.script+`"], envFrom: [`+tt.source+`]}]
  containers: [{name: app, image: app}]
`))
		if err != nil {
			t.Fatal(err)
		}
		change := Container(all[3].Pod.Containers[0], "initbox", all)
		switch why, kept := strings.CutPrefix(tt.want, "-"); {
		case kept && !strings.Contains(change.Why, why), !kept && strings.Join(change.Words, " ") != tt.want:
			t.Errorf("%s, %s: %q, %s", tt.source, tt.script, change.Words, change.Why)
		}
	}
}

// TestMemoryLimit checks that a container whose limit would have the kernel kill initbox is kept.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]Verdict{"8Mi": Kept, "64Mi": Different} {
		c := containerOf(t, `image: busybox, command: [sh, -c, "until nc -z db 1; do sleep 1; done"], resources: {limits: {memory: `+limit+`}}`, "")
		if got := Container(c, "initbox", nil); got.Verdict != want {
			t.Errorf("%s: %v, %s; want %v", limit, got.Verdict, got.Why, want)
		}
	}
}

// TestHostname pins that every form of the output has the variable that stands for $(hostname), and that a Pod with
// another host name is not converted.
func TestHostname(t *testing.T) {
	t.Parallel()
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  EXTRA: VALUE
  initContainers:
  - name: init
    image: busybox
    ENV
    command: [sh, -c, 'mkdir -p /data/$(hostname)']
    volumeMounts: [{name: data, mountPath: /data}]
  containers: [{name: main, image: app}]
  volumes: [{name: data, emptyDir: {}}]
`
	for _, env := range []string{"tty: false", "env: [{name: A, value: b}]", "env:\n    - name: A\n      value: b"} {
		for _, extra := range []string{"restartPolicy: Never", "hostNetwork: true", "hostname: b", "setHostnameAsFQDN: true"} {
			key, value, _ := strings.Cut(extra, ": ")
			objects, err := manifest.Read("a.yaml", strings.NewReader(strings.NewReplacer("EXTRA", key, "VALUE", value, "ENV", env).Replace(pod)))
			if err != nil {
				t.Fatal(err)
			}
			conversion := New(objects, "initbox", nil)
			if kept := conversion.Changes[0].Verdict == Kept; kept != (key != "restartPolicy") {
				t.Errorf("%s: %v", extra, conversion.Changes[0].Result)
			} else if kept {
				continue
			}
			for _, form := range []Output{Diff, Manifest, Patch, Kustomize} {
				var b strings.Builder
				if err := conversion.Write(&b, form); err != nil || !strings.Contains(b.String(), "HOSTNAME") || !strings.Contains(b.String(), "metadata.name") {
					t.Errorf("%s, %s: %v\n%s", env, form, err, b.String())
				}
			}
		}
	}
}
