package merge_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"initbox/render/merge"
	"initbox/render/values"
)

func ExampleRun() {
	dir, err := os.MkdirTemp("", "merge-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	defaults, overrides := filepath.Join(dir, "defaults.yaml"), filepath.Join(dir, "overrides.json")
	os.WriteFile(defaults, []byte("# the server\nserver:\n  host: 0.0.0.0\n  port: 80 # unprivileged\n"), 0o644)
	os.WriteFile(overrides, []byte(`{"server": {"port": 8080}}`), 0o644)

	o := merge.Options{
		Sources: []merge.Source{{Path: defaults}, {Path: overrides}, {Path: filepath.Join(dir, "none.yaml"), Optional: true}},
		To:      filepath.Join(dir, "app.yaml"),
		Edit:    values.Edit{Set: []values.Source{{Kind: values.Set, Text: "server.tls=true"}}},
	}
	for range 2 {
		done, err := merge.Run(context.Background(), o)
		fmt.Println(done.Kind, done.Files, err)
	}
	text, _ := os.ReadFile(o.To)
	fmt.Print(string(text))
	// Output:
	// created 2 <nil>
	// unchanged 2 <nil>
	// # the server
	// server:
	//   host: 0.0.0.0
	//   port: 8080 # unprivileged
	//   tls: true
}
