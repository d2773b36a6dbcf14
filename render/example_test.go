package render_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"initbox/render"
	"initbox/render/engine"
	"initbox/render/values"
)

func ExampleRun() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	template, result := filepath.Join(dir, "app.conf.tmpl"), filepath.Join(dir, "app.conf")
	if err := os.WriteFile(template, []byte("port = {{ .Values.port }}\n"), 0o644); err != nil {
		log.Fatal(err)
	}

	source, err := render.ParseSource(template + ":" + result)
	if err != nil {
		log.Fatal(err)
	}
	o := render.Options{
		Sources: []render.Source{source},
		Values:  []values.Source{{Kind: values.Set, Text: "port=8080"}},
	}
	o.Limits = engine.DefaultLimits
	changes, err := render.Run(context.Background(), o)
	if err != nil {
		log.Fatal(err)
	}
	content, _ := os.ReadFile(result)
	fmt.Printf("%s %s\n%s", filepath.Base(changes[0].Path), changes[0].What, content)
	// Output:
	// app.conf created
	// port = 8080
}
