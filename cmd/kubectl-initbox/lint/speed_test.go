package lint

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
)

// BenchmarkThousand reads and checks a thousand manifests, half of them with a mistake.
func BenchmarkThousand(b *testing.B) {
	var texts []string
	for _, dir := range []string{"mistakes", "right"} {
		entries, err := os.ReadDir("testdata/" + dir)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile("testdata/" + dir + "/" + e.Name())
			if err != nil {
				b.Fatal(err)
			}
			texts = append(texts, string(text))
		}
	}
	for b.Loop() {
		var objects []*manifest.Object
		for i := range 1000 {
			of, err := manifest.Read(fmt.Sprint(i), strings.NewReader(texts[i%len(texts)]))
			if err != nil {
				b.Fatal(err)
			}
			objects = append(objects, of...)
		}
		if len(Check(objects, Options{})) == 0 {
			b.Fatal("nothing found")
		}
	}
}
