package gitdir_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/access"
	"initbox/clone/gitdir"
)

func ExampleWrite() {
	top, err := os.MkdirTemp("", "gitdir")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(top)
	dir := filepath.Join(top, ".git")
	err = gitdir.Write(dir, gitdir.Options{
		Remote: "https://git.example.com/team/app.git",
		Head:   "refs/heads/main",
		Commit: plumbing.NewHash("ce013625030ba8dba906f756967f9e9ca394464a"),
		Access: access.Access{Umask: 0o022},
	})
	head, _ := os.ReadFile(filepath.Join(dir, "HEAD"))
	fmt.Printf("%s%v\n", head, err)
	// Output:
	// ref: refs/heads/main
	// <nil>
}

func ExampleParseModules() {
	modules, err := gitdir.ParseModules([]byte("[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = ../lib.git\n"))
	for _, m := range modules {
		fmt.Println(m.Name, m.Path, m.URL, m.Err)
	}
	fmt.Println(err)
	// Output:
	// lib vendor/lib ../lib.git <nil>
	// <nil>
}
