package gitconfig_test

import (
	"fmt"

	"initbox/clone/gitconfig"
)

func ExampleParse() {
	for e, err := range gitconfig.Parse([]byte("[Remote \"origin\"]\n\tURL = https://example.com/repo.git ; comment\n")) {
		fmt.Println(e.Section, e.Subsection, e.Key, e.Value, err)
	}
	// Output: remote origin url https://example.com/repo.git <nil>
}

func ExampleWriter() {
	var w gitconfig.Writer
	w.Section("remote", "origin")
	w.Set("url", "https://example.com/repo.git")
	content, err := w.Bytes()
	fmt.Printf("%q %v\n", content, err)
	// Output: "[remote \"origin\"]\n\turl = https://example.com/repo.git\n" <nil>
}
