package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// refusals are values that the schema refuses, below initbox: and below global.initbox:, and what both helms say. The
// two helms quote paths differently.
var refusals = []struct{ values, want string }{
	{`{"imag": {}}`, "'imag' not allowed"},
	{`{"image": {"repo": "x"}}`, "'repo' not allowed"},
	{`{"image": {"repository": "registry.example/initbox:v1"}}`, "image/repository"},
	{`{"image": {"repository": "registry.example/initbox@sha256:00"}}`, "image/repository"},
	{`{"image": {"tag": 1.2}}`, "got number, want string"},
	{`{"image": {"tag": "v1/2"}}`, "image/tag"},
	{`{"image": {"digest": "sha256:abc"}}`, "image/digest"},
	{`{"image": {"pullPolicy": "Sometimes"}}`, "value must be one of '', 'Always', 'IfNotPresent', 'Never'"},
	{`{"imagePullSecrets": "regcred"}`, "got string, want array"},
	{`{"imagePullSecrets": [{"nam": "regcred"}]}`, "imagePullSecrets/0"},
	{`{"timeout": "5 minutes"}`, "timeout"},
	{`{"timeout": -1}`, "timeout"},
	{`{"timeout": 1.5}`, "timeout"},
	{`{"logFormat": "yaml"}`, "value must be one of '', 'text', 'json'"},
	{`{"logLevel": "trace"}`, "value must be one of '', 'debug', 'info', 'warn', 'error'"},
	{`{"resources": {"limit": {"memory": "64Mi"}}}`, "'limit' not allowed"},
	{`{"resources": {"limits": {"memory": true}}}`, "resources/limits/memory"},
	{`{"securityContext": {"fsGroup": 1}}`, "'fsGroup' not allowed"},
	{`{"securityContext": {"runAsUser": "1000"}}`, "securityContext/runAsUser"},
	{`{"podSecurityContext": {"capabilities": {}}}`, "'capabilities' not allowed"},
	{`{"extraEnv": {"A B": "x"}}`, "invalid propertyName 'A B'"},
	{`{"extraEnv": [{"name": "A", "value": "x"}]}`, "got array, want object"},
	{`{"openshift": "yes"}`, "openshift"},
}

// TestSchemaRefuses pins that values with a misspelt key or a wrong value are refused, with their place.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	dir := parent(t, map[string]string{"none.yaml": ""})
	program := helms(t)
	for i, c := range refusals {
		for _, form := range []string{`{"initbox": %s}`, `{"global": {"initbox": %s}}`} {
			_, err := template(t, program[i%2], dir, fmt.Sprintf(form, c.values))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "\ninitbox:\n") {
				t.Errorf("%s: want %q, got %v", fmt.Sprintf(form, c.values), c.want, err)
			}
		}
	}
}

// TestSchemaAccepts pins that the schema takes the chart's own values, and every key with a value, in both places.
func TestSchemaAccepts(t *testing.T) {
	t.Parallel()
	values := `{"image": {"repository": "localhost:5000/a/initbox", "tag": "v1.2.3", "digest": "sha256:` + strings.Repeat("0a", 32) + `", "pullPolicy": "Always"},
		"imagePullSecrets": ["a", {"name": "b"}], "timeout": 90, "logFormat": "json", "logLevel": "warn",
		"resources": {"limits": {"cpu": 1, "memory": "64Mi"}, "requests": {}}, "securityContext": {"runAsUser": 1000, "capabilities": {"drop": ["ALL"]}},
		"podSecurityContext": {"fsGroup": 2000, "supplementalGroups": [1]}, "extraEnv": {"A": "x", "B": 1, "C": true}, "openshift": true}`
	var keys, known map[string]any
	if err := json.Unmarshal([]byte(values), &keys); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(chart + "/values.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &known)
	}
	if err != nil {
		t.Fatal(err)
	}
	for key := range known {
		if _, tried := keys[key]; !tried {
			t.Errorf("%s is not tried here", key)
		}
	}
	dir := parent(t, map[string]string{"none.yaml": ""})
	both(t, dir, fmt.Sprintf(`{"initbox": %s, "global": {"initbox": %[1]s, "other": 1}}`, values))
	both(t, dir, string(text))
	both(t, dir, `{"initbox": {"timeout": "1h30m"}, "global": {"initbox": {"timeout": "0"}}}`)
}

// TestValuesTable pins that the README has each value with what the comment in values.yaml says, as helm-docs writes
// it.
func TestValuesTable(t *testing.T) {
	text, err := os.ReadFile(chart + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	rows := valueRows(document.Content[0], "")
	slices.Sort(rows)
	const begin, end = "<!-- values: begin -->\n", "<!-- values: end -->"
	want := begin + "\n| Key | Type | Default | Description |\n|-----|------|---------|-------------|\n" + strings.Join(rows, "") + "\n" + end

	path := filepath.Join(chart, "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(readme), begin)
	_, after, ended := strings.Cut(rest, end)
	switch now := before + want + after; {
	case !found || !ended:
		t.Errorf("%s has no block for the table of values, from %s to %s", path, begin, end)
	case now == string(readme):
	case *update:
		if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("charts/initbox/README.md: the table of values is not that of values.yaml: run make chart")
	}
}

// valueRows returns a row for each value that has a comment which begins with "# --".
func valueRows(mapping *yaml.Node, prefix string) (rows []string) {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		if _, comment, found := strings.Cut(key.HeadComment, "# -- "); found {
			kind := map[yaml.Kind]string{yaml.MappingNode: "object", yaml.SequenceNode: "list"}[value.Kind]
			empty := map[yaml.Kind]string{yaml.MappingNode: "{}", yaml.SequenceNode: "[]"}[value.Kind]
			if kind == "" {
				kind, empty = "string", fmt.Sprintf("%q", value.Value)
			}
			rows = append(rows, fmt.Sprintf("| %s | %s | `%s` | %s |\n", name, kind, empty, strings.ReplaceAll(comment, "\n# ", " ")))
		} else if value.Kind == yaml.MappingNode {
			rows = append(rows, valueRows(value, name+".")...)
		}
	}
	return rows
}
