package object_test

import (
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
)

func ExampleHasher() {
	id, err := object.NewHasher().Of(plumbing.BlobObject, []byte("hello\n"))
	fmt.Println(id, err)
	// Output: ce013625030ba8dba906f756967f9e9ca394464a <nil>
}

func ExampleParseCommit() {
	c, err := object.ParseCommit([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@example.com> 1700000000 +0100\n\nFix the build\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Author, c.Author.When)
	fmt.Println(c.Subject())
	// Output:
	// A <a@example.com> 2023-11-14 23:13:20 +0100 +0100
	// Fix the build
}
