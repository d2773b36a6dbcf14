package worktree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"golang.org/x/sys/unix"

	"initbox/clone/access"
	"initbox/clone/pack"
	"initbox/test/servers"
)

// TestNoRoot has a tree for which no tree object was requested.
func TestNoRoot(t *testing.T) {
	w := New(Options{Dir: openDir(t, "tree"), Stat: true})
	for e := range w.Entries() {
		t.Errorf("%s", e.Path())
	}
	if err := w.WriteIndex(new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
	if err := w.Finish(); err == nil {
		t.Error("finished")
	}
}

// TestOrders has the objects arrive in both orders, before and after it is known which tree is wanted.
func TestOrders(t *testing.T) {
	a, large := blob("a"), blob(strings.Repeat("large", 1<<19))
	sub := tree(line{"100644", "a", a.id(t)}, line{"100644", "large", large.id(t)})
	nothing := tree()
	hollow := tree(line{"40000", "nothing", nothing.id(t)})
	top := tree(line{"100755", "a", a.id(t)}, line{"40000", "hollow", hollow.id(t)}, line{"40000", "sub", sub.id(t)}, line{"40000", "two", sub.id(t)})
	objects := []plain{top, sub, hollow, a, large}
	want := ""
	for _, order := range [][]plain{objects, backwards(objects)} {
		for _, late := range []bool{false, true} {
			w := New(Options{Dir: openDir(t, "tree"), Access: access.Access{Umask: 0o022}, Stat: true})
			if !late {
				if err := w.Root(top.id(t)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := read(t, packOf(t, order...), w)
			if late && err == nil {
				err = w.Root(top.id(t))
			}
			if err == nil {
				err = w.Finish()
			}
			if err != nil {
				t.Fatal(err)
			}
			got := listing(t, w.Dir.Name())
			if want == "" {
				want = got
			}
			if got != want || strings.Count(got, "\n") != 8 || strings.Contains(got, "hollow") { // git makes no empty directories
				t.Errorf("root late: %v\n%s", late, got)
			}
			compareIndex(t, w)
		}
	}
}

// TestBase pins when Base returns the content of a blob's file.
func TestBase(t *testing.T) {
	a := blob("content")
	top := tree(line{"100644", "a", a.id(t)})
	w := New(Options{Dir: openDir(t, "tree")})
	if err := w.Root(top.id(t)); err != nil {
		t.Fatal(err)
	}
	p, err := read(t, packOf(t, top, a), w)
	if err != nil {
		t.Fatal(err)
	}
	o, file := p.Find(a.id(t)), filepath.Join(w.Dir.Name(), "a")
	for _, size := range []int{0, len("content"), 100} {
		if content, ok := w.Base(o, make([]byte, 0, size)); !ok || string(content) != "content" {
			t.Errorf("a buffer of %d bytes: %q, %v", size, content, ok)
		}
	}
	if _, ok := w.Base(new(pack.Object), nil); ok {
		t.Error("an object without a file has one")
	}
	for _, content := range []string{"content!", "conten"} {
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, ok := w.Base(o, nil); ok {
			t.Errorf("%q is the content", content)
		}
	}
	os.WriteFile(file, []byte("content"), 0o644)
	w.replaced.Store(true)
	if _, ok := w.Base(o, nil); ok {
		t.Error("after files were replaced")
	}
	w.replaced.Store(false)
	os.Remove(file)
	if _, ok := w.Base(o, nil); ok {
		t.Error("without the file")
	}
	for e := range w.Entries() {
		if _, err := w.Open(e); err == nil {
			t.Error("a missing file was opened")
		}
		if err := w.Replace(e, 1, strings.NewReader("x")); err == nil {
			t.Error("a missing file was replaced")
		}
	}
}

// TestCachedTree pins the extension TREE, see gitformat-index(5).
func TestCachedTree(t *testing.T) {
	id := func(c byte) (id plumbing.Hash) { copy(id[:], strings.Repeat(string(c), 20)); return id }
	top := &directory{entry: &Entry{ID: id('t')}}
	file := Entry{Mode: filemode.Regular}
	sub := &directory{entry: &Entry{name: "sub", ID: id('s'), in: top}, entries: []Entry{file, file}}
	top.entries = []Entry{file, {sub: sub}, file}
	want := "\x004 1\n" + strings.Repeat("t", 20) + "sub\x002 0\n" + strings.Repeat("s", 20)
	var body bytes.Buffer
	if n, empty := appendTree(&body, top); n != 4 || empty || body.String() != want {
		t.Errorf("%d, %v, %q, want %q", n, empty, body.String(), want)
	}
	var x indexWriter
	if x.trees(top); string(x.buf) != "TREE\x00\x00\x00"+string(rune(len(want)))+want {
		t.Errorf("%q", x.buf)
	}
	top.entries = append(top.entries, Entry{sub: &directory{entry: &Entry{name: "void", in: top}}}, Entry{sub: sub})
	if _, empty := appendTree(&body, top); !empty {
		t.Error("an empty directory does not make the tree empty")
	}
	x.buf = nil
	if x.trees(top); len(x.buf) > 0 {
		t.Errorf("an index cannot represent an empty tree: %q", x.buf)
	}
	if x.trees(&directory{entry: &Entry{ID: emptyTree}}); len(x.buf) == 0 {
		t.Error("nothing for an empty revision")
	}
}

// TestLengths has the longest paths and targets, and the memory for one entry.
func TestLengths(t *testing.T) {
	top := &directory{entry: new(Entry)}
	for name, want := range map[string]string{strings.Repeat("x", 95): "", strings.Repeat("x", 96): "has a path of 4096 bytes"} {
		f := &directory{entry: &Entry{in: top}, length: 4000}
		err := f.check(&Entry{name: name, Mode: filemode.Regular, in: f}, new(Entry), filemode.Regular)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
	w := New(Options{Dir: openDir(t, "tree")})
	e := &Entry{name: "l", in: top}
	for target, ok := range map[string]bool{strings.Repeat("x", maxTarget): true, strings.Repeat("x", maxTarget+1): false, "": false, "\x00x": false, "x\x00": false} {
		if err := w.addLink(e, pack.Content{Bytes: []byte(target), Size: int64(len(target))}); (err == nil) != ok {
			t.Errorf("a target of %d bytes: %v", len(target), err)
		}
	}
	content := tree(line{"100644", "a", blob("a").id(t)}).content
	need := entrySize + int64(len(content))
	for limit, ok := range map[int64]bool{need: true, need - 1: false, 1: false} {
		w := New(Options{Dir: w.Dir})
		w.limit = limit
		if err := w.parse(&directory{entry: new(Entry), verdict: w.Sparse.top()}, content); (err == nil) != ok {
			t.Errorf("%d bytes of %d: %v", limit, need, err)
		}
		if err := w.addLink(e, pack.Content{Bytes: []byte("xx"), Size: 2}); err == nil {
			t.Errorf("and a link, with %d bytes", limit)
		}
	}
	w.MaxSize, w.size = 1, 2
	if err := errors.Join(w.charge(e, 0), w.charge(e, -1)); err != nil {
		t.Errorf("nothing is too much: %v", err)
	}
}

// TestChain pins how many links a path may lead through.
func TestChain(t *testing.T) {
	for links, want := range map[int]bool{255: true, 256: false} {
		targets, steps := map[string]string{}, 0
		for i := range links {
			targets[fmt.Sprint("l", i)] = fmt.Sprint("l", i+1)
		}
		if got := stays("l0", targets, &steps); got != want {
			t.Errorf("%d links: %v", links, got)
		}
	}
}

func TestGives(t *testing.T) {
	s := unix.Stat_t{Uid: 1, Gid: 2}
	for owner, want := range map[access.Owner]bool{{UID: 1, GID: 2}: false, {UID: -1, GID: -1}: false, {UID: 1, GID: -1}: false, {UID: -1, GID: 2}: false,
		{UID: 2, GID: 2}: true, {UID: 1, GID: 1}: true, {UID: -1, GID: 1}: true, {UID: 2, GID: -1}: true} {
		if got := gives(access.Access{Owner: &owner}, s); got != want {
			t.Errorf("%+v: %v", owner, got)
		}
	}
	if gives(access.Access{}, s) {
		t.Error("no owner")
	}
	for err, want := range map[error]bool{unix.EPERM: true, unix.ENOTSUP: true, unix.ENOSYS: true, unix.EACCES: false, unix.EIO: false} {
		if hasNoModes(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

// TestOwnerIsRefused has a user who may not give files, links or directories to another.
func TestOwnerIsRefused(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	id := strings.Repeat("12", 20)
	for what, f := range map[string]file{"a file": {"100644", "a", "a"}, "a link": {"120000", "l", "a"}, "directories": {"160000", "m", id}} {
		packed, top := revision(t, repository(t, []file{f}), "main")
		_, err := place(t, Options{Access: access.Access{Umask: 0o022, Owner: &access.Owner{UID: os.Geteuid() + 1, GID: -1}}}, packed, top)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "change the owner of ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestIgnoredByHFS(t *testing.T) {
	for _, r := range [][2]rune{{0x200c, 0x200f}, {0x202a, 0x202e}, {0x206a, 0x206f}, {0xfeff, 0xfeff}} {
		for c := r[0] - 1; c <= r[1]+1; c++ {
			if want := c >= r[0] && c <= r[1]; isIgnoredByHFS(c) != want {
				t.Errorf("%U: %v", c, !want)
			}
		}
	}
}

func TestConeIsRefused(t *testing.T) {
	for dir, ok := range map[string]bool{"a/../b": false, "a\nb": false, "a\x00b": false, "a/b": true, "..a": true} {
		if _, err := Cone([]string{dir}); (err == nil) != ok {
			t.Errorf("%q: %v", dir, err)
		}
	}
}
