package translate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/kube"
)

// k8sWaitForKinds are the resources of k8s-wait-for, and what each means here. "-we" stands for "with errors", "-wr"
// for "with some that are ready".
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
	"service": {"service", []string{"endpoints=all"}}, // it waits for all Pods behind the Service
}

// K8sWaitFor translates the arguments of groundnuty/k8s-wait-for into targets: a resource (pod, job or service, or pod
// or job with -we or -wr), then a name or -lSELECTOR, then flags of kubectl that say where. Of its variables,
// TREAT_ERRORS_AS_READY is translated; the others set the pace of its polling, which does not apply here.
//
// Two things differ: a failed Job ends the wait at once, where k8s-wait-for waits forever, and a Job that completed
// after some of its Pods failed is ready.
func K8sWaitFor(args []string, env Environment) (Line, error) {
	const want = "want pod|job|service NAME or -lSELECTOR, as k8s-wait-for takes it"
	if len(args) < 2 {
		return Line{}, errors.New(want)
	}
	resource := args[0]
	if resource == "pod" || resource == "job" {
		resource += map[string]string{"1": "-we", "2": "-wr"}[env.get("TREAT_ERRORS_AS_READY")]
	}
	as, ok := k8sWaitForKinds[resource]
	if !ok {
		return Line{}, fmt.Errorf("%q is not a resource of k8s-wait-for: %s", args[0], want)
	}
	names, objects, where, err := kubectlFlags(args[1:])
	if err != nil {
		return Line{}, err
	}
	selected := objects.Selector+objects.Fields != ""
	if len(names) > 0 && selected {
		return Line{}, errors.New("a name and a selector are mutually exclusive")
	}
	objects.KindName = as.kind
	if len(names) == 0 {
		objects.All = !selected
		names = []string{""}
	}
	var line Line
	for _, objects.Name = range names {
		line.Arguments = append(line.Arguments, k8sTarget(objects, slices.Concat(as.settings, where)...))
	}
	return line, nil
}

// kubectlFlags reads what k8s-wait-for passes on to kubectl: names, and the flags that say which objects, and where. It
// returns those that say where as settings of a target.
func kubectlFlags(args []string) (names []string, objects kube.Objects, where []string, err error) {
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
		field := map[string]*string{"--namespace": &objects.Namespace, "--selector": &objects.Selector, "--field-selector": &objects.Fields}[name]
		if field == nil && name != "--kubeconfig" && name != "--context" {
			return nil, objects, nil, fmt.Errorf("cannot translate the kubectl flag %s", failure.Printable(name))
		}
		if !valued {
			if len(args) == 0 {
				return nil, objects, nil, fmt.Errorf("%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		value = strings.TrimSpace(strings.Trim(value, `"'`)) // that a YAML list left around it
		if field != nil {
			*field = value
		} else {
			where = append(where, strings.TrimPrefix(name, "--")+"="+value)
		}
	}
	return names, objects, where, nil
}
