package worktree

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/pack"
	"initbox/test/servers"
	"initbox/test/soak"
)

// shapes is a repository with all that a tree can hold.
func shapes() []file {
	id := strings.Repeat("12", 20)
	files := []file{
		{"100644", "README", "read me\n"},
		{"100755", "run.sh", "#!/bin/sh\n"},
		{"100644", "empty", ""},
		{"120000", "link", "dir/a"},
		{"120000", "dir/up", "../README"},
		{"120000", "broken", "nowhere"},
		{"120000", "absolute", "/etc/passwd"},
		{"160000", "module", id},
		{"160000", "dir/module", id},
		{"100644", ".gitmodules", "[submodule \"module\"]\n\tpath = module\n\turl = ../module\n[submodule \"dir/module\"]\n\tpath = dir/module\n\turl = ../module\n"},
		{"100644", "dir/a", "a\n"},
		{"100644", "dir.txt", "sorts before what is in dir\n"},
		{"100644", "dir-txt", "so does this\n"},
		{"100644", "dir0", "sorts after\n"},
		{"100644", "aux.go", "package aux\n"},
		{"100644", "nul", "nul\n"},
		{"100644", "COM1", "com\n"},
		{"100644", "con:colon", "x\n"},
		{"100644", `back\slash`, "x\n"},
		{"100644", "not utf-8 \xff\xfe", "x\n"},
		{"100644", "new\nline\ttab\x01", "x\n"},
		{"100644", "ends with a space ", "x\n"},
		{"100644", " ", "x\n"},
		{"100644", "-rf", "x\n"},
		{"100644", "...", "x\n"},
		{"100644", ".gitignore", "*.o\n"},
		{"100644", ".gitx", "x\n"},
		{"100644", "Case", "upper\n"},
		{"100644", "case", "lower\n"},
		{"100644", strings.Repeat("n", 255), "long name\n"},
		{"100644", strings.Repeat("deep/", 400) + "file", "deep\n"},
		{"100755", "same/1", "same\n"},
		{"100644", "same/2", "same\n"},
		{"120000", "same/3", "same\n"},
		{"100644", "large", strings.Repeat("0123456789abcde\n", 200_000)},
		{"100644", "large too", strings.Repeat("0123456789abcde\n", 200_000)},
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := ""
	for i := range 300 {
		text += fmt.Sprintf("line %d: %x\n", i, random.Uint64())
		files = append(files, file{"100644", fmt.Sprintf("many/%d/file %d", i%17, i), text})
	}
	return files
}

// TestIdentity compares the files made from a pack, in whatever order its objects
// come, with what git checkout makes of the repository, and has Git judge the index.
func TestIdentity(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	repo := repository(t, shapes())
	packed, top := revision(t, repo, "main")
	want := checkout(t, repo)
	all := &collect{}
	if _, err := read(t, packed, all); err != nil {
		t.Fatal(err)
	}
	reversed := slices.Clone(all.objects)
	slices.Reverse(reversed)
	orders := map[string][]byte{
		"as packed":   packed,
		"not deltas":  packOf(t, all.objects...),
		"reversed":    packOf(t, reversed...),
		"blobs first": packOf(t, first(t, all.objects, plumbing.BlobObject)...),
		"trees first": packOf(t, first(t, all.objects, plumbing.TreeObject)...),
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, err := place(t, Options{Stat: true, Dir: openDir(t, "tree")}, order, top)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "placed", w.Dir.Name(), want)
			if w.modeless.Load() {
				t.Error("the file system keeps no modes")
			}
			judge(t, w, repo)
		})
	}
}

// collect is a sink that keeps all objects.
type collect struct {
	mu      sync.Mutex
	objects []plain
}

func (c *collect) Add(_ int, o *pack.Object, content pack.Content) error {
	b := bytes.Clone(content.Bytes)
	if content.File != nil {
		b = make([]byte, content.Size)
		if _, err := content.File.ReadAt(b, 0); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects = append(c.objects, plain{o.Kind, b})
	return nil
}

func (c *collect) Base(*pack.Object, []byte) ([]byte, bool) { return nil, false }

// first puts the objects of a kind before the others, each part in a random order.
func first(t *testing.T, objects []plain, kind plumbing.ObjectType) []plain {
	objects = slices.Clone(objects)
	soak.Rand(t).Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
	slices.SortStableFunc(objects, func(a, b plain) int {
		return cmp.Compare(b2i(a.kind != kind), b2i(b.kind != kind))
	})
	return objects
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkout is what Git makes of a repository.
func checkout(t testing.TB, repo string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	git(t, dir, nil, append(append([]string{"clone", "-q"}, args...), "file://"+repo, "tree")...)
	return filepath.Join(dir, "tree")
}

// listing describes all that is in a directory but .git: paths, modes, contents.
func listing(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if name == ".git" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%v %q", info.Mode(), name)
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %d %x", len(content), sha1.Sum(content))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " -> %q", target)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// same fails if two directories differ, and says in what.
func same(t testing.TB, what, got, want string) {
	t.Helper()
	lines := make(map[string]int)
	for l := range strings.Lines(listing(t, want)) {
		lines[l]--
	}
	for l := range strings.Lines(listing(t, got)) {
		lines[l]++
	}
	for l, n := range lines {
		if n != 0 {
			t.Errorf("%s: %+d × %s", what, n, l)
		}
	}
}

// judge has Git say what it thinks of a tree with the index that we write.
func judge(t testing.TB, w *Tree, repo string) {
	t.Helper()
	dir := w.Dir.Name()
	git(t, dir, nil, "init", "-q", "-b", "main")
	git(t, dir, nil, "fetch", "-q", "file://"+repo, "main")
	git(t, dir, nil, "update-ref", "refs/heads/main", "FETCH_HEAD")
	writeIndex(t, w, filepath.Join(dir, ".git", "index"))
	index := []string{"ls-files", "--stage", "-v", "-z"}
	if got, want := git(t, dir, nil, index...), git(t, checkout(t, repo), nil, index...); w.Sparse == nil && got != want {
		t.Errorf("the index has\n%q\nwant\n%q", got, want)
	}
	if out := git(t, dir, nil, "diff-files", "--name-status"); out != "" {
		t.Errorf("git diff-files, which looks at what lstat says alone:\n%s", out)
	}
	if out := git(t, dir, nil, "status", "--porcelain"); out != "" {
		t.Errorf("git status:\n%s", out)
	}
	if got, want := git(t, dir, nil, "write-tree"), git(t, dir, nil, "rev-parse", "HEAD^{tree}"); got != want {
		t.Errorf("the index is the tree %s, want %s", got, want)
	}
	git(t, dir, nil, "fsck", "--strict")
}

func writeIndex(t testing.TB, w *Tree, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(w.WriteIndex(f), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
