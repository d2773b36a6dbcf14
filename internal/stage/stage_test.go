package stage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/test/servers"
)

var plain = Attr{0o644, -1, -1}

func openStage(t testing.TB, dir string, o Options) *Stage {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s *Stage, name, content string) Change {
	t.Helper()
	c, err := s.Put(name, []byte(content), plain)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// commit puts the files in place and returns what changed, as text.
func commitAll(t testing.TB, s *Stage) string {
	t.Helper()
	done, err := s.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return text(done)
}

func text(changes []Change) string {
	var all []string
	for _, c := range changes {
		word := c.Name + " " + string(c.Kind)
		if c.InPlace {
			word += " in place"
		}
		all = append(all, word)
	}
	return strings.Join(all, ", ")
}

// write puts files into dir and closes the stage.
func write(t testing.TB, dir string, o Options, files ...string) string {
	t.Helper()
	s := openStage(t, dir, o)
	for _, name := range files {
		put(t, s, name, "content of "+name)
	}
	done := commitAll(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return done
}

// tree describes everything below dir, hidden files and all.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		i, err := os.Lstat(name)
		if err != nil {
			return err
		}
		what := i.Mode().String()
		switch {
		case i.Mode().IsRegular():
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			what += " " + string(content)
		case i.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(name)
			what += " " + target
		}
		rel, err := filepath.Rel(dir, name)
		all[rel] = what
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(t testing.TB, before, after map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if before[name] != after[name] {
			t.Errorf("%s was %.60q, is %.60q", name, before[name], after[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			t.Errorf("%s is new: %.60q", name, after[name])
		}
	}
}

func lstatFile(t testing.TB, name string) *syscall.Stat_t {
	t.Helper()
	i, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return i.Sys().(*syscall.Stat_t)
}

func TestStage(t *testing.T) {
	old := unix.Umask(0o077) // has no say
	defer unix.Umask(old)
	dir := filepath.Join(t.TempDir(), "x/y/conf")
	s := openStage(t, dir, Options{})
	if c := put(t, s, "a", "1"); c.Kind != Created {
		t.Errorf("a is %v", c)
	}
	if _, err := s.Put("sub/deep/b", []byte("2"), Attr{0o600, -1, -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(dir))); err == nil {
		t.Error("a directory was made before Commit")
	}
	if got, want := commitAll(t, s), "a created, sub/deep/b created"; got != want {
		t.Errorf("done %s, want %s", got, want)
	}
	want := map[string]string{
		"x": "drwxr-xr-x", "x/y": "drwxr-xr-x", "x/y/conf": "drwxr-xr-x", "x/y/conf/a": "-rw-r--r-- 1",
		"x/y/conf/sub": "drwxr-xr-x", "x/y/conf/sub/deep": "drwxr-xr-x", "x/y/conf/sub/deep/b": "-rw------- 2",
	}
	same(t, want, tree(t, filepath.Join(dir, "../../..")))

	a, b := lstatFile(t, dir+"/a"), lstatFile(t, dir+"/sub/deep/b")
	s = openStage(t, dir, Options{})
	if c := put(t, s, "a", "1"); c.Kind != Unchanged {
		t.Errorf("a is %v", c)
	}
	if c := put(t, s, "sub/deep/b", "2"); c.Kind != Changed { // its mode
		t.Errorf("b is %v", c)
	}
	if plan, err := s.Plan(); err != nil || text(plan) != "sub/deep/b changed" {
		t.Errorf("plan %v, %v", plan, err)
	}
	if got := commitAll(t, s); got != "sub/deep/b changed" {
		t.Errorf("done %s", got)
	}
	if now := lstatFile(t, dir+"/a"); now.Ino != a.Ino || now.Mtim != a.Mtim || now.Ctim != a.Ctim {
		t.Error("what did not change was touched")
	}
	if now := lstatFile(t, dir+"/sub/deep/b"); now.Ino == b.Ino {
		t.Error("what changed is the same file")
	}
	want["x/y/conf/sub/deep/b"] = "-rw-r--r-- 2"
	same(t, want, tree(t, filepath.Join(dir, "../../..")))
}

// Before Commit there is no trace, whatever was Put.
func TestCloseLeavesNoTrace(t *testing.T) {
	for _, missing := range []bool{false, true} {
		top := t.TempDir()
		dir := top
		if missing {
			dir = filepath.Join(top, "a/b")
		} else {
			write(t, dir, Options{Prune: true}, "a", "sub/b")
		}
		before := tree(t, top)
		s := openStage(t, dir, Options{Prune: true})
		put(t, s, "a", "new")
		put(t, s, "c/d", "new")
		s.Close()
		same(t, before, tree(t, top))
		if _, err := s.Put("e", nil, plain); err == nil {
			t.Error("Put after Close")
		}
		if _, err := s.Commit(); err == nil {
			t.Error("Commit after Close")
		}
		same(t, before, tree(t, top))
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "d")
	write(t, dir, Options{}, "file", "directory/f")
	write(t, top, Options{}, "outside/f")
	for name, target := range map[string]string{"out": "../outside", "absolute": top + "/outside", "nowhere": "missing", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, top)
	for name, want := range map[string]string{
		"":                                       "not a name",
		".":                                      "not a name",
		"../x":                                   "not a name",
		"a/../../x":                              "not a name",
		"/etc/x":                                 "not a name",
		"a\x00b":                                 "not a name",
		"a/":                                     "not a name",
		ListName:                                 "reserved for initbox",
		areaPrefix + "x/f":                       "reserved for initbox",
		"file/f":                                 "not a directory",
		"directory":                              "it is a directory",
		"pipe":                                   "not a regular file",
		"pipe/f":                                 "not a directory",
		"out/f":                                  "escapes",
		"out/new/f":                              "escapes",
		"absolute/f":                             "escapes",
		"nowhere/f":                              "leads nowhere",
		"loop/f":                                 "too many",
		strings.Repeat("n", 256):                 "too long",
		"new/" + strings.Repeat("n", 256) + "/f": "too long",
		strings.Repeat("d/", 3000) + "f":         "too long",
	} {
		for _, dry := range []bool{true, false} {
			s := openStage(t, dir, Options{DryRun: dry})
			_, err := s.Put(name, []byte("x"), plain)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %v, want %q", name, err, want)
			}
			if _, again := s.Commit(); again == nil {
				t.Errorf("%q: committed all the same", name)
			}
			s.Close()
		}
	}
	same(t, before, tree(t, top))
}

// A user who names /dev/stdout does not want that link to be replaced with a file.
func TestLinkInDev(t *testing.T) {
	const link = "fd"
	if _, err := os.Readlink("/dev/" + link); err != nil {
		t.Skip(err)
	}
	s := openStage(t, "/dev", Options{DryRun: true})
	defer s.Close()
	if _, err := s.Put(link, []byte("x"), plain); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v", err)
	}
}

func TestNamesThatDoNotGoTogether(t *testing.T) {
	for _, pair := range [][2]string{{"a", "a"}, {"a", "a/b"}, {"a/b", "a"}, {"a", "a/b/c"}, {"a/b/c", "a"}} {
		s := openStage(t, t.TempDir(), Options{})
		put(t, s, pair[0], "")
		if _, err := s.Put(pair[1], nil, plain); err == nil {
			t.Errorf("%q: no error", pair)
		}
	}
}

// Links that have a file's name are replaced, and the files that they point to are not written.
func TestPlantedLinks(t *testing.T) {
	top := t.TempDir()
	dir, secret := filepath.Join(top, "d"), filepath.Join(top, "secret")
	write(t, top, Options{}, "secret", "d/inside/f")
	if err := errors.Join(
		os.Symlink(secret, dir+"/absolute"), os.Symlink("../secret", dir+"/relative"),
		os.Symlink("missing", dir+"/nowhere"), os.Link(secret, dir+"/hard"), os.Symlink("inside", dir+"/within"),
	); err != nil {
		t.Fatal(err)
	}
	s := openStage(t, dir, Options{})
	for _, name := range []string{"absolute", "relative", "nowhere", "hard"} {
		if _, _, err := s.Old(name); name != "hard" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: there is an old content: %v", name, err)
		}
		if c := put(t, s, name, "mine"); c.Kind != Changed {
			t.Errorf("%s is %v", name, c)
		}
	}
	put(t, s, "within/g", "mine") // a link that stays inside is followed
	commitAll(t, s)
	want := map[string]string{
		"secret": "-rw-r--r-- content of secret", "d": "drwxr-xr-x", "d/inside": "drwxr-xr-x",
		"d/inside/f": "-rw-r--r-- content of d/inside/f", "d/inside/g": "-rw-r--r-- mine", "d/within": "Lrwxrwxrwx inside",
		"d/absolute": "-rw-r--r-- mine", "d/relative": "-rw-r--r-- mine", "d/nowhere": "-rw-r--r-- mine", "d/hard": "-rw-r--r-- mine",
	}
	same(t, want, tree(t, top))
}

// What a killed stage left goes, even if nothing else is to be done; what belongs to a living one stays.
func TestSweepAreas(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "d/sub")
	write(t, dir, Options{}, "f")
	before := tree(t, top)
	for _, at := range []string{top, filepath.Dir(dir), dir} { // those above: it made the directory
		s := openStage(t, at, Options{})
		put(t, s, "x", "x")
		for _, a := range s.areas {
			a.lock.Close() // as the kernel does for the dead
		}
	}
	for _, name := range []string{"made", "half"} {
		if err := os.Mkdir(filepath.Join(dir, areaPrefix+name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, areaPrefix+"half", lockName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := len(tree(t, top)); n == len(before) {
		t.Fatal("nothing was left")
	}
	write(t, dir, Options{}, "f")
	same(t, before, tree(t, top))

	living := openStage(t, dir, Options{})
	put(t, living, "f", "new")
	write(t, dir, Options{}, "f")
	if got := commitAll(t, living); got != "f changed" {
		t.Errorf("done %s", got)
	}
}

// Whatever stages do at once, all of them end well, and each file is one of theirs.
func TestStagesAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new/d")
	const writers, files = 4, 20
	text := func(writer, file int) string { return strings.Repeat(fmt.Sprint(writer, " ", file, "\n"), 100) }
	for range 5 {
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				s, err := Open(dir, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				var puts sync.WaitGroup
				for p := range 2 {
					puts.Go(func() {
						for i := p; i < files; i += 2 {
							if _, err := s.Put(fmt.Sprintf("sub%d/f%d", i%3, i), []byte(text(w, i)), plain); err != nil {
								t.Error(err)
							}
						}
					})
				}
				puts.Wait()
				if _, err := s.Commit(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		got := tree(t, dir)
		if len(got) != files+3 {
			t.Errorf("there are %q", slices.Sorted(maps.Keys(got)))
		}
		for i := range files {
			content := strings.TrimPrefix(got[fmt.Sprintf("sub%d/f%d", i%3, i)], "-rw-r--r-- ")
			if !slices.ContainsFunc([]int{0, 1, 2, 3}, func(w int) bool { return content == text(w, i) }) {
				t.Errorf("file %d is %.40q", i, content)
			}
		}
	}
}

// A new file gets the group of a directory with the set-group-ID bit, which is how
// the fsGroup of a Pod works; so do new directories.
func TestSetGroupID(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to give files away")
	}
	dir := t.TempDir()
	write(t, dir, Options{}, "sub/f")
	const group = 4321
	if err := errors.Join(os.Chown(dir+"/sub", -1, group), os.Chmod(dir+"/sub", 0o755|fs.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	write(t, dir, Options{}, "sub/g", "sub/new/h")
	for _, name := range []string{"sub/g", "sub/new", "sub/new/h"} {
		if s := lstatFile(t, filepath.Join(dir, name)); s.Gid != group {
			t.Errorf("%s has group %d", name, s.Gid)
		}
	}
	if s := lstatFile(t, dir+"/sub/new"); s.Mode&0o7777 != 0o2755 {
		t.Errorf("the new directory has mode %o", s.Mode)
	}
}

func TestOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to give files away")
	}
	dir := filepath.Join(t.TempDir(), "new")
	for range 2 {
		s := openStage(t, dir, Options{})
		_, err := s.PutLink("sub/a", "f") // which says nothing of the directory's owner
		if _, fileErr := s.Put("sub/f", []byte("x"), Attr{0o640, 1234, 5678}); err != nil || fileErr != nil {
			t.Fatal(err, fileErr)
		}
		commitAll(t, s)
		for _, name := range []string{".", "sub", "sub/f"} {
			if i := lstatFile(t, filepath.Join(dir, name)); i.Uid != 1234 || i.Gid != 5678 {
				t.Errorf("%s belongs to %d:%d", name, i.Uid, i.Gid)
			}
		}
	}
	me, mine := os.Geteuid(), os.Getegid()
	for _, c := range []struct {
		attr     Attr
		uid, gid int
	}{{Attr{0o640, 1234, -1}, 1234, mine}, {Attr{0o640, -1, 5678}, me, 5678}} {
		s, name := openStage(t, dir, Options{}), fmt.Sprintf("%d-%d/f", c.uid, c.gid)
		if _, err := s.Put(name, nil, c.attr); err != nil {
			t.Fatal(err)
		}
		commitAll(t, s)
		for _, name := range []string{filepath.Dir(name), name} {
			if i := lstatFile(t, filepath.Join(dir, name)); int(i.Uid) != c.uid || int(i.Gid) != c.gid {
				t.Errorf("%s belongs to %d:%d", name, i.Uid, i.Gid)
			}
		}
	}
	s := openStage(t, dir, Options{})
	for _, other := range []Attr{{0o640, 1, -1}, {0o640, -1, 1}, {0o600, -1, -1}} {
		if _, attr, err := s.Old("sub/f"); err != nil || attr != (Attr{0o640, 1234, 5678}) {
			t.Errorf("old attributes %v, %v", attr, err)
		}
		s := openStage(t, dir, Options{DryRun: true})
		if c, err := s.Put("sub/f", []byte("x"), other); err != nil || c.Kind != Changed {
			t.Errorf("%v: %v, %v", other, c, err)
		}
	}
}

// If there is no way to create all files, none is; if one cannot be replaced, the
// error tells how far it came, and the next run does the rest.
func TestCommitThatFails(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, Options{Prune: true}, "b", "d")
	before := tree(t, dir)
	stage := func() *Stage {
		s := openStage(t, dir, Options{Prune: true})
		for _, name := range []string{"a", "b", "c", "d", "new/e"} {
			put(t, s, name, "new")
		}
		return s
	}
	s := stage()
	if err := os.Mkdir(dir+"/c", 0o755); err != nil { // since it was Put
		t.Fatal(err)
	}
	if done, err := s.Commit(); err == nil || len(done) > 0 || !strings.Contains(err.Error(), dir+"/c") {
		t.Errorf("done %v, error %v", done, err)
	}
	os.Remove(dir + "/c")
	same(t, before, tree(t, dir))

	s = stage()
	if err := errors.Join(os.Remove(dir+"/d"), os.Mkdir(dir+"/d", 0o755)); err != nil {
		t.Fatal(err)
	}
	done, err := s.Commit()
	if err == nil || !strings.Contains(err.Error(), "4 of 5") || text(done) != "a created, b changed, c created, new/e created" {
		t.Errorf("done %s, error %v", text(done), err)
	}
	os.Remove(dir + "/d")
	s = stage()
	if got := commitAll(t, s); got != "d created" {
		t.Errorf("done %s", got)
	}
	for name, what := range tree(t, dir) {
		if strings.HasPrefix(name, areaPrefix) {
			t.Errorf("%s stays: %s", name, what)
		}
	}
}

func TestOld(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, Options{}, "f")
	s := openStage(t, dir, Options{DryRun: true})
	old, attr, err := s.Old("f")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if content, err := io.ReadAll(old); string(content) != "content of f" || attr.Mode != 0o644 || err != nil {
		t.Errorf("%q, %v, %v", content, attr, err)
	}
	for _, name := range []string{"g", "sub/g"} {
		if _, _, err := s.Old(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHolds compares a file with contents that differ in one byte or in their length.
func TestHolds(t *testing.T) {
	dir := t.TempDir()
	long := bytes.Repeat([]byte("0123456789"), 10_000) // several buffers
	if err := os.WriteFile(dir+"/f", long, 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStage(t, dir, Options{DryRun: true})
	middle := bytes.Clone(long)
	middle[40_000] = 'x'
	for name, content := range map[string][]byte{"the same": long, "a byte": middle, "shorter": long[:99_999], "longer": append(bytes.Clone(long), 'x'), "empty": nil} {
		if same, err := s.Holds("f", Bytes(content)); same != (name == "the same") || err != nil {
			t.Errorf("%s: %v, %v", name, same, err)
		}
	}
	if same, err := s.Holds("g", Bytes(nil)); same || err != nil {
		t.Errorf("a missing file: %v, %v", same, err)
	}
}

// stream is a content that counts how often it is opened and closed, and whose length is unknown.
type stream struct {
	content        string
	opened, closed int
	err            error // at the end
}

func (s *stream) open() (io.ReadCloser, int64, error) {
	s.opened++
	end := io.Reader(strings.NewReader(""))
	if s.err != nil {
		end = iotest.ErrReader(s.err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(s.content), end), closer(func() { s.closed++ })}, 0, nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

// TestPutFrom stages what is read from elsewhere: a new file, the same again, and another.
func TestPutFrom(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		content string
		want    Kind
	}{{"long", Created}, {"long", Unchanged}, {"other", Changed}, {"", Changed}, {"", Unchanged}} {
		s, from := openStage(t, dir, Options{}), stream{content: c.content}
		if got, err := s.PutFrom("f", from.open, plain); got.Kind != c.want || err != nil {
			t.Errorf("%q: %v, %v, want %s", c.content, got, err, c.want)
		}
		done, err := s.Commit()
		if size := int64(len(c.content)); err != nil || c.want != Unchanged && done[0].Size != size || c.want == Unchanged && len(done) > 0 {
			t.Errorf("%q: %+v, %v", c.content, done, err)
		}
		if got, err := os.ReadFile(dir + "/f"); string(got) != c.content || err != nil {
			t.Errorf("%q, %v, want %q", got, err, c.content)
		}
		if from.opened == 0 || from.opened != from.closed {
			t.Errorf("%q: opened %d times, closed %d times", c.content, from.opened, from.closed)
		}
		s.Close()
	}
	s, broken := openStage(t, dir, Options{}), stream{content: "half", err: io.ErrClosedPipe}
	if _, err := s.PutFrom("f", broken.open, plain); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v, want the error of the source", err)
	}
	s.Close()
	if got := tree(t, dir); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
}

// TestSteady syncs a file while it is written.
func TestSteady(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &steady{file: dirfd.FD(f.Fd()), dirty: mostDirty - 1}
	if n, err := s.Write([]byte("x")); n != 1 || s.dirty != mostDirty || err != nil {
		t.Errorf("%d, %d, %v", n, s.dirty, err)
	}
	if n, err := s.Write([]byte("y")); n != 1 || s.dirty != 1 || err != nil {
		t.Errorf("%d, %d, %v", n, s.dirty, err)
	}
}

// asUser runs do as a user who is not root. The thread with that identity ends with it.
func asUser(t *testing.T, do func()) {
	t.Helper()
	if os.Getuid() != 0 {
		do()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		const nobody = 65534
		_, _, e1 := syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0)
		_, _, e2 := syscall.RawSyscall(syscall.SYS_SETRESGID, nobody, nobody, nobody)
		_, _, e3 := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody)
		if e1|e2|e3 != 0 {
			t.Error(e1, e2, e3)
			return
		}
		do()
	}()
	<-done
}

// A directory that may not be written to, with a file that may: in place. With none of them, an error that says so.
func TestOthersDirectory(t *testing.T) {
	top := t.TempDir()
	if err := os.Chmod(filepath.Dir(top), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "d")
	write(t, dir, Options{}, "mine", "others", "sub/x")
	if err := errors.Join(os.Chmod(dir+"/mine", 0o646), os.Chmod(dir+"/others", 0o444), os.Chmod(dir+"/sub", 0o757), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	asUser(t, func() {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Error(err)
			return
		}
		defer s.Close()
		for name, attr := range map[string]Attr{"mine": {0o646, -1, -1}, "sub/x": plain, "sub/y": plain} {
			if _, err := s.Put(name, []byte("new"), attr); err != nil {
				t.Error(err)
			}
		}
		if done, err := s.Commit(); err != nil || text(done) != "mine changed in place, sub/x changed, sub/y created" {
			t.Errorf("done %v, error %v", done, err)
		}
		for _, name := range []string{"others", "missing", "new/missing"} {
			s, err := Open(dir, Options{DryRun: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if _, err := s.Put(name, []byte("new"), plain); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%s: error %v", name, err)
			}
		}
	})
	for name := range tree(t, dir) {
		if strings.Contains(name, areaPrefix) {
			t.Errorf("%s stays", name)
		}
	}
}

func BenchmarkStage(b *testing.B) {
	const files = 10_000
	content := []byte(strings.Repeat("0123456789", 100))
	run := func(b *testing.B, dir string) {
		s, err := Open(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		var workers sync.WaitGroup
		n := runtime.GOMAXPROCS(0)
		for w := range n {
			workers.Go(func() {
				for i := w; i < files; i += n {
					if _, err := s.Put(fmt.Sprintf("sub%d/f%d", i%100, i), content, plain); err != nil {
						b.Error(err)
					}
				}
			})
		}
		workers.Wait()
		if _, err := s.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("first", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			run(b, filepath.Join(b.TempDir(), fmt.Sprint(i)))
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		dir := b.TempDir()
		run(b, dir)
		for b.Loop() {
			run(b, dir)
		}
	})
}

// stranger is the ID of a user that only root can make the owner of a file.
const stranger = 12345678

// A file whose owner cannot be set is not put in place.
func TestOwnerIsRefused(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	dir := t.TempDir()
	write(t, dir, Options{}, "f")
	before := tree(t, dir)
	theirs := Attr{0o644, stranger, -1}
	s := openStage(t, dir, Options{})
	if _, err := s.Put("g", nil, theirs); err == nil || !strings.Contains(err.Error(), "change its owner") {
		t.Errorf("error %v", err)
	}
	s.Close()
	s = openStage(t, dir, Options{})
	a, err := s.area(".")
	if err != nil {
		t.Fatal(err)
	}
	home, err := openDir(s.home, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if err := a.place(Bytes(nil), theirs, home, "g"); err == nil || !strings.Contains(err.Error(), "change its owner") {
		t.Errorf("error %v", err)
	}
	s.Close()
	same(t, before, tree(t, dir))
}

func TestGroupIsOurs(t *testing.T) {
	if !groupIsOurs(os.Getegid()) {
		t.Error("not the process's own group")
	}
	if got, root := groupIsOurs(stranger), os.Geteuid() == 0; got != root {
		t.Errorf("another group: %v, root: %v", got, root)
	}
}

// In a directory that cannot be written to, files are written in place, or not at all; in one below it they are
// replaced.
func TestUnwritableDirectory(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	dir := t.TempDir()
	write(t, dir, Options{}, "f", "sub/f", "gone/f")
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	s := openStage(t, dir, Options{})
	put(t, s, "f", "new")
	put(t, s, "sub/f", "new")
	put(t, s, "sub/new/f", "new")
	if got, want := commitAll(t, s), "f changed in place, sub/f changed, sub/new/f created"; got != want {
		t.Errorf("done %s, want %s", got, want)
	}
	before := tree(t, dir)
	s = openStage(t, dir, Options{})
	if _, err := s.Put("f", []byte("newer"), Attr{0o644, stranger, -1}); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Commit(); err == nil || !strings.Contains(err.Error(), "change its owner") || len(done) > 0 {
		t.Errorf("done %s, error %v", text(done), err)
	}
	same(t, before, tree(t, dir))
}

// The error for a directory that cannot be read says so.
func TestUnreadableDirectory(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if s, err := Open(dir, Options{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, error %v", s, err)
	}
	if s, err := OpenVersion(filepath.Join(dir, "conf"), Options{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v, error %v", s, err)
	}
}

// An error of the disk while a file is compared is reported.
func TestCompareFails(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, Options{}, "sub/f")
	s := openStage(t, dir, Options{})
	home, err := openDir(s.home, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	p := present{Info: dirfd.Info{Mode: unix.S_IFREG | 0o644, Size: 3}, dir: home, base: "sub"} // which cannot be read
	if kind, err := p.compare(&change{attr: plain}, Bytes([]byte("new"))); !errors.Is(err, unix.EISDIR) {
		t.Errorf("%q, error %v", kind, err)
	}
}

// A file that cannot be read, and so not compared, is replaced.
func TestUnreadableFile(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	secret := Attr{0o200, -1, -1}
	dir := t.TempDir()
	for range 2 {
		s := openStage(t, dir, Options{})
		if _, err := s.Put("f", []byte("same"), secret); err != nil {
			t.Fatal(err)
		}
		if got := commitAll(t, s); got == "" {
			t.Error("an unreadable file is said to be unchanged")
		}
	}
}

// If a file cannot be written in place, those before it get their old modes back.
func TestModeInPlaceIsRestored(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	dir := t.TempDir()
	write(t, dir, Options{}, "f", "g")
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	s := openStage(t, dir, Options{})
	if _, err := s.Put("f", []byte("secret"), Attr{0o600, -1, -1}); err != nil {
		t.Fatal(err)
	}
	put(t, s, "g", "new")
	if err := os.Chmod(dir+"/g", 0o444); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	if done, err := s.Commit(); !errors.Is(err, fs.ErrPermission) || len(done) > 0 {
		t.Errorf("done %s, error %v", text(done), err)
	}
	same(t, before, tree(t, dir))
}

// An error of the disk while a file is written in place is reported.
func TestWriteInPlaceFails(t *testing.T) {
	s := openStage(t, t.TempDir(), Options{})
	f, err := os.Open(os.DevNull) // for reading
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := &commit{Stage: s, overwrites: []*overwrite{{change: &change{Change: Change{Name: "f"}}, file: f, from: io.NopCloser(strings.NewReader("x"))}}}
	if err := c.overwrite(); !errors.Is(err, unix.EBADF) || len(c.done) > 0 {
		t.Errorf("done %s, error %v", text(c.done), err)
	}
	a, err := s.area(".")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.content("gone")(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a staged file that is gone: %v", err)
	}
}

// A directory that is removed before its files are put in place is made again; if that fails, the error says why.
func TestDirectoryIsRemoved(t *testing.T) {
	if servers.RanAsUser(t) {
		return
	}
	for _, mode := range []fs.FileMode{0o755, 0o555} {
		top := t.TempDir()
		write(t, top, Options{}, "a/sub/f")
		s := openStage(t, top, Options{})
		put(t, s, "a/sub/g", "new")
		if err := errors.Join(os.RemoveAll(top+"/a/sub"), os.Chmod(top+"/a", mode)); err != nil {
			t.Fatal(err)
		}
		done, err := s.Commit()
		if mode == 0o755 && (err != nil || text(done) != "a/sub/g created") {
			t.Errorf("done %s, error %v", text(done), err)
		}
		if mode == 0o555 && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("done %s, error %v, want that a cannot be written to", text(done), err)
		}
		os.Chmod(top+"/a", 0o755)
	}
}

// Names that lead elsewhere are not looked up, and a directory that is gone has no room for files.
func TestNothingToRead(t *testing.T) {
	dir := t.TempDir()
	s := openStage(t, dir, Options{})
	for _, name := range []string{".", "../x", "/x", ""} {
		if _, _, err := s.Old(name); err == nil || !strings.HasSuffix(err.Error(), "not a name below the directory") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put("f", nil, plain); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is gone: %v", err)
	}
}

// A file where a directory is to be made is found when the first is made.
func TestFileInTheWay(t *testing.T) {
	top := t.TempDir()
	s := openStage(t, top+"/x/y", Options{})
	put(t, s, "f", "new")
	write(t, top, Options{}, "x")
	done, err := s.Commit()
	var p *fs.PathError
	if !errors.As(err, &p) || p.Op != "mkdir" || p.Err != unix.ENOTDIR || len(done) > 0 {
		t.Errorf("done %s, error %v", text(done), err)
	}
}

// Without a working directory, a relative path leads nowhere.
func TestNoWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func(string, Options) (*Stage, error){Open, OpenVersion} {
		if s, err := open("d", Options{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, error %v", s, err)
		}
	}
}

// A file that is gone before it is synced is an error.
func TestSyncOfMissingFile(t *testing.T) {
	s := openStage(t, t.TempDir(), Options{})
	a, err := s.area(".")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.sync([]string{"gone"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	put(t, s, "f", "new")
	if err := dirfd.Remove(a.dir, s.changes[0].staged); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(); err == nil || !strings.HasPrefix(err.Error(), "sync the files for ") {
		t.Error(err)
	}
}

// An area or a directory that another process has removed is reported as missing.
func TestAreaIsRemoved(t *testing.T) {
	s := openStage(t, t.TempDir(), Options{})
	home, err := openDir(s.home, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if err := (&area{parent: home, name: "gone"}).open(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.MkdirAll(filepath.Join(s.base, "other", lockName), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (&area{parent: home, name: "other"}).open(); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if err := within(s.home, "gone", syncDir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// The list of files cannot be written to a directory that is gone.
func TestListHasNoDirectory(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, Options{}, "f")
	s := openStage(t, dir, Options{Prune: true})
	put(t, s, "f", "content of f")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if done, err := s.Commit(); !errors.Is(err, fs.ErrNotExist) || len(done) > 0 {
		t.Errorf("done %s, error %v", text(done), err)
	}
}

// A dry run removes nothing, not even what a killed stage has left.
func TestDryRunSweepsNothing(t *testing.T) {
	dir := t.TempDir()
	name := areaPrefix + strings.Repeat("x", idLength)
	left := []string{filepath.Join(dir, name), filepath.Join(dir, "sub", name)}
	for _, name := range left {
		if err := os.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dry := range []bool{true, false} {
		s := openStage(t, dir, Options{DryRun: dry})
		put(t, s, "sub/f", "new")
		for _, name := range left {
			if _, err := os.Stat(name); (err == nil) != dry {
				t.Errorf("dry run %v: %v", dry, err)
			}
		}
	}
}

// A directory that another process makes meanwhile is left as it is.
func TestDirectoryIsMadeMeanwhile(t *testing.T) {
	dir := t.TempDir()
	s := openStage(t, dir, Options{})
	put(t, s, "sub/f", "new")
	if err := os.Mkdir(dir+"/sub", 0o700); err != nil {
		t.Fatal(err)
	}
	commitAll(t, s)
	if i, err := os.Stat(dir + "/sub"); err != nil || i.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
}

// A staged file that is gone before it is put in place is an error, for a new and for a changed file.
func TestStagedFileIsGone(t *testing.T) {
	for _, kind := range []Kind{Created, Changed} {
		s := openStage(t, t.TempDir(), Options{})
		put(t, s, "f", "new")
		ch := s.changes[0]
		ch.Kind = kind
		if err := dirfd.Remove(ch.area.dir, ch.staged); err != nil {
			t.Fatal(err)
		}
		c := &commit{Stage: s, root: s.home, touched: map[string]bool{}}
		step := map[Kind]func() error{Created: c.create, Changed: c.replace}[kind]
		if err := step(); !errors.Is(err, fs.ErrNotExist) || len(c.done) > 0 {
			t.Errorf("%s: done %s, error %v", kind, text(c.done), err)
		}
		c.close()
	}
}
