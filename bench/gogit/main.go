// Command gogit clones a repository in the plainest way that go-git has: what a
// program does that calls the library and adds nothing.
package main

import (
	"fmt"
	"os"

	"github.com/go-git/go-git/v5"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gogit URL DIR")
		os.Exit(2)
	}
	o := &git.CloneOptions{URL: os.Args[1], Depth: 1, SingleBranch: true, Tags: git.NoTags} // what git clone --depth 1 asks for
	if _, err := git.PlainClone(os.Args[2], false, o); err != nil {
		fmt.Fprintln(os.Stderr, "gogit:", err)
		os.Exit(1)
	}
}
