package publish

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

// chmod sets the mode of a directory, until the end of the test.
func chmod(t *testing.T, dir string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
}

// TestInside replaces the content of a directory whose parent cannot be written to.
func TestInside(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	for _, how := range []string{"exchange", "without exchange"} {
		t.Run(how, func(t *testing.T) {
			top := t.TempDir()
			o := Options{Dir: filepath.Join(top, "app"), Replace: true}
			tree{"app/old": "x", "app/a/b": "x", "app/lost+found/": ""}.write(t, top)
			chmod(t, top, 0o555)
			stay := tree{"lost+found/": ""}
			marker := tree{".initbox.json": "marker"}
			for _, step := range []struct {
				sha        string
				what, want tree
			}{
				{sha1, withGit1, withGit1.with(inGit)}, {sha2, withGit2, withGit2.with(inGit)}, {sha1, bare1, bare1.with(marker)}, {sha2, bare2, bare2.with(marker)},
				{sha1, withGit1, withGit1.with(inGit)},
			} {
				target, s := staged(t, o, step.what)
				target.noExchange = how == "without exchange"
				if err := target.Publish(t.Context(), s, Marker{SHA: step.sha}); err != nil {
					t.Fatal(err)
				}
				target.Close()
				requireTree(t, o.Dir, step.want.with(stay))
				if got := current(t, o); got != step.sha {
					t.Errorf("current %q", got)
				}
			}
			before := read(t, o.Dir)
			for _, name := range []string{".initbox-lock", ".initbox.json", ".initbox-abcdefghijkl/x"} {
				requireRefused(t, tryPut(t, o, sha2, tree{name: "x"}), "initbox needs that name")
			}
			requireTree(t, o.Dir, before)
		})
	}
}

// TestNoPermission has directories that the user may not read or write.
func TestNoPermission(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	top := t.TempDir()
	tree{"closed/app/x": "x", "fixed/app/x": "x", "fixed/secret/x": "x"}.write(t, top)
	chmod(t, filepath.Join(top, "closed"), 0o311)
	chmod(t, filepath.Join(top, "fixed/app"), 0o555)
	chmod(t, filepath.Join(top, "fixed/secret"), 0)
	chmod(t, filepath.Join(top, "fixed"), 0o555)
	for name, text := range map[string]string{
		"fixed/app": "write to " + filepath.Join(top, "fixed/app"), "fixed/new": "write beside " + filepath.Join(top, "fixed/new"),
	} {
		requireRefused(t, tryPut(t, Options{Dir: filepath.Join(top, name), Replace: true}, sha1, bare1), text)
	}
	for o, text := range map[Options]string{
		{Dir: filepath.Join(top, "closed/app")}:              "open the directory of " + filepath.Join(top, "closed/app"),
		{Dir: filepath.Join(top, "fixed/secret")}:            "open " + filepath.Join(top, "fixed/secret"),
		{Dir: filepath.Join(top, "fixed/new"), Link: "link"}: "make " + filepath.Join(top, "fixed/new") + ": ",
		{Dir: filepath.Join(top, "fixed/new/deep")}:          "find " + filepath.Join(top, "fixed/new/deep") + ": permission denied",
	} {
		target, err := Open(t.Context(), o)
		if err == nil {
			target.Close()
		}
		requireRefused(t, err, text)
	}
	o := Options{Dir: filepath.Join(top, "app")}
	put(t, o, sha1, withGit1)
	chmod(t, filepath.Join(o.Dir, "sub"), 0)
	if reason := reasonFor(t, o); !strings.Contains(reason, "permission denied") {
		t.Errorf("a directory of the tree that cannot be read: %q", reason)
	}
}

// TestDescriptors pins that a run leaves no file open.
func TestDescriptors(t *testing.T) {
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	o := Options{Dir: filepath.Join(t.TempDir(), "app")}
	put(t, o, sha1, withGit1)
	before := open()
	for range 5 {
		put(t, o, sha2, bare2)
		put(t, o, sha1, withGit1)
	}
	if after := open(); after > before+4 { // the runtime's own
		t.Errorf("%d files are open, %d were before", after, before)
	}
}

// A directory of the system stays that for a user who may not write to its parent.
func TestPreciousForUsers(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	_, err := Open(t.Context(), Options{Dir: "/var/log"})
	requireRefused(t, err, "part of the system")
}
