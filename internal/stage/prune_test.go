package stage

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	prune := Options{Prune: true}
	write(t, dir, Options{}, "unlisted", "sub/unlisted")
	before := tree(t, dir)
	write(t, dir, prune, "a", "b", "sub/c", "new/deep/d", "odd\n\"é", "unlisted2")
	all := tree(t, dir)
	if got := write(t, dir, prune, "a", "b", "sub/c", "new/deep/d", "odd\n\"é", "unlisted2"); got != "" {
		t.Errorf("done %s", got)
	}
	if got := write(t, dir, Options{}, "a"); got != "" { // without Prune nothing is forgotten
		t.Errorf("done %s", got)
	}
	same(t, all, tree(t, dir))
	if err := os.Remove(dir + "/b"); err != nil { // by another program
		t.Fatal(err)
	}
	if got, want := write(t, dir, prune, "a"), "new/deep/d removed, odd\n\"é removed, sub/c removed, unlisted2 removed"; got != want {
		t.Errorf("done %q, want %q", got, want)
	}
	if got := write(t, dir, prune); got != "a removed" {
		t.Errorf("done %s", got)
	}
	same(t, before, tree(t, dir)) // without a list
}

// Whatever the list says, only files below the directory go, and not behind links.
func TestPruneWithHostileList(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "d")
	write(t, top, Options{}, "outside/f", "d/real/f", "d/f", "d/directory/g")
	if err := errors.Join(
		os.Symlink("../outside", dir+"/out"), os.Symlink("real", dir+"/in"), os.Symlink("../outside/f", dir+"/link"),
		os.WriteFile(dir+"/"+ListName, []byte(strings.Join([]string{
			`"../outside/f"`, `"` + top + `/outside/f"`, `"out/f"`, `"in/f"`, `"link"`, `"."`, `"directory"`, `"real/../../outside/f"`,
			`"real/\x00"`, `"` + ListName + `"`, "garbage", `"half`, "'a'", "`b`", "", `"missing"`, `"f/x"`,
		}, "\n")), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	want := tree(t, top)
	delete(want, "d/"+ListName)
	delete(want, "d/link") // the link is listed, and goes; not what it leads to
	if got := write(t, dir, Options{Prune: true}); got != "link removed" {
		t.Errorf("done %s", got)
	}
	same(t, want, tree(t, top))

	if err := os.Symlink("../outside/f", dir+"/"+ListName); err != nil {
		t.Fatal(err)
	}
	s := openStage(t, dir, Options{Prune: true})
	put(t, s, "f", "new")
	if _, err := s.Commit(); err == nil || !strings.Contains(err.Error(), ListName) {
		t.Errorf("a list that is a link: error %v", err)
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte(listHeader + "\"a\"\n\"b/c\"\n"))
	f.Add([]byte("\"../x\"\n\"/y\"\n\"\\xff\"\n\"\\n\"\n`z`\n\"half"))
	f.Fuzz(func(t *testing.T, data []byte) {
		names := parseList(data)
		for _, name := range names {
			if !filepath.IsLocal(name) || name == "." || strings.HasSuffix(name, "/") || ours(name) {
				t.Errorf("%q is not a file below the directory", name)
			}
		}
		if again := parseList(formatList(names)); !slices.Equal(names, again) {
			t.Errorf("%q became %q", names, again)
		}
	})
}
