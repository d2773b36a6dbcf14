package format

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
)

// FuzzParse reads anything in each format that values can be written in.
func FuzzParse(f *testing.F) {
	for _, s := range yamlSeeds {
		f.Add(s)
	}
	for _, s := range []string{`{"a": [1, 2.5, "x", {}]}`, "a = 1\n[b]\nc = [1979-05-27, {d = 'x'}]\n", "A=1\nexport B='x'\nC=\"a\\n\"", "a=b\\\n c\nd:\\u00e9", bomb(), "a: &a [*a]", "<<: *x", strings.Repeat("[{", 600)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, format := range formats {
			if format.parse == nil {
				continue
			}
			v, err := format.Parse([]byte(s))
			if err != nil {
				if !errors.As(err, new(*Error)) || v != nil {
					t.Errorf("%s %q: %v with %T %v", format, s, v, err, err)
				}
				if err := format.Validate([]byte(s)); err == nil && format.Name != "yaml" { // which may have several documents
					t.Errorf("%s %q: valid, but cannot be read", format, s)
				}
				continue
			}
			if depth := checkPlain(t, v); depth > MaxDepth+1 {
				t.Errorf("%s %q: %d levels", format, s, depth)
			}
			if err := format.Validate([]byte(s)); err != nil {
				t.Errorf("%s %q: can be read, but is not valid: %v", format, s, err)
			}
		}
		compareWithSigs(t, []byte(s))
	})
}

// checkPlain looks for what Parse does not promise, and returns the depth of v.
func checkPlain(t *testing.T, v any) int {
	depth := 0
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			depth = max(depth, checkPlain(t, e))
		}
	case []any:
		for _, e := range v {
			depth = max(depth, checkPlain(t, e))
		}
	case nil, string, bool, int64, float64, *big.Int:
	default:
		t.Errorf("a %T", v)
	}
	return depth + 1
}

// FuzzValidate checks anything in each format. What it says of a file must not hold a value of it.
func FuzzValidate(f *testing.F) {
	for _, s := range []string{"a: %s\nb: [", "{\"a\": \"%s\", }", "a = %s", "a = \"%s", "<a>&%s;</a>", "<a b=%s>", "[%s", "A=x %s\nB='", "a \"%s\";}", "a = [1, %s", "x: !!int %s", "a\n--- %s\n...\n%YAML 1.1\n---\nb", "'a\n---\n'", "k: *%s", "\"\\u%s\"", "a = \"\\%s\"", "a = 0x%s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const secret = "xhunter2x"
		data := strings.ReplaceAll(s, "%s", secret)
		for _, format := range formats {
			err := format.Validate([]byte(data))
			if whole := checkYAMLPart([]byte(data), 0, len(data)); format.Name == "yaml" && (whole == nil) != (err == nil) {
				t.Errorf("%q: in parts %v, as a whole %v", data, err, whole)
			}
			if err == nil {
				if format.Name == "json" && !json.Valid([]byte(data)) {
					t.Errorf("%q passes for JSON", data)
				}
				continue
			}
			e := (*Error)(nil)
			if !errors.As(err, &e) {
				t.Fatalf("%s %q: error %T", format, data, err)
			}
			// What ends a line is a matter of the format.
			if lines := strings.Count(data, "\n") + strings.Count(data, "\r") + strings.Count(data, "\u0085") + strings.Count(data, "\u2028") + strings.Count(data, "\u2029") + 1; e.Line < 0 || e.Line > lines+1 || e.Column < 0 || e.Column > len(data)+2 {
				t.Errorf("%s %q: %v, but there are %d lines", format, data, e, lines)
			}
			if strings.Contains(e.Text, secret) && !strings.Contains(e.Text, "key ") && !strings.Contains(e.Text, "quote of ") {
				t.Errorf("%s %q: %v", format, data, e)
			}
		}
	})
}
