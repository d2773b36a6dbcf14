package lint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
)

// The tests set the environment of the process, as command.Inspect does, so they do not run in parallel.

func read(t *testing.T, name string) []*manifest.Object {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Read(name, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	return names
}

var marked = regexp.MustCompile(`# finds ((?:[a-z0-9-]+ ?)+)$`)

// TestMistakes finds each mistake in testdata/mistakes on the line with its comment, and nothing else, and none in its
// correction in testdata/right. Each rule has both.
func TestMistakes(t *testing.T) {
	fired := map[string]bool{"ignore": true} // see TestSilence
	for _, name := range files(t, "testdata/mistakes/*.yaml") {
		text, _ := os.ReadFile(name)
		var wanted, got []string
		for i, line := range strings.Split(string(text), "\n") {
			if m := marked.FindStringSubmatch(line); m != nil {
				for rule := range strings.FieldsSeq(m[1]) {
					wanted = append(wanted, fmt.Sprintf("%d %s", i+1, rule))
				}
			}
		}
		findings := Check(read(t, name), Options{})
		for _, f := range findings {
			got = append(got, fmt.Sprintf("%d %s", f.Line, f.Rule))
			fired[f.Rule] = true
		}
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: found %q, want %q\n%v", name, got, wanted, findings)
		}
	}
	for _, r := range Rules() {
		if !fired[r.ID] {
			t.Errorf("no mistake in testdata/mistakes fires %s", r.ID)
		}
	}
	for _, name := range files(t, "testdata/right/*.yaml") {
		for _, f := range Check(read(t, name), Options{}) {
			t.Error("a false alarm: " + f.String())
		}
	}
}

// TestNoFalseAlarm pins what looks like a mistake and may be right.
func TestNoFalseAlarm(t *testing.T) {
	const own, other = "registry.example/initbox:1", "registry.example/postgres:17"
	for _, container := range []string{
		// Variables that are set elsewhere: by envFrom, the kubelet, the container runtime, the image.
		`{image: "` + own + `", args: [wait-for-service, "tcp://$(DB_HOST):$(DB_PORT)"], envFrom: [{configMapRef: {name: db}}]}`,
		`{image: "` + own + `", args: [wait-for-service, "tcp://$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)"]}`,
		`{image: "` + own + `", args: [wait-for-service, "http://cache/?port=${env:CACHE_SERVICE_PORT}"]}`,
		`{image: "` + own + `", args: [wait-for-dns, db, --once, "/tmp/x"]}`,
		`{image: "` + other + `", command: [/tools/initbox, wait-for-service, "postgres://db/${env:PGDATABASE}", --, postgres]}`,
		// Values that only a Secret or a ConfigMap has.
		`{image: "` + own + `", args: [wait-for-service, "${env:URL}"], env: [{name: URL, valueFrom: {secretKeyRef: {name: db, key: url}}}]}`,
		`{image: "` + own + `", args: [wait-for-service], env: [{name: INITBOX_TARGETS, valueFrom: {configMapKeyRef: {name: db, key: targets}}}]}`,
		`{image: "` + own + `", args: [wait-for-dns, db, --timeout, $(T)], env: [{name: T, valueFrom: {configMapKeyRef: {name: db, key: t}}}]}`,
		`{image: "` + own + `", args: [register, --url, $(URL)], env: [{name: URL, valueFrom: {configMapKeyRef: {name: db, key: u}}}, {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}`,
		// Templates that are rendered later.
		`{image: "` + own + `", args: [wait-for-service, "tcp://{{ .Values.host }}:{{ .Values.port }}", --timeout, "{{ .Values.timeout }}"]}`,
		// A shell's own $(…), and shells in other images.
		`{image: "` + other + `", command: [/tools/wait-for-dns, db, --, sh, -c, "echo $(DATE) && exec postgres"]}`,
		// Other programs with the names of subcommands.
		`{image: "` + other + `", command: [sleep, infinity]}`,
		`{image: "` + other + `", command: [install, -d, /data]}`,
		// The program in a volume, also in its own image.
		`{image: "` + own + `", command: [/tools/initbox, wait-for-dns, db], volumeMounts: [{name: tools, mountPath: /tools}]}`,
		// Files that a later step, or the program after --, reads.
		`{image: "` + own + `", args: [fetch, "https://files.example/a.tgz", /tmp/a.tgz, --, copy, "/tmp/a.tgz:/data#unpack"], volumeMounts: [{name: data, mountPath: /data}]}`,
		`{image: "` + other + `", command: [/tools/initbox, render, "/t:/etc/postgres.conf", --, postgres]}`,
		`{image: "` + own + `", args: [prepare, "/data/lost+found#absent", /data/db], volumeMounts: [{name: data, mountPath: /data/db}]}`,
		// The service account may come from elsewhere, and so may its Roles.
		`{image: "` + own + `", args: [wait-for-service, "k8s:job/migrate"]}`,
		`{image: "` + own + `", args: [wait-for-dns, --help]}`,
		`{image: "` + own + `", args: [--version]}`,
		`{image: "` + own + `"}`,
	} {
		for _, f := range check(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: ["+container+"]\n  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: tools, hostPath: {path: /opt}}]\n") {
			t.Errorf("%s: %s", container, f)
		}
	}
}

// TestKinds pins the place of a finding in each kind of object that runs Pods.
func TestKinds(t *testing.T) {
	const spec = "{containers: [{name: c, image: initbox:1, args: [wait-for-dns, a, --tmeout=1s]}]}"
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: " + spec:                                                                                                                        "Pod/a",
		"apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {selector: {}, template: {spec: " + spec + "}}":                                                                    "StatefulSet/a",
		"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}\nspec: {selector: {}, template: {spec: " + spec + "}}":                                                                      "DaemonSet/a",
		"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: shop}\nspec: {template: {spec: " + spec + "}}":                                                                        "shop/Job/a",
		"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec: {jobTemplate: {spec: {template: {spec: " + spec + "}}}}":                                                              "CronJob/a",
		"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: a}\nspec: {template: {spec: " + spec + "}}":                                                                         "Rollout/a",
		"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n- apiVersion: v1\n  kind: Pod\n  metadata: {generateName: a-}\n  spec:\n    " + spec + "": "Pod/a-",
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"image": "initbox:1", "args": ["wait-for-dns", "a", "--tmeout=1s"]}]}}`:                       "Pod/a",
	} {
		findings := check(t, text)
		if len(findings) != 1 {
			t.Errorf("%s: %v", text, findings)
			continue
		}
		before, _, _ := strings.Cut(text, `"--tmeout`)
		before, _, _ = strings.Cut(before, "--tmeout")
		line, column := strings.Count(before, "\n")+1, len(before)-strings.LastIndex(before, "\n")
		if f := findings[0]; f.Object != want || f.Line != line || f.Column != column {
			t.Errorf("%s: %s, want %s at %d:%d", text, f, want, line, column)
		}
	}
}
