package chart_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"initbox/test/servers"
)

// helms returns the paths of the real helm 3 and 4.
func helms(t *testing.T) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs helm")
	}
	out, err := exec.Command("./build.sh", "-n").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(out))
	if _, err := os.Stat(dir); err != nil {
		servers.Absent(t, "helm: test/chart/build.sh builds it")
	}
	return []string{filepath.Join(dir, "helm3"), filepath.Join(dir, "helm4")}
}

// helm runs a helm in an environment of its own.
func helm(t *testing.T, program string, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := exec.Command(program, args...)
	var out, diagnosis bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnosis
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+home+"/none")
	if err := cmd.Run(); err != nil {
		return out.String(), errors.New(out.String() + diagnosis.String())
	}
	return out.String(), nil
}

// parent writes a chart named shop that depends on ours, with these templates, and returns its directory.
func parent(t *testing.T, templates map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 1.2.3\ndependencies:\n- {name: initbox, version: '>=0.0.0-0', repository: ''}\n"}
	for name, text := range templates {
		files["templates/"+name] = text
	}
	for name, text := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "charts/initbox"), os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// image are the values that every chart has to set.
const image = `{"initbox": {"image": {"repository": "registry.example/initbox", "tag": "v1.2.3"}}}`

// template renders the chart in dir with values, in JSON, as release web in namespace shop. It returns an error with
// what helm printed.
func template(t *testing.T, program, dir, values string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o644); err != nil {
		t.Fatal(err)
	}
	return helm(t, program, slices.Concat([]string{"template", "web", dir, "--namespace", "shop", "--values", file}, args)...)
}

// both renders the chart in dir with helm 3 and 4 at once. Their output must be the same, apart from empty lines at the
// end of a document.
func both(t *testing.T, dir, values string, args ...string) string {
	t.Helper()
	programs := helms(t)
	outputs, errs := make([]string, len(programs)), make([]error, len(programs))
	var done sync.WaitGroup
	for i, program := range programs {
		done.Go(func() { outputs[i], errs[i] = template(t, program, dir, values, args...) })
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for i := range outputs {
		outputs[i] = blankEnd.ReplaceAllString(outputs[i], "\n$1")
	}
	if outputs[0] != outputs[1] {
		t.Errorf("helm 3 and 4 differ:\n%s\n--- helm 4:\n%s", outputs[0], outputs[1])
	}
	return outputs[0]
}

var blankEnd = regexp.MustCompile(`\n\n+(---\n|$)`)

// steppedCase is a file of testdata/steps: a list of steps, as the body of a named template.
type steppedCase struct {
	name, text string
	values     string // of a first line "# values: {…}"
	args       []string
}

var (
	valuesLine = regexp.MustCompile(`(?m)^# values: (.*)$`)
	argsLine   = regexp.MustCompile(`(?m)^# helm template (.*)$`)
)

// cases returns the files of testdata/steps.
func cases(t *testing.T) (all []steppedCase) {
	t.Helper()
	files, err := filepath.Glob("testdata/steps/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases found: ", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := steppedCase{name: strings.TrimSuffix(filepath.Base(file), ".yaml"), text: string(text), values: image}
		if found := valuesLine.FindSubmatch(text); found != nil {
			c.values = string(found[1])
		}
		if found := argsLine.FindSubmatch(text); found != nil {
			c.args = strings.Fields(string(found[1]))
		}
		all = append(all, c)
	}
	return all
}

// pod is the template of a case: a Pod with all that the chart's named templates yield, and its Role.
const pod = `{{- define "shop.NAME.init" }}
STEPS
{{- end }}
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  serviceAccountName: web
  {{- with include "initbox.imagePullSecrets" $ }}
  imagePullSecrets:
    {{- . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- include "initbox.podSecurityContext" (dict "root" $ "fsGroup" 2000) | nindent 4 }}
  {{- with include "initbox.initContainers" (list $ "shop.NAME.init") }}
  initContainers:
    {{- . | nindent 4 }}
  {{- end }}
  containers:
  - name: app
    image: registry.example/app:1
    {{- with include "initbox.mounts" (list $ "shop.NAME.init") }}
    volumeMounts:
      {{- . | nindent 6 }}
    {{- end }}
    {{- with include "initbox.lifecycle" (list $ "shop.NAME.init") }}
    lifecycle:
      {{- . | nindent 6 }}
    {{- end }}
  {{- with include "initbox.volumes" (list $ "shop.NAME.init") }}
  volumes:
    {{- . | nindent 4 }}
  {{- end }}
---
{{ include "initbox.rbac" (list $ "shop.NAME.init" "web") }}
`

// TestGolden pins what the named templates yield for each step and for combinations of steps, from helm 3 and 4. With
// -update, it writes testdata/golden, which is to be read as what is reviewed of a change. The module test/chart/helm
// decodes it strictly as objects of Kubernetes.
func TestGolden(t *testing.T) {
	byValues := map[string][]steppedCase{} // one run of helm for all cases with the same values
	for _, c := range cases(t) {
		key := c.values + "\n" + strings.Join(c.args, " ")
		byValues[key] = append(byValues[key], c)
	}
	for _, key := range slices.Sorted(maps.Keys(byValues)) {
		templates := map[string]string{}
		for _, c := range byValues[key] {
			templates[c.name+".yaml"] = strings.NewReplacer("NAME", c.name, "STEPS", c.text).Replace(pod)
		}
		rendered := sources(both(t, parent(t, templates), byValues[key][0].values, byValues[key][0].args...))
		for _, c := range byValues[key] {
			golden(t, c.name, rendered["shop/templates/"+c.name+".yaml"])
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata/golden", name+".yaml")
	if *update {
		if err := errors.Join(os.MkdirAll("testdata/golden", 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err == nil && got == string(want) {
		return
	}
	is, was := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(is), len(was)) {
		if is[i] != was[i] {
			t.Errorf("%s: line %d: %q was %q", path, i+1, is[i], was[i])
			break
		}
	}
	t.Errorf("%s is not what helm yields: run make chart, and read what has changed", path)
}

// sources splits the output of helm template by the templates that it comes from.
func sources(output string) map[string]string {
	by := map[string]string{}
	for _, object := range strings.Split("\n"+output, "\n---\n")[1:] {
		line, text, _ := strings.Cut(object, "\n")
		name := strings.TrimPrefix(line, "# Source: ")
		by[name] += "---\n" + strings.TrimSpace(text) + "\n"
	}
	return by
}

// goldenFiles returns the content of the golden files by their names.
func goldenFiles(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/golden/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatal("no golden files: ", err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestCommandLines pins that the program takes the command lines of all containers and hooks that the golden files
// have. Nothing is done: the deadline passes before.
func TestCommandLines(t *testing.T) {
	servers.Slow(t)
	for file, text := range goldenFiles(t) {
		state := t.TempDir() // of registrations, which the hook reads
		for _, args := range commandLines(t, text) {
			requireTaken(t, file, args, state)
		}
	}
}

var variable = regexp.MustCompile(`\$\([A-Z_]+\)`) // which the kubelet replaces

// requireTaken requires that the program takes a command line. The deadline passes before anything is tried. The
// directory state replaces that of the Pod's registrations.
func requireTaken(t *testing.T, where string, args []string, state string) {
	t.Helper()
	for i, arg := range args {
		args[i] = strings.Replace(variable.ReplaceAllString(arg, "80"), "/initbox-state/", state+"/", 1)
		if strings.HasPrefix(arg, "--timeout=") {
			args[i] = "--timeout=1ns"
		}
	}
	if args[0] == "sleep" { // which has no deadline: it is checked as what follows a wait
		args = append([]string{"wait-for-service", "tcp://127.0.0.1:1", "--"}, args...)
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"INITBOX_TIMEOUT=1ns", "INITBOX_TERMINATION_LOG=" + os.DevNull, "POD_NAME=web-2", "POD_NAMESPACE=shop", "POD_IP=10.1.2.3"}
	out, _ := cmd.CombinedOutput()
	if status := cmd.ProcessState.ExitCode(); status != 0 && status != 124 {
		t.Errorf("%s: initbox %q: status %d\n%s", where, args, status, out)
	}
}

// commandLines returns the args of all containers of the manifest, and then the commands of its hooks, without the
// program.
func commandLines(t *testing.T, manifest []byte) (all [][]string) {
	t.Helper()
	var hooks [][]string
	for decoder := yaml.NewDecoder(bytes.NewReader(manifest)); ; {
		var object any
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return append(all, hooks...)
		} else if err != nil {
			t.Fatal(err)
		}
		walk(object, func(key string, list []any) {
			var words []string
			for _, word := range list {
				words = append(words, fmt.Sprint(word))
			}
			switch {
			case key == "args":
				all = append(all, words)
			case key == "command" && len(words) > 0:
				hooks = append(hooks, words[1:])
			}
		})
	}
}

// walk calls visit for each list in v that a map has under a key.
func walk(v any, visit func(key string, list []any)) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if list, is := value.([]any); is {
				visit(key, list)
			}
			walk(value, visit)
		}
	case []any:
		for _, value := range v {
			walk(value, visit)
		}
	}
}

// TestLint pins that helm lint finds nothing in the chart, and nothing in a chart that uses it.
func TestLint(t *testing.T) {
	t.Parallel()
	user := parent(t, map[string]string{"role.yaml": "{{- define \"shop.web.init\" }}\n- wait: {for: k8s:job/migrate}\n{{- end }}\n{{ include \"initbox.rbac\" (list $ \"shop.web.init\" \"web\") }}\n"})
	for _, program := range helms(t) {
		for _, dir := range []string{chart, user} {
			if out, err := helm(t, program, "lint", "--strict", dir); err != nil {
				t.Errorf("%s lint %s: %v%s", filepath.Base(program), dir, err, out)
			}
		}
	}
}

// TestExampleCharts pins that both helms render every chart in examples/ with its own values, once our chart stands in
// its folder charts.
func TestExampleCharts(t *testing.T) {
	t.Parallel()
	var charts []string
	err := filepath.WalkDir(root+"/examples", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "Chart.yaml" {
			charts = append(charts, filepath.Dir(path))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if len(charts) == 0 {
		t.Skip("there are none")
	}
	for _, dir := range charts {
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir), func(t *testing.T) {
			work := t.TempDir()
			if err := errors.Join(os.CopyFS(work+"/it", os.DirFS(dir)), os.RemoveAll(work+"/it/charts/initbox"), os.CopyFS(work+"/it/charts/initbox", os.DirFS(chart))); err != nil {
				t.Fatal(err)
			}
			if out := both(t, work+"/it", image); !strings.Contains(out, "initContainers:") {
				t.Errorf("no init containers in\n%s", out)
			}
		})
	}
}
