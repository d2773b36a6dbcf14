package chart_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// listRefusals are lists of steps that fail when the chart is rendered, and what helm says.
var listRefusals = []struct{ steps, want string }{
	{"", "web: the list has no steps\nhint: "},
	{"- wait", `web: step 1: "wait" is not a step`},
	{"wait: {for: a}", "web: this is not a list of steps: a step begins with a dash\nhint: each step is a line"},
	{"- wait: {for: a", "web: this is not a list of steps: error converting YAML to JSON: yaml: line "},
	{"- {wait: {for: a}, sleep: {for: 1}}", "web: step 1: a step has one key, and this one has sleep, wait"},
	{"- wait: tcp://db", "web: step 1 (wait): \"tcp://db\" is not a map of keys\nhint: - wait: {for: \"tcp://db\"}"},
	{"- sleep: {for: 1}\n- wait:", "web: step 2 (wait): for is missing"},
	{"- wait: {for: {a: b}}", `for: want a text or a list of texts, got {"a":"b"}`},
	{"- wait: {for: --insecure}", "would be taken for a flag"},
	{"- wait: {for: a, name: Bad_Name}", `name: "Bad_Name" is not the name of a container`},
	{"- wait: {for: a, name: x}\n- sleep: {for: 1, name: x}", "web: step 2 (sleep): name: another step has the name x"},
	{"- render: {from: configmap/Bad, to: /config}", `from: "configmap/Bad" is not a reference`},
	{"- render: {from: configMaps/a, to: /config}", `"configMaps/a" is not a reference: did you mean configmap/a?`},
	{"- render: {from: configmap/a, values: secrets/b, to: /config}", `"secrets/b" is not a reference: did you mean secret/b?`},
	{"- render: {from: web, to: /config}", `from: "web" is neither an absolute path nor a reference`},
	{"- render: {from: configmap/a/../../../var/run/secrets/token, to: /config}", "is not a reference"},
	{"- render: {from: 'configmap/a/..:/b', to: /config}", "is not a reference"},
	{"- render: {from: configmap/a}", "to is missing"},
	{"- render: {from: configmap/a, to: config}", `"config" is not an absolute path`},
	{"- render: {from: configmap/a, to: /etc/app.conf}", "a volume at /etc would hide what the application has there"},
	{"- render: {from: configmap/a, to: /config, mode: 0640}", "mode: write this in quotes: YAML reads 0640 as 416"},
	{"- gitClone: {url: 'https://a/b', to: /site, ref: 1.10}", "ref: write this in quotes"},
	{"- gitClone: {url: 'https://me:hush@a/b', to: /site}", "a password in the URL would show in the Pod's specification"},
	{"- wait: {for: 'postgres://me:hush@db/a'}", "for: a password in the URL would show in the Pod's specification\nhint: ${env:PASSWORD} in its place"},
	{"- register: {url: 'http://me:hush@a/b'}", "url: a password in the URL would show"},
	{"- gitClone: {url: 'https://a/b', to: /site, secret: git/token}", "needs a user\nhint: user: x-access-token for GitHub"},
	{"- wait: {for: 'http://web?$(TOKEN)', env: {TOKEN: secret/web/token}}", "$(TOKEN) would put a secret into the arguments of a process\nhint: ${env:TOKEN}"},
	{"- wait: {for: 'http://web?$(URL)', env: {A: secret/web/token, B: 'x$(A)', URL: 't=$(B)'}}", "$(URL) would put a secret into the arguments of a process"},
	{"- wait: {for: a, env: [{name: TOKEN}]}", "env: want a map of names and values, such as {LANG: C"},
	{"- wait: {for: a, env: {TOKEN: secret/web}}", `env: TOKEN: "secret/web" is not a reference`},
	{"- wait: {for: a, env: {N: 1}}", "YAML reads y, n, yes, no, on and off as true or false"},
	{"- wait: {for: a, mounts: {/x: nothing/at-all}}", `mounts: "nothing/at-all" is not a reference`},
	{"- prepare: {paths: [/data]}", "paths: /data lies in no volume\nhint: volume: NAME, mountPath: /data"},
	{"- prepare: {paths: [/a], volume: blue}\n- prepare: {paths: [/a], volume: red}", "two volumes are mounted at /a: blue and red"},
	{`- prepare: {paths: /a, mountPath: /a, volume: {name: "a\n  hostPath: {path: /}\n#", emptyDir: {}}}`, "is not the name of a volume"},
	{`- prepare: {paths: /a, mountPath: /a, volume: {name: "", emptyDir: {}}}`, `volume: name: "" is not the name of a volume`},
	{`- prepare: {paths: /a, mountPath: /a, volume: pvc/}`, `volume: "pvc/" is not the name of a claim`},
	{"- deregister: {timeout: 3s}", "no step registers anything that can be deregistered"},
	{"- kubeGet: {for: 'k8s:pod/a', to: /a/, watch: 1m, startupProbe: 9000}\n- kubeGet: {for: 'k8s:pod/b', to: /b/, watch: 1m, startupProbe: 9000}", "web: step 2 (kubeGet): startupProbe: another step has the port 9000"},
	{"- register: {url: 'http://a', hold: true, startupProbe: '127.0.0.1:9000'}", "startupProbe: 127.0.0.1:9000: the kubelet cannot reach this address"},
	{"- register: {url: 'http://a', hold: true, http: 'localhost:9000'}", "http: localhost:9000: the kubelet cannot reach this address"},
}

// stepRefusals are steps that fail when the chart is rendered, and what helm says.
var stepRefusals = []struct{ steps, want string }{
	{`[{"wiat": {"for": "tcp://db:5432"}}]`, `web: step 1: unknown step "wiat": did you mean wait?`},
	{`[{"sleep": {"for": "1s"}}, {"git-clone": {}}]`, `web: step 2: unknown step "git-clone": did you mean gitClone?`},
	{`[{"waitforservice": {}}]`, `web: step 1: unknown step "waitforservice": did you mean wait?`},
	{`[{"rbac": {}}]`, `unknown step "rbac": steps are copy, deregister, fetch, `},
	{`[{"wait": {"for": "tcp://db:5432", "timout": "1m"}}]`, `web: step 1 (wait): unknown key "timout": did you mean timeout?`},
	{`[{"wait": {"for": "tcp://db:5432", "attempt-timeout": "1m"}}]`, `unknown key "attempt-timeout": did you mean attemptTimeout?`},
	{`[{"wait": {"for": "tcp://db:5432", "retires": 3}}]`, `web: step 1 (wait): unknown key "retires": keys are env, for, merge, `},
	{`[{"fetch": {"url": "http://x/y", "to": "/z", "help": true}}]`, `unknown key "help"`},
	{`[{"wait": {"for": "tcp://db:5432", "any": "yes"}}]`, `web: step 1 (wait): any: want true or false, without quotes`},
	{`[{"gitClone": {"url": "http://x/y", "to": "/z", "submodules": false}}]`, `submodules: want text, got false: YAML reads yes, no, on and off as true or false`},
	{`[{"fetch": {"url": "http://x/y", "to": "/z", "header": {"A": "b"}}}]`, `header: want a text or a list of texts, got a map`},
	{`[{"fetch": {"url": "http://x/y", "to": "/z", "header": ["a: b", true]}}]`, `header: item 2: want text: YAML reads`},
	{`[{"fetch": {"url": "http://x/y", "to": "/z", "path": ["a"]}}]`, `path: want a text, got a list`},
	{`[{"wait": ["tcp://db:5432"]}]`, `web: step 1`},
}

// TestStepRefusals pins that lists that are wrong, unknown steps, unknown keys and values of a wrong kind fail with
// their place, and with what to write, or the name that was probably meant.
func TestStepRefusals(t *testing.T) {
	t.Parallel()
	dir := parent(t, map[string]string{"pod.yaml": `{{- define "web" }}{{ .Values.steps }}{{ end -}}
x: {{ include "initbox.initContainers" (list $ "web") | toJson }}`})
	program := helms(t)
	for i, c := range slices.Concat(listRefusals, stepRefusals) {
		values := fmt.Sprintf(`{"steps": %q, "initbox": {"image": {"repository": "initbox"}}}`, c.steps)
		out, err := template(t, program[i%2], dir, values)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: want %q, got %v%s", c.steps, c.want, err, out)
		}
	}
}

// container is what TestPods reads of one.
type container struct {
	Name         string
	Args         []string
	Env          []struct{ Name string }
	StartupProbe struct {
		HTTPGet struct{ Port int } `yaml:"httpGet"`
	} `yaml:"startupProbe"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// TestPods pins what the golden Pods have in common, so that the API server takes them: names, variables, ports and
// mount paths that are used once, and a volume for each mount.
func TestPods(t *testing.T) {
	t.Parallel()
	for file, text := range goldenFiles(t) {
		for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var pod struct {
				Kind string
				Spec struct {
					InitContainers []container `yaml:"initContainers"`
					Containers     []container
					Volumes        []struct{ Name string }
				}
			}
			if err := decoder.Decode(&pod); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			once := seen{t: t, file: file}
			for _, v := range pod.Spec.Volumes {
				once.add("volume", v.Name)
			}
			for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
				once.container(c)
			}
		}
	}
}

// seen reports what one Pod has twice.
type seen struct {
	t     *testing.T
	file  string
	names map[string]bool
}

func (s *seen) add(kind, name string) {
	s.t.Helper()
	if s.names[kind+" "+name] {
		s.t.Errorf("%s: two of %s %s", s.file, kind, name)
	}
	if (kind == "volume" || kind == "container") && !label.MatchString(name) {
		s.t.Errorf("%s: %s %q is not a DNS label", s.file, kind, name)
	}
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[kind+" "+name] = true
}

func (s *seen) container(c container) {
	s.t.Helper()
	s.add("container", c.Name)
	for _, e := range c.Env {
		s.add("variable of "+c.Name, e.Name)
	}
	for _, m := range c.VolumeMounts {
		s.add("mount in "+c.Name, m.MountPath)
		if strings.HasPrefix(m.Name, "initbox-") && !s.names["volume "+m.Name] {
			s.t.Errorf("%s: %s mounts %s, and there is no such volume", s.file, c.Name, m.Name)
		}
	}
	if port := c.StartupProbe.HTTPGet.Port; port != 0 {
		s.add("port", fmt.Sprint(port))
		if !slices.Contains(c.Args, fmt.Sprintf("--http=:%d", port)) && !slices.Contains(c.Args, fmt.Sprintf("--startup-probe=%d", port)) {
			s.t.Errorf("%s: %s is probed at port %d, where it does not listen", s.file, c.Name, port)
		}
	}
}
