package k8s

import (
	"errors"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/words"
	"initbox/waitfor/expect"
)

// condition is a condition that an object must have, as in kubectl wait --for=condition=NAME=VALUE.
type condition struct{ name, value string }

func parseCondition(text string) (condition, error) {
	name, value, valued := strings.Cut(text, "=")
	if !valued {
		value = "True"
	}
	if name == "" || value == "" {
		return condition{}, errors.New("want NAME or NAME=VALUE, as in Ready or Degraded=False")
	}
	return condition{name, value}, nil
}

// stated is a condition of an object. The zero value is a missing one.
type stated struct {
	name, status, reason, message string
	observed                      int64 // the generation that it describes; 0 if unknown
}

// why returns the reason and message of the condition.
func (s stated) why() string {
	why := kube.Short(s.reason)
	if s.message != "" {
		why = strings.TrimPrefix(why+": "+kube.Short(s.message), ": ")
	}
	return why
}

func conditionsOf(o kube.Object) []stated {
	var all []stated
	for _, c := range objectsAt(o, "status", "conditions") {
		all = append(all, stated{text(c, "type"), text(c, "status"), text(c, "reason"), text(c, "message"), number(c, "observedGeneration")})
	}
	return all
}

// foundConditions returns the note that lists the names of an object's conditions, or "".
func foundConditions(o kube.Object) string {
	names := words.Each(conditionsOf(o), func(c stated) string { return failure.Printable(c.name) })
	if len(names) == 0 {
		return ""
	}
	return "found " + words.List(names)
}

// conditionOf returns the condition with the name, in upper or lower case.
func conditionOf(o kube.Object, name string) stated {
	for _, c := range conditionsOf(o) {
		if strings.EqualFold(c.name, name) {
			return c
		}
	}
	return stated{}
}

// check follows kubectl wait: it ignores case, and conditions of an older generation.
func (c condition) check(v view) error {
	s := conditionOf(v.Object, c.name)
	name := failure.Printable(c.name)
	if s.name == "" {
		f := v.is(v.describe(), "no condition %s yet", name)
		f.Note = foundConditions(v.Object)
		return f
	}
	observed := s.observed
	if observed == 0 {
		observed = numberOr(number(v.Object, "metadata", "generation"), v.Object, "status", "observedGeneration")
	}
	if observed < number(v.Object, "metadata", "generation") {
		return v.is(v.describe(), "condition %s predates the latest change", name)
	}
	if strings.EqualFold(s.status, c.value) {
		return nil
	}
	f := v.is(v.describe(), "condition %s is %s", name, wordOr(s.status, "empty"))
	f.Note = s.why()
	return f
}

// jsonPath is a JSONPath in kubectl's syntax, and what an object must have there.
type jsonPath struct {
	path  kube.Path
	op    string // "=", "!=", ">=", or "" for any value that is not empty
	value expect.Matcher
	least float64
}

const wantPath = "want a JSONPath as kubectl takes it, then nothing, =VALUE, !=VALUE, >=NUMBER or =/REGEX/, as in {.status.phase}=Running"

// parsePath reads a path in any of the forms of kubectl wait: {.status.phase}, .status.phase and status.phase.
func parsePath(text string) (*jsonPath, error) {
	before, rest := kube.CutPath(strings.TrimSpace(text))
	path, err := kube.ParsePath(before)
	if err != nil {
		return nil, errors.New(wantPath)
	}
	p := &jsonPath{path: path}
	for _, op := range []string{"!=", ">=", "==", "="} {
		value, ok := strings.CutPrefix(rest, op)
		if !ok {
			continue
		}
		p.op = strings.Replace(op, "==", "=", 1)
		value = unquoted(strings.TrimSpace(value))
		if p.op == ">=" {
			if p.least, err = strconv.ParseFloat(value, 64); err != nil {
				return nil, errors.New(">= needs a number")
			}
		}
		p.value, err = expect.ParseMatcher(value)
		return p, err
	}
	if rest != "" {
		return nil, errors.New(wantPath)
	}
	return p, nil
}

// unquoted returns value without surrounding quotes, as kubectl wait does: no shell removes those in the arguments of a
// manifest.
func unquoted(value string) string {
	if n := len(value); n > 1 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	return value
}

// check judges an object. If the path has several values, all of them must meet the expectation. It shows no value of a
// Secret.
func (p *jsonPath) check(v view) error {
	found, err := p.path.Find(v.Object)
	if err != nil || len(found) == 0 {
		look := "get " + strings.ToLower(v.resource.Kind) + " " + v.Name() + " -o yaml"
		if v.resource.Name == "secrets" { // whose values need not be shown
			look = v.describe()
		}
		return v.is(look, "has no %s", failure.Printable(string(p.path)))
	}
	for _, value := range found {
		if p.met(value) {
			continue
		}
		f := v.is("", "%s is %s", failure.Printable(string(p.path)), failure.Printable(expect.Shorten(expect.Text(value))))
		if v.resource.Name == "secrets" {
			f.Text = failure.Printable(string(p.path)) + " does not have the expected value"
		}
		return f
	}
	return nil
}

func (p *jsonPath) met(value any) bool {
	s := expect.Text(value)
	switch p.op {
	case "=":
		return p.value.Whole(s)
	case "!=":
		return !p.value.Whole(s)
	case ">=":
		n, err := strconv.ParseFloat(s, 64)
		return err == nil && n >= p.least
	}
	switch value := value.(type) {
	case nil:
		return false
	case []any:
		return len(value) > 0
	case map[string]any:
		return len(value) > 0
	}
	return s != ""
}
