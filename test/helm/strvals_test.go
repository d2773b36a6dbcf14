package helm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"

	ours "initbox/render/values"
)

// setCases are texts of --set with the same meaning in Helm and here.
var setCases = []string{
	"", "a=1", "a=1,b=2", "a=b,", "a.b=c", "a.b.c=d,a.b.e=f", "a=true,b=TRUE,c=false,d=null,e=Null", "a=0,b=00,c=01,d=-1,e=+1,f=1.5,g=1e3,h=0x10,i=-0",
	"a=9223372036854775807,b=9223372036854775808", "a=", "a=,b=", "a= b ,c=d", "a={x,y}", "a={}", "a={x}", "a={x},b={y,z}", "a={x}b=1", "a={1,true,null,x y}",
	"a={x\\,y,z}", "a={x", "a=b}c", "a=b{c", "a[0]=x", "a[1]=x", "a[2]=x,a[0]=y", "a[0].b=c", "a[0].b=c,a[0].d=e", "a[0].b.c=d", "a[0][0]=x", "a[1][2]=x,a[1][0]=y",
	"a[0]={x,y}", "a[0]", "a.b[0]=x,a.b[1]=y", "a[0]=x,a[0].b=c", "a={x,y},a[1]=z", "a={x,y},a[5]=z", "a[65536]=x", "a[65537]=x", "a[-1]=x", "a[x]=1", "a[]=1", "a[0",
	"a[0]x=1", "a[99999999999999999999]=1", "a", "a,b=1", "a.b", "a.b,c=1", "a.", "a=1,b", `a\.b=c`, `a\,b=c`, `a\=b=c`, `a=b\,c`, `a=b\\c`, `a=b\`, `a\`, `a\[0\]=b`,
	"a=b=c", "a=b.c[0]", "a=1,a=2", "a=1,a.b=2", "a=1,a[0]=2", "a.b=1,a=2", "a={x},a.b=1", "a=ä,ö.ü=ß", "a b=c", "a=\"x\"", "a='x,y'", "a=x\ny", "a[0]=1,a[1]=2,a[2]=3",
	"a.b[1].c=1,a.b[0].c=2", strings.Repeat("a.", 30) + "b=1", strings.Repeat("a.", 31) + "b=1", "a=null,b.c=null", "a[0]=null", "a[1].b=null", "a={null}",
}

// TestSet compares --set and its variants with Helm's parser.
func TestSet(t *testing.T) {
	for _, text := range setCases {
		compareSet(t, text)
	}
	for _, text := range []string{`a=1`, `a={"b": [1, 2.5, "x", null, true]}`, `a=1,b="x,y",c=`, `a[1]={"b": {}},a[0]=2`, `a.b=[],a.c={}`, `a=,b=1`, `a= 1 ,b=2`, `a=x`, `a={"b"}`, `a`, `a=1 b=2`} {
		want := map[string]any{}
		err := strvals.ParseJSON(text, want)
		compare(t, ours.SetJSON, text, want, err)
	}
}

func compareSet(t *testing.T, text string) {
	t.Helper()
	want, err := strvals.Parse(text)
	compare(t, ours.Set, text, want, err)
	want, err = strvals.ParseString(text)
	compare(t, ours.SetString, text, want, err)
}

// compare compares one text. Helm's numbers of JSON are float64, so ours are converted.
func compare(t *testing.T, kind ours.Kind, text string, want map[string]any, helmErr error) {
	t.Helper()
	v, err := ours.Load(context.Background(), []ours.Source{{Kind: kind, Text: text}}, ours.Options{})
	if (err == nil) != (helmErr == nil) {
		t.Errorf("%s %.80q: our error is %v, Helm's %v", kind, text, err, helmErr)
		return
	}
	if err != nil {
		return
	}
	if got := v.Map(); !reflect.DeepEqual(floats(got), floats(want)) || kind != ours.SetJSON && !reflect.DeepEqual(got, want) {
		t.Errorf("%s %.80q:\nours %#v\nHelm %#v", kind, text, got, want)
	}
}

// floats converts the integers in v to float64.
func floats(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for k, e := range v {
			m[k] = floats(e)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = floats(e)
		}
		return list
	case int64:
		return float64(v)
	}
	return v
}

// TestMerge compares all kinds of sources together, in an order that differs from Helm's fixed one (MergeValues in
// helm.sh/helm/v3/pkg/cli/values, which would link clients of registries).
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	files := []string{"db: {host: a, port: 1000000, list: [1, {x: y}]}\nn: 1.5\nkeep: {a: 1}\n", "db: {host: b, list: [2]}\nkeep: 3\nyes: no\n"}
	sets, json, text := []string{"db.host=c,db.list[1]=x", "n=2", "s={a,b}"}, []string{`db.extra={"a": 1}`, `j=[1]`}, []string{"n=3", "db.port=5"}
	content := file("text", " raw\ncontent\n")

	want := map[string]any{}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		later, err := chartutil.ReadValues([]byte(f))
		check(err)
		want = chartutil.MergeTables(later, want)
	}
	for _, s := range json {
		check(strvals.ParseJSON(s, want))
	}
	for _, s := range sets {
		check(strvals.ParseInto(s, want))
	}
	for _, s := range text {
		check(strvals.ParseIntoString(s, want))
	}
	check(strvals.ParseIntoFile("f="+content, want, func(rs []rune) (any, error) {
		data, err := os.ReadFile(string(rs))
		return string(data), err
	}))

	sources := []ours.Source{{Kind: ours.SetFile, Text: "f=" + content}}
	for _, s := range text {
		sources = append(sources, ours.Source{Kind: ours.SetString, Text: s})
	}
	for _, s := range sets {
		sources = append(sources, ours.Source{Kind: ours.Set, Text: s})
	}
	for _, s := range json {
		sources = append(sources, ours.Source{Kind: ours.SetJSON, Text: s})
	}
	for i, f := range files {
		sources = append(sources, ours.Source{Text: file(fmt.Sprintf("%d.yaml", i), f)})
	}
	v, err := ours.Load(context.Background(), sources, ours.Options{})
	check(err)
	if !reflect.DeepEqual(floats(v.Map()), floats(want)) {
		t.Errorf("\nours %#v\nHelm %#v", v.Map(), want)
	}
	if got := fmt.Sprint(v.Map()["keep"]); got != "3" {
		t.Errorf("keep is %s", got)
	}
}

// FuzzSet looks for texts with another meaning in Helm.
func FuzzSet(f *testing.F) {
	for _, text := range setCases {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !differs(text) {
			compareSet(t, text)
		}
	})
}

// differs reports texts that are read differently on purpose, see initbox/render/values: empty keys, nulls that become
// maps, and out-of-bounds indexes that Helm does not use.
func differs(text string) bool {
	if strings.LastIndex(text, "[") > strings.LastIndex(text, "=") {
		return true
	}
	for _, part := range []string{"..", ".=", ".[", ".,", "=[", ",[", ",=", ",."} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return strings.HasPrefix(text, "=") || strings.HasSuffix(text, ".") || strings.HasPrefix(text, ".") || strings.HasPrefix(text, "[") || strings.Contains(strings.ToLower(text), "null") ||
		strings.Contains(text, "].") || strings.Contains(text, ",,") || strings.ToValidUTF8(text, "") != text
}
