package worktree_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/access"
	"initbox/clone/object"
	"initbox/clone/pack"
	"initbox/clone/worktree"
)

// The files of a revision are written while the pack with its objects arrives.
func Example() {
	top, err := os.MkdirTemp("", "worktree")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(top)
	dir, err := os.Open(top)
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	temp := func() (*os.File, error) { return os.CreateTemp("", "pack") }
	spool, err := temp()
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(spool.Name())
	defer spool.Close()

	server, root := examplePack()
	tree := worktree.New(worktree.Options{Dir: dir, Access: access.Access{Umask: 0o022}})
	if err := tree.Root(root); err != nil {
		log.Fatal(err)
	}
	if _, err := pack.Read(context.Background(), server, pack.Options{Spool: spool, Sink: tree, Temp: temp}); err != nil {
		log.Fatal(err)
	}
	if err := tree.Finish(); err != nil {
		log.Fatal(err)
	}
	for entry := range tree.Entries() {
		content, err := os.ReadFile(filepath.Join(top, entry.Path()))
		fmt.Printf("%s: %q, %v\n", entry.Path(), content, err)
	}
	// Output:
	// README: "hello\n", <nil>
}

// examplePack returns a pack, as a server sends it, with one tree that has one file.
func examplePack() (packed *bytes.Buffer, root plumbing.Hash) {
	blob := []byte("hello\n")
	id, err := object.NewHasher().Of(plumbing.BlobObject, blob)
	if err != nil {
		log.Fatal(err)
	}
	tree := append([]byte("100644 README\x00"), id[:]...)
	if root, err = object.NewHasher().Of(plumbing.TreeObject, tree); err != nil {
		log.Fatal(err)
	}
	packed = bytes.NewBufferString("PACK\x00\x00\x00\x02\x00\x00\x00\x02")
	for _, o := range []struct {
		header  []byte // kind and size, see gitformat-pack(5)
		content []byte
	}{{[]byte{0x20 | 0x80 | byte(len(tree)&15), byte(len(tree) >> 4)}, tree}, {[]byte{0x30 | byte(len(blob))}, blob}} {
		packed.Write(o.header)
		z := zlib.NewWriter(packed)
		z.Write(o.content)
		z.Close()
	}
	sum := sha1.Sum(packed.Bytes())
	packed.Write(sum[:])
	return packed, root
}
