package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/servers"
)

// TestRefuses pins what is refused of a repository, for good, and that nothing appears beside the directory.
func TestRefuses(t *testing.T) {
	x := blob("x")
	id := x.id(t)
	long := strings.Repeat("n", 255)
	one := func(mode, name string) []plain { return []plain{tree(line{mode, name, id}), x} }
	link := func(target string) []plain {
		to := blob(target)
		return []plain{tree(line{"120000", "link", to.id(t)}), to}
	}
	inner := tree(line{"100644", "x", id})
	deep := []plain{inner}
	for range 20 {
		deep = append([]plain{tree(line{"40000", long, deep[0].id(t)})}, deep...)
	}
	for name, test := range map[string]struct {
		objects []plain
		want    string
	}{
		"repository":         {one("100644", ".git"), "the top directory has the name .git, which is refused"},
		"repository below":   {[]plain{tree(line{"40000", ".GIT", inner.id(t)}), inner, x}, "has the name .GIT"},
		"parent":             {one("100644", ".."), "has the name .., which is refused"},
		"self":               {one("100644", "."), "has the name ., which is refused"},
		"no name":            {one("100644", ""), "which is refused"},
		"absolute":           {one("100644", "/etc/x"), "has the name /etc/x"},
		"path":               {one("100644", "a/b"), "has the name a/b"},
		"modules":            {one("120000", ".gitmodules"), "symbolic link, which .gitmodules must not be"},
		"control":            {one("100644", "a\x1b[2J/b"), `has the name a\x1b[2J/b`},
		"long name":          {one("100644", long+"n"), "has a name of 256 bytes"},
		"mode":               {one("20644", "device"), "has the mode 020644"},
		"mode 0":             {one("0", "none"), "has the mode 000000"},
		"mode beyond":        {one("777777", "x"), "has the mode 777777"},
		"twice":              {[]plain{tree(line{"100644", "a", id}, line{"100644", "a", id}), x}, "a is a duplicate in its directory"},
		"order":              {[]plain{tree(line{"100644", "b", id}, line{"100644", "a", id}), x}, "not in Git's order"},
		"file and directory": {[]plain{tree(line{"100644", "a", id}, line{"100644", "a.b", id}, line{"40000", "a", inner.id(t)}), inner, x}, "a is a file and a directory"},
		"link and directory": {[]plain{tree(line{"120000", "a", id}, line{"40000", "a", inner.id(t)}), inner, x}, "a is"},
		"blob as tree":       {[]plain{tree(line{"40000", "a", id}), x}, "a is a blob, which is not what the tree says"},
		"tree as blob":       {[]plain{tree(line{"100644", "a", inner.id(t)}), inner, x}, "a is a tree, which is not"},
		"cut":                {[]plain{{plumbing.TreeObject, []byte("100644 a\x00short")}}, "malformed tree"},
		"NUL bytes":          {[]plain{{plumbing.TreeObject, make([]byte, 1<<20)}}, "malformed tree"},
		"deep":               {append(deep, x), "has a path of"},
		"no target":          {link(""), "link is a symbolic link without a target"},
		"NUL in a target":    {link("a\x00b"), "NUL in its target"},
		"long target":        {link(strings.Repeat("x", 4096)), "a target of 4096 bytes"},
		"very long target":   {link(strings.Repeat("x", 3<<20)), "a target of 3145728 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, objects := range [][]plain{test.objects, backwards(test.objects)} {
				dir := openDir(t, "tree")
				_, err := place(t, Options{Dir: dir, Stat: true}, packOf(t, objects...), test.objects[0].id(t))
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Fatalf("%v, want %s", err, test.want)
				}
				if !poll.IsPermanent(err) || failure.Of(err).Class != failure.Unexpected {
					t.Errorf("%v: permanent %t, class %s", err, poll.IsPermanent(err), failure.Of(err).Class)
				}
				if strings.ContainsAny(err.Error(), "\x1b\n") {
					t.Errorf("%q is not printable", err)
				}
				alone(t, dir.Name())
			}
		})
	}
}

// TestBombs pins that trees which stand for 2⁶⁰ files, or for as many directories with
// nothing in them, end at a limit. (The real one takes a minute to reach.)
func TestBombs(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	x := blob("x")
	for name, leaf := range map[string][]plain{
		"files":   {tree(line{"100644", "f", x.id(t)}), x},
		"nothing": {tree()},
	} {
		bomb := leaf
		for range 60 {
			below := bomb[0].id(t)
			bomb = append([]plain{tree(line{"40000", "a", below}, line{"40000", "b", below})}, bomb...)
		}
		for _, objects := range [][]plain{bomb, backwards(bomb)} {
			w := New(Options{Dir: openDir(t, "tree")})
			w.limit = 1 << 20
			err := w.Root(bomb[0].id(t))
			if err == nil {
				_, err = read(t, packOf(t, objects...), w)
			}
			if err == nil || !strings.Contains(err.Error(), "names take more than 1 MiB") || !poll.IsPermanent(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func backwards(objects []plain) []plain {
	b := make([]plain, 0, len(objects))
	for i := range objects {
		b = append(b, objects[len(objects)-1-i])
	}
	return b
}

// alone fails if there is something beside a directory.
func alone(t testing.TB, dir string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(list) != 1 {
		t.Fatalf("beside %s: %v, %v", dir, list, err)
	}
}

// TestLinksAreLast pins that a link to elsewhere is never written through, not
// even on a file system that takes A for a.
func TestLinksAreLast(t *testing.T) {
	outside := t.TempDir()
	to, x := blob(outside), blob("x")
	inner := tree(line{"100644", "x", x.id(t)})
	top := tree(line{"120000", "A", to.id(t)}, line{"40000", "a", inner.id(t)})
	w, err := place(t, Options{}, packOf(t, to, top, inner, x), top.id(t))
	if err != nil {
		t.Fatal(err)
	}
	if list, _ := os.ReadDir(outside); len(list) > 0 {
		t.Errorf("written outside: %v", list)
	}
	if got, err := os.Readlink(filepath.Join(w.Dir.Name(), "A")); got != outside {
		t.Errorf("A leads to %s, %v", got, err)
	}
}

// TestCollision pins what is said where a name is taken, as a.txt is on a file system that takes A.txt for it.
func TestCollision(t *testing.T) {
	x := blob("x")
	for name, lines := range map[string][]line{
		"file":      {{"100644", "taken", x.id(t)}},
		"link":      {{"120000", "taken", x.id(t)}},
		"directory": {{"40000", "taken", tree(line{"100644", "x", x.id(t)}).id(t)}},
		"module":    {{"160000", "taken", x.id(t)}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := openDir(t, "tree")
			outside := t.TempDir()
			if err := os.Symlink(outside, filepath.Join(dir.Name(), "taken")); err != nil {
				t.Fatal(err)
			}
			top := tree(lines...)
			_, err := place(t, Options{Dir: dir}, packOf(t, top, x, tree(line{"100644", "x", x.id(t)})), top.id(t))
			if err == nil || !strings.Contains(err.Error(), "taken: it collides with an existing file") || !errors.Is(err, unix.EEXIST) {
				t.Errorf("%v", err)
			}
			if list, _ := os.ReadDir(outside); len(list) > 0 {
				t.Errorf("written outside: %v", list)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	files := []file{{"100644", "a", "12345"}, {"100644", "b/c", "12345"}, {"120000", "d", "12345"}, {"100644", "same", "12345"}}
	packed, top := revision(t, repository(t, files), "main")
	for _, test := range []struct {
		o    Options
		want string
	}{
		{Options{MaxFiles: 4, MaxSize: 15}, ""}, // a link has no size
		{Options{MaxFiles: 3}, "the revision has more than 3 files"},
		{Options{MaxSize: 14}, "the files of the revision have more than 14 bytes"},
		{Options{MaxFiles: 3, MaxSize: 10, Subdir: "b"}, ""},
	} {
		_, err := place(t, test.o, packed, top)
		if (test.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), test.want) || !strings.HasPrefix(failure.Of(err).Hint, "--max-")) {
			t.Errorf("%+v: %v, want %s", test.o, err, test.want)
		}
	}
	if w, err := place(t, Options{MaxSize: 20}, packed, top); err != nil {
		t.Error(err)
	} else {
		for e := range w.Entries() {
			if e.Path() == "a" {
				if err := w.Replace(e, 10, strings.NewReader("1234567890")); err != nil {
					t.Error(err)
				}
				if err := w.Replace(e, -1, strings.NewReader("12345678901")); err == nil {
					t.Error("--max-size has no say in what replaces a file")
				}
			}
		}
	}
}

// TestEscapingLinks pins which links lead out of the directory.
func TestEscapingLinks(t *testing.T) {
	for _, test := range []struct {
		links   string // PATH TARGET, …
		escapes string // the path of the one that does
	}{
		{"a b", ""}, {"a ./b/../c", ""}, {"d/a ..", ""}, {"d/e/a ../../b", ""}, {"a .git/config", ""},
		{"a /etc/passwd", "a"}, {"a /", "a"}, {"a ..", "a"}, {"a ../x", "a"}, {"d/a ../../x", "d/a"},
		{"a b/../../x", "a"}, {"a b/c/../../..", "a"}, {"a ./././..", "a"}, {"a b//..//..", "a"},
		{"b/l ../c/d, a b/l/../../..", "a"}, // c/d/../../.. is outside, b/l/../../.. only looks so
		{"b/c/l ../.., a b/c/l/x", ""},      // the top, and x in it
		{"b/c/l ../.., a b/c/l/../x", "a"},
		{"d .., e d/x", "d"},
		{"a a", "a"}, {"a b, b a", "a"}, {"a a/x", "a"}, // unknown
		{"a ...", ""}, {"a ..x/..", ""},
	} {
		var files []file
		for l := range strings.SplitSeq(test.links, ", ") {
			path, target, _ := strings.Cut(l, " ")
			files = append(files, file{"120000", path, target})
		}
		packed, top := revision(t, repository(t, files), "main")
		w, err := place(t, Options{RejectEscapingSymlinks: true}, packed, top)
		switch {
		case test.escapes == "" && err != nil:
			t.Errorf("%s: %v", test.links, err)
		case test.escapes != "" && (err == nil || !strings.HasPrefix(err.Error(), test.escapes+" is a symbolic link that points outside the directory, to ")):
			t.Errorf("%s: %v, want %s to be refused", test.links, err, test.escapes)
		case err != nil && strings.Contains(listing(t, w.Dir.Name()), "->"):
			t.Errorf("%s: links were made before", test.links)
		}
	}
}
