package format

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkValidate checks files of about 4 MB.
func BenchmarkValidate(b *testing.B) {
	const n = 100_000
	var json, yaml, toml, xml, env, nginx strings.Builder
	json.WriteString("{")
	xml.WriteString("<a>")
	for i := range n {
		fmt.Fprintf(&json, "%.*s\"key-%d\": {\"a\": %d, \"b\": \"some text\"}", min(i, 1), ",", i, i)
		fmt.Fprintf(&yaml, "key-%d: {a: %d, b: some text}\n", i, i)
		fmt.Fprintf(&toml, "key-%d = {a = %d, b = \"some text\"}\n", i, i)
		fmt.Fprintf(&xml, "<key n=\"%d\"><a>%d</a>some text</key>\n", i, i)
		fmt.Fprintf(&env, "KEY_%d='%d some text that is long enough'\n", i, i)
		fmt.Fprintf(&nginx, "key_%d { a %d; b \"some text\"; }\n", i, i)
	}
	json.WriteString("}")
	xml.WriteString("</a>")
	for name, text := range map[string]string{"json": json.String(), "yaml": yaml.String(), "toml": toml.String(), "xml": xml.String(), "env": env.String(), "properties": env.String(), "nginx": nginx.String()} {
		b.Run(name, func(b *testing.B) {
			f, data := named(b, name), []byte(text)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := f.Validate(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
