package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"initbox/test/servers"
)

// version puts files into a version and returns what changed.
func version(t testing.TB, link string, files ...string) string {
	t.Helper()
	s, err := OpenVersion(link, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range files {
		put(t, s, name, "content of "+name)
	}
	return commitAll(t, s)
}

func TestVersion(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "x/y")
	link := filepath.Join(dir, "conf")
	if got := version(t, link, "a", "sub/b", "sub/c", "d"); got != "a created, d created, sub/b created, sub/c created" {
		t.Errorf("done %s", got)
	}
	first, err := os.Readlink(link)
	if err != nil || !isVersion("conf", first) {
		t.Fatalf("link to %q, %v", first, err)
	}
	before, b := tree(t, top), lstatFile(t, link+"/sub/b")
	if len(before) != 2+2+5 {
		t.Errorf("there is %v", before)
	}
	if got := version(t, link, "a", "sub/b", "sub/c", "d"); got != "" {
		t.Errorf("done %s", got)
	}
	same(t, before, tree(t, top))

	s, err := OpenVersion(link, Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "new")
	put(t, s, "sub/b", "content of sub/b")
	put(t, s, "d/e", "a directory where a file was")
	if plan, err := s.Plan(); err != nil || text(plan) != "a changed, d removed, d/e created, sub/c removed" {
		t.Errorf("plan %s, %v", text(plan), err)
	}
	if got := commitAll(t, s); got != "a changed, d removed, d/e created, sub/c removed" {
		t.Errorf("done %s", got)
	}
	s.Close()
	second, _ := os.Readlink(link)
	same(t, map[string]string{
		"conf": "Lrwxrwxrwx " + second, second: "drwxr-xr-x", second + "/a": "-rw-r--r-- new",
		second + "/d": "drwxr-xr-x", second + "/d/e": "-rw-r--r-- a directory where a file was",
		second + "/sub": "drwxr-xr-x", second + "/sub/b": "-rw-r--r-- content of sub/b",
	}, tree(t, dir))
	if now := lstatFile(t, link+"/sub/b"); second == first || now.Ino != b.Ino || now.Mtim != b.Mtim {
		t.Error("what did not change is another file")
	}
}

func TestVersionIsRefused(t *testing.T) {
	for what, make := range map[string]func(link string) error{
		"a directory":            func(link string) error { return os.Mkdir(link, 0o755) },
		"a file":                 func(link string) error { return os.WriteFile(link, nil, 0o644) },
		"another program's link": func(link string) error { return os.Symlink("elsewhere", link) },
		"a link to a path":       func(link string) error { return os.Symlink("../x/.conf.initbox-aaaaaaaaaaaa", link) },
	} {
		dir := t.TempDir()
		link := filepath.Join(dir, "conf")
		if err := make(link); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		_, err := OpenVersion(link, Options{})
		var hint interface{ Hint() string }
		if !errors.As(err, &hint) || !strings.Contains(err.Error(), link) {
			t.Errorf("%s: error %v", what, err)
		}
		os.Rename(link, dir+"/kept")
		s, err := OpenVersion(link, Options{})
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "f", "x")
		os.Rename(dir+"/kept", link) // since it was opened
		if _, err := s.Commit(); err == nil {
			t.Errorf("%s was replaced", what)
		}
		s.Close()
		same(t, before, tree(t, dir))
	}
}

// What killed writers of versions left goes; other links' versions stay.
func TestSweepVersions(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "conf")
	version(t, link, "a")
	version(t, link+".initbox-x", "a")
	before := tree(t, dir)
	left, err := OpenVersion(link, Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, left, "b", "x")
	for _, a := range left.areas {
		id := strings.TrimPrefix(a.name, areaPrefix)
		write(t, filepath.Join(dir, versionPrefix("conf")+id), Options{}, "half")
		living := tree(t, dir)
		version(t, link, "a")
		same(t, living, tree(t, dir))
		a.lock.Close() // as the kernel does for the dead
	}
	version(t, link, "a")
	same(t, before, tree(t, dir))
}

// startProcesses starts processes until the test ends: until a child execs, it has copies of the locks' descriptors.
func startProcesses(t *testing.T) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				exec.Command("true").Run()
			}
		})
	}
	t.Cleanup(func() { cancel(); all.Wait() })
}

// Versions that are made at once are each complete, and one of them stays, while the program starts others.
func TestVersionsAtOnce(t *testing.T) {
	t.Parallel()
	startProcesses(t)
	dir := t.TempDir()
	link := filepath.Join(dir, "conf")
	const writers = 4
	for range 10 {
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				s, err := OpenVersion(link, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				for _, name := range []string{"same", "a", "sub/b"} {
					content := strings.Repeat(string(rune('0'+w)), 1000)
					if name == "same" {
						content = name
					}
					if _, err := s.Put(name, []byte(content), plain); err != nil {
						t.Error(err)
					}
				}
				if _, err := s.Commit(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		version, err := os.Readlink(link)
		if err != nil {
			t.Fatal(err)
		}
		got := tree(t, dir)
		if got[version+"/a"] != got[version+"/sub/b"] || got[version+"/same"] == "" {
			t.Errorf("mixed: %v", got)
		}
		if len(got) != 2+4 {
			t.Errorf("there is %v", got)
		}
	}
}

// The directory of the link may be missing for all that begin at once.
func TestVersionsAtOnceInNewDirectory(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	for range 10 {
		dir := filepath.Join(t.TempDir(), "not", "there", "yet")
		link := filepath.Join(dir, "conf")
		var all sync.WaitGroup
		for w := range 4 {
			all.Go(func() {
				s, err := OpenVersion(link, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				for i := range 50 {
					if _, err := s.Put(fmt.Sprintf("d%d/%d", i%5, i), []byte{byte('0' + w)}, plain); err != nil {
						t.Error(err)
					}
				}
				if _, err := s.Commit(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := tree(t, dir); len(got) != 1+1+5+50 { // the link, the version, and what is in it
			t.Fatalf("there is %d: %v", len(got), got)
		}
	}
}

func TestVersionDryRun(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "conf")
	version(t, link, "a", "b")
	before := tree(t, dir)
	s, err := OpenVersion(link, Options{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, "a", "new")
	if same, err := s.Holds("a", Bytes([]byte("content of a"))); !same || err != nil {
		t.Errorf("the old content: %v, %v", same, err)
	}
	if plan, err := s.Plan(); err != nil || text(plan) != "a changed, b removed" {
		t.Errorf("plan %s, %v", text(plan), err)
	}
	same(t, before, tree(t, dir))
}

// The version that the link points to is never swept, and others only while no stage uses them.
func TestSweepVersion(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "conf")
	version(t, link, "a")
	s, err := OpenVersion(link, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	name, err := s.current(s.home)
	if err != nil {
		t.Fatal(err)
	}
	home, err := openDir(s.home, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if s.sweepVersion(s.home, home, name) {
		t.Error("swept while it is used")
	}
	s.oldLock.Close()
	if !s.sweepVersion(s.home, home, name) {
		t.Error("the link points to it, and it did not stay")
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if s.sweepVersion(s.home, home, name) || len(tree(t, dir)) > 0 {
		t.Errorf("there is %v", tree(t, dir))
	}
}

// A file that is left out makes a new version, even if no other file changes.
func TestVersionWithout(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "conf")
	version(t, link, "a", "b")
	if got := version(t, link, "a"); got != "b removed" {
		t.Errorf("done %s", got)
	}
	if got := tree(t, dir); len(got) != 3 {
		t.Errorf("there is %v", got)
	}
}

// A link to a file with the name of a version is an error, and both stay.
func TestVersionIsAFile(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "conf")
	version(t, link, "a")
	target, err := filepath.EvalSymlinks(link)
	if err := errors.Join(err, os.RemoveAll(target), os.WriteFile(target, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	if s, err := OpenVersion(link, Options{}); err == nil || !strings.HasSuffix(err.Error(), "not a directory") {
		t.Errorf("%v, error %v", s, err)
	}
	same(t, before, tree(t, dir))
}

// A link to a version that is gone is replaced.
func TestVersionIsGone(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "conf")
	version(t, link, "a")
	target, err := filepath.EvalSymlinks(link)
	if err := errors.Join(err, os.RemoveAll(target)); err != nil {
		t.Fatal(err)
	}
	if got := version(t, link, "a"); got != "a created" {
		t.Errorf("done %s", got)
	}
	if _, err := os.Stat(filepath.Join(link, "a")); err != nil {
		t.Error(err)
	}
}

// What a killed writer has left is removed at once: there may be no room for another version.
func TestSweepBeforeWriting(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "conf")
	left := filepath.Join(dir, versionPrefix("conf")+strings.Repeat("x", idLength))
	write(t, left, Options{}, "half")
	for _, dry := range []bool{true, false} {
		s, err := OpenVersion(link, Options{DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); (err == nil) != dry {
			t.Errorf("dry run %v: %v", dry, err)
		}
		s.Close()
	}
}
