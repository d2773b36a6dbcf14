// Package helm compares render's engine with Helm's.
//
// It is a separate module, since the product must not depend on Helm. The templates come from Helm's and sprig's tests
// and from sprig's documentation, in the modules' sources, which Go has on disk.
package helm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	helmengine "helm.sh/helm/v3/pkg/engine"

	"initbox/render/engine"
	"initbox/render/gotemplate"
)

// enough is the minimum number of templates: fewer would mean that the search for them fails.
const enough = 500

// snippet is a template with its test's values.
type snippet struct {
	origin, text string
	values       map[string]any
}

// chance matches templates whose result is random, or depends on the machine.
var chance = regexp.MustCompile(`\b(now|ago|rand\w*|shuffle|uuidv4|gen[A-Z]\w*|bcrypt|htpasswd|encryptAES|env|expandenv|getHostByName|date\w*|htmlDate\w*|durationRound|keys|values)\b`)

// whole matches templates that print the complete context, which also contains a chart in Helm, and a Pod in render.
// They are compared through tpl.
var (
	whole    = regexp.MustCompile(`[\s({|]\.[\s)}|]`)
	composes = regexp.MustCompile(`\b(include|template|tpl)\b`) // functions that receive it
)

// different are the templates whose result differs on purpose, by a part of their text, with the reason. Each must
// differ, and no others may.
var different = []struct{ part, why string }{
	{`lookup "v1"`, "lookup is an error instead of nothing"},
	{`.Chart.IsRoot`, "there is no chart"},
	{`.Files.author`, ".Files is no map, so that it need not be read as a whole"},
	{`{{tpl "{{ .Template.BasePath }}" .}}`, "is the directory of the template"},
}

func TestHelm(t *testing.T) {
	log.SetOutput(&bytes.Buffer{}) // Helm's log
	all := snippets(t)
	texts, compared, strict := map[string]bool{}, 0, 0
	used := map[string]bool{}
	for _, s := range all {
		if chance.MatchString(s.text) {
			continue
		}
		for _, through := range []string{"file", "tpl"} {
			if through == "file" && whole.MatchString(s.text) && !composes.MatchString(s.text) {
				continue
			}
			theirs, theirErr := renderHelm(s, through)
			ours, ourErr := renderOurs(s, through, engine.Options{MissingZero: true})
			texts[s.text], compared = true, compared+1
			i := slices.IndexFunc(different, func(d struct{ part, why string }) bool { return strings.Contains(s.text, d.part) })
			if ours != theirs || (ourErr == nil) != (theirErr == nil) {
				if i >= 0 {
					used[different[i].part] = true
					continue
				}
				t.Errorf("%s, as a %s:\n%s\nvalues %v\nHelm: %q, %v\nours: %q, %v", s.origin, through, s.text, s.values, theirs, theirErr, ours, ourErr)
				continue
			}
			if theirErr != nil { // here, unlike there, a template may test for a missing value
				continue
			}
			missing := (*engine.MissingError)(nil)
			tight, tightErr := renderOurs(s, through, engine.Options{})
			switch {
			case errors.As(tightErr, &missing) || i >= 0:
			case tightErr == nil && tight == theirs:
				strict++
			case tightErr != nil && strings.Contains(tightErr.Error(), "null"):
			default:
				t.Errorf("%s, strict, as a %s:\n%s\nvalues %v\nHelm: %q, %v\nours: %q, %v", s.origin, through, s.text, s.values, theirs, theirErr, tight, tightErr)
			}
		}
	}
	for _, d := range different {
		if !used[d.part] {
			t.Errorf("%s no longer differs: %s", d.part, d.why)
		}
	}
	t.Logf("%d templates, compared %d times as Helm renders them and %d times strictly", len(texts), compared, strict)
	if len(texts) < enough {
		t.Errorf("there are %d templates only, want %d", len(texts), enough)
	}
}

// renderHelm renders a snippet as a file with the values as .Values, or through tpl with the values as the dot.
func renderHelm(s snippet, through string) (string, error) {
	c := &chart.Chart{Metadata: &chart.Metadata{Name: "c", Version: "1"}}
	values := map[string]any{"dot": clone(s.values), "text": s.text}
	text := "{{tpl .Values.text .Values.dot}}"
	if through == "file" {
		values, text = clone(s.values), s.text
	}
	c.Templates = []*chart.File{{Name: "t", Data: []byte(text)}}
	out, err := helmengine.Render(c, chartutil.Values{"Values": values})
	return out["c/t"], err
}

func renderOurs(s snippet, through string, o engine.Options) (string, error) {
	values := map[string]any{"dot": clone(s.values), "text": s.text}
	text := "{{tpl .Values.text .Values.dot}}"
	if through == "file" {
		values, text = clone(s.values), s.text
	}
	t, err := gotemplate.New(&engine.Data{Values: values}, o).Parse("c/t", text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := t.Execute(context.Background(), &out); err != nil {
		return "", err
	}
	return out.String(), nil
}

// clone copies values, since templates change them.
func clone(m map[string]any) map[string]any {
	c := map[string]any{}
	for k, v := range m {
		if m, ok := v.(map[string]any); ok {
			v = clone(m)
		}
		c[k] = v
	}
	return c
}

// snippets collects the templates.
func snippets(t *testing.T) []snippet {
	var all []snippet
	for _, module := range []string{"github.com/Masterminds/sprig/v3", "helm.sh/helm/v3"} {
		dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatalf("looking for the source of %s: %v", module, err)
		}
		root := strings.TrimSpace(string(dir))
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, _ := filepath.Rel(root, path)
			origin := module + "/" + name
			switch {
			case strings.HasSuffix(path, "_test.go"):
				return fromTests(path, origin, &all)
			case strings.HasSuffix(path, ".md") && strings.Contains(module, "sprig"):
				return fromPage(path, origin, &all)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// fromTests returns the strings with actions in a test, each with each of the map literals of the same function, or
// without values.
func fromTests(path, origin string, all *[]snippet) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, 0)
	if err != nil {
		return err
	}
	for _, decl := range file.Decls {
		var texts []string
		var lines []int
		values := []map[string]any{nil}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				m, ok := literal(n).(map[string]any)
				if ok && len(m) > 0 && len(values) < 4 && !slices.ContainsFunc(values, func(v map[string]any) bool { return reflect.DeepEqual(v, m) }) && !isTable(m) {
					values = append(values, m)
				}
			case *ast.BasicLit:
				if text, ok := literal(n).(string); ok && strings.Contains(text, "{{") && !slices.Contains(texts, text) {
					texts, lines = append(texts, text), append(lines, fset.Position(n.Pos()).Line)
				}
			}
			return true
		})
		for i, text := range texts {
			for _, v := range values {
				*all = append(*all, snippet{fmt.Sprintf("%s:%d", origin, lines[i]), text, v})
			}
		}
	}
	return nil
}

// isTable reports whether a map is a table of tests: from templates to results.
func isTable(m map[string]any) bool {
	for key := range maps.Keys(m) {
		if strings.Contains(key, "{{") {
			return true
		}
	}
	return false
}

// literal returns the value of a literal of maps, lists, strings and numbers, or nil for other expressions.
func literal(e ast.Expr) any {
	switch e := e.(type) {
	case *ast.BasicLit:
		switch e.Kind {
		case token.STRING:
			s, _ := strconv.Unquote(e.Value)
			return s
		case token.INT:
			n, _ := strconv.Atoi(e.Value)
			return n
		case token.FLOAT:
			f, _ := strconv.ParseFloat(e.Value, 64)
			return f
		}
	case *ast.Ident:
		switch e.Name {
		case "true", "false":
			return e.Name == "true"
		}
	case *ast.CompositeLit:
		return composite(e)
	}
	return nil
}

func composite(e *ast.CompositeLit) any {
	switch e.Type.(type) {
	case *ast.MapType:
		m := map[string]any{}
		for _, element := range e.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok {
				return nil
			}
			key, ok := literal(pair.Key).(string)
			value := literal(pair.Value)
			name, isNil := pair.Value.(*ast.Ident)
			if !ok || value == nil && !(isNil && name.Name == "nil") {
				return nil
			}
			m[key] = value
		}
		return m
	case *ast.ArrayType:
		list := []any{}
		for _, element := range e.Elts {
			value := literal(element)
			if value == nil {
				return nil
			}
			list = append(list, value)
		}
		return list
	}
	return nil
}

// fromPage returns the lines of a page that are templates, and its blocks of code.
func fromPage(path, origin string, all *[]snippet) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	block := regexp.MustCompile("(?s)```[a-z]*\n(.*?)```")
	for _, m := range block.FindAllSubmatch(data, -1) {
		text := string(m[1])
		for line := range strings.Lines(text) {
			add(all, origin, strings.TrimSpace(line))
		}
		add(all, origin, text)
	}
	return nil
}

// add adds a text of the documentation. A text without delimiters is an action.
func add(all *[]snippet, origin, text string) {
	if !strings.Contains(text, "{{") {
		text = "{{" + text + "}}"
	}
	*all = append(*all, snippet{origin, text, nil})
}
