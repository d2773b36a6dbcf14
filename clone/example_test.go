package clone_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone"
	"initbox/clone/access"
	"initbox/clone/object"
)

func ExampleRun() {
	top, err := os.MkdirTemp("", "clone")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(top)
	exampleRepository(filepath.Join(top, "repo.git"))

	dir := filepath.Join(top, "app")
	result, err := clone.Run(context.Background(), clone.Options{
		URL:    "file://" + filepath.Join(top, "repo.git"),
		Dir:    dir,
		Ref:    "main",
		Depth:  1,
		Access: access.Access{Umask: 0o022},
	})
	if err != nil {
		log.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "README"))
	fmt.Printf("%s: %s\n%s%v\n", result.Ref, result.Subject, content, err)
	// Output:
	// refs/heads/main: first commit
	// hello
	// <nil>
}

// exampleRepository makes a bare repository with one commit.
func exampleRepository(dir string) {
	hasher := object.NewHasher()
	write := func(name string, content []byte) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
	store := func(kind plumbing.ObjectType, content string) plumbing.Hash {
		id, err := hasher.Of(kind, []byte(content))
		if err != nil {
			log.Fatal(err)
		}
		var deflated bytes.Buffer
		z := zlib.NewWriter(&deflated)
		fmt.Fprintf(z, "%s %d\x00%s", kind, len(content), content)
		z.Close()
		write("objects/"+id.String()[:2]+"/"+id.String()[2:], deflated.Bytes())
		return id
	}
	readme := store(plumbing.BlobObject, "hello\n")
	tree := store(plumbing.TreeObject, "100644 README\x00"+string(readme[:]))
	const person = "A U Thor <author@example.com> 1700000000 +0000"
	commit := store(plumbing.CommitObject, fmt.Sprintf("tree %s\nauthor %s\ncommitter %s\n\nfirst commit\n", tree, person, person))
	write("refs/heads/main", []byte(commit.String()+"\n"))
	write("HEAD", []byte("ref: refs/heads/main\n"))
	write("config", []byte("[core]\n\trepositoryformatversion = 0\n\tbare = true\n"))
}
