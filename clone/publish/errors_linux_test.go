package publish

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/clone/access"
	"initbox/internal/dirfd"
)

// openDirectory opens a directory until the end of the test.
func openDirectory(t *testing.T, path string) *os.File {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

// closedDirectory returns a directory in which every system call fails with EBADF.
func closedDirectory(t *testing.T) *os.File {
	t.Helper()
	dir := openDirectory(t, t.TempDir())
	dir.Close()
	return dir
}

// staged opens a target and a stage for it, and writes what into the stage's tree.
func staged(t *testing.T, o Options, what tree) (*Target, *Stage) {
	t.Helper()
	target := open(t, o)
	t.Cleanup(func() { target.Close() })
	s, err := target.Stage()
	if err != nil {
		t.Fatal(err)
	}
	what.write(t, s.Tree)
	return target, s
}

// No step of a publication loses the error of a directory that cannot be read or written.
func TestStepsFail(t *testing.T) {
	closed := closedDirectory(t)
	for name, step := range map[string]func(*Target, *Stage) error{
		"check the names": func(target *Target, s *Stage) error { s.tree = closed; return target.checkNames(s) },
		"mark":            func(target *Target, s *Stage) error { s.tree = closed; _, err := target.mark(s, Marker{}); return err },
		"write a marker": func(target *Target, s *Stage) error {
			_, err := target.mark(s, Marker{Result: []byte("{")})
			return err
		},
		"sync":          func(target *Target, s *Stage) error { s.dir = closed; return target.sync(s) },
		"sync .git":     func(target *Target, s *Stage) error { s.git.dir = closed; return target.sync(s) },
		"retire":        func(target *Target, s *Stage) error { s.dir = closed; return (&swap{Target: target, s: s}).fill() },
		"list the tree": func(target *Target, s *Stage) error { s.tree = closed; return (&swap{Target: target, s: s}).fill() },
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			o := Options{Dir: filepath.Join(top, "app"), GitDir: filepath.Join(top, "git"), Replace: true}
			tree{"app/old": "x", "git/HEAD": "1"}.write(t, top)
			target, s := staged(t, o, bare1)
			if err := step(target, s); err == nil {
				t.Error("no error")
			}
			requireTree(t, o.Dir, tree{"old": "x"})
		})
	}
}

// A tree on another file system than the directory cannot be moved there entry by entry.
func TestOtherFileSystem(t *testing.T) {
	elsewhere, err := os.MkdirTemp("/dev/shm", "initbox")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(elsewhere) })
	o := Options{Dir: filepath.Join(t.TempDir(), "app"), Replace: true}
	bare2.write(t, o.Dir)
	target, s := staged(t, o, nil)
	here, err1 := dirfd.Stat(s.dir)
	other := openDirectory(t, elsewhere)
	if there, err2 := dirfd.Stat(other); err1 != nil || err2 != nil || here.Dev == there.Dev {
		t.Skip("the same file system")
	}
	bare1.write(t, elsewhere)
	s.tree = other
	w := &swap{Target: target, s: s, last: gitName}
	if err := w.fill(); !errors.Is(err, unix.EXDEV) || w.back(err) != err {
		t.Errorf("error %v", err)
	}
	requireTree(t, o.Dir, bare2)
}

func TestStageFails(t *testing.T) {
	for name, sabotage := range map[string]func(*Target){
		"directory": func(target *Target) { target.base = closedDirectory(t) },
		".git":      func(target *Target) { target.git.base = closedDirectory(t) },
		"owner":     func(target *Target) { target.options.Access.Owner = &access.Owner{UID: os.Geteuid() + 1, GID: -1} },
	} {
		if name == "owner" && os.Geteuid() == 0 {
			continue // root may give files away
		}
		top := t.TempDir()
		target := open(t, Options{Dir: filepath.Join(top, "app"), GitDir: filepath.Join(top, "git")})
		base := target.base
		sabotage(target)
		if s, err := target.Stage(); err == nil || s != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
		base.Close()
	}
	target, s := staged(t, Options{Dir: filepath.Join(t.TempDir(), "app")}, nil)
	if !strings.HasPrefix(s.Path, "/proc/self/fd/") {
		t.Errorf("the stage is %s, a name that another directory may get", s.Path)
	}
	for path, want := range map[string]bool{s.Path: true, s.Tree: false, s.Path + "/none": false} {
		if got := isSame(s.dir, path); got != want {
			t.Errorf("%s is the stage: %v", path, got)
		}
	}
	if isSame(closedDirectory(t), target.base.Name()) {
		t.Error("a closed directory is another")
	}
}

func TestMakeDirFails(t *testing.T) {
	top := openDirectory(t, t.TempDir())
	for _, want := range []error{nil, fs.ErrExist} {
		dir, err := makeDir(top, "x", 0o700)
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		dir.Close()
	}
}

func TestSealFails(t *testing.T) {
	none := func(string) bool { return false }
	if _, err := sealOf(closedDirectory(t), whole, none); err == nil {
		t.Error("a closed directory has a seal")
	}
	dir := t.TempDir()
	tree{"file": "x", "r/objects/pack": "x"}.write(t, dir)
	w := &walk{root: openDirectory(t, dir), skip: none}
	r := &reader{walk: w}
	if err := r.read(directory{path: "none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	for _, kind := range []byte{unix.DT_UNKNOWN, unix.DT_REG} {
		if err := r.look(dirfd.FD(-1), &dirfd.Entry{Name: "x", Kind: kind}); err == nil {
			t.Errorf("kind %d: no error", kind)
		}
	}
	r.entries = []entry{{name: "x", kind: unix.DT_LNK}}
	if err := r.seal(dirfd.FD(-1)); err == nil {
		t.Error("a link that cannot be read has a seal")
	}
	for _, repository := range []string{"r", "file"} {
		w.repositories = []string{repository}
		if err := w.packs(); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("%s: %v", repository, err)
		}
	}
}

// Empty directories in .git come and go; elsewhere they are part of the tree.
func TestSealOfEmptyDirectories(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "app")}
	put(t, o, sha1, tree{"empty/": ""})
	if err := os.Rename(filepath.Join(o.Dir, "empty"), filepath.Join(o.Dir, "other")); err != nil {
		t.Fatal(err)
	}
	if got := current(t, o); got != "" {
		t.Errorf("current %q although a directory has another name", got)
	}
	put(t, o, sha1, withGit1)
	tree{"extra/dir/": "", "refs/heads/dir/": ""}.write(t, filepath.Join(o.Dir, ".git"))
	os.Remove(filepath.Join(o.Dir, ".git/refs/heads/dir"))
	if got := current(t, o); got != sha1 {
		t.Errorf("current %q with empty directories in .git", got)
	}
}

// reasonFor returns why the content of a directory is not known.
func reasonFor(t *testing.T, o Options) string {
	t.Helper()
	target := open(t, o)
	defer target.Close()
	_, reason := target.current()
	return reason
}

// The reason for replacing a directory is logged, unless there is nothing in it.
func TestReason(t *testing.T) {
	var log bytes.Buffer
	top := t.TempDir()
	o := Options{Dir: filepath.Join(top, "app"), Replace: true, Log: slog.New(slog.NewTextHandler(&log, nil))}
	reset := func() {
		os.RemoveAll(o.Dir)
		put(t, o, sha1, withGit1)
	}
	marker := filepath.Join(o.Dir, ".git/initbox.json")
	for name, test := range map[string]struct {
		change func() error
		reason string
	}{
		"missing":        {func() error { return os.RemoveAll(o.Dir) }, ""},
		"empty":          {func() error { return errors.Join(os.RemoveAll(o.Dir), os.Mkdir(o.Dir, 0o755)) }, ""},
		"unknown":        {func() error { return os.Remove(marker) }, "no marker of an earlier clone"},
		"a pipe":         {func() error { return errors.Join(os.Remove(marker), unix.Mkfifo(marker, 0o644)) }, "not a regular file"},
		"longest marker": {func() error { return os.Truncate(marker, longestMark) }, "another version"},
		"a file":         {func() error { return os.WriteFile(filepath.Join(o.Dir, "new"), nil, 0o644) }, "new was written"},
	} {
		reset()
		log.Reset()
		if err := test.change(); err != nil {
			t.Fatal(err)
		}
		if reason := reasonFor(t, o); !strings.Contains(reason, test.reason) || test.reason == "" && reason != "" {
			t.Errorf("%s: %q, want %q", name, reason, test.reason)
		}
		current(t, o)
		if strings.Contains(log.String(), "cannot remove") {
			t.Errorf("%s: the log is %q", name, log.String())
		}
		if got := strings.Contains(log.String(), "not as the last run left it"); got != (test.reason != "") {
			t.Errorf("%s: the log is %q", name, log.String())
		}
	}
	target := open(t, o)
	defer target.Close()
	if err := errors.Join(os.RemoveAll(o.Dir), os.WriteFile(o.Dir, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, reason := target.current(); !strings.Contains(reason, "not a directory") {
		t.Errorf("now a file: %q", reason)
	}
}

// A marker has a maximum size, and a .git that already contains one is refused.
func TestMarkerSize(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "app")}
	put(t, o, sha1, withGit1)
	marker := filepath.Join(o.Dir, ".git/initbox.json")
	content, err := os.ReadFile(marker)
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]string{longestMark: sha1, longestMark + 1: ""} {
		if err := os.WriteFile(marker, append(content, bytes.Repeat([]byte(" "), size-len(content))...), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := current(t, o); got != want {
			t.Errorf("a marker of %d bytes: %q", size, got)
		}
	}
	empty, err := json.Marshal(&record{Marker: Marker{Result: []byte(`""`)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{0, 1} {
		_, s := staged(t, Options{Dir: filepath.Join(t.TempDir(), "app")}, bare1)
		r := &record{Marker: Marker{Result: []byte(`"` + strings.Repeat("x", longestMark-len(empty)+more) + `"`)}}
		if _, err := s.writeMarker(r, nil); (err == nil) != (more == 0) {
			t.Errorf("%d bytes more than allowed: %v", more, err)
		}
	}
	if err := tryPut(t, o, sha2, withGit2.with(tree{".git/initbox.json": "theirs"})); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a marker in the tree: %v", err)
	}
	_, s := staged(t, Options{Dir: filepath.Join(t.TempDir(), "app")}, bare1)
	if _, err := s.writeMarker(new(record), &access.Owner{UID: os.Geteuid() + 1, GID: -1}); (err == nil) != (os.Geteuid() == 0) {
		t.Errorf("a marker of another user: %v", err)
	}
}

// A file .git, of a submodule, is part of the tree, and the marker is beside that.
func TestGitFile(t *testing.T) {
	top := t.TempDir()
	o := Options{Dir: filepath.Join(top, "app")}
	for range 2 {
		put(t, o, sha1, tree{"a": "1", ".git": "gitdir: ../x"})
		requireTree(t, top, tree{"app/a": "1", "app/.git": "gitdir: ../x", ".app.initbox.json": "marker"})
		if got := current(t, o); got != sha1 {
			t.Errorf("current %q", got)
		}
	}
}

func TestGitDirGone(t *testing.T) {
	top := t.TempDir()
	o := Options{Dir: filepath.Join(top, "app"), GitDir: filepath.Join(top, "git"), Replace: true}
	tree{"app/a": "1"}.write(t, top)
	if reason := reasonFor(t, o); reason != "it has no marker of an earlier clone" {
		t.Errorf("reason %q", reason)
	}
	tree{"git": "a file"}.write(t, top)
	_, err := Open(t.Context(), o)
	requireRefused(t, err, "not a directory")
}

func TestHash(t *testing.T) {
	for text, want := range map[string]bool{sha1: true, sha1 + "00": false, sha1[2:]: false, strings.ToUpper(sha1): false, strings.Repeat("x", 40): false} {
		if got := isHash(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// What is not a worktree stays, and a link to something else is replaced.
func TestWorktrees(t *testing.T) {
	top := t.TempDir()
	o := Options{Dir: top, Link: "current"}
	stay := tree{".worktrees/mine": "x", ".worktrees/." + sha2: "x", ".worktrees/" + sha1[1:] + "/x": "x", "other": "-> elsewhere/" + sha2, "odd": "-> .worktrees/x"}
	stay.write(t, top)
	put(t, o, sha1, withGit1)
	requireTree(t, top, stay.with(prefixed(".worktrees/"+sha1, withGit1.with(inGit))).with(tree{"current": "-> .worktrees/" + sha1}))

	requireRefused(t, tryPut(t, o, "refs/heads/main", withGit2), "not the hash of a commit")
	if err := os.Mkdir(filepath.Join(top, ".worktrees", sha2), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, Options{Dir: top, Link: "other", Replace: true}, sha2, withGit2)
	if got := current(t, Options{Dir: top, Link: "other"}); got != sha2 {
		t.Errorf("current %q", got)
	}
	if reason := reasonFor(t, Options{Dir: top, Link: "missing"}); reason != "" {
		t.Errorf("a missing link: %q", reason)
	}
	if reason := reasonFor(t, Options{Dir: top, Link: "odd", Replace: true}); reason != "the link does not lead to a worktree" {
		t.Errorf("a link to something else: %q", reason)
	}
}

func TestLinkFails(t *testing.T) {
	top := t.TempDir()
	o := Options{Dir: filepath.Join(top, "app"), Link: "current"}
	put(t, o, sha1, withGit1)
	before := read(t, top)
	target, s := staged(t, o, withGit2)
	tree{linkName: "in the way"}.write(t, s.Path)
	if err := target.Publish(t.Context(), s, Marker{SHA: sha2}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v", err)
	}
	target.Close()
	requireTree(t, top, before)

	target, s = staged(t, o, withGit2)
	if err := os.Rename(o.Dir, o.Dir+"2"); err != nil {
		t.Fatal(err)
	}
	if err := target.Publish(t.Context(), s, Marker{SHA: sha2}); err != nil {
		t.Errorf("the directory of the link has another name: %v", err)
	}
	requireTree(t, filepath.Join(o.Dir+"2", ".worktrees", sha2), withGit2.with(inGit))
	if err := os.Symlink(top, filepath.Join(top, ".worktrees")); err != nil {
		t.Fatal(err)
	}
	if other, err := Open(t.Context(), Options{Dir: top, Link: "current"}); err == nil {
		other.Close()
		t.Error("the worktrees are behind a link")
	}
}

func TestMayFollow(t *testing.T) {
	const user = 1000
	for _, test := range []struct {
		mode, link, directory uint32
		may                   bool
	}{
		{unix.S_IFLNK, 1001, 1002, false}, {unix.S_IFLNK, 1001, 0, false}, {unix.S_IFLNK, 1001, user, false},
		{unix.S_IFLNK, 1001, 1001, true}, {unix.S_IFLNK, user, 0, true}, {unix.S_IFLNK, 0, 1001, true}, {unix.S_IFDIR, 1001, 1002, true},
	} {
		if may := mayFollow(&syscall.Stat_t{Mode: test.mode, Uid: test.link}, &syscall.Stat_t{Uid: test.directory}, user); may != test.may {
			t.Errorf("%+v: %v", test, may)
		}
	}
}

func TestLockFile(t *testing.T) {
	top := t.TempDir()
	o := Options{Dir: filepath.Join(top, "app")}
	name := filepath.Join(top, ".app.initbox-lock")
	if err := os.WriteFile(name, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	target := open(t, o) // even if this user may not write to the file
	if err := errors.Join(os.Rename(name, name+"2"), os.WriteFile(name, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	target.Close()
	if _, err := os.Stat(name); err != nil {
		t.Errorf("another's lock was removed: %v", err)
	}
	if err := errors.Join(os.Remove(name), unix.Mkfifo(name, 0o666)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
}
