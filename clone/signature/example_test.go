package signature_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/signature"
)

func ExampleVerify() {
	dir, err := os.MkdirTemp("", "keys")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "alice.pub")
	const alice = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f alice\n"
	if err := os.WriteFile(file, []byte(alice), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	keys, err := signature.ReadKeys([]string{file})
	if err != nil {
		fmt.Println(err)
		return
	}
	commit := []byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@example.com> 1700000000 +0000\n\nnot signed\n")
	_, err = signature.Verify(commit, plumbing.CommitObject, keys)
	fmt.Println(err)
	// Output: verify the signature: the commit is not signed
}
