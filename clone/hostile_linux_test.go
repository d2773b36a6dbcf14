package clone_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone"
	"initbox/internal/poll"
	"initbox/test/servers"
)

// hostile is a repository made to write outside of the clone's directory.
type hostile struct {
	*testing.T
	repo string
}

func (h hostile) store(kind, content string) plumbing.Hash {
	h.Helper()
	out, err := tryGit(h.repo, []byte(content), "hash-object", "--literally", "-w", "--stdin", "-t", kind)
	if err != nil {
		h.Fatalf("git hash-object: %v\n%s", err, out)
	}
	return plumbing.NewHash(strings.TrimSpace(out))
}

func (h hostile) blob(content string) plumbing.Hash { return h.store("blob", content) }

func (h hostile) tree(lines ...string) plumbing.Hash {
	h.Helper()
	return h.store("tree", strings.Join(lines, ""))
}

// publish makes the branch main a commit of the tree, and returns its ID.
func (h hostile) publish(tree plumbing.Hash) string {
	h.Helper()
	commit, _ := commitOf(tree)
	sha := h.store("commit", commit).String()
	git(h, h.repo, "update-ref", "refs/heads/main", sha)
	return sha
}

// modules returns a tree with a submodule and a .gitmodules.
func (h hostile) modules(name, path, url string, more ...string) plumbing.Hash {
	content := fmt.Sprintf("[submodule %q]\n\tpath = %s\n\turl = %s\n%s", name, path, url, strings.Join(more, ""))
	file := line("100644", ".gitmodules", h.blob(content))
	commit := plumbing.NewHash(git(h, filepath.Join(filepath.Dir(h.repo), "module"), "rev-parse", "HEAD")[:40])
	return h.tree(file, line("160000", "module", commit))
}

// TestHostile clones repositories that git would never make. Either they are refused, and the old tree stays, or they
// are contained: nothing appears outside of the directory.
func TestHostile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	module := newRepository(t, filepath.Join(root, "module"))
	put(t, module, "inner", "inner")
	commit(t, module, "inner")
	at := serve(t, root)
	outside := filepath.Join(root, "outside")
	put(t, outside, "canary", "alive")

	one := func(mode, name string) func(h hostile) plumbing.Hash {
		return func(h hostile) plumbing.Hash {
			x := h.blob("x")
			if mode == "40000" {
				x = h.tree(line("100644", "x", x))
			}
			return h.tree(line(mode, name, x))
		}
	}
	hook := func(directory string) func(h hostile) plumbing.Hash { // DIR/hooks/post-checkout
		return func(h hostile) plumbing.Hash {
			hooks := h.tree(line("100755", "post-checkout", h.blob("#!/bin/sh\ntouch "+outside+"/hooked\n")))
			return h.tree(line("40000", directory, h.tree(line("40000", "hooks", hooks))))
		}
	}
	through := func(target string, order ...int) func(h hostile) plumbing.Hash { // a link, and a file in a directory of its name
		return func(h hostile) plumbing.Hash {
			lines := []string{line("120000", "a", h.blob(target)), line("40000", "a", h.tree(line("100644", "written", h.blob("x"))))}
			if len(order) > 0 {
				lines[0], lines[1] = lines[1], lines[0]
			}
			return h.tree(lines...)
		}
	}
	submodule := func(name, path, url string, more ...string) func(h hostile) plumbing.Hash {
		return func(h hostile) plumbing.Hash { return h.modules(name, path, url, more...) }
	}
	for name, test := range map[string]struct {
		make func(h hostile) plumbing.Hash
		want string // what is said; "" if it is cloned
		run  func(o *clone.Options)
	}{
		"dot git file":        {one("100644", ".git"), "has the name .git", nil},
		"dot git directory":   {hook(".git"), "has the name .git", nil},
		"dot GIT":             {hook(".GIT"), "has the name .GIT", nil},
		"short name":          {hook("git~1"), "has the name git~1", nil},
		"short NAME":          {hook("GIT~1"), "has the name GIT~1", nil},
		"ignored by HFS":      {hook(".g\u200cit"), `has the name .g\u200cit`, nil},
		"stream of NTFS":      {hook(".git::$INDEX_ALLOCATION"), "has the name .git::$INDEX_ALLOCATION", nil},
		"dot at end":          {hook(".git. . "), "has the name .git", nil},
		"backslash":           {one("100644", `a\.git\config`), `has the name a\.git\config`, nil},
		"parent":              {one("100644", ".."), "has the name ..", nil},
		"parent directory":    {one("40000", ".."), "has the name ..", nil},
		"self":                {one("40000", "."), "has the name .", nil},
		"absolute":            {one("100644", outside+"/written"), "has the name /", nil},
		"slash":               {one("100644", "a/b"), "has the name a/b", nil},
		"way out":             {one("100644", "../../written"), "has the name ../../written", nil},
		"link to outside":     {one("120000", "a"), "", nil},
		"through a link":      {through(outside), "a", nil},
		"through a link, too": {through(outside, 1), "a", nil},
		"through dots":        {through(".."), "a", nil},
		"twice": {func(h hostile) plumbing.Hash {
			x := h.blob("x")
			return h.tree(line("100644", "a", x), line("100644", "a", x))
		}, "a is a duplicate in its directory", nil},
		"not in order": {func(h hostile) plumbing.Hash {
			x := h.blob("x")
			return h.tree(line("100644", "b", x), line("100644", "a", x))
		}, "or not in Git's order", nil},
		"link to .git": {func(h hostile) plumbing.Hash {
			return h.tree(line("120000", "a", h.blob(".git/hooks")), line("100644", "b", h.blob("x")))
		}, "", nil},
		"control characters":         {one("100644", "a\x1b]0;title\x07\x1b[2J\n\r"), "", nil},
		"refused control characters": {one("100644", "\x1b[2J/\n"), `\x1b[2J/\n`, nil},
		"an option":                  {one("100644", "--upload-pack=touch x"), "", nil},
		"our names": {func(h hostile) plumbing.Hash {
			x := h.blob("{}")
			return h.tree(line("100644", ".initbox-lock", x), line("40000", ".initbox-sweepmeaway", h.tree(line("100644", "x", x))), line("100644", ".initbox.json", x), line("100644", "initbox.json", x))
		}, "", nil},
		"our names, without .git": {func(h hostile) plumbing.Hash {
			x := h.blob("{}")
			return h.tree(line("100644", ".app.initbox.json", x), line("100644", ".initbox.json", x))
		}, "", func(o *clone.Options) { o.GitDir = clone.GitRemove }},
		"a device": {one("20666", "a"), "a has the mode 020666", nil},
		"attributes": {func(h hostile) plumbing.Hash {
			return h.tree(line("100644", ".gitattributes", h.blob("* filter=evil merge=evil\n[attr]x\n"+strings.Repeat("\"\\377", 1000)+"\n")))
		}, "", nil},
		"link of attributes": {func(h hostile) plumbing.Hash {
			return h.tree(line("120000", ".gitattributes", h.blob("/dev/zero")), line("120000", ".lfsconfig", h.blob("/dev/zero")))
		}, "", nil},
		"link of modules": {one("120000", ".gitmodules"), ".gitmodules must not be", nil},
		"large modules": {func(h hostile) plumbing.Hash {
			return h.tree(line("100644", ".gitmodules", h.blob(strings.Repeat("[submodule \"x\"]\n", 300000))), line("160000", "module", id(plumbing.BlobObject, "")))
		}, ".gitmodules: ", nil},

		"option as URL":             {submodule("m", "module", "-u./payload"), "looks like an option", nil},
		"option as host":            {submodule("m", "module", "ssh://-oProxyCommand=touch%20"+outside+"/x/y"), "the submodule module", nil},
		"option as path":            {submodule("m", "module", "127.0.0.1:-x"), "the submodule module", nil},
		"helper":                    {submodule("m", "module", "ext::sh -c touch% "+outside+"/ext"), "the submodule module", nil},
		"directory of this machine": {submodule("m", "module", "file://"+module), "the submodule module", nil},
		"path of this machine":      {submodule("m", "module", module), "the submodule module", nil},
		"line break in URL":         {submodule("m", "module", `"http://127.0.0.1/x\nHost: y"`), "control characters", nil},
		"command as update":         {submodule("m", "module", "../module", "\tupdate = !touch "+outside+"/updated\n"), "run a command", nil},
		"name that leads out":       {submodule("../../hooks", "module", "../module"), "its name leads out", nil},
		"name that is absolute":     {submodule(outside, "module", "../module"), "its name leads out", nil},
		"name that is .git":         {submodule("a/.git/hooks", "module", "../module"), "its name leads out", nil},
		"path that leads out":       {submodule("m", "../module", "../module"), "not in .gitmodules", nil},
		"path that is an option":    {submodule("m", "-module", "../module"), "not in .gitmodules", nil},
		"good module":               {submodule("m", "module", "../module"), "", nil},
		"module in .git of other": {func(h hostile) plumbing.Hash {
			commit := plumbing.NewHash(head(h, module))
			file := "[submodule \"m\"]\n\tpath = a\n\turl = ../module\n[submodule \"m/hooks\"]\n\tpath = b\n\turl = ../module\n"
			return h.tree(line("100644", ".gitmodules", h.blob(file)), line("160000", "a", commit), line("160000", "b", commit))
		}, "inside that of", nil},
		"module through a link": {func(h hostile) plumbing.Hash {
			commit := plumbing.NewHash(head(h, module))
			file := "[submodule \"m\"]\n\tpath = a/module\n\turl = ../module\n"
			return h.tree(line("100644", ".gitmodules", h.blob(file)), line("120000", "a", h.blob(outside)), line("160000", "module", commit))
		}, "not in .gitmodules", nil},
		"file under a module": {func(h hostile) plumbing.Hash {
			commit := plumbing.NewHash(head(h, module))
			return h.tree(line("100644", ".gitmodules", h.blob("[submodule \"m\"]\n\tpath = module\n\turl = ../module\n")), line("160000", "module", commit), line("40000", "module", h.tree(line("100644", ".git", h.blob("gitdir: "+outside)))))
		}, "module", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			repo := filepath.Join(root, strings.Map(func(r rune) rune {
				if r == ' ' || r == ',' || r == '.' {
					return '-'
				}
				return r
			}, name))
			h := hostile{t, newRepository(t, repo)}
			sha := h.publish(test.make(h))
			put(t, top, "canary", "alive")
			put(t, top, "app/old", "old")
			o := clone.Options{URL: at + "/" + filepath.Base(repo), Dir: filepath.Join(top, "app"), Depth: 1, Ref: "main", Submodules: clone.SubmodulesRecursive, Replace: true}
			if test.run != nil {
				test.run(&o)
			}
			err := try(t, o)
			var names []string
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) || !poll.IsPermanent(err) {
					t.Errorf("%v; permanent %t; want %q", err, poll.IsPermanent(err), test.want)
				}
				requireNames(t, o.Dir, "old")
			} else if err != nil {
				t.Error(err)
			} else if o.GitDir == clone.GitRemove {
				names = append(names, ".app.initbox.json")
			} else if is := head(t, o.Dir); is != sha {
				t.Errorf("HEAD is %s, want %s", is, sha)
			} else if again, err := run(t, o); err != nil || again.Changed {
				t.Errorf("again: changed %t, %v", again.Changed, err)
			}
			requireNames(t, top, append(names, "app", "canary")...)
			if hooks, _ := filepath.Glob(filepath.Join(o.Dir, ".git/hooks/*")); len(hooks) > 0 {
				t.Errorf("there are hooks: %q", hooks)
			}
		})
	}
	t.Cleanup(func() { requireNames(t, outside, "canary") })
}

// TestNamesOfOurs clones into a mount point files with the names of the lock, the marker and the new tree.
func TestNamesOfOurs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := serve(t, root)
	for i, name := range []string{".initbox-lock", ".initbox.json", ".initbox-abcdefghijkl"} {
		for _, gitDir := range []string{clone.GitKeep, clone.GitRemove} {
			repo := filepath.Join(root, fmt.Sprint(i, gitDir))
			h := hostile{t, newRepository(t, repo)}
			h.publish(h.tree(line("100644", name, h.blob("{}"))))
			volume := filepath.Join(t.TempDir(), "volume")
			servers.Tmpfs(t, volume, "size=5m")
			put(t, volume, "old", "old")
			err := try(t, clone.Options{URL: at + "/" + filepath.Base(repo), Dir: volume, Depth: 1, GitDir: gitDir, Replace: true})
			if err == nil || !strings.Contains(err.Error(), "has a file "+name) || !poll.IsPermanent(err) {
				t.Errorf("%s: %v", name, err)
			}
			requireNames(t, volume, "old")
		}
	}
}

// TestManyNames clones a tree with a million entries, and nested directories up to the limit of Linux and beyond, with
// a low limit for open files.
func TestManyNames(t *testing.T) {
	skipIfShort(t)
	if raced {
		t.Skip("the race detector takes several times the memory that is to be measured")
	}
	t.Parallel()
	x := id(plumbing.BlobObject, "x")
	var million strings.Builder
	for i := range 1_000_000 {
		million.WriteString(line("100644", fmt.Sprintf("%05x", i), x))
	}
	for name, test := range map[string]struct {
		trees []string // the top first
		want  string
	}{
		"a million":         {[]string{million.String()}, "more than 3000 files"},
		"as deep as can be": {nested(2000), ""},
		"too deep":          {nested(5000), "has a path of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := child{URL: ofTrees(test.trees).start(t), Dir: filepath.Join(dir, "app"), Depth: 1, MaxFiles: 3000, OpenFiles: 256, Once: true, Replace: true}
			out := c.run(t)
			t.Logf("%s; %d MiB", out.Error, out.Peak>>20)
			if (test.want == "") != (out.Error == "") || !strings.Contains(out.Error, test.want) {
				t.Errorf("%s; want %q", out.Error, test.want)
			}
			if out.Peak > most {
				t.Errorf("it took %d MiB", out.Peak>>20)
			}
			if test.want != "" {
				requireNames(t, dir)
				return
			}
			if again := c.run(t); again.Error != "" || again.Changed { // it can be read,
				t.Errorf("again: %+v", again)
			}
			c.URL = ofTrees(nested(1)).start(t)
			if out := c.run(t); out.Error != "" { // and removed
				t.Error(out.Error)
			}
			requireNames(t, dir, "app")
			requireNames(t, c.Dir, ".git", "d")
		})
	}
}

// nested returns nested trees, with a file x in the innermost.
func nested(directories int) []string {
	trees := []string{line("100644", "x", id(plumbing.BlobObject, "x"))}
	for i := range directories {
		trees = append(trees, line("40000", "d", id(plumbing.TreeObject, trees[i])))
	}
	slices.Reverse(trees)
	return trees
}

// ofTrees returns a server of a commit of the first of these trees.
func ofTrees(trees []string) liar {
	commit, refs := commitOf(id(plumbing.TreeObject, trees[0]))
	return liar{refs, func(p *packer) {
		p.header(len(trees) + 2)
		p.whole(plumbing.CommitObject, commit)
		for _, tree := range trees {
			p.whole(plumbing.TreeObject, tree)
		}
		p.whole(plumbing.BlobObject, "x")
	}}
}

// TestHostileReferences has a server list references that git cannot store, or would misinterpret.
func TestHostileReferences(t *testing.T) {
	t.Parallel()
	x := "x"
	top := line("100644", "x", id(plumbing.BlobObject, x))
	commit, _ := commitOf(id(plumbing.TreeObject, top))
	sha := id(plumbing.CommitObject, commit).String()
	send := func(p *packer) {
		p.header(3)
		p.whole(plumbing.CommitObject, commit)
		p.whole(plumbing.TreeObject, top)
		p.whole(plumbing.BlobObject, x)
	}
	for name, test := range map[string]struct {
		refs  string // HEAD's attributes, and other lines
		depth int
	}{
		"target that leads out":   {"symref-target:refs/heads/../../../../../canary", 1},
		"target that is absolute": {"symref-target:/etc/passwd", 1},
		"target that is HEAD":     {"symref-target:HEAD", 1},
		"target with a hook":      {"symref-target:refs/heads/.git/hooks/x", 1},
		"names that lead out":     {"symref-target:refs/heads/main\n" + sha + " refs/heads/../../../canary\n" + sha + " refs/tags/../../hooks/x\n" + sha + " refs/heads/main", 0},
		"a branch in a branch":    {"symref-target:refs/heads/main\n" + sha + " refs/heads/main\n" + sha + " refs/heads/main/sub\n" + sha + " refs/tags/main", 0},
		"a branch in HEAD's":      {"symref-target:refs/heads/main/sub\n" + sha + " refs/heads/main\n" + sha + " refs/heads/main/sub", 0},
		"an option":               {"symref-target:refs/heads/--upload-pack=touch\n" + sha + " refs/heads/--upload-pack=touch\n" + sha + " refs/tags/-x", 0},
		"control characters":      {"symref-target:refs/heads/main\n" + sha + " refs/heads/main\n" + sha + " refs/heads/a\x1b[2J\n" + sha + " refs/tags/x\ty", 0},
		"twice":                   {"symref-target:refs/heads/main\n" + sha + " refs/heads/main\n" + sha + " refs/heads/main\n" + strings.Repeat("1", 40) + " refs/heads/main", 0},
		"a long name":             {"symref-target:refs/heads/" + strings.Repeat("n", 300) + "\n" + sha + " refs/heads/" + strings.Repeat("n", 300), 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, "canary", "alive")
			o := clone.Options{URL: liar{sha + " HEAD " + test.refs + "\n", send}.start(t), Dir: filepath.Join(dir, "deeper/app"), Depth: test.depth}
			err := try(t, o)
			requireNames(t, dir, "canary", "deeper")
			if err != nil {
				t.Logf("refused: %v", err)
				requireNames(t, filepath.Join(dir, "deeper"))
				return
			}
			requireNames(t, filepath.Join(dir, "deeper"), "app")
			if is := head(t, o.Dir); is != sha {
				t.Errorf("HEAD is %s, want %s", is, sha)
			}
			sound(t, o.Dir)
			if hooks, _ := filepath.Glob(filepath.Join(o.Dir, ".git/hooks/*")); len(hooks) > 0 {
				t.Errorf("there are hooks: %q", hooks)
			}
		})
	}
}
