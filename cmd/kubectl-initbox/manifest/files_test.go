package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml":          "{apiVersion: v1, kind: Service, metadata: {name: b}}",
		"a/c.yml":         "{apiVersion: v1, kind: Service, metadata: {name: c}}",
		"a/d.json":        "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Service\",\n\t\"metadata\": {\"name\": \"d\"}\n}\n",
		"a/e.txt":         "{apiVersion: v1, kind: Service, metadata: {name: e}}",
		"bad/broken.yaml": "a: b\n c: d\n",
		"bad/good.yaml":   "{apiVersion: v1, kind: Service, metadata: {name: good}}",
		"empty/f.txt":     "",
	} {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../b.yaml", filepath.Join(dir, "a/link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..", filepath.Join(dir, "a/loop.yaml")); err != nil {
		t.Fatal(err)
	}
	stdin := strings.NewReader("{apiVersion: v1, kind: Service, metadata: {name: stdin}}")
	objects, err := ReadFiles([]string{filepath.Join(dir, "a"), filepath.Join(dir, "b.yaml"), "-"}, stdin)
	if got := names(objects); err != nil || got != "c d b b stdin" {
		t.Errorf("%s, %v", got, err)
	}
	objects, err = ReadFiles([]string{filepath.Join(dir, "bad"), filepath.Join(dir, "missing"), filepath.Join(dir, "empty")}, nil)
	if got := names(objects); got != "good" {
		t.Errorf("beside errors: %s", got)
	}
	for _, want := range []string{"broken.yaml:2: not YAML: ", "missing: no such file", "empty: no file in it ends in"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func names(objects []*Object) string {
	var names []string
	for _, o := range objects {
		names = append(names, o.Name)
	}
	return strings.Join(names, " ")
}

// TestHostile pins that no input takes the memory, the stack or forever.
func TestHostile(t *testing.T) {
	t.Parallel()
	bomb := "a: &a0 [x, x, x, x, x, x, x, x, x]\n"
	lists := "l0: &l0 {apiVersion: v1, kind: Pod, spec: {containers: [{name: c}]}}\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9))
		lists += fmt.Sprintf("l%d: &l%d {apiVersion: v1, kind: List, items: [%s]}\n", i, i, strings.Repeat(fmt.Sprintf("*l%d,", i-1), 9))
	}
	for name, c := range map[string]struct{ text, want string }{
		"aliases":                     {bomb + "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, args: *a11}]}\n", ""},
		"a List of itself":            {"&a {apiVersion: v1, kind: List, items: [*a]}", "h.yaml:1: more than 10 Lists in one another"},
		"Lists of Lists":              {lists + "apiVersion: v1\nkind: List\nitems: [*l6]\n", "more than 100000 objects"},
		"a Pod in itself":             {"&a {apiVersion: v1, kind: Pod, spec: {containers: [*a]}}", ""},
		"brackets":                    {"a: " + strings.Repeat("[", 100_000), "h.yaml: not YAML: exceeded max depth"},
		"closed brackets":             {"{apiVersion: v1, kind: Pod, spec: {containers: [{args: " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "}]}}", ""},
		"indentation":                 {strings.Repeat("- ", 100_000), "h.yaml: not YAML: exceeded max depth"},
		"control characters":          {"a: \x1b[2J\x00", "h.yaml: not YAML: control characters are not allowed"},
		"bytes":                       {"\xff\xfe\xff", "h.yaml"},
		"an anchor that is not there": {"a: *b", "h.yaml: not YAML: unknown anchor 'b' referenced"},
	} {
		_, err := Read("h.yaml", strings.NewReader(c.text))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, args: [a]}]}}]}")
	f.Add("a: &a {<<: *a}\n---\nkind: Pod\n")
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := Read("f.yaml", strings.NewReader(text))
		if err != nil && !strings.HasPrefix(err.Error(), "f.yaml") {
			t.Errorf("%v does not name the file", err)
		}
		for _, o := range objects {
			if o.Node.Line < 1 || o.Node.Line > strings.Count(text, "\n")+1 {
				t.Errorf("%v is in line %d", o, o.Node.Line)
			}
		}
	})
}
