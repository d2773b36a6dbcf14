package place

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/mounts"
	"initbox/test/servers"
	"initbox/test/soak"
)

// contents is what is in a directory: the content of files, links as "-> target", directories as "/".
type contents map[string]string

func (w contents) write(dir string) error {
	for name, content := range w {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if to, isLink := strings.CutPrefix(content, "-> "); err == nil && isLink {
			err = os.Symlink(to, path)
		} else if err == nil && content == "/" {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stage adds a part with the tree.
func (w contents) stage(p *Place) error {
	dir, err := p.Part(0)
	if err != nil {
		return err
	}
	return errors.Join(w.write(dir.Name()), p.Add(0), dir.Close())
}

func read(dir string) (contents, error) {
	all := contents{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
		if err != nil || name == "" {
			return err
		}
		content := []byte("/")
		if e.Type() == fs.ModeSymlink {
			var to string
			to, err = os.Readlink(path)
			content = []byte("-> " + to)
		} else if !e.IsDir() {
			content, err = os.ReadFile(path)
		}
		all[name] = string(content)
		return err
	})
	return all, err
}

func requireTree(t *testing.T, dir string, want contents) {
	t.Helper()
	got, err := read(dir)
	for name := range got {
		if strings.Contains(name, ".json") {
			delete(got, name)
		}
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s has\n%v, %v, want\n%v", dir, got, err, want)
	}
}

func mustOpen(t *testing.T, o Options) *Place {
	t.Helper()
	p, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// put publishes a tree, and returns the error.
func put(ctx context.Context, o Options, content contents, record string) (Summary, error) {
	p, err := Open(ctx, o)
	if err != nil {
		return Summary{}, err
	}
	defer p.Close()
	if err := content.stage(p); err != nil {
		return Summary{}, err
	}
	return p.Publish(ctx, json.RawMessage(record))
}

func mustPut(t *testing.T, o Options, content contents, want Summary) {
	t.Helper()
	if sum, err := put(t.Context(), o, content, `"r"`); err != nil || sum != want {
		t.Fatalf("%+v, %v, want %+v", sum, err, want)
	}
	if got := current(t, o); got != `"r"` {
		t.Fatalf("the record is %q", got)
	}
}

func current(t *testing.T, o Options) string {
	t.Helper()
	p := mustOpen(t, o)
	defer p.Close()
	return string(p.Record())
}

// Parts are merged, whatever their modes, unless a file is in two; one that is undone is not published.
func TestParts(t *testing.T) {
	o := Options{Dst: t.TempDir() + "/dst", Directory: true, Key: "k"}
	p := mustOpen(t, o)
	for number, content := range []contents{{"a/f": "1", "closed/f": "c"}, {"undone": "2"}, {"a/g": "3", "a/b/": "/"}, {"a/f": "twice"}} {
		dir, err := p.Part(number)
		if err == nil {
			err = errors.Join(content.write(dir.Name()), dir.Close())
		}
		if number == 0 && err == nil {
			err = os.Chmod(dir.Name()+"/closed", 0o555)
		}
		switch {
		case err == nil && number == 1:
			err = p.Undo(t.Context(), number)
		case err == nil && number == 3:
			if twice := p.Add(number); twice == nil || !strings.Contains(twice.Error(), "a/f is also in another download") {
				t.Error(twice)
			}
		case err == nil:
			err = p.Add(number)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Undo(t.Context(), 7); err != nil {
		t.Error(err)
	}
	if sum, err := p.Publish(t.Context(), json.RawMessage(`"r"`)); err != nil || sum != (Summary{Added: 3}) {
		t.Errorf("%+v, %v", sum, err)
	}
	requireTree(t, o.Dst, contents{"a": "/", "a/f": "1", "a/g": "3", "a/b": "/", "closed": "/", "closed/f": "c"})
}

// A file is replaced by rename, and left alone if it is the same.
func TestFile(t *testing.T) {
	top := t.TempDir()
	o := Options{Dst: top + "/new/app.jar"}
	p := mustOpen(t, o)
	if p.Record() != nil || p.Exists("") {
		t.Error("it exists")
	}
	p.Close()
	requireTree(t, top, contents{})
	mustPut(t, o, contents{"app.jar": "1"}, Summary{Added: 1})
	requireTree(t, top, contents{"new": "/", "new/app.jar": "1"})
	before := inode(t, o.Dst)
	mustPut(t, o, contents{"app.jar": "1"}, Summary{Same: 1})
	if inode(t, o.Dst) != before {
		t.Error("the same file was written again")
	}
	mustPut(t, o, contents{"app.jar": "2"}, Summary{Replaced: 1})
	o.NoOverwrite = true
	mustPut(t, o, contents{"app.jar": "3"}, Summary{Kept: 1})
	requireTree(t, top, contents{"new": "/", "new/app.jar": "2"})
	if _, err := put(t.Context(), Options{Dst: top + "/new/dir"}, contents{"dir": "/"}, `1`); err == nil {
		t.Error("a directory became a file")
	}
	for _, o := range []Options{{Dst: top + "/new"}, {Dst: top + "/new/app.jar/x"}, {Dst: top + "/new/app.jar", Directory: true}} {
		if _, err := put(t.Context(), o, contents{filepath.Base(o.Dst): "x"}, `1`); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	requireTree(t, top, contents{"new": "/", "new/app.jar": "2"})
}

func inode(t *testing.T, path string) [2]int64 {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Lstat(path, &s); err != nil {
		t.Fatal(err)
	}
	return [2]int64{int64(s.Ino), s.Ctim.Nano()}
}

// What was published and then changed is not vouched for. What the kubelet does for fsGroup is no change.
func TestRecord(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"written":      func(dir string) error { return os.WriteFile(dir+"/a/f", []byte("z"), 0o644) },
		"removed":      func(dir string) error { return os.Remove(dir + "/g") },
		"linked":       func(dir string) error { os.Remove(dir + "/l"); return os.Symlink("f", dir+"/l") },
		"executable":   func(dir string) error { return os.Chmod(dir+"/g", 0o755) },
		"replaced":     func(dir string) error { os.RemoveAll(dir + "/a"); return os.Symlink("/etc", dir+"/a") },
		"nothing":      nil,
		"for fsGroup":  func(dir string) error { return errors.Join(os.Chmod(dir+"/a", 0o2775), os.Chmod(dir+"/g", 0o664)) },
		"another file": func(dir string) error { return os.WriteFile(dir+"/other", nil, 0o644) },
	} {
		for _, replace := range []bool{false, true} {
			top := t.TempDir()
			o := Options{Dst: top + "/dst", Directory: true, Replace: replace, Key: "k"}
			mustPut(t, o, contents{"a/f": "f", "g": "g", "l": "-> g", "\xff\n": "name"}, Summary{Added: 4})
			time.Sleep(5 * time.Millisecond) // the clock of file systems is coarse
			if change != nil {
				if err := change(o.Dst); err != nil {
					t.Fatal(err)
				}
			}
			want := `"r"`
			if change != nil && name != "for fsGroup" && (replace || name != "another file") {
				want = ""
			}
			if got := current(t, o); got != want {
				t.Errorf("%s (replace: %t): the record is %q", name, replace, got)
			}
		}
	}
}

// A record is only good for the same key: another version may have an older date.
func TestOtherKey(t *testing.T) {
	for _, o := range []Options{{Dst: t.TempDir() + "/f"}, {Dst: t.TempDir() + "/d", Directory: true, Replace: true}} {
		o.Key = "one"
		content := contents{"f": "1"}
		mustPut(t, o, content, Summary{Added: 1})
		if current(t, o) == "" {
			t.Error("no record")
		}
		o.Key = "two"
		if got := current(t, o); got != "" {
			t.Errorf("%+v: the record of another key is %s", o, got)
		}
	}
}

// Entries are added to a directory that exists, and nothing else in it is touched.
func TestDirectory(t *testing.T) {
	top := t.TempDir()
	o := Options{Dst: top + "/dst", Directory: true, Key: "k"}
	if err := (contents{"theirs": "x", "sub/theirs": "y", "sub/both": "old", "link": "-> sub"}).write(o.Dst); err != nil {
		t.Fatal(err)
	}
	theirs := inode(t, o.Dst+"/theirs")
	mustPut(t, o, contents{"mine": "1", "sub/both": "new", "sub/new/deep": "2"}, Summary{Added: 2, Replaced: 1})
	both := contents{"theirs": "x", "sub": "/", "sub/theirs": "y", "sub/both": "new", "link": "-> sub", "mine": "1", "sub/new": "/", "sub/new/deep": "2"}
	requireTree(t, o.Dst, both)
	mustPut(t, o, contents{"mine": "1", "sub/both": "new", "sub/new/deep": "2"}, Summary{Same: 3})
	if inode(t, o.Dst+"/theirs") != theirs {
		t.Error("another file was touched")
	}
	for _, conflict := range []contents{{"a": "1", "sub": "file"}, {"a": "1", "theirs/below": "x"}, {"a": "1", "link/below": "x"}} {
		if _, err := put(t.Context(), o, conflict, `1`); err == nil || !strings.Contains(err.Error(), "exists and is not a") {
			t.Errorf("%v: %v", conflict, err)
		}
		requireTree(t, o.Dst, both)
	}
	if got := current(t, o); got != `"r"` {
		t.Errorf("after conflicts, the record is %q", got)
	}
	other := o
	other.Key, other.NoOverwrite = "other", true
	mustPut(t, other, contents{"mine": "other", "more": "m"}, Summary{Added: 1, Kept: 1})
	if got := current(t, o); got != `"r"` {
		t.Errorf("after another source, the record is %q", got)
	}
	both["more"] = "m"
	requireTree(t, o.Dst, both)
	if err := os.WriteFile(o.Dst+"/more", []byte("edited"), 0o644); err != nil || current(t, other) == "" {
		t.Errorf("a file that is not overwritten was edited, %v", err)
	}
	if err := os.Remove(o.Dst + "/more"); err != nil || current(t, other) != "" {
		t.Errorf("it was removed, %v", err)
	}
	if p := mustOpen(t, o); !p.Exists("sub/new/deep") || p.Exists("none") || p.Exists("link/theirs") || !p.Exists("") {
		t.Error("Exists is wrong")
	}
}

// With Replace, the directory has exactly the new content, at once; on a volume all but what is mounted in it.
func TestReplace(t *testing.T) {
	top := t.TempDir()
	volume := top + "/volume"
	servers.Tmpfs(t, volume, "size=10m")
	servers.Tmpfs(t, volume+"/mounted", "size=1m")
	for name, dst := range map[string]string{"directory": top + "/dst", "volume": volume} {
		t.Run(name, func(t *testing.T) {
			o := Options{Dst: dst, Directory: true, Replace: true, Key: "k"}
			if err := (contents{"old": "x", "sub/old": "y", "both/f": "1", "was": "file"}).write(dst); err != nil {
				t.Fatal(err)
			}
			want := contents{"both": "/", "both/f": "2", "new": "n", "was": "/", "was/directory": "f"}
			if name == "volume" {
				if err := (contents{"mounted/f": "m", "lost+found": "/"}).write(dst); err != nil {
					t.Fatal(err)
				}
				want["mounted"], want["mounted/f"], want["lost+found"] = "/", "m", "/"
			}
			fresh := contents{"both/f": "2", "new": "n", "was/directory": "f"}
			mustPut(t, o, fresh, Summary{Added: 2, Replaced: 1, Removed: 3})
			requireTree(t, dst, want)
			before := inode(t, dst+"/new")
			mustPut(t, o, fresh, Summary{Same: 3})
			if inode(t, dst+"/new") != before {
				t.Error("the same content was written again")
			}
		})
	}
	for _, dst := range []string{"/", "/etc", "/proc"} {
		if _, err := Open(t.Context(), Options{Dst: dst, Directory: true, Replace: true}); err == nil || !strings.Contains(err.Error(), "part of the system") {
			t.Errorf("%s: %v", dst, err)
		}
	}
	if _, err := put(t.Context(), Options{Dst: volume, Directory: true, Replace: true}, contents{"mounted/x": "x"}, `1`); err == nil {
		t.Error("a mount point was replaced")
	}
}

// A file that is a mount point is written in place, and the log says so.
func TestMountedFile(t *testing.T) {
	top := t.TempDir()
	if err := (contents{"source": "old content", "dir/f": ""}).write(top); err != nil {
		t.Fatal(err)
	}
	servers.Mount(t, top+"/source", top+"/dir/f", "", unix.MS_BIND, "")
	var log bytes.Buffer
	o := Options{Dst: top + "/dir/f", Log: slog.New(slog.NewTextHandler(&log, nil))}
	mustPut(t, o, contents{"f": "new"}, Summary{Replaced: 1})
	if !strings.Contains(log.String(), "written in place") {
		t.Errorf("log: %s", log.String())
	}
	requireTree(t, top, contents{"source": "new", "dir": "/", "dir/f": "new"})
	servers.Mount(t, top+"/dir", top+"/dir", "", unix.MS_BIND, "")
	servers.Mount(t, top+"/source", top+"/dir/f", "", unix.MS_BIND, "")
	if err := unix.Mount("", top+"/dir", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	mustPut(t, o, contents{"f": "in a read-only directory"}, Summary{Replaced: 1})
	requireTree(t, top, contents{"source": "in a read-only directory", "dir": "/", "dir/f": "in a read-only directory"})
}

// A volume that is read-only is fine if nothing has to be written.
func TestReadOnly(t *testing.T) {
	volume := t.TempDir() + "/volume"
	servers.Tmpfs(t, volume, "size=1m")
	o := Options{Dst: volume + "/f"}
	mustPut(t, o, contents{"f": "1"}, Summary{Added: 1})
	if err := unix.Mount("", volume, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	if got := current(t, o); got != `"r"` {
		t.Errorf("the record is %q", got)
	}
	if _, err := put(t.Context(), o, contents{"f": "2"}, `2`); !errors.Is(err, unix.EROFS) {
		t.Errorf("error %v", err)
	}
	requireTree(t, volume, contents{"f": "1"})
}

// A full disk changes nothing, and leaves nothing.
func TestFullDisk(t *testing.T) {
	volume := t.TempDir() + "/volume"
	servers.Tmpfs(t, volume, "size=100k")
	o := Options{Dst: volume, Directory: true, Key: "k"}
	mustPut(t, o, contents{"f": "1"}, Summary{Added: 1})
	if _, err := put(t.Context(), o, contents{"f": "2", "g": strings.Repeat("x", 200<<10)}, `2`); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v", err)
	}
	requireTree(t, volume, contents{"f": "1"})
	if got := current(t, o); got != `"r"` {
		t.Errorf("the record is %q", got)
	}
}

// Links in a volume are not followed, also if they are put there while a run works.
func TestLinks(t *testing.T) {
	volume, outside := servers.Volume(t)
	for _, o := range []Options{{Dst: volume + "/link/f"}, {Dst: volume + "/link", Directory: true}} {
		os.Remove(volume + "/link")
		if err := os.Symlink(outside, volume+"/link"); err != nil {
			t.Fatal(err)
		}
		if _, err := put(t.Context(), o, contents{filepath.Base(o.Dst): "x"}, `1`); !errors.As(err, new(*mounts.LinkError)) {
			t.Errorf("%s: %v", o.Dst, err)
		}
		os.Remove(volume + "/link")
		os.Mkdir(volume+"/link", 0o755)
		p := mustOpen(t, o)
		if err := (contents{filepath.Base(o.Dst): "x"}).stage(p); err != nil {
			t.Fatal(err)
		}
		os.Rename(volume+"/link", volume+"/moved")
		os.Symlink(outside, volume+"/link")
		p.Publish(t.Context(), json.RawMessage(`1`))
		p.Close()
		os.RemoveAll(volume + "/moved")
	}
	requireTree(t, outside, contents{})
	o := Options{Dst: volume + "/link/f", Follow: true}
	mustPut(t, o, contents{"f": "x"}, Summary{Added: 1})
	requireTree(t, outside, contents{"f": "x"})
}

// A dry run writes nothing, not even missing directories.
func TestDryRun(t *testing.T) {
	top := t.TempDir()
	for _, o := range []Options{{Dst: top + "/a/b/f", DryRun: true}, {Dst: top + "/a/b", Directory: true, DryRun: true}} {
		p := mustOpen(t, o)
		if _, err := p.Part(0); err == nil || p.Exists("") || p.Exists("x") || p.Record() != nil {
			t.Errorf("stage: %v", err)
		}
		p.Close()
	}
	requireTree(t, top, contents{})
}

// A run that finds nothing to do leaves no trace, not even in the time of a directory.
func TestNothingToDo(t *testing.T) {
	top := t.TempDir()
	file, directory := Options{Dst: top + "/f"}, Options{Dst: top + "/dst", Directory: true, Key: "k"}
	mustPut(t, file, contents{"f": "1"}, Summary{Added: 1})
	mustPut(t, directory, contents{"a": "1"}, Summary{Added: 1})
	before := inode(t, top)
	time.Sleep(5 * time.Millisecond) // the clock of file systems is coarse
	for _, o := range []Options{file, directory, {Dst: top + "/new"}} {
		current(t, o)
	}
	if inode(t, top) != before {
		t.Error("the directory was changed")
	}
}

// The second run waits for the first, and then finds what that has published.
func TestWaits(t *testing.T) {
	o := Options{Dst: t.TempDir() + "/f"}
	first := mustOpen(t, o)
	dir, err := first.Part(0)
	second := make(chan string)
	go func() {
		p, err := Open(context.Background(), o)
		if err != nil {
			second <- err.Error()
			return
		}
		defer p.Close()
		second <- string(p.Record())
	}()
	if err == nil {
		err = errors.Join((contents{"f": "x"}).write(dir.Name()), first.Add(0), dir.Close())
	}
	if err == nil {
		_, err = first.Publish(t.Context(), json.RawMessage(`"first"`))
	}
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	if got := <-second; got != `"first"` {
		t.Errorf("the second run has %s", got)
	}
}

// TestMain is, with $PLACE_DST, a run that publishes a generation.
func TestMain(m *testing.M) {
	if dst := os.Getenv("PLACE_DST"); dst != "" {
		how := os.Getenv("PLACE_HOW")
		o := Options{Dst: dst, Directory: how != "file", Replace: how == "replace", Key: "k"}
		generation := os.Getenv("PLACE_GENERATION")
		if how == "closed" {
			if err := putClosed(o); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			os.Exit(0)
		}
		if _, err := put(context.Background(), o, generationOf(how, generation), `"`+generation+`"`); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(servers.Main(m))
}

// putClosed publishes a directory that its owner may not write to.
func putClosed(o Options) error {
	if err := unix.Setuid(1000); err != nil {
		return err
	}
	p, err := Open(context.Background(), o)
	if err != nil {
		return err
	}
	defer p.Close()
	dir, err := p.Part(0)
	if err == nil {
		err = errors.Join((contents{"closed/f": "f"}).write(dir.Name()), os.Chmod(dir.Name()+"/closed", 0o555), p.Add(0), dir.Close())
	}
	if err == nil {
		_, err = p.Publish(context.Background(), json.RawMessage(`1`))
	}
	return err
}

// A directory that its owner may not write to is moved all the same, and keeps its mode.
func TestClosed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becomes another user")
	}
	top := t.TempDir()
	os.Chmod(filepath.Dir(top), 0o755)
	dst := top + "/dst"
	if err := errors.Join(os.Mkdir(dst, 0o755), os.Chown(dst, 1000, 1000), os.Chmod(top, 0o777)); err != nil {
		t.Fatal(err)
	}
	child := soak.Child("PLACE_DST="+dst, "PLACE_HOW=closed")
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if s, err := os.Stat(dst + "/closed"); err != nil || s.Mode().Perm() != 0o555 {
		t.Errorf("%v, %v", s, err)
	}
}

// generationOf has files that all hold their generation, and others that only it has.
func generationOf(how, generation string) contents {
	if how == "file" {
		return contents{"dst": strings.Repeat(generation, 100<<10)}
	}
	all := contents{"only" + generation: generation}
	for i := range 60 {
		all[fmt.Sprintf("d%d/f%d", i%7, i)] = generation
		all[fmt.Sprintf("f%d", i)] = generation
	}
	return all
}

// TestKilled kills runs at many moments. A file is old or new, and so is a directory that is replaced beside its
// parent. The next run leaves only its own content, whatever was begun; and what has a record is whole.
func TestKilled(t *testing.T) {
	servers.Slow(t)
	for _, how := range []string{"file", "replace", "merge", "replace in a volume", "merge in a volume"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			dst := top + "/dst"
			how, inVolume := strings.CutSuffix(how, " in a volume")
			if inVolume {
				servers.Tmpfs(t, dst, "size=20m")
			}
			o := Options{Dst: dst, Directory: how != "file", Replace: how == "replace", Key: "k"}
			run := func(generation string) time.Duration {
				start := time.Now()
				child := soak.Child("PLACE_DST="+dst, "PLACE_HOW="+how, "PLACE_GENERATION="+generation)
				if out, err := child.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				return time.Since(start)
			}
			whole := min(run("1"), run("2"))
			runs := 0
			for moment := range soak.Moments(t, 12) {
				generation, before := []string{"1", "2"}[runs%2], []string{"2", "1"}[runs%2]
				runs++
				child := soak.Child("PLACE_DST="+dst, "PLACE_HOW="+how, "PLACE_GENERATION="+generation)
				if err := child.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Duration(moment * float64(whole)))
				child.Process.Kill()
				child.Wait()
				if how == "file" || how == "replace" && !inVolume {
					requireWhole(t, dst, how, generation, before)
				}
				if record := strings.Trim(current(t, o), `"`); record != "" && (how != "merge" || record == generation) {
					requireWhole(t, dst, how, record, record)
				}
				run(generation)
				if got := current(t, o); got != `"`+generation+`"` {
					t.Fatalf("after the next run, the record is %q", got)
				}
				all, err := os.ReadDir(filepath.Dir(dst))
				if inVolume {
					all, err = os.ReadDir(dst)
				}
				for _, e := range all {
					if strings.Contains(e.Name(), mine) && !strings.HasSuffix(e.Name(), ".json") {
						t.Fatalf("%s is left, %v", e.Name(), err)
					}
				}
			}
		})
	}
}

// requireWhole fails unless the place has exactly one of the generations, or when merging, all of it.
func requireWhole(t *testing.T, dst, how string, generations ...string) {
	t.Helper()
	var all contents
	for _, generation := range generations {
		want := generationOf(how, generation)
		if how == "file" {
			content, err := os.ReadFile(dst)
			if all = (contents{"dst": string(content)}); err == nil && all["dst"] == want["dst"] {
				return
			}
			continue
		}
		got, err := read(dst)
		if all = got; err != nil {
			t.Fatal(err)
		}
		matching := 0
		for name, content := range got {
			if content == "/" || strings.Contains(name, mine) {
				continue
			}
			if want[name] == content {
				matching++
			} else if how == "replace" {
				matching -= 1000
			}
		}
		if matching == len(want) {
			return
		}
	}
	t.Fatalf("%v has neither of %v", len(all), generations)
}
