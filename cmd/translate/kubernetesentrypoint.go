package translate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/kube"
)

// KubernetesEntrypoint translates the variables DEPENDENCY_… of airshipit/kubernetes-entrypoint, in the order of its
// documentation, into targets, and COMMAND into the command after them.
//
// As there, an object without a namespace is in that of $NAMESPACE, or else in "default"; $POD_NAME names the Pod
// itself. DEPENDENCY_CONFIG is refused: it does not wait, but writes a file.
//
// Two things differ: a failed Job ends the wait at once, and a DaemonSet that has no Pod on this node yet is not ready
// until it is known whether it will have one.
//
// https://opendev.org/airship/kubernetes-entrypoint
func KubernetesEntrypoint(env Environment) (Line, error) {
	e := entrypoint{getenv: env.get, namespace: cmp.Or(env.get("NAMESPACE"), "default"), pod: env.get("POD_NAME")}
	for _, variable := range []struct {
		name      string
		translate func(e *entrypoint, value string) error
	}{
		{"DEPENDENCY_SERVICE", (*entrypoint).services},
		{"DEPENDENCY_CONTAINER", (*entrypoint).containers},
		{"DEPENDENCY_DAEMONSET", (*entrypoint).daemonSets},
		{"DEPENDENCY_JOBS_JSON", (*entrypoint).jobsJSON},
		{"DEPENDENCY_JOBS", (*entrypoint).jobs},
		{"DEPENDENCY_CONFIG", (*entrypoint).config},
		{"DEPENDENCY_SOCKET", (*entrypoint).sockets},
		{"DEPENDENCY_POD_JSON", (*entrypoint).pods},
		{"DEPENDENCY_CUSTOM_RESOURCE", (*entrypoint).customResources},
	} {
		value := strings.TrimSpace(env.get(variable.name))
		if value == "" {
			continue
		}
		if err := variable.translate(&e, value); err != nil {
			return Line{}, fmt.Errorf("%s: %w", variable.name, err)
		}
	}
	// As there, it is split at spaces, and not by a shell.
	return Line{Arguments: e.targets, Command: strings.Fields(env.get("COMMAND"))}, nil
}

// entrypoint is a translation in progress.
type entrypoint struct {
	getenv         func(string) string
	namespace, pod string
	targets        []string
}

func (e *entrypoint) add(o kube.Objects, settings ...string) {
	o.Namespace = cmp.Or(o.Namespace, e.namespace)
	e.targets = append(e.targets, k8sTarget(o, settings...))
}

// each adds the objects in a list such as mysql:mariadb,keystone-api.
func (e *entrypoint) each(list, kind string, settings ...string) error {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		namespace, name, both := strings.Cut(item, ":")
		if !both {
			namespace, name = e.namespace, item
		}
		if namespace == "" || name == "" || strings.Contains(name, ":") {
			return errors.New("want NAME or NAMESPACE:NAME, separated by commas")
		}
		e.add(kube.Objects{KindName: kind, Name: name, Namespace: namespace}, settings...)
	}
	return nil
}

func (e *entrypoint) services(list string) error { return e.each(list, "service") }

// For kubernetes-entrypoint, a Job is ready when one of its Pods has succeeded.
func (e *entrypoint) jobs(list string) error {
	if strings.TrimSpace(e.getenv("DEPENDENCY_JOBS_JSON")) != "" {
		return nil // that variable wins
	}
	return e.each(list, "job", "completions=1")
}

func (e *entrypoint) needPod() error {
	if e.pod == "" {
		return errors.New("POD_NAME is not set: it must be the Pod's own name, from the field metadata.name")
	}
	return nil
}

func (e *entrypoint) containers(list string) error {
	if err := e.needPod(); err != nil {
		return err
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, `:"'\`) {
			return errors.New("want names of this Pod's containers, separated by commas")
		}
		e.add(kube.Objects{KindName: "pod", Name: e.pod}, fmt.Sprintf(`jsonpath={.status.containerStatuses[?(@.name=="%s")].ready}=true`, name))
	}
	return nil
}

func (e *entrypoint) daemonSets(list string) error {
	if err := e.needPod(); err != nil {
		return err
	}
	return e.each(list, "daemonset", "same-node="+e.namespace+"/"+e.pod)
}

func (e *entrypoint) config(string) error {
	return errors.New("it writes a file and does not wait: write the file with initbox render, or mount a ConfigMap")
}

func (e *entrypoint) sockets(list string) error {
	for path := range strings.SplitSeq(list, ",") {
		if path = strings.TrimSpace(path); !strings.HasPrefix(path, "/") {
			return errors.New("want absolute paths, separated by commas")
		}
		e.targets = append(e.targets, "file://"+(&url.URL{Path: path}).EscapedPath())
	}
	return nil
}

// errNotJSON quotes neither the variable nor the error of package json, which quotes it.
var errNotJSON = errors.New("not the JSON that kubernetes-entrypoint takes")

func (e *entrypoint) jobsJSON(text string) error {
	var jobs []struct {
		Name, Namespace string
		Labels          map[string]string
	}
	if json.Unmarshal([]byte(text), &jobs) != nil {
		return errNotJSON
	}
	for _, j := range jobs {
		if (j.Name == "") == (len(j.Labels) == 0) {
			return errors.New("want either a name or labels for each Job")
		}
		e.add(kube.Objects{KindName: "job", Name: j.Name, Namespace: j.Namespace, Selector: labels(j.Labels)}, "completions=1")
	}
	return nil
}

// labels returns the label selector that selects objects with all of the labels.
func labels(m map[string]string) string {
	var parts []string
	for label, value := range m {
		parts = append(parts, label+"="+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// One ready Pod is enough.
func (e *entrypoint) pods(text string) error {
	var pods []struct {
		Namespace       string
		Labels          map[string]string
		RequireSameNode bool
	}
	if json.Unmarshal([]byte(text), &pods) != nil {
		return errNotJSON
	}
	for _, p := range pods {
		settings := []string{"count=1"}
		if p.RequireSameNode {
			if err := e.needPod(); err != nil {
				return err
			}
			settings = append(settings, "same-node="+e.namespace+"/"+e.pod)
		}
		e.add(kube.Objects{KindName: "pod", Namespace: p.Namespace, Selector: labels(p.Labels), All: len(p.Labels) == 0}, settings...)
	}
	return nil
}

func (e *entrypoint) customResources(text string) error {
	var resources []struct {
		APIVersion, Kind, Name, Namespace string
		Fields                            []struct{ Key, Value string }
		Conditions                        []struct{ Type, Status string }
	}
	if json.Unmarshal([]byte(text), &resources) != nil {
		return errNotJSON
	}
	for _, r := range resources {
		if r.APIVersion == "" || r.Kind == "" || r.Name == "" {
			return errors.New("want apiVersion, kind and name for each resource")
		}
		group, version, grouped := strings.Cut(r.APIVersion, "/")
		if !grouped {
			group, version = "", r.APIVersion
		}
		kind := strings.TrimSuffix(strings.ToLower(r.Kind)+"."+version+"."+group, ".")
		var settings []string
		for _, f := range r.Fields {
			settings = append(settings, "jsonpath={"+jsonPathOf(f.Key)+"}="+f.Value)
		}
		for _, c := range r.Conditions {
			settings = append(settings, strings.TrimSuffix("condition="+c.Type+"="+c.Status, "="))
		}
		if len(settings) == 0 {
			settings = []string{"exists"}
		}
		e.add(kube.Objects{KindName: kind, Name: r.Name, Namespace: r.Namespace}, settings...)
	}
	return nil
}

// jsonPathOf returns the JSONPath of a key such as spec.some-key, in which each dot separates keys.
func jsonPathOf(key string) string {
	return "." + strings.Trim(key, ".")
}
