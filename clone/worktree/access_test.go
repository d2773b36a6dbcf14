package worktree

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/clone/access"
	"initbox/internal/failure"
)

// TestAccess pins modes and owners, whatever the umask of the process is.
func TestAccess(t *testing.T) {
	packed, top := revision(t, repository(t, []file{{"100644", "a", "a"}, {"100755", "d/x", "x"}, {"120000", "l", "a"}, {"100644", "large", strings.Repeat("large", 1<<20)}, {"160000", "m", strings.Repeat("12", 20)}}), "main")
	const g = fs.ModeSetgid
	for _, test := range []struct {
		umask                    int
		access                   access.Access
		file, program, directory fs.FileMode
	}{
		{0o022, access.Access{}, 0o666, 0o777, 0o777},
		{0o000, access.Access{Umask: 0o022}, 0o644, 0o755, 0o755},
		{0o077, access.Access{Umask: 0o022}, 0o644, 0o755, 0o755},
		{0o777, access.Access{Umask: 0o022}, 0o644, 0o755, 0o755},
		{0o022, access.Access{Umask: 0o077}, 0o600, 0o700, 0o700},
		{0o022, access.Access{Umask: 0o022, GroupWrite: true}, 0o664, 0o775, 0o775 | g},
		{0o022, access.Access{Umask: 0o027, GroupWrite: true}, 0o660, 0o770, 0o770 | g},
		{0o022, access.Access{Umask: 0o222}, 0o444, 0o555, 0o555},
		{0o022, access.Access{Umask: 0o022, Owner: &access.Owner{UID: 1234, GID: 5678}}, 0o644, 0o755, 0o755},
		{0o022, access.Access{Umask: 0o077, Owner: &access.Owner{UID: -1, GID: 5678}, GroupWrite: true}, 0o660, 0o770, 0o770 | g},
	} {
		if test.access.Owner != nil && os.Geteuid() != 0 {
			continue // root alone may give files away
		}
		dir := openDir(t, "tree")
		before := unix.Umask(test.umask)
		w := New(Options{Dir: dir, Access: test.access, Stat: true})
		err := w.Root(top)
		if err == nil {
			_, err = read(t, packed, w)
		}
		if err == nil {
			err = w.Finish()
		}
		unix.Umask(before)
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		for name, want := range map[string]fs.FileMode{"a": test.file, "large": test.file, "d/x": test.program, "d": test.directory, "m": test.directory, ".": test.directory, "l": 0o777} {
			info, err := os.Lstat(filepath.Join(dir.Name(), name))
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode() & (fs.ModePerm | g); got != want {
				t.Errorf("%+v: %s has the mode %v, want %v", test, name, got, want)
			}
		}
		for e := range w.Entries() { // the index knows the last state
			var s unix.Stat_t
			if err := unix.Lstat(filepath.Join(dir.Name(), e.Path()), &s); err != nil {
				t.Fatal(err)
			}
			if e.sub == nil && e.Mode != 0o160000 && e.stat != statOf(s) {
				t.Errorf("%+v: %s has %+v in the index, want %+v", test, e.Path(), e.stat, statOf(s))
			}
			if o := test.access.Owner; o != nil && (o.UID != -1 && s.Uid != uint32(o.UID) || s.Gid != uint32(o.GID)) {
				t.Errorf("%+v: %s is of %d:%d", test, e.Path(), s.Uid, s.Gid)
			}
		}
		for _, name := range []string{".", "d", "m"} { // so that any user can remove them
			if err := os.Chmod(filepath.Join(dir.Name(), name), 0o700); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSetgidStays pins that what a volume with an fsGroup gives to its directories is not removed.
func TestSetgidStays(t *testing.T) {
	dir := openDir(t, "tree")
	if err := os.Chmod(dir.Name(), 0o700|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	packed, top := revision(t, repository(t, []file{{"100644", "d/a", "a"}}), "main")
	if _, err := place(t, Options{Dir: dir}, packed, top); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "d"} {
		info, err := os.Stat(filepath.Join(dir.Name(), name))
		if err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|0o755 {
			t.Errorf("%q: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestReplace pins that what replaces a file is in it, in the index, and not in a file that shares its content.
func TestReplace(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 1<<17)
	repo := repository(t, []file{{"100755", "a", "a\n"}, {"100644", "large", large}, {"100644", "large too", large}, {"120000", "l", "a"}})
	packed, top := revision(t, repo, "main")
	w, err := place(t, Options{Stat: true}, packed, top)
	if err != nil {
		t.Fatal(err)
	}
	for e := range w.Entries() {
		switch err := w.Replace(e, -1, strings.NewReader("new "+e.Path())); {
		case e.Path() == "l":
			if err == nil {
				t.Error("a link can be replaced")
			}
		case err != nil:
			t.Error(err)
		default:
			f, err := w.Open(e)
			if err != nil {
				t.Fatal(err)
			}
			content, _ := io.ReadAll(f)
			info, _ := f.Stat()
			f.Close()
			if string(content) != "new "+e.Path() || info.Mode().Perm()&0o100 != fs.FileMode(e.Mode)&0o100 {
				t.Errorf("%s: %q, %v", e.Path(), content, info.Mode())
			}
		}
		if e.Path() == "large" {
			if info, err := os.Stat(filepath.Join(w.Dir.Name(), "large too")); err != nil || info.Size() != int64(len(large)) {
				t.Errorf("large too: %v, %v", info, err)
			}
		}
	}
	compareIndex(t, w)
}

// TestMissing pins the two ways that a blob can be missing: a filter left it out,
// and it is fetched next; or the server did, and the error names it.
func TestMissing(t *testing.T) {
	a, b := blob("a"), blob("b")
	top := tree(line{"100644", "a", a.id(t)}, line{"100644", "b", b.id(t)})
	w, err := place(t, Options{Stat: true}, packOf(t, top, a), top.id(t))
	if f := failure.Of(err); err == nil || !strings.Contains(f.Text, "left out 1 object of the revision, such as "+b.id(t).String()+" for b") {
		t.Fatal(err)
	}
	if missing := w.Missing(); len(missing) != 1 || missing[0] != b.id(t) {
		t.Fatal(missing)
	}
	if _, err := read(t, packOf(t, b), w); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	compareIndex(t, w)
}

func TestSubdir(t *testing.T) {
	repo := repository(t, []file{{"100644", "a", "a"}, {"100644", "charts/app/x", "x"}, {"100644", "charts/app/y/z", "z"}, {"120000", "charts/app/out", "../../a"}, {"100644", "charts/lib/x", "x"}})
	packed, top := revision(t, repo, "main")
	for _, subdir := range []string{"charts/app", "/charts//app/", "./charts/./app"} {
		w, err := place(t, Options{Subdir: subdir, Stat: true}, packed, top)
		if err != nil {
			t.Fatal(err)
		}
		same(t, subdir, w.Dir.Name(), filepath.Join(checkout(t, repo), "charts/app"))
		compareIndex(t, w)
	}
	for subdir, want := range map[string]string{
		"charts/apps":  "the revision has no directory charts/apps|did you mean charts/app?",
		"zzzzzzz":      "the revision has no directory zzzzzzz|there is charts",
		"charts/app/x": "the revision has no directory charts/app/x|did you mean charts/app/y?",
		"..":           "the revision has no directory ..|there is charts",
	} {
		_, err := place(t, Options{Subdir: subdir}, packed, top)
		if f := failure.Of(err); err == nil || f.Text+"|"+f.Hint != want {
			t.Errorf("%s: %s|%s, want %s", subdir, f.Text, f.Hint, want)
		}
	}
	if _, err := place(t, Options{Subdir: "charts/app", RejectEscapingSymlinks: true}, packed, top); err == nil {
		t.Error("a link out of the subdir escapes nothing")
	}
	cone, err := Cone([]string{"charts/app/y"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := place(t, Options{Subdir: "charts", Sparse: cone}, packed, top)
	if err != nil {
		t.Fatal(err)
	}
	if got := listing(t, w.Dir.Name()); strings.Contains(got, "lib") || !strings.Contains(got, `"app/y/z"`) || !strings.Contains(got, `"app/x"`) {
		t.Errorf("the paths of sparse are not those of the repository:\n%s", got)
	}
}
