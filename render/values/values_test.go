package values

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"initbox/internal/readfile"
)

// write makes files in a new directory: name to content.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o644); err != nil { // whatever the umask is
			t.Fatal(err)
		}
	}
	return dir
}

// onDisk is a machine without Secrets.
var onDisk = &secretMounts{isTmpfs: func(string) bool { return false }}

func load(t testing.TB, sources ...Source) *Values {
	t.Helper()
	v, err := Load(context.Background(), sources, Options{mounts: onDisk})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %#v\nwant %#v", what, got, want)
	}
}

func TestLoad(t *testing.T) {
	dir := write(t, map[string]string{
		"base.yaml":          "db: {host: localhost, port: 5432, old: 1}\nlist: [1, 2]\nname: base\nkeep: null\n",
		"prod.json":          `{"db": {"host": "db.prod", "old": null}, "list": [3]}`,
		"more.toml":          "[db]\npool = 10\n",
		"app.env":            "TOKEN=abc\n",
		"app.properties":     "a.b=c\n",
		"values":             "noext: true\n",
		"directory/user":     "admin",
		"directory/sub/pass": "  x\n",
		"directory/..hidden": "no",
		"directory/.dot":     "yes",
		"empty.yaml":         "",
		"cert.pem":           "line1\nline2\n",
		"list.yaml":          "- a\n",
		"text.yaml":          "just text\n",
		"broken.yaml":        "password: hunter2: x\n",
		"config.ini":         "a=1\n",
		"reused/same.yaml":   "x: 1\n",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	v := load(t,
		Source{Kind: SetFile, Text: "cert=" + at("cert.pem")},
		Source{Kind: Set, Text: "db.port=6432,flag=true,list[2]=z"},
		Source{Kind: SetString, Text: "flag=true"},
		Source{Kind: SetJSON, Text: `json={"a": [1, 2.5]},other="x"`},
		Source{Text: at("base.yaml")}, Source{Text: at("prod.json")}, Source{Text: at("more.toml")}, Source{Text: at("app.env")},
		Source{Text: at("app.properties")}, Source{Text: at("values")}, Source{Text: at("directory")}, Source{Text: at("empty.yaml")},
	)
	equal(t, "values", v.Map(), map[string]any{
		"db":   map[string]any{"host": "db.prod", "port": int64(6432), "pool": int64(10)},
		"list": []any{int64(3), nil, "z"}, "name": "base", "keep": nil, "TOKEN": "abc", "a.b": "c", "noext": true,
		"user": "admin", "sub": map[string]any{"pass": "  x\n"}, ".dot": "yes", "cert": "line1\nline2\n", "flag": "true",
		"json": map[string]any{"a": []any{int64(1), 2.5}}, "other": "x",
	})
	if len(v.Secrets()) != 0 {
		t.Errorf("secrets %q", v.Secrets())
	}

	for _, test := range []struct {
		source Source
		want   string
	}{
		{Source{Text: at("list.yaml")}, "list.yaml: it is a list, but values are a map"},
		{Source{Text: at("text.yaml")}, "--set-file KEY="},
		{Source{Text: at("broken.yaml")}, "broken.yaml: line 1: a colon where no key can be"},
		{Source{Text: at("config.ini")}, "values cannot be written as ini"},
		{Source{Text: at("missing.yaml")}, "no such file"},
		{Source{Text: ""}, "without a file"},
		{Source{Text: "https://u:hunter2@example.com/x?t=hunter2"}, "https://example.com/x: URLs are not allowed"},
		{Source{Text: "-"}, "there is no standard input"},
		{Source{Kind: SetFile, Text: "a=" + at("missing")}, "--set-file: a: "},
		{Source{Kind: Set, Text: "a.b"}, "--set: the key a.b has no value"},
	} {
		_, err := Load(context.Background(), []Source{test.source}, Options{mounts: onDisk})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: error %v, want %q", test.source, err, test.want)
		}
	}
}

func TestStdinAndURLs(t *testing.T) {
	fetch := func(_ context.Context, url string) ([]byte, string, error) {
		switch url {
		case "http://x/a.toml":
			return []byte("a = 1"), "text/plain", nil
		case "http://x/b":
			return []byte(`{"b": "\t"}`), "application/json; charset=utf-8", nil
		case "http://x/c?token=hunter2":
			return []byte("c: 3"), "", nil
		}
		return nil, "", errors.New("404")
	}
	o := Options{Stdin: strings.NewReader("in: 1\n"), Fetch: fetch, mounts: onDisk}
	v, err := Load(context.Background(), []Source{{Text: "http://x/a.toml"}, {Text: "http://x/b", Secret: true}, {Text: "http://x/c?token=hunter2"}, {Text: "-"}}, o)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "values", v.Map(), map[string]any{"a": int64(1), "b": "\t", "c": int64(3), "in": int64(1)})
	equal(t, "secrets", v.Secrets(), []string{"\t"})
	if o, err := v.Explain("c"); err != nil || o[0].Source != "http://x/c" {
		t.Errorf("%v, %v", o, err)
	}
	if _, err := Load(context.Background(), []Source{{Text: "http://x/d?token=hunter2"}}, o); err == nil || err.Error() != "reading values: http://x/d: 404" {
		t.Error(err)
	}
	o.Stdin = strings.NewReader("a: 1")
	if _, err := Load(context.Background(), []Source{{Text: "-"}, {Text: "-"}}, o); err == nil || !strings.Contains(err.Error(), "only once") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Load(ctx, []Source{{Kind: Set, Text: "a=1"}}, o); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What is read of standard input is all of it, or an error.
func TestStdinThatCannotBeRead(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		stdin io.Reader
		want  string
	}{
		{nil, "no standard input"},
		{strings.NewReader(strings.Repeat("#", readfile.Limit)), ""},
		{strings.NewReader(strings.Repeat("#", readfile.Limit+1)), "longer than"},
		{io.MultiReader(strings.NewReader("a: 1\n"), iotest.ErrReader(broken)), "broken"},
	} {
		o := Options{Stdin: c.stdin, mounts: onDisk}
		_, err := Load(context.Background(), []Source{{Text: "-"}}, o)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// TestSet has Helm's own cases, and ours; test/helm compares with Helm itself.
func TestSet(t *testing.T) {
	m := func(kv ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i].(string)] = kv[i+1]
		}
		return m
	}
	for _, test := range []struct {
		kind Kind
		text string
		want any // or the beginning of an error
	}{
		{Set, "", m()},
		{Set, "a=1,b=true,c=FALSE,d=null,e=,f=01,g=0,h=-5,i=1.5,j=x y", m("a", int64(1), "b", true, "c", false, "d", nil, "e", "", "f", "01", "g", int64(0), "h", int64(-5), "i", "1.5", "j", "x y")},
		{Set, `a=b\,c\=d\\,e\.f=g`, m("a", `b,c=d\`, "e.f", "g")},
		{Set, "a={x,1,true},b={},c={y}", m("a", []any{"x", int64(1), true}, "b", []any{""}, "c", []any{"y"})},
		{Set, "a.b.c=1,a.b.d=2", m("a", m("b", m("c", int64(1), "d", int64(2))))},
		{Set, "a[1]=x", m("a", []any{nil, "x"})},
		{Set, "a[0].b=1,a[0].c=2,a[1][1]=y", m("a", []any{m("b", int64(1), "c", int64(2)), []any{nil, "y"}})},
		{Set, "a[0]=x,a[0].b=1", m("a", []any{m("b", int64(1))})},
		{Set, "a[0]=", m("a", []any{""})},
		{Set, "a[0].b=", m("a", []any{m("b", "")})},
		{Set, "a[0]", m("a", []any{})},
		{Set, "a=null,a.b=1", m("a", m("b", int64(1)))},
		{Set, "a=1,a=null", m()},
		{Set, "a[0]=1,a[0]=null", m("a", []any{nil})},
		{Set, "a=ä€,ö=1", m("a", "ä€", "ö", int64(1))},
		{Set, "a=1,", m("a", int64(1))},
		{SetString, "a=1,b=true,c={1,2}", m("a", "1", "b", "true", "c", []any{"1", "2"})},
		{SetJSON, `a={"b": 1},c=[1, "x"],d=,e="f,g",h[1]=true`, m("a", m("b", int64(1)), "c", []any{int64(1), "x"}, "d", nil, "e", "f,g", "h", []any{nil, true})},
		{SetJSON, `{"a": {"b": 1}, "c": [1]}`, m("a", m("b", int64(1)), "c", []any{int64(1)})},

		{Set, "a", "--set: the key a has no value"},
		{Set, "a,b=1", "--set: the key a has no value"},
		{Set, "=1", "--set: a key is empty"},
		{Set, "a..b=1", "--set: a key is empty"},
		{Set, "a=1,a.b=hunter2", "--set: a is a number: a map was expected, to set b in it"},
		{Set, "a=1,a[0]=hunter2", "--set: a is a number: a list was expected"},
		{Set, "a=1,a[0]", "--set: a is a number: a list was expected"},
		{Set, "a[x]=1", "--set: a: what stands between [ and ] is not the index"},
		{Set, "a[-1]=1", "--set: a: what stands between"},
		{Set, "a[65537]=1", "--set: a: the index is greater than 65536"},
		{Set, "a[2147483647]=1", "--set: a: the index is greater"},
		{Set, "a[99999999999999999999]=1", "--set: a: what stands between"},
		{Set, "a[0]x=1", "--set: a[0]: something follows the ]"},
		{Set, "a[0=1", "--set: a: the [ is not closed"},
		{Set, "a={x", "--set: a: the { is not closed"},
		{Set, strings.Repeat("a.", 31) + "b=1", "--set: a key of more than 30 names"},
		{Set, "a=\xff", "--set: not UTF-8"},
		{SetJSON, "a=hunter2", "--set-json: a: the value is not JSON"},
		{SetJSON, `{"a": hunter2}`, "--set-json: line 1, column 7: a value is expected"},
		{SetJSON, `a={"x": 1, "x": 2}`, `--set-json: a: line 1, column 10: duplicate key "x"`},
	} {
		v, err := Load(context.Background(), []Source{{Kind: test.kind, Text: test.text}}, Options{mounts: onDisk})
		if want, ok := test.want.(string); ok {
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s %.60s: error %v, want %q", test.kind, test.text, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %s: %v", test.kind, test.text, err)
			continue
		}
		equal(t, test.kind.String()+" "+test.text, v.Map(), test.want)
	}
}

func TestExplain(t *testing.T) {
	dir := write(t, map[string]string{
		"base.yaml": "db: {host: localhost, port: 5432, gone: 1}\nlist: [1, 2]\nmap: x\n",
		"prod.yaml": "db: {host: db.prod, gone: null}\nlist: [3]\nmap: {a: {}}\n",
		"pass.yaml": "db: {pass: hunter2}\n",
	})
	base, prod, pass := filepath.Join(dir, "base.yaml"), filepath.Join(dir, "prod.yaml"), filepath.Join(dir, "pass.yaml")
	v := load(t, Source{Text: base}, Source{Text: prod}, Source{Text: pass, Secret: true}, Source{Kind: Set, Text: `db.host=db.test,list[1]=z,a\.b=1`})
	host := []Origin{{"db.host", base, `"localhost"`, false}, {"db.host", prod, `"db.prod"`, false}, {"db.host", "--set", `"db.test"`, false}}
	gone := []Origin{{"db.gone", base, "1", false}, {"db.gone", prod, "", true}}
	for key, want := range map[string][]Origin{
		"db.host": host, ".Values.db.host": host, "Values.db.host": host,
		"db.gone":         gone,
		".Values.db.pass": {{"db.pass", pass, "[…]", false}},
		"list[0]":         {{"list[0]", base, "1", false}, {"list[0]", prod, "3", false}},
		"list[1]":         {{"list[1]", "--set", `"z"`, false}},
		"map":             {{"map.a", prod, "{}", false}},
		`a\.b`:            {{`a\.b`, "--set", "1", false}},
		"db":              append(append(gone[:2:2], host...), Origin{"db.pass", pass, "[…]", false}, Origin{"db.port", base, "5432", false}),
	} {
		got, err := v.Explain(key)
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
		equal(t, key, got, want)
	}
	if all, err := v.Explain(".Values"); err != nil || len(all) != 12 {
		t.Errorf("%d origins: %v, %v", len(all), all, err)
	}
	for key, want := range map[string]string{
		"db.hots": "explain db.hots: there is no key db.hots; did you mean db.host?", "x": "there is no key x; the keys are ", "list[7]": "list has 2 items",
		"db.host.x": "db.host is a string", "db[0]": "db is a map", "a..b": "not a key", "a[": "not a key", "a=b": "not a key",
	} {
		if _, err := v.Explain(key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", key, err, want)
		}
	}
}

func TestKinds(t *testing.T) {
	for kind, want := range map[Kind]string{File: "--values", Set: "--set", SetString: "--set-string", SetJSON: "--set-json", SetFile: "--set-file"} {
		if kind.String() != want {
			t.Errorf("%d: %s", kind, kind)
		}
	}
}
