package lfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFilter compares with the files that git-lfs would fetch with the same patterns.
func TestFilter(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	files := []string{"a.bin", "b.bin", "dir/a.bin", "dir/sub/a.bin", "dir/sub/c.bin", "other/dir/d.bin", "other/x.bin"}
	dir := lfsRepo(t, nil)
	for _, name := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitLFS(t, dir, "add", "-A")
	gitLFS(t, dir, "commit", "-q", "-m", "more")
	for _, tt := range [][2]string{
		{"", ""}, {"a.bin", ""}, {"*.bin", "b.bin"}, {"dir", ""}, {"dir/", ""}, {"/dir", ""}, {"/dir/", ""}, {"dir/*", ""}, {"dir/**", "dir/sub/c.bin"}, {"**/dir", ""}, {"", "dir"}, {"", "sub"},
		{"", "dir/sub"}, {"/a.bin", ""}, {"dir/a.bin, other", "x.bin"}, {"", "*"}, {"", "/*"}, {"a.bin/", ""}, {"dir/*.bin", ""}, {"o?her", ""}, {"other/*/d.bin", ""}, {"nothing", ""},
	} {
		args := []string{"lfs", "ls-files", "--name-only"}
		if tt[0] != "" {
			args = append(args, "-I", tt[0])
		}
		if tt[1] != "" {
			args = append(args, "-X", tt[1])
		}
		theirs := strings.Fields(gitLFS(t, dir, args...))
		f, err := ReadFilter([]byte("[lfs]\nfetchinclude = \"" + tt[0] + "\"\nfetchexclude = \"" + tt[1] + "\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		ours := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return !f.Wants(name) })
		slices.Sort(theirs)
		slices.Sort(ours)
		if !slices.Equal(ours, theirs) {
			t.Errorf("%q: %q, git-lfs has %q", tt, ours, theirs)
		}
	}
	if _, err := ReadFilter([]byte("[lfs")); err == nil {
		t.Error("no error")
	}
}
