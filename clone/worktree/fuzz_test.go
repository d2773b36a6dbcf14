package worktree

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/index"

	"initbox/clone/access"
)

// FuzzTree places trees made of arbitrary bytes: nothing may appear outside the directory, and what Git's index says is
// what there is. A "@" stands for the id of a blob, "#" for that of the tree that the rest of the bytes make.
func FuzzTree(f *testing.F) {
	for _, seed := range []string{
		"100644 a\x00@", "100644 a\x00@100755 b\x00@120000 c\x00@160000 d\x00@40000 e\x00#|100644 x\x00@", "40000 ..\x00#|100644 x\x00@",
		"120000 a\x00@40000 a\x00#|100644 x\x00@", "120000 ../x\x00@", "40000 a\x00#40000 b\x00#|40000 a\x00#40000 b\x00#|100644 x\x00@",
		"100644 a\x00@100644 a\x00@", "40000 .git\x00#|100755 hooks\x00@", "40000 a\x00#|", "100644 /tmp/x\x00@", "120000 .gitmodules\x00@", "0 a\x00@", "100644 a.b\x00@40000 a\x00#|120000 a\x00@",
	} {
		f.Add(seed, "..", true)
		f.Add(seed, "/etc", false)
	}
	f.Fuzz(func(t *testing.T, trees, content string, last bool) {
		x := blob(content)
		objects := []plain{x}
		layers := strings.Split(trees, "|")
		below := x.id(t)
		for i := range layers[:min(len(layers), 6)] {
			layer := layers[len(layers)-1-i]
			body := strings.ReplaceAll(layer, "#", string(below[:]))
			id := x.id(t)
			top := plain{tree().kind, []byte(strings.ReplaceAll(body, "@", string(id[:])))}
			objects = append([]plain{top}, objects...)
			below = top.id(t)
		}
		top := objects[0].id(t)
		if last {
			objects = backwards(objects)
		}
		dir := openDir(t, "tree")
		w := New(Options{Dir: dir, Stat: true, Access: access.Access{Umask: 0o022}, MaxFiles: 50, RejectEscapingSymlinks: len(content)%2 == 0})
		w.limit = 1 << 15
		err := w.Root(top)
		if err == nil {
			_, err = read(t, packOf(t, objects...), w)
		}
		if err == nil {
			err = w.Finish()
		}
		alone(t, dir.Name())
		if err != nil {
			return
		}
		compareIndex(t, w)
	})
}

// compareIndex has go-git read the index, and compares that with the directory.
func compareIndex(t testing.TB, w *Tree) {
	t.Helper()
	var b bytes.Buffer
	if err := w.WriteIndex(&b); err != nil {
		t.Fatal(err)
	}
	var read index.Index
	if err := index.NewDecoder(&b).Decode(&read); err != nil {
		t.Fatal(err)
	}
	n := 0
	for e := range w.Entries() {
		if n == len(read.Entries) {
			t.Fatalf("the index ends before %q", e.Path())
		}
		r := read.Entries[n]
		n++
		if r.Name != e.Path() || r.Hash != e.ID || r.Mode != e.Mode || r.SkipWorktree != e.Skipped {
			t.Fatalf("the index has %v, want %q %v %s", r, e.Path(), e.Mode, e.ID)
		}
		info, err := os.Lstat(filepath.Join(w.Dir.Name(), e.Path()))
		if (err == nil) == e.Skipped {
			t.Fatalf("%q: %v, skipped %t", e.Path(), err, e.Skipped)
		}
		if err == nil && !info.IsDir() && (uint32(info.Size()) != r.Size || !info.ModTime().Equal(r.ModifiedAt)) {
			t.Fatalf("%q: the index has %s, want %v", e.Path(), fmt.Sprint(r), info)
		}
	}
	if n != len(read.Entries) {
		t.Fatalf("the index has %d entries, want %d", len(read.Entries), n)
	}
}
