// Package kustomize_test runs the Kustomize that is in kubectl on what deploy and examples have for it.
package kustomize_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"initbox/test/servers"
)

const root = "../.."

// An object is a Kubernetes object, or a patch of one: the part that the tests read.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   meta   `json:"metadata"`
	Spec       struct {
		podSpec           // of a Pod
		Template    podOf `json:"template"`
		JobTemplate struct {
			Spec struct {
				Template podOf `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

type meta struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations"`
}

type podOf struct {
	Metadata meta    `json:"metadata"`
	Spec     podSpec `json:"spec"`
}

type podSpec struct {
	InitContainers []container `json:"initContainers"`
	Containers     []container `json:"containers"`
}

type container struct {
	Name            string           `json:"name"`
	Image           string           `json:"image"`
	Command         []string         `json:"command"`
	Args            []string         `json:"args"`
	Env             []map[string]any `json:"env"`
	Mounts          []map[string]any `json:"volumeMounts"`
	Resources       map[string]any   `json:"resources"`
	SecurityContext map[string]any   `json:"securityContext"`
}

// template returns the Pod that the object describes.
func (o object) template() podOf {
	switch o.Kind {
	case "Pod":
		return podOf{o.Metadata, o.Spec.podSpec}
	case "CronJob":
		return o.Spec.JobTemplate.Spec.Template
	}
	return o.Spec.Template
}

func (o object) pod() podSpec { return o.template().Spec }

// names returns the names of the init containers.
func (p podSpec) names() (names []string) {
	for _, c := range p.InitContainers {
		names = append(names, c.Name)
	}
	return names
}

// parse returns the objects in a text, without those that are empty.
func parse(t *testing.T, text string) (objects []object) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatalf("%v\n%s", err, part)
		}
		if o.Kind != "" {
			objects = append(objects, o)
		}
	}
	return objects
}

// parseFile returns the objects in a file.
func parseFile(t *testing.T, path string) []object {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text))
}

// kustomize returns the objects that a directory with a kustomization becomes.
func kustomize(t *testing.T, dir string) []object {
	t.Helper()
	servers.Slow(t)
	kubectl := servers.Kubernetes(t, "kubectl")
	out, err := exec.Command(kubectl, "kustomize", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl kustomize %s: %v\n%s", dir, err, out)
	}
	return parse(t, string(out))
}

// check runs the command line of a container, with the variables that the Pod's annotations set, far enough to know
// that the program takes it: the deadline passes before anything is tried.
func check(t *testing.T, program, where string, p podOf, c container) {
	t.Helper()
	line := slices.Concat(c.Command, c.Args)
	if len(c.Command) > 0 {
		line = line[1:] // the program
	}
	end := slices.IndexFunc(line, func(word string) bool { return word == "--" || word == "--compat" }) // where flags end
	if end < 0 {
		end = len(line)
	}
	cmd := exec.Command(program, slices.Concat(line[:end], []string{"--timeout=1ns"}, line[end:])...)
	cmd.Env = []string{"INITBOX_TERMINATION_LOG=" + os.DevNull, "POD_NAME=web-0", "HOME=/"}
	for _, v := range c.Env {
		name := v["name"].(string)
		value, fixed := v["value"].(string)
		if !fixed {
			value = "s3cret"
		}
		if from, isSource := v["valueFrom"].(map[string]any); isSource {
			if field, isField := from["fieldRef"].(map[string]any); isField {
				path, _ := strings.CutPrefix(field["fieldPath"].(string), "metadata.annotations['")
				if annotation, isAnnotation := strings.CutSuffix(path, "']"); isAnnotation {
					value = p.Metadata.Annotations[annotation]
				}
			}
		}
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, _ := cmd.CombinedOutput()
	if status := cmd.ProcessState.ExitCode(); status != 0 && status != 124 {
		t.Errorf("%s: container %s: initbox %q: status %d\n%s", where, c.Name, line, status, out)
	}
}

// TestWait pins that the component puts its container in front of the others of the workloads that are annotated, and
// leaves all else as it is.
func TestWait(t *testing.T) {
	t.Parallel()
	want := patched(t, "pod.yaml")
	want.Image = "mirror.example/initbox:2"
	kinds := 0
	for _, o := range kustomize(t, "testdata/wait") {
		names := o.pod().names()
		if !strings.HasPrefix(o.Metadata.Name, "wait-") {
			if !slices.Equal(names, []string{"first"}) {
				t.Errorf("%s has the init containers %v", o.Metadata.Name, names)
			}
			continue
		}
		kinds++
		if len(names) == 0 || names[0] != "initbox-wait" {
			t.Errorf("%s has the init containers %v, want initbox-wait first", o.Metadata.Name, names)
			continue
		}
		if others := names[1:]; !slices.Equal(others, []string{"first", "second"}[:len(others)]) {
			t.Errorf("%s: the other init containers are now in the order %v", o.Metadata.Name, others)
		}
		got, want := o.pod().InitContainers[0], want
		if o.Metadata.Annotations["initbox/wait-for"] != "" && o.template().Metadata.Annotations["initbox/wait-for"] == "" {
			t.Errorf("%s: the annotation is not at its Pods", o.Metadata.Name)
		}
		if o.Metadata.Name == "wait-deployment" { // whose template adds a variable
			if n := len(got.Env); n != 3 || got.Env[2]["name"] != "PGPASSWORD" {
				t.Errorf("%s: the variables are %v", o.Metadata.Name, got.Env)
				continue
			}
			got.Env = got.Env[:2]
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the container is %+v, want %+v", o.Metadata.Name, got, want)
		}
	}
	if kinds != 7 {
		t.Errorf("%d annotated workloads, want one of each kind that the README names, and one that commonAnnotations annotate", kinds)
	}
}

// TestSameContainer pins that all kinds of workload get the same container, and that its variables come from the
// annotations that the README documents.
func TestSameContainer(t *testing.T) {
	t.Parallel()
	want := patched(t, "pod.yaml")
	for _, file := range []string{"template.yaml", "cronjob.yaml"} {
		if got := patched(t, file); !reflect.DeepEqual(got, want) {
			t.Errorf("%s has %+v, and pod.yaml %+v", file, got, want)
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "deploy/kustomize/wait/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range want.Env {
		path := variable["valueFrom"].(map[string]any)["fieldRef"].(map[string]any)["fieldPath"].(string)
		annotation := strings.TrimSuffix(strings.TrimPrefix(path, "metadata.annotations['"), "']")
		if !strings.Contains(string(readme), "\n| `"+annotation+"` |") {
			t.Errorf("README.md does not document the annotation %s", annotation)
		}
	}
}

// patched returns the container that a patch of the component adds.
func patched(t *testing.T, file string) container {
	t.Helper()
	objects := parseFile(t, filepath.Join(root, "deploy/kustomize/wait", file))
	if len(objects) != 1 || len(objects[0].pod().InitContainers) != 1 {
		t.Fatalf("%s: want one patch with one init container", file)
	}
	return objects[0].pod().InitContainers[0]
}
