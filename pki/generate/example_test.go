package generate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"initbox/internal/perm"
	"initbox/pki/generate"
)

func ExampleRun() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	password, err := generate.NewPassword(24, generate.DefaultAlphabet, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	o := generate.Options{Make: password, Out: filepath.Join(dir, "password"), Mode: 0o600, Owner: perm.Owner{UID: -1, GID: -1}}
	var found []string
	for range 2 { // the second time, it stays
		if err := generate.Run(context.Background(), o); err != nil {
			fmt.Println(err)
			return
		}
		content, err := os.ReadFile(o.Out)
		if err != nil {
			fmt.Println(err)
			return
		}
		found = append(found, string(content))
	}
	fmt.Println(len(found[0]), found[0] == found[1])
	// Output: 24 true
}
