package atomicfile_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"initbox/internal/atomicfile"
)

func ExampleWrite() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	name := filepath.Join(dir, "config.json")
	if err := atomicfile.Write(name, []byte("{}\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	content, err := os.ReadFile(name)
	fmt.Printf("%s%v\n", content, err)
	// Output:
	// {}
	// <nil>
}
