package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"initbox/waitfor/file"
	"initbox/waitfor/target"
)

// The setting contains waits for a text in a file.
func Example() {
	dir, err := os.MkdirTemp("", "initbox")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "status")
	check, err := target.Kinds{&file.Kind}.Parse("file://"+name+"#contains=done", target.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(check.Check(context.Background()))
	os.WriteFile(name, []byte("migration: done\n"), 0o600)
	fmt.Println(check.Check(context.Background()))
	// Output:
	// no such file
	// <nil>
}
