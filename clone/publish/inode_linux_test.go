package publish

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/test/servers"
)

// contentOf returns the digest of the files of a tree.
func contentOf(t *testing.T, what tree) string {
	var sum object.Content
	for name, content := range what {
		if strings.HasPrefix(name, ".git/") || filepath.Base(name) == ".git" || strings.HasPrefix(content, "-> ") || strings.HasSuffix(name, "/") {
			continue
		}
		id, err := object.NewHasher().Of(plumbing.BlobObject, []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(name, id)
	}
	return sum.String()
}

// touchInodes changes the time of the inode of each file, as the kubelet does for fsGroup.
func touchInodes(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir+"/", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return changeInode(name, info)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// changeInode changes the mode of a file and puts it back, until the time of its inode is later than now: the clock of
// a file system is a few milliseconds late.
func changeInode(name string, before fs.FileInfo) error {
	for start := time.Now(); ; {
		if err := os.Chmod(name, before.Mode()^0o020); err != nil {
			return err
		}
		if err := os.Chmod(name, before.Mode()); err != nil {
			return err
		}
		after, err := os.Stat(name)
		if err != nil || time.Unix(stat(after).Ctim.Unix()).After(start) {
			return err
		}
	}
}

// A changed inode is no change of the tree, unless the content has changed, too. That is looked at once.
func TestInodes(t *testing.T) {
	what := withGit1.with(tree{"sub/.git": "gitdir: ../.git/modules/sub", "large": strings.Repeat("1", 300<<10), "buffer": strings.Repeat("1", 256<<10)})
	for _, place := range []string{"directory", "volume", "link", "without .git"} {
		t.Run(place, func(t *testing.T) {
			var log bytes.Buffer
			top := t.TempDir()
			o := Options{Dir: filepath.Join(top, "app"), Log: slog.New(slog.NewTextHandler(&log, nil))}
			what := what
			switch place {
			case "volume":
				servers.Tmpfs(t, o.Dir, "size=1m")
			case "link":
				o.Link = "current"
			case "without .git":
				what = bare1
			}
			target, s := staged(t, o, what)
			if err := target.Publish(t.Context(), s, Marker{SHA: sha1, Content: contentOf(t, what)}); err != nil {
				t.Fatal(err)
			}
			target.Close()
			dir := filepath.Join(o.Dir, o.Link)
			compared := func(want bool) {
				t.Helper()
				log.Reset()
				if got := current(t, o); got != sha1 {
					t.Fatalf("current %q: %s", got, &log)
				}
				if got := strings.Contains(log.String(), "comparing the content of"); got != want {
					t.Errorf("the content was compared: %v; %s", got, &log)
				}
			}
			compared(false)
			touchInodes(t, dir)
			compared(true)
			compared(false)
			tree{"sub/b": "2"}.rewrite(t, dir)
			log.Reset()
			if got := current(t, o); got != "" || !strings.Contains(log.String(), "a file was written, and its time put back, perhaps sub/b") {
				t.Errorf("current %q: %s", got, &log)
			}
			tree{"sub/b": "1"}.rewrite(t, dir)
			compared(true)
		})
	}
}

// rewrite writes files that exist, and puts their times back.
func (t tree) rewrite(tb testing.TB, dir string) {
	tb.Helper()
	for name, content := range t {
		name = filepath.Join(dir, name)
		before, err := os.Stat(name)
		if err == nil {
			err = os.WriteFile(name, []byte(content), 0o644)
		}
		if err == nil {
			err = changeInode(name, before)
		}
		if err == nil {
			err = os.Chtimes(name, before.ModTime(), before.ModTime())
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// An index of git that is lost or damaged is noticed; what git writes to it is not.
func TestIndex(t *testing.T) {
	index := "DIRC" + strings.Repeat("\x00", 60)
	for content, want := range map[string]string{
		index: sha1, "DIRC" + strings.Repeat("x", 28): sha1, "DIRC" + strings.Repeat("x", 27): "", "": "", strings.Repeat("\x00", 64): "",
	} {
		for _, name := range []string{".git/index", ".git/modules/x/y/index"} {
			o := Options{Dir: filepath.Join(t.TempDir(), "app")}
			put(t, o, sha1, withModules.with(tree{".git/index": index, ".git/modules/x/y/index": index}))
			if err := os.WriteFile(filepath.Join(o.Dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			if got := current(t, o); got != want {
				t.Errorf("%s with %d bytes: current %q", name, len(content), got)
			}
			os.Remove(filepath.Join(o.Dir, name))
			if reason := reasonFor(t, o); reason != name+" is missing or damaged" {
				t.Errorf("%s removed: %q", name, reason)
			}
		}
	}
	o := Options{Dir: filepath.Join(t.TempDir(), "app"), GitDir: filepath.Join(t.TempDir(), "git")}
	target, s := staged(t, o, bare1)
	tree{"HEAD": "1", "index": index, "objects/pack/pack-1.pack": "p"}.write(t, s.Git)
	if err := target.Publish(t.Context(), s, Marker{SHA: sha1}); err != nil {
		t.Fatal(err)
	}
	target.Close()
	os.Remove(filepath.Join(o.GitDir, "index"))
	o.Replace = true
	if reason := reasonFor(t, o); reason != "index is missing or damaged" {
		t.Errorf("without the index of GitDir: %q", reason)
	}
}
