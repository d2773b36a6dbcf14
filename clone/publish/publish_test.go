package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// tree describes a directory: paths of files with their content, of links with
// "-> " and where they lead, of directories with a slash at the end.
type tree map[string]string

// write makes what t describes in the directory dir.
func (t tree) write(tb testing.TB, dir string) {
	tb.Helper()
	for name, content := range t {
		path := filepath.Join(dir, name)
		parent := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			parent = path
		}
		err := os.MkdirAll(parent, 0o755)
		if to, link := strings.CutPrefix(content, "-> "); err == nil && link {
			err = os.Symlink(to, path)
		} else if err == nil && parent != path {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// read describes what is in dir, except the content of markers.
func read(tb testing.TB, dir string) tree {
	tb.Helper()
	t := tree{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			if in, err := os.ReadDir(path); err == nil && len(in) == 0 {
				t[name+"/"] = ""
			}
		case d.Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			t[name] = "-> " + to
			return err
		case strings.HasSuffix(name, "initbox.json"):
			t[name] = "marker"
		default:
			content, err := os.ReadFile(path)
			t[name] = string(content)
			return err
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

func requireTree(tb testing.TB, dir string, want tree) {
	tb.Helper()
	if got := read(tb, dir); !maps.Equal(got, want) {
		tb.Fatalf("%s holds\n%s\nwant\n%s", dir, got, want)
	}
}

func (t tree) String() string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		lines = append(lines, fmt.Sprintf("%s: %q", name, t[name]))
	}
	return strings.Join(lines, "\n")
}

// with returns t and more.
func (t tree) with(more tree) tree {
	all := maps.Clone(t)
	maps.Copy(all, more)
	return all
}

func open(tb testing.TB, o Options) *Target {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	t, err := Open(ctx, o)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// put publishes a tree.
func put(tb testing.TB, o Options, sha string, what tree) {
	tb.Helper()
	if err := tryPut(tb, o, sha, what); err != nil {
		tb.Fatal(err)
	}
}

func tryPut(tb testing.TB, o Options, sha string, what tree) error {
	tb.Helper()
	t := open(tb, o)
	defer t.Close()
	s, err := t.Stage()
	if err != nil {
		return err
	}
	what.write(tb, s.Tree)
	return t.Publish(context.Background(), s, Marker{URL: "https://example.com/x", Ref: "refs/heads/main", SHA: sha, Options: "o", Result: []byte(`{"a":1}`)})
}

// current returns the commit that the directory is known to hold, or "".
func current(tb testing.TB, o Options) string {
	tb.Helper()
	t := open(tb, o)
	defer t.Close()
	if m := t.Current(); m != nil {
		return m.SHA
	}
	return ""
}

var (
	sha1 = strings.Repeat("1a", 20)
	sha2 = strings.Repeat("2b", 20)

	withGit1 = tree{"a": "1", "sub/b": "1", "sub/c": "-> b", "only1/x": "1", "empty/": "", ".git/HEAD": "1\n", ".git/index": "i", ".git/objects/pack/pack-1.pack": "p1", ".git/refs/heads/main": "1"}
	withGit2 = tree{"a": "22", "sub/b": "22", "sub/d": "2", "only2": "2", ".git/HEAD": "2\n", ".git/index": "j", ".git/objects/pack/pack-2.pack": "p2"}
	bare1    = tree{"a": "1", "sub/b": "1", "only1/x": "1"}
	bare2    = tree{"a": "22", "sub/b": "22", "only2": "2", "only1": "now a file"}
	inGit    = tree{".git/initbox.json": "marker"}
)

func TestReplace(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "not/yet/app")
	o := Options{Dir: dir}
	if got := current(t, o); got != "" {
		t.Errorf("current %q of nothing", got)
	}
	for range 2 {
		put(t, o, sha1, withGit1)
		requireTree(t, top, prefixed("not/yet/app", withGit1.with(inGit)))
		if got := current(t, o); got != sha1 {
			t.Errorf("current %q", got)
		}
		put(t, o, sha2, withGit2)
		requireTree(t, top, prefixed("not/yet/app", withGit2.with(inGit)))
		put(t, o, sha1, bare1)
		requireTree(t, top, prefixed("not/yet", prefixed("app", bare1).with(tree{".app.initbox.json": "marker"})))
		if got := current(t, o); got != sha1 {
			t.Errorf("current %q", got)
		}
		put(t, o, sha2, bare2)
		if got := current(t, o); got != sha2 {
			t.Errorf("current %q", got)
		}
	}
}

func requireRefused(t *testing.T, err error, text string) {
	t.Helper()
	var f *failure.Failure
	if !errors.As(err, &f) || f.Hint == "" || !poll.IsPermanent(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want a permanent one with a hint and %q", err, text)
	}
}

func prefixed(dir string, t tree) tree {
	p := tree{}
	for name, content := range t {
		p[dir+"/"+name] = content
	}
	return p
}

// TestLinkedLock has another file stand where the lock should, under a second name of it.
func TestLinkedLock(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(victim, filepath.Join(dir, ".app.initbox-lock")); err != nil {
		t.Skip(err)
	}
	target, err := Open(t.Context(), Options{Dir: filepath.Join(dir, "app")})
	if err != nil {
		t.Fatal(err)
	}
	target.Close()
	if content, err := os.ReadFile(victim); err != nil || string(content) != "keep" {
		t.Errorf("%q, %v", content, err)
	}
}
