package waitfor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"initbox/internal/failure"
)

// k8sTarget writes a target of kind k8s: which objects, and the settings.
func k8sTarget(q k8sQuery, settings ...string) string {
	q.name = url.PathEscape(q.name)
	s := q.text(inTarget.Replace)
	for i, setting := range settings {
		name, value, valued := strings.Cut(setting, "=")
		sign := "&"
		if i == 0 {
			sign = "#"
		}
		s += sign + name
		if valued {
			s += "=" + inTarget.Replace(value)
		}
	}
	return s
}

// inTarget escapes what a value in a target would end at, or would be taken for
// something else.
var inTarget = strings.NewReplacer("%", "%25", "&", "%26", "#", "%23", "${", "%24%7B", "\n", "%0A", "\t", "%09")

// k8sWaitForKinds are the resources of k8s-wait-for, and what each means here.
//
// "-we" is "with errors", "-wr" is "with some that are ready". The settings say
// the same of all the Pods or Jobs that are meant, together.
//
// https://github.com/groundnuty/k8s-wait-for
var k8sWaitForKinds = map[string]struct {
	kind     string
	settings []string
}{
	"pod":     {"pod", nil},
	"pod-we":  {"pod", []string{"if-failed=ok"}},
	"pod-wr":  {"pod", []string{"if-failed=some"}},
	"job":     {"job", nil},
	"job-we":  {"job", []string{"if-failed=ok"}},
	"job-wr":  {"job", []string{"if-failed=some"}},
	"service": {"service", []string{"endpoints=all"}}, // it asks for all Pods behind the Service
}

// FromK8sWaitFor translates the arguments of groundnuty/k8s-wait-for into
// targets: a resource (pod, job, service, or one of the former with -we or -wr),
// then a name or -lSELECTOR, then flags of kubectl that say where. Its variable
// TREAT_ERRORS_AS_READY is read through getenv; the others are about how to
// poll, and mean nothing here.
//
// What differs: a Job that failed ends the wait at once, where k8s-wait-for goes
// on for ever, and one of whose Pods some failed before it completed is ready.
func FromK8sWaitFor(args []string, getenv func(string) string) ([]string, error) {
	const want = "want pod|job|service NAME or -lSELECTOR, as k8s-wait-for takes it"
	if len(args) < 2 {
		return nil, errors.New(want)
	}
	resource := args[0]
	if mode := getenv("TREAT_ERRORS_AS_READY"); resource == "pod" || resource == "job" {
		resource += map[string]string{"1": "-we", "2": "-wr"}[mode]
	}
	as, ok := k8sWaitForKinds[resource]
	if !ok {
		return nil, fmt.Errorf("%q is not a resource of k8s-wait-for: %s", args[0], want)
	}
	names, q, where, err := kubectlFlags(args[1:])
	if err != nil {
		return nil, err
	}
	q.kindName = as.kind
	settings := slices.Concat(as.settings, where)
	if len(names) > 0 && q.selector+q.fields != "" {
		return nil, errors.New("a name and a selector exclude each other")
	}
	if len(names) == 0 {
		q.all = q.selector == "" && q.fields == ""
		return []string{k8sTarget(q, settings...)}, nil
	}
	var targets []string
	for _, name := range names {
		q.name = name
		targets = append(targets, k8sTarget(q, settings...))
	}
	return targets, nil
}

// kubectlFlags reads what k8s-wait-for hands on to kubectl: names, and flags that
// say which objects, and where.
func kubectlFlags(args []string) (names []string, q k8sQuery, settings []string, err error) {
	long := map[string]string{"-n": "--namespace", "-l": "--selector"}
	for len(args) > 0 {
		flag := args[0]
		args = args[1:]
		if !strings.HasPrefix(flag, "-") {
			names = append(names, flag)
			continue
		}
		name, value, valued := strings.Cut(flag, "=")
		if short := flag[:min(2, len(flag))]; long[short] != "" { // -lapp=x, -l=app=x, -l app=x
			name, value = long[short], strings.TrimPrefix(flag[2:], "=")
			valued = value != ""
		}
		switch name {
		case "--namespace", "--selector", "--field-selector", "--kubeconfig", "--context":
		default:
			return nil, q, nil, fmt.Errorf("%s is no flag of kubectl that can be translated", failure.Printable(name))
		}
		if !valued {
			if len(args) == 0 {
				return nil, q, nil, fmt.Errorf("%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		value = strings.Trim(value, `"'`) // that a YAML list left around it
		switch name {
		case "--namespace":
			q.namespace = value
		case "--selector":
			q.selector = value
		case "--field-selector":
			q.fields = value
		default:
			settings = append(settings, strings.TrimPrefix(name, "--")+"="+value)
		}
	}
	return names, q, settings, nil
}

// FromKubernetesEntrypoint translates the variables DEPENDENCY_… of
// airshipit/kubernetes-entrypoint, in the order of its documentation, into
// targets.
//
// As there, what names no namespace is in that of $NAMESPACE, or else in
// "default"; $POD_NAME is the Pod itself. DEPENDENCY_CONFIG is refused: it does
// not wait, but writes a file.
//
// What differs: a Job that failed ends the wait at once; of a DaemonSet that
// has no Pod on this node yet, it is waited for whether it is to have one.
//
// https://opendev.org/airship/kubernetes-entrypoint
func FromKubernetesEntrypoint(getenv func(string) string) ([]string, error) {
	e := entrypoint{getenv: getenv, namespace: getenv("NAMESPACE"), pod: getenv("POD_NAME")}
	if e.namespace == "" {
		e.namespace = "default"
	}
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
		value := strings.TrimSpace(getenv(variable.name))
		if value == "" {
			continue
		}
		if err := variable.translate(&e, value); err != nil {
			return nil, fmt.Errorf("%s: %w", variable.name, err)
		}
	}
	return e.targets, nil
}

// entrypoint is a translation of kubernetes-entrypoint's variables.
type entrypoint struct {
	getenv         func(string) string
	namespace, pod string
	targets        []string
}

func (e *entrypoint) add(q k8sQuery, settings ...string) {
	if q.namespace == "" {
		q.namespace = e.namespace
	}
	e.targets = append(e.targets, k8sTarget(q, settings...))
}

// each reads a list such as mysql:mariadb,keystone-api of objects of a kind.
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
		e.add(k8sQuery{kindName: kind, name: name, namespace: namespace}, settings...)
	}
	return nil
}

func (e *entrypoint) services(list string) error { return e.each(list, "service") }

// A Job of which one Pod has succeeded is enough for kubernetes-entrypoint.
func (e *entrypoint) jobs(list string) error {
	if strings.TrimSpace(e.getenv("DEPENDENCY_JOBS_JSON")) != "" {
		return nil // which wins
	}
	return e.each(list, "job", "completions=1")
}

func (e *entrypoint) needPod() error {
	if e.pod == "" {
		return errors.New("POD_NAME is not set: it has to be the Pod's own name, from the field metadata.name")
	}
	return nil
}

func (e *entrypoint) containers(list string) error {
	if err := e.needPod(); err != nil {
		return err
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, `:"'\`) {
			return errors.New("want names of containers of this Pod, separated by commas")
		}
		e.add(k8sQuery{kindName: "pod", name: e.pod}, fmt.Sprintf(`jsonpath={.status.containerStatuses[?(@.name=="%s")].ready}=true`, name))
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
	return errors.New("it writes a file and waits for nothing: render the file with a subcommand or a ConfigMap of its own")
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

// errNotJSON does not quote the variable, nor what package json says of it.
var errNotJSON = errors.New("is not the JSON that kubernetes-entrypoint takes")

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
			return errors.New("a Job has either a name or labels")
		}
		e.add(k8sQuery{kindName: "job", name: j.Name, namespace: j.Namespace, selector: labels(j.Labels)}, "completions=1")
	}
	return nil
}

// labels writes a selector of labels.
func labels(m map[string]string) string {
	var parts []string
	for label, value := range m {
		parts = append(parts, label+"="+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// Of the Pods, one is enough.
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
		e.add(k8sQuery{kindName: "pod", namespace: p.Namespace, selector: labels(p.Labels), all: len(p.Labels) == 0}, settings...)
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
			return errors.New("a resource has apiVersion, kind and name")
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
		e.add(k8sQuery{kindName: kind, name: r.Name, namespace: r.Namespace}, settings...)
	}
	return nil
}

// jsonPathOf writes a path such as spec.some-key, whose dots separate keys
// always, as a JSONPath.
func jsonPathOf(key string) string {
	return "." + strings.Trim(key, ".")
}
