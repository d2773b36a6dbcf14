package chart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	block = regexp.MustCompile("(?s)```yaml\n# (\\S+)\n(.*?)```")                   // of the README: a file and its path
	row   = regexp.MustCompile("(?m)^\\| \\[`\\w+`\\]\\(.*\\| `(\\w+: \\{.*?\\})`") // of its table of steps
)

// TestReadme pins that helm 3 and 4 render the chart that the README shows, and each step of its table, and that the
// program takes what they yield.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(chart + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	templates := map[string]string{}
	var values string
	for _, found := range block.FindAllStringSubmatch(string(text), -1) {
		switch path, body := found[1], found[2]; {
		case path == "values.yaml":
			values = body
		case strings.HasPrefix(path, "templates/"):
			templates[strings.TrimPrefix(path, "templates/")] = body
		}
	}
	if len(templates) != 3 || values == "" {
		t.Fatalf("the README has %d templates, and the values %q", len(templates), values)
	}
	rows := row.FindAllStringSubmatch(string(text), -1)
	if len(rows) < 18 {
		t.Errorf("only %d rows of the table of steps have an example", len(rows))
	}
	for i, found := range rows {
		step := found[1]
		if strings.HasPrefix(step, "deregister:") {
			step += "\n- register: {preset: eureka, url: \"http://eureka:8761/eureka\", service: web, port: 8080}"
		}
		name := fmt.Sprint("row", i)
		templates[name+".yaml"] = strings.NewReplacer("NAME", name, "STEPS", "- "+step).Replace(pod)
	}
	dir := parent(t, templates)
	if err := os.WriteFile(filepath.Join(dir, "values.yaml"), []byte(values), 0o644); err != nil {
		t.Fatal(err)
	}
	out := both(t, dir, "{}")
	state := t.TempDir()
	for _, args := range commandLines(t, []byte(out)) {
		if args[0] != "deregister" { // which reads a state, which TestCommandLines has
			requireTaken(t, "README.md", args, state)
		}
	}
}
