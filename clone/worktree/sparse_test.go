package worktree

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

// TestSparse compares with git sparse-checkout, in both of its modes: what is
// there, what the index says, and the file that tells Git of it.
func TestSparse(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	id := strings.Repeat("12", 20)
	files := []file{{"120000", "link", "dir/a"}, {"120000", "dir/link", "a"}, {"160000", "module", id}, {"160000", "dir/module", id}}
	for _, path := range []string{
		"README", "#x", "-rf", "d ", "not utf-8 \xff", "dir/a", "same/1", "deep/deep/deep/1", "many/3/file 1", "many/3/file 10", "many/4/file 2", "many/4/file 11",
		"a/1", "a/b/1", "a/b/c/1", "a/b/c/d/1", "a/bc/1", "a/x/b/1", "b/a/1", "b*/1", "x?[y]/z/1", "b\\s/1/2", "z.o", "a/z.o", "a/b/z.o",
	} {
		files = append(files, file{"100644", path, path})
	}
	repo := repository(t, files)
	packed, top := revision(t, repo, "main")
	for _, test := range []struct {
		cone  bool
		lines []string
	}{
		{true, nil},
		{true, []string{"a/b"}},
		{true, []string{"a/b", "a/b/c", "dir"}},
		{true, []string{"/a/b/c/", "same", "not there", "deep/deep"}},
		{true, []string{"b*", "x?[y]/z", `b\s`}},
		{true, []string{"module", "dir/module"}},
		{true, []string{"a", "README"}},
		{false, []string{"/*", "!/a", "/a/b"}},
		{false, []string{"a/b", "", "# comment", `\#x`}},
		{false, []string{"*.o", "!a/*.o"}},
		{false, []string{"b/", "!c/", "a/**/1"}},
		{false, []string{"**/b/c", "dir/", "!dir/a"}},
		{false, []string{"/*", "!module", "!dir/module/", "!*.o"}},
		{false, []string{"!/*"}},
		{false, []string{"1", "!a/b/*", "d "}},
		{false, []string{`b\*/1`, "[a-m]*/", "!/a/*/", "/link", "*\xff*"}},
		{false, []string{"same/**", "many/*/file 1[0-9]*", "!many/3"}},
	} {
		t.Run(fmt.Sprint(test.cone, test.lines), func(t *testing.T) {
			t.Parallel()
			sparse, mode := Patterns, "--no-cone"
			if test.cone {
				sparse, mode = Cone, "--cone"
			}
			s, err := sparse(test.lines)
			if err != nil {
				t.Fatal(err)
			}
			his := checkout(t, repo, "--no-checkout")
			set := []string{"sparse-checkout", "set", mode, "--skip-checks", "--stdin"}
			git(t, his, strings.NewReader(strings.Join(test.lines, "\n")), set...)
			git(t, his, nil, "checkout", "-q", "main")

			w, err := place(t, Options{Stat: true, Sparse: s}, packed, top)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "placed", w.Dir.Name(), his)
			index := []string{"ls-files", "--stage", "-t", "-z"}
			want := git(t, his, nil, index...)
			if test.cone {
				content, err := os.ReadFile(filepath.Join(his, ".git/info/sparse-checkout"))
				if err != nil || s.File() != string(content) {
					t.Errorf("the file has\n%s\nwant\n%s (%v)", s.File(), content, err)
				}
			}
			judge(t, w, repo)
			if got := git(t, w.Dir.Name(), nil, index...); got != want {
				t.Errorf("the index has\n%q\nwant\n%q", got, want)
			}
			// With the file that we write, Git has nothing to change.
			git(t, w.Dir.Name(), nil, "config", "core.sparseCheckout", "true")
			git(t, w.Dir.Name(), nil, "config", "core.sparseCheckoutCone", fmt.Sprint(test.cone))
			if err := os.MkdirAll(filepath.Join(w.Dir.Name(), ".git/info"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(w.Dir.Name(), ".git/info/sparse-checkout"), []byte(s.File()), 0o644); err != nil {
				t.Fatal(err)
			}
			git(t, w.Dir.Name(), nil, "sparse-checkout", "reapply")
			same(t, "after git sparse-checkout reapply", w.Dir.Name(), his)

			// Without an index, the same is placed.
			bare, err := place(t, Options{Sparse: s}, packed, top)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "without an index", bare.Dir.Name(), his)
		})
	}
}
