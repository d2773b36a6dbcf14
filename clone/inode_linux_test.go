package clone_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"initbox/clone"
	"initbox/test/servers"
)

// A directory whose inodes have changed, as the kubelet's for fsGroup, is compared with what was cloned, once, and not
// written again: files as in the repository, converted ones, those of submodules and of a part of the tree.
func TestInodes(t *testing.T) {
	t.Parallel()
	skipIfShort(t)
	dir := t.TempDir()
	module := newRepository(t, filepath.Join(dir, "module"))
	put(t, module, "sub/file", "module\n")
	commit(t, module, "first")
	origin := newRepository(t, filepath.Join(dir, "origin"))
	put(t, origin, ".gitattributes", "*.txt eol=crlf\n*.id ident\n")
	put(t, origin, "a.txt", "one\ntwo\n")
	put(t, origin, "a.id", "$Id$\n")
	put(t, origin, "docs/file", strings.Repeat("x", 300<<10))
	put(t, origin, "empty", "")
	os.Symlink("docs/file", filepath.Join(origin, "link"))
	git(t, origin, "submodule", "--quiet", "add", "../module", "inner/module")
	commit(t, origin, "first")
	at := servers.StartGit(t, dir, servers.GitOptions{}).URL + "/origin"
	for name, o := range map[string]clone.Options{
		"all":       {Submodules: clone.SubmodulesRecursive},
		"part":      {Sparse: []string{"docs"}},
		"subdir":    {Subdir: "docs", GitDir: clone.GitRemove},
		"elsewhere": {GitDir: filepath.Join(dir, "git"), Submodules: clone.SubmodulesRecursive},
		"link":      {Link: "current"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			o.URL, o.Dir, o.Depth, o.Log = at, filepath.Join(t.TempDir(), "app"), 1, slog.New(slog.NewTextHandler(&log, nil))
			again := func(changed, compared bool) {
				t.Helper()
				log.Reset()
				result, err := clone.Run(t.Context(), o)
				if err != nil || result.Changed != changed || strings.Contains(log.String(), "comparing the content") != compared {
					t.Fatalf("changed %t, %v: %s", result.Changed, err, &log)
				}
			}
			again(true, false)
			again(false, false)
			tree := filepath.Join(o.Dir, o.Link)
			touch := func(name string) {
				for start := time.Now(); ; { // the clock of a file system is a few milliseconds late
					if err := os.Chmod(name, 0o664); err != nil {
						t.Fatal(err)
					}
					if info, err := os.Stat(name); err != nil || inodeTime(info).After(start) {
						return
					}
				}
			}
			err := filepath.WalkDir(tree+"/", func(name string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					touch(name)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			again(false, true)
			again(false, false)

			file := filepath.Join(tree, "docs/file")
			if o.Subdir != "" {
				file = filepath.Join(tree, "file")
			}
			before, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(strings.Repeat("y", int(before.Size()))), 0o644); err != nil {
				t.Fatal(err)
			}
			touch(file)
			if err := os.Chtimes(file, before.ModTime(), before.ModTime()); err != nil {
				t.Fatal(err)
			}
			again(true, true)
			if content, err := os.ReadFile(file); err != nil || content[0] != 'x' {
				t.Errorf("the file begins with %q, %v", content[:1], err)
			}
			again(false, false)
			if index := filepath.Join(tree, ".git/index"); o.GitDir == "" {
				if err := os.Truncate(index, 0); err != nil {
					t.Fatal(err)
				}
				again(true, false)
				if status := git(t, tree, "status", "--porcelain"); status != "" {
					t.Errorf("git status: %s", status)
				}
			}
		})
	}
}

// inodeTime returns when the inode of a file was changed.
func inodeTime(info fs.FileInfo) time.Time {
	return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix())
}
