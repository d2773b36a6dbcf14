package clone_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/clone"
	"initbox/clone/access"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/servers"
)

// TestWatch follows a branch, with a link.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	origin := newRepository(t, filepath.Join(dir, "origin"))
	put(t, origin, "version", "1")
	first := commit(t, origin, "1")
	o := clone.Options{URL: serve(t, dir) + "/origin", Dir: filepath.Join(dir, "root"), Link: "current", Depth: 1,
		Access: access.Access{Umask: 0o022}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}

	w, err := clone.NewWatcher(o)
	if err != nil {
		t.Fatal(err)
	}
	look := func(want string, changed bool) {
		t.Helper()
		r, err := w.Look(t.Context())
		if err != nil || r.SHA != want || r.Changed != changed {
			t.Fatalf("%s, changed %v, %v, want %s, changed %v", r.SHA, r.Changed, err, want, changed)
		}
		link, err := os.Readlink(filepath.Join(o.Dir, "current"))
		if err != nil || link != filepath.Join(".worktrees", r.SHA) {
			t.Errorf("the link leads to %s, %v", link, err)
		}
		sameTree(t, filepath.Join(o.Dir, link), origin)
		sound(t, filepath.Join(o.Dir, "current"))
	}
	look(first, true)
	look(first, false)
	put(t, origin, "version", "2")
	second := commit(t, origin, "2")
	look(second, true)

	away := origin + "-away"
	if err := os.Rename(origin, away); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Look(t.Context()); err == nil || !strings.Contains(err.Error(), "no such repository") {
		t.Errorf("without the repository: %v", err) // and at once, though the first one would have been repeated
	}
	if err := os.Rename(away, origin); err != nil {
		t.Fatal(err)
	}
	look(second, false)
}

// TestWatchBack takes a branch back to an earlier commit, whose tree is still there: a program in it stays in it.
func TestWatchBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	origin := newRepository(t, filepath.Join(dir, "origin"))
	put(t, origin, "version", "1")
	first := commit(t, origin, "1")
	put(t, origin, "version", "2")
	second := commit(t, origin, "2")
	o := clone.Options{URL: "file://" + origin, Dir: filepath.Join(dir, "root"), Link: "current", Depth: 1, Ref: "main", KeepOld: time.Hour, Access: access.Access{Umask: 0o022}}
	w, err := clone.NewWatcher(o)
	if err != nil {
		t.Fatal(err)
	}
	current := filepath.Join(o.Dir, "current")
	var inside os.FileInfo
	for i, sha := range []string{first, second, first} {
		git(t, origin, "reset", "-q", "--hard", sha)
		r, err := w.Look(t.Context())
		if err != nil || r.SHA != sha || !r.Changed || head(t, current) != sha {
			t.Fatalf("%+v, %v, want %s", r, err, sha)
		}
		sameTree(t, filepath.Join(o.Dir, ".worktrees", sha), origin)
		now, err := os.Stat(current)
		if i == 0 {
			inside = now
		}
		if err != nil || os.SameFile(now, inside) != (sha == first) {
			t.Errorf("look %d: another tree of the first commit: %v", i, err)
		}
		if back := i == 2; back != (r.Bytes == 0) {
			t.Errorf("look %d: %d bytes received", i, r.Bytes)
		}
	}
}

// TestShared has several links lead to one tree: each run uses the tree of the other ones, whatever they call the
// revision and the repository, and none replaces it by one with other options.
func TestShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	origin := newRepository(t, filepath.Join(dir, "origin"))
	put(t, origin, "version", "1")
	sha := commit(t, origin, "1")
	git(t, origin, "tag", "v1")
	if err := os.Symlink("origin", filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	o := clone.Options{URL: "file://" + origin, Dir: filepath.Join(dir, "root"), Depth: 1, Ref: "main", Access: access.Access{Umask: 0o022}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	look := func(w *clone.Watcher, o clone.Options, ref string, changed bool) os.FileInfo {
		t.Helper()
		r, err := w.Look(t.Context())
		if err != nil || r.SHA != sha || r.URL != o.URL || r.Ref != ref || r.Changed != changed {
			t.Fatalf("%+v, %v, want %s of %s, changed %v", r, err, ref, o.URL, changed)
		}
		tree, err := os.Stat(o.Path())
		if err != nil {
			t.Fatal(err)
		}
		sound(t, o.Path())
		return tree
	}
	type link struct {
		o   clone.Options
		ref string
		w   *clone.Watcher
	}
	var links []link
	for _, l := range []struct{ name, other, ref, full string }{
		{dir + "/a/current", "origin", "main", "refs/heads/main"}, {dir + "/b/current", "other", "v1", "refs/tags/v1"},
		{"c", "origin", sha, sha}, {"d", "other", "", "refs/heads/main"},
	} {
		o.Link, o.URL, o.Ref = l.name, "file://"+filepath.Join(dir, l.other), l.ref
		w, err := clone.NewWatcher(o)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, link{o, l.full, w})
	}
	tree := look(links[0].w, links[0].o, links[0].ref, true)
	for _, l := range links[1:] {
		if now := look(l.w, l.o, l.ref, true); !os.SameFile(now, tree) {
			t.Errorf("%s is another tree", l.o.Link)
		}
	}
	for range 2 {
		for _, l := range links {
			if now := look(l.w, l.o, l.ref, false); !os.SameFile(now, tree) {
				t.Errorf("%s is another tree", l.o.Link)
			}
		}
	}
	if text := "was already there, cloned from file://" + origin + " as main"; !strings.Contains(log.String(), text) {
		t.Errorf("the log does not say %q:\n%s", text, &log)
	}

	refused := func(o clone.Options, text, hint string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := clone.Run(ctx, o)
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(failure.Hint(err), hint) || !poll.IsPermanent(err) {
			t.Errorf("%v (%s), want %q and %q", err, failure.Hint(err), text, hint)
		}
		if now, err := os.Stat(filepath.Join(o.Dir, ".worktrees", sha)); err != nil || !os.SameFile(now, tree) {
			t.Errorf("it is another tree, %v", err)
		}
	}
	made := "root: the tree of " + sha + " was made with other options, and the link " + filepath.Join(o.Dir, "c") + " leads to it, too"
	for _, name := range []string{"d", "new", dir + "/a/current", dir + "/new/current"} {
		other := links[0].o
		other.Link, other.Depth = name, 0
		refused(other, made, "the same options")
	}
	hook := links[0].o
	hook.Link, hook.Program, hook.Before = "new", "hook", func(context.Context, string, string) error { return nil }
	refused(hook, made, "the same options")
	elsewhere := links[0].o
	elsewhere.Link, elsewhere.GitDir = "new", filepath.Join(dir, "git")
	refused(elsewhere, "cannot get another .git directory", "its own DIR")

	// The last one of them may have other options.
	for _, name := range []string{"c", "d"} {
		if err := os.Remove(filepath.Join(o.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b := links[1].o
	b.Depth = 0
	refused(b, "and the link "+dir+"/a/current on ", "if the Pod of that link is gone, remove "+o.Dir+"/.worktrees/.initbox-link-")
	claims, err := filepath.Glob(filepath.Join(o.Dir, ".worktrees/.initbox-link-*"))
	if err != nil || len(claims) != 2 {
		t.Fatalf("%q, %v", claims, err)
	}
	for _, name := range claims { // that of b comes back
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := clone.Run(t.Context(), b); err != nil || !r.Changed {
		t.Errorf("%+v, %v", r, err)
	}
	a := links[0].o
	a.Replace = true
	if r, err := clone.Run(t.Context(), a); err != nil || !r.Changed {
		t.Errorf("with --replace: %+v, %v", r, err)
	}
}

// TestAll runs several clones at once; one that fails stops the others.
func TestAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all []clone.Options
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		origin := newRepository(t, filepath.Join(dir, name))
		put(t, origin, "name", name)
		commit(t, origin, name)
		all = append(all, clone.Options{URL: "file://" + origin, Dir: filepath.Join(dir, "got", name), Depth: 1, Access: access.Access{Umask: 0o022}})
	}
	results, err := clone.All(t.Context(), all, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range all {
		sameTree(t, o.Dir, strings.TrimPrefix(o.URL, "file://"))
		if results[i].SHA != head(t, o.Dir) {
			t.Errorf("%s: %s", o.Dir, results[i].SHA)
		}
	}
	all[2].Ref = "none"
	_, err = clone.All(t.Context(), all, 0)
	if err == nil || !strings.Contains(err.Error(), "none") || !strings.Contains(err.Error(), all[2].Dir) {
		t.Errorf("%v", err)
	}
}

// TestSigned requires a signature by a key.
func TestSigned(t *testing.T) {
	t.Parallel()
	servers.Need(t, "ssh-keygen")
	dir := t.TempDir()
	key, other := servers.SSHKey(t, filepath.Join(dir, "key"), "ed25519", ""), servers.SSHKey(t, filepath.Join(dir, "other"), "ed25519", "")
	origin := newRepository(t, filepath.Join(dir, "origin"))
	sign := []string{"-c", "gpg.format=ssh", "-c", "user.signingKey=" + filepath.Join(dir, "key")}
	put(t, origin, "file", "signed")
	git(t, origin, "add", "-A")
	git(t, origin, append(sign, "commit", "-q", "-S", "-m", "signed")...)
	git(t, origin, append(sign, "tag", "-s", "-m", "signed", "v1")...)
	signed := head(t, origin)
	put(t, origin, "file", "not signed")
	unsigned := commit(t, origin, "not signed")
	git(t, origin, append(sign, "tag", "-s", "-m", "signed", "v2")...)

	for _, test := range []struct {
		ref, key, err string
	}{
		{signed, key, ""},
		{"v1", key, ""},
		{"v2", key, ""}, // the tag vouches for the commit
		{unsigned, key, "not signed"},
		{"main", key, "not signed"},
		{signed, other, "not among the"},
		{"v1", other, "not among the"},
	} {
		t.Run(test.ref+" "+filepath.Base(test.key), func(t *testing.T) {
			got := filepath.Join(t.TempDir(), "got")
			_, err := run(t, clone.Options{URL: "file://" + origin, Dir: got, Ref: test.ref, Depth: 1, Keys: []string{test.key + ".pub"}})
			switch {
			case test.err == "" && err != nil:
				t.Error(err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("%v, want %q", err, test.err)
			}
			if _, there := os.Stat(got); (there == nil) != (test.err == "") {
				t.Errorf("the directory: %v", there)
			}
		})
	}
}

// What a failed attempt has received counts, too: it fetches again.
func TestReceived(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	origin := newRepository(t, filepath.Join(dir, "origin"))
	put(t, origin, "version", "1")
	commit(t, origin, "1")
	runs := 0
	o := clone.Options{URL: serve(t, dir) + "/origin", Dir: filepath.Join(dir, "app"), Depth: 1, Access: access.Access{Umask: 0o022}, Program: "check"}
	o.Before = func(context.Context, string, string) error {
		if runs++; runs == 1 {
			return errors.New("not yet")
		}
		return nil
	}
	w, err := clone.NewWatcher(o)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.Look(t.Context()); err != nil || runs != 2 || r.Bytes == 0 || w.Received() <= r.Bytes {
		t.Errorf("%d runs, %v: %d bytes for the tree, %d received", runs, err, r.Bytes, w.Received())
	}
	before := w.Received()
	if _, err := w.Look(t.Context()); err != nil || w.Received() != before {
		t.Errorf("%v: %d bytes received, and %d for nothing new", err, before, w.Received())
	}
}
