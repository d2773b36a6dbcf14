package helpers

import (
	"encoding/json"
	"encoding/xml"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"initbox/render/engine"
)

func TestHostPort(t *testing.T) {
	for _, c := range []struct {
		host string
		port any
		want string
	}{{"db", 5432, "db:5432"}, {"10.0.0.1", "80", "10.0.0.1:80"}, {"fd00::1", 80, "[fd00::1]:80"}, {"[fd00::1]", int64(80), "[fd00::1]:80"}} {
		if got := HostPort(c.host, c.port); got != c.want {
			t.Errorf("HostPort(%q, %v) = %s, want %s", c.host, c.port, got, c.want)
		}
	}
}

func TestPod(t *testing.T) {
	p := podOf{map[string]any{"Name": "web-2", "Limits": map[string]any{"cpu": 1.5, "memory": int64(1 << 30)}}}
	if n, err := p.ordinal(); n != 2 || err != nil {
		t.Errorf("ordinal = %d, %v", n, err)
	}
	if n, err := p.ordinal("db-7"); n != 7 || err != nil {
		t.Errorf("ordinal db-7 = %d, %v", n, err)
	}
	if n, err := p.cpuCount(); n != 2 || err != nil {
		t.Errorf("cpuCount = %d, %v", n, err)
	}
	if n, err := p.memMiB(); n != 1024 || err != nil {
		t.Errorf("memMiB = %d, %v", n, err)
	}
	if n, err := p.memMiB(50); n != 512 || err != nil {
		t.Errorf("memMiB 50 = %d, %v", n, err)
	}
	if s, err := p.jvmHeap(); s != "-Xmx768m" || err != nil {
		t.Errorf("jvmHeap = %s, %v", s, err)
	}
	if s, err := p.jvmHeap("60.5"); s != "-Xmx619m" || err != nil {
		t.Errorf("jvmHeap 60.5 = %s, %v", s, err)
	}
	for _, percent := range []any{0, 101, "x", "-1", "50x"} {
		if n, err := p.memMiB(percent); err == nil {
			t.Errorf("memMiB %v = %d, want an error", percent, n)
		}
	}
}

func TestPodWithoutLimits(t *testing.T) {
	p := podOf{}
	if _, err := p.cpuCount(); err == nil || !strings.Contains(err.Error(), "$CPU_LIMIT") {
		t.Errorf("cpuCount: %v", err)
	}
	if _, err := p.jvmHeap(); err == nil || !strings.Contains(err.Error(), "$MEMORY_LIMIT") {
		t.Errorf("jvmHeap: %v", err)
	}
	if _, err := p.ordinal(); err == nil {
		t.Error("an ordinal of no name")
	}
}

// hard is what quoting has to bear.
var hard = []string{"", "plain", "it's", `"double"`, `back\slash`, "two\nlines", "$HOME `id` $(id)", "a: b # c", "- x", "é ☃ 😀", "\u0085\u2028\ufeff", "<a href='x'>&", "~", "tab\there", "%s", "\x01"}

// TestQuoteReadBack has each language read what was quoted for it.
func TestQuoteReadBack(t *testing.T) {
	for _, want := range hard {
		if quoted, err := JSONQuote(want); err == nil {
			var got string
			if err := json.Unmarshal([]byte(quoted), &got); err != nil || got != want {
				t.Errorf("json %s = %q, %v, want %q", quoted, got, err, want)
			}
		}
		if quoted, err := YAMLQuote(want); err == nil {
			var got map[string]string
			if err := yaml.Unmarshal([]byte("key: "+quoted+"\n"), &got); err != nil || got["key"] != want {
				t.Errorf("yaml %s = %q, %v, want %q", quoted, got, err, want)
			}
		}
		if quoted, err := ShellQuote(want); err != nil {
			t.Error(err)
		} else if got, err := exec.Command("sh", "-c", "printf %s "+quoted).Output(); err != nil || string(got) != want {
			t.Errorf("shell %s = %q, %v, want %q", quoted, got, err, want)
		}
		if quoted, err := XMLQuote(want); err == nil {
			var got struct {
				A    string `xml:"a,attr"`
				Text string `xml:",chardata"`
			}
			if err := xml.Unmarshal([]byte(`<x a="`+quoted+`">`+quoted+`</x>`), &got); err != nil || got.A != want || got.Text != want {
				t.Errorf("xml %s = %q, %v, want %q", quoted, got, err, want)
			}
		}
	}
}

func TestQuote(t *testing.T) {
	funcs := Funcs(&engine.Data{})
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"sqlquote", "O'Hara", "'O''Hara'"},
		{"sqlquote", 7, "'7'"},
		{"iniquote", `a "b" c\d`, `"a \"b\" c\\d"`},
		{"jsonquote", "<&>", `"<&>"`},
		{"xmlquote", `<"&'>`, `&lt;&#34;&amp;&#39;&gt;`},
		{"shquote", nil, "''"},
		{"yamlquote", true, `"true"`},
	} {
		got, err := funcs[c.name].(func(any) (string, error))(c.value)
		if err != nil || got != c.want {
			t.Errorf("%s %v = %s, %v, want %s", c.name, c.value, got, err, c.want)
		}
	}
}

// TestQuoteRefuses pins what a language cannot express, and that the error does not tell the value.
func TestQuoteRefuses(t *testing.T) {
	funcs := Funcs(&engine.Data{})
	for name, value := range map[string]string{"shquote": "s3cret\x00", "sqlquote": `s3cret\`, "iniquote": "s3cret\n", "xmlquote": "s3cret\x01", "jsonquote": "s3cret\xff", "yamlquote": "s3cret\xff"} {
		got, err := funcs[name].(func(any) (string, error))(value)
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s %q = %q, %v, want an error without the value", name, value, got, err)
		}
	}
}
