package gitdir_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/access"
	"initbox/clone/gitdir"
	"initbox/clone/remote"
	"initbox/test/servers"
)

var nobody = access.Access{Umask: 0o022}

func write(t *testing.T, name, content string) {
	t.Helper()
	os.MkdirAll(filepath.Dir(name), 0o777)
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// source makes a repository with two commits, two branches and two tags, in a directory whose name is hard to quote.
func source(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), `a "quoted" #1; \source `)
	os.Mkdir(dir, 0o777)
	servers.RunGit(t, dir, "init", "-q", "-b", "main")
	write(t, dir+"/a.txt", "1\n")
	write(t, dir+"/docs/b.txt", "1\n")
	write(t, dir+"/docs/de/c.txt", "1\n")
	write(t, dir+"/src/[x]/d.txt", "1\n")
	servers.RunGit(t, dir, "add", ".")
	servers.RunGit(t, dir, "commit", "-qm", "one")
	servers.RunGit(t, dir, "tag", "light")
	servers.RunGit(t, dir, "tag", "-a", "-m", "marked", "v1")
	servers.RunGit(t, dir, "branch", `other"#;x`)
	write(t, dir+"/a.txt", "2\n")
	servers.RunGit(t, dir, "commit", "-qam", "two")
	return dir
}

// refs returns the references that a server of the repository would list.
func refs(t *testing.T, dir string) (all []remote.Ref) {
	t.Helper()
	for line := range strings.SplitSeq(servers.RunGit(t, dir, "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)"), "\n") {
		f := strings.Fields(line)
		r := remote.Ref{Name: f[0], ID: plumbing.NewHash(f[1])}
		if len(f) > 2 {
			r.Peeled = plumbing.NewHash(f[2])
		}
		all = append(all, r)
	}
	return append(all, remote.Ref{Name: "HEAD", ID: id(t, dir, "HEAD"), Target: servers.RunGit(t, dir, "symbolic-ref", "HEAD")})
}

func id(t *testing.T, dir, revision string) plumbing.Hash {
	t.Helper()
	return plumbing.NewHash(servers.RunGit(t, dir, "rev-parse", revision))
}

// cloned has git clone the source, and then replaces its .git by that of Write, with git's packs and index.
func cloned(t *testing.T, o gitdir.Options, args ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "clone")
	servers.RunGit(t, "/", append(append([]string{"clone", "-q"}, args...), "file://"+o.Remote, dir)...)
	replace(t, dir+"/.git", o)
	return dir
}

func replace(t *testing.T, dir string, o gitdir.Options) {
	t.Helper()
	old := filepath.Join(t.TempDir(), "old")
	if err := os.Rename(dir, old); err != nil {
		t.Fatal(err)
	}
	if err := gitdir.Write(dir, o); err != nil {
		t.Fatal(err)
	}
	packs, _ := filepath.Glob(old + "/objects/pack/*[xk]")
	for _, p := range append(packs, old+"/index") {
		to, _ := filepath.Rel(old, p)
		if err := os.Rename(p, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
}

// clean fails if git reports anything about the repository.
func clean(t *testing.T, dir string) {
	t.Helper()
	if out := servers.RunGit(t, dir, "status", "--porcelain"); out != "" {
		t.Errorf("git status: %s", out)
	}
	if out := servers.RunGit(t, dir, "fsck", "--full", "--strict", "--no-progress"); out != "" {
		t.Errorf("git fsck: %s", out)
	}
}

func TestBranch(t *testing.T) {
	t.Parallel()
	src := source(t)
	o := gitdir.Options{Remote: src, Head: "refs/heads/main", Commit: id(t, src, "main"), Refs: refs(t, src), Follow: "refs/heads/*", Access: nobody}
	dir := cloned(t, o)
	clean(t, dir)
	if got := servers.RunGit(t, dir, "log", "--format=%s"); got != "two\none" {
		t.Errorf("log: %q", got)
	}
	if got, want := servers.RunGit(t, dir, "config", "remote.origin.url"), src; got != want {
		t.Errorf("URL %q", got)
	}
	if got := servers.RunGit(t, dir, "rev-parse", "--abbrev-ref", "main@{upstream}", "origin/HEAD"); got != "origin/main\norigin/main" {
		t.Errorf("upstream and origin/HEAD: %q", got)
	}
	if got, want := servers.RunGit(t, dir, "for-each-ref"), servers.RunGit(t, cloneOf(t, src), "for-each-ref"); got != want {
		t.Errorf("references\n%s\nbut git's are\n%s", got, want)
	}
	write(t, src+"/a.txt", "3\n")
	servers.RunGit(t, src, "commit", "-qam", "three")
	servers.RunGit(t, dir, "pull", "-q")
	if got := servers.RunGit(t, dir, "log", "-1", "--format=%s %D"); got != "three HEAD -> main, origin/main, origin/HEAD" {
		t.Errorf("after git pull: %q", got)
	}
	servers.RunGit(t, dir, "checkout", "-q", `other"#;x`)
	clean(t, dir)
}

func cloneOf(t *testing.T, src string, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "reference")
	servers.RunGit(t, "/", append(append([]string{"clone", "-q"}, args...), "file://"+src, dir)...)
	return dir
}

// TestConfig compares with what git clone writes.
func TestConfig(t *testing.T) {
	t.Parallel()
	src := source(t)
	head := id(t, src, "main")
	for name, test := range map[string]struct {
		o    gitdir.Options
		args []string
	}{
		"all":    {gitdir.Options{Head: "refs/heads/main", Follow: "refs/heads/*"}, nil},
		"branch": {gitdir.Options{Head: `refs/heads/other"#;x`, Follow: `refs/heads/other"#;x`}, []string{"--depth=1", "-b", `other"#;x`}},
		"tag":    {gitdir.Options{Follow: "refs/tags/v1"}, []string{"--depth=1", "-b", "v1"}},
		"filter": {gitdir.Options{Head: "refs/heads/main", Follow: "refs/heads/*", Filter: "blob:none"}, []string{"--filter=blob:none", "--no-checkout"}},
	} {
		t.Run(name, func(t *testing.T) {
			servers.RunGit(t, src, "config", "uploadpack.allowFilter", "true")
			test.o.Remote, test.o.Commit, test.o.Access = "file://"+src, head, nobody
			dir := filepath.Join(t.TempDir(), ".git")
			if err := gitdir.Write(dir, test.o); err != nil {
				t.Fatal(err)
			}
			got := servers.RunGit(t, "/", "config", "-l", "-f", dir+"/config")
			want := servers.RunGit(t, "/", "config", "-l", "-f", cloneOf(t, src, test.args...)+"/.git/config")
			if sorted(got) != sorted(want) {
				t.Errorf("config\n%s\nbut git's is\n%s", got, want)
			}
		})
	}
}

func TestTagShallow(t *testing.T) {
	t.Parallel()
	src := source(t)
	commit := id(t, src, "v1^{}")
	var tag []remote.Ref
	for _, r := range refs(t, src) {
		if r.Name == "refs/tags/v1" {
			tag = append(tag, r)
		}
	}
	head := id(t, src, "main")
	o := gitdir.Options{Remote: src, Commit: head, Shallow: []plumbing.Hash{head, head}, Access: nobody}
	dir := cloned(t, o, "--depth=1")
	clean(t, dir)
	if got := servers.RunGit(t, dir, "log", "--format=%s%d"); got != "two (grafted, HEAD)" {
		t.Errorf("log: %q", got)
	}
	servers.RunGit(t, dir, "fetch", "-q", "--unshallow", "origin", "main")
	clean(t, dir)

	o = gitdir.Options{Remote: src, Commit: commit, Refs: tag, Follow: "refs/tags/v1", Access: nobody}
	dir = cloned(t, o, "--depth=1", "-b", "v1")
	clean(t, dir)
	if got := servers.RunGit(t, dir, "describe"); got != "v1" {
		t.Errorf("describe: %q", got)
	}
	servers.RunGit(t, dir, "fetch", "-q")
}

func TestEmpty(t *testing.T) {
	src := t.TempDir()
	servers.RunGit(t, src, "init", "-q", "-b", "main")
	dir := t.TempDir()
	if err := gitdir.Write(dir+"/.git", gitdir.Options{Remote: src, Head: "refs/heads/main", Follow: "refs/heads/*", Access: nobody}); err != nil {
		t.Fatal(err)
	}
	if out := servers.RunGit(t, dir, "status", "--porcelain"); out != "" {
		t.Errorf("git status: %s", out)
	}
	servers.RunGit(t, dir, "fsck", "--strict")
	write(t, src+"/a", "1\n")
	servers.RunGit(t, src, "add", "a")
	servers.RunGit(t, src, "commit", "-qm", "one")
	servers.RunGit(t, dir, "pull", "-q")
	if got := servers.RunGit(t, dir, "log", "--format=%s"); got != "one" {
		t.Errorf("log after git pull: %q", got)
	}
}

func TestSparse(t *testing.T) {
	t.Parallel()
	src := source(t)
	servers.RunGit(t, src, "config", "uploadpack.allowFilter", "true")
	servers.RunGit(t, src, "config", "uploadpack.allowAnySHA1InWant", "true")
	head := id(t, src, "main")
	cone := []string{"docs/de", "src/[x]", "src/[x]/below"}
	for name, o := range map[string]gitdir.Options{
		"cone":     {Sparse: cone, Cone: true},
		"patterns": {Sparse: []string{"/docs/", "!/docs/de/"}},
		"none":     {Sparse: []string{}, Cone: true},
		"partial":  {Sparse: cone, Cone: true, Filter: "blob:none"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Remote, o.Head, o.Commit, o.Shallow, o.Access = "file://"+src, "refs/heads/main", head, []plumbing.Hash{head}, nobody
			dir := cloneOf(t, src, "--depth=1", "--filter="+map[bool]string{true: "blob:none", false: "blob:limit=1g"}[o.Filter != ""], "--no-checkout")
			mode := map[bool]string{true: "--cone", false: "--no-cone"}[o.Cone]
			servers.RunGit(t, dir, append([]string{"sparse-checkout", "set", "--skip-checks", mode}, o.Sparse...)...)
			servers.RunGit(t, dir, "checkout", "-q", "main")
			patterns, _ := os.ReadFile(dir + "/.git/info/sparse-checkout")
			packs, _ := filepath.Glob(dir + "/.git/objects/pack/*.pack")
			for _, p := range packs {
				o.Packs = append(o.Packs, plumbing.NewHash(strings.TrimPrefix(strings.TrimSuffix(filepath.Base(p), ".pack"), "pack-")))
			}
			replace(t, dir+"/.git", o)
			clean(t, dir)
			if got, _ := os.ReadFile(dir + "/.git/info/sparse-checkout"); string(got) != string(patterns) {
				t.Errorf("patterns %q, but git's are %q", got, patterns)
			}
			servers.RunGit(t, dir, "sparse-checkout", "disable")
			clean(t, dir)
			if _, err := os.Stat(dir + "/docs/de/c.txt"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	src := source(t)
	o := gitdir.Options{Remote: src, Head: "refs/heads/main", Commit: id(t, src, "main"), Refs: refs(t, src), Follow: "refs/heads/*",
		Access: access.Access{Umask: 0o027, GroupWrite: true, Owner: &access.Owner{UID: os.Getuid(), GID: os.Getgid()}}}
	dir := cloned(t, o)
	clean(t, dir)
	err := filepath.WalkDir(dir+"/.git", func(name string, d fs.DirEntry, err error) error {
		if err != nil || strings.Contains(name, "pack-") || d.Name() == "index" {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o660)
		if d.IsDir() {
			want = fs.ModeDir | fs.ModeSetgid | 0o770
		}
		if err == nil && info.Mode() != want {
			t.Errorf("%s: %v, want %v", name, info.Mode(), want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestOwner runs git as the owner of the files: then it requires no safe.directory.
func TestOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	const uid, gid = 64123, 64124
	src := source(t)
	dir := cloned(t, gitdir.Options{Remote: src, Head: "refs/heads/main", Commit: id(t, src, "main"), Refs: refs(t, src), Follow: "refs/heads/*",
		Access: access.Access{Umask: 0o077, Owner: &access.Owner{UID: uid, GID: gid}}})
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if info, _ := d.Info(); strings.Contains(name, "/.git") && !strings.Contains(name, "pack-") && d.Name() != "index" &&
			(info.Sys().(*syscall.Stat_t).Uid != uid || info.Sys().(*syscall.Stat_t).Gid != gid || info.Mode()&0o077 != 0) {
			t.Errorf("%s: %+v", name, info.Sys())
		}
		return errors.Join(err, os.Lchown(name, uid, gid)) // what others have made
	})
	if err != nil {
		t.Fatal(err)
	}
	for parent := dir; parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		os.Chmod(parent, 0o755)
	}
	for _, user := range []uint32{uid, uid + 5} {
		cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "log", "--format=%s")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: gid}}
		out, err := cmd.CombinedOutput()
		if (err == nil) != (user == uid) {
			t.Errorf("git log of user %d: %v\n%s", user, err, out)
		}
	}
}

// TestElsewhere puts .git outside of the work tree.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	src := source(t)
	tree := t.TempDir() + "/tree"
	o := gitdir.Options{Remote: src, Head: "refs/heads/main", Commit: id(t, src, "main"), Refs: refs(t, src), Follow: "refs/heads/*", Worktree: tree, Access: nobody}
	dir := cloned(t, o)
	if err := os.Rename(dir, tree); err != nil {
		t.Fatal(err)
	}
	repository := t.TempDir() + "/repository"
	if err := os.Rename(tree+"/.git", repository); err != nil {
		t.Fatal(err)
	}
	clean(t, repository)
	if err := gitdir.Link(tree, repository, nobody); err != nil {
		t.Fatal(err)
	}
	clean(t, tree)
}

func TestSubmodule(t *testing.T) {
	t.Parallel()
	lib, super := source(t), source(t)
	servers.RunGit(t, super, "submodule", "--quiet", "add", "--name", "some/lib", lib, "libs/lib")
	servers.RunGit(t, super, "commit", "-qm", "a submodule")
	content, err := os.ReadFile(super + "/.gitmodules")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := gitdir.ParseModules(content)
	if err != nil || len(modules) != 1 || modules[0].URL != lib {
		t.Fatalf("%+v, %v", modules, err)
	}
	modules, err = modules.Select([]string{"libs/lib"})
	if err != nil || len(modules) != 1 {
		t.Fatalf("%+v, %v", modules, err)
	}
	o := gitdir.Options{Remote: super, Head: "refs/heads/main", Commit: id(t, super, "main"), Refs: refs(t, super), Follow: "refs/heads/*", Submodules: modules, Access: nobody}
	dir := cloned(t, o)

	module := dir + "/.git/" + modules[0].Dir()
	tree := dir + "/libs/lib"
	servers.RunGit(t, "/", "clone", "-q", "file://"+lib, tree)
	if err := os.MkdirAll(filepath.Dir(module), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tree+"/.git", module); err != nil {
		t.Fatal(err)
	}
	replace(t, module, gitdir.Options{Remote: lib, Commit: id(t, lib, "main"), Refs: refs(t, lib), Follow: "refs/heads/*", Worktree: "../../../../libs/lib", Access: nobody})
	if err := gitdir.Link(tree, "../../.git/modules/some/lib", nobody); err != nil {
		t.Fatal(err)
	}
	clean(t, dir)
	clean(t, tree)
	if got, want := servers.RunGit(t, dir, "submodule", "status"), " "+id(t, lib, "main").String()+" libs/lib (heads/main)"; got != want && !strings.HasPrefix(got, want[:41]) {
		t.Errorf("submodule status %q", got)
	}
	servers.RunGit(t, dir, "submodule", "--quiet", "update", "--init", "--recursive")
	servers.RunGit(t, tree, "fetch", "-q")
	clean(t, dir)
}

func TestRefused(t *testing.T) {
	commit := plumbing.NewHash("0123456789012345678901234567890123456789")
	for name, o := range map[string]gitdir.Options{
		"URL":       {Remote: "https://example.org/\n[core]\n\tfsmonitor = id", Head: "refs/heads/main"},
		"branch":    {Head: "refs/heads/a\n[x]", Commit: commit},
		"head":      {Head: "refs/tags/v1", Commit: commit},
		"no head":   {},
		"reference": {Commit: commit, Refs: []remote.Ref{{Name: "refs/tags/a\n" + commit.String() + " refs/heads/b", ID: commit}}},
		"symbolic": {Commit: commit, Refs: []remote.Ref{{Name: "refs/heads/../../../x", ID: commit},
			{Name: "HEAD", ID: commit, Target: "refs/heads/../../../x"}}},
		"pattern":   {Commit: commit, Sparse: []string{"a\nb"}},
		"submodule": {Commit: commit, Submodules: gitdir.Modules{{Name: "a\"]\n[core", URL: "x"}}},
		"worktree":  {Commit: commit, Worktree: "/a\nb"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Access = nobody
			if err := gitdir.Write(t.TempDir()+"/.git", o); err == nil {
				t.Error("written")
			}
		})
	}
	if err := gitdir.Link(t.TempDir(), "a\nb", nobody); err == nil {
		t.Error("linked")
	}
}

func sorted(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		for j := i; j > 0 && lines[j] < lines[j-1]; j-- {
			lines[j], lines[j-1] = lines[j-1], lines[j]
		}
	}
	return strings.Join(lines, "\n")
}

// TestNothingElse pins which files are not written, where git clone would not write them either.
func TestNothingElse(t *testing.T) {
	id := plumbing.NewHash("ce013625030ba8dba906f756967f9e9ca394464a")
	promisor := "objects/pack/pack-" + id.String() + ".promisor"
	head := remote.Ref{Name: "HEAD", ID: id, Target: "refs/heads/gone"}
	alias := remote.Ref{Name: "refs/heads/alias", ID: id, Target: "refs/heads/main"}
	for name, test := range map[string]struct {
		o       gitdir.Options
		missing []string
	}{
		"a commit":         {gitdir.Options{Refs: []remote.Ref{head}}, []string{"shallow", "packed-refs", "info/sparse-checkout", "refs/remotes", promisor}},
		"a symbolic alias": {gitdir.Options{Refs: []remote.Ref{alias, {Name: "refs/heads/main", ID: id}}}, []string{"refs/remotes"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), ".git")
			test.o.Remote, test.o.Commit, test.o.Packs, test.o.Access = "https://git.example.com/x", id, []plumbing.Hash{id}, nobody
			if err := gitdir.Write(dir, test.o); err != nil {
				t.Fatal(err)
			}
			for _, file := range test.missing {
				if _, err := os.Lstat(filepath.Join(dir, file)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v", file, err)
				}
			}
		})
	}
}

// TestCreate pins the access of files and directories for content that Write does not write.
func TestCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := errors.Join(os.Mkdir(dir, 0o750), os.Chmod(dir, 0o750)); err != nil {
		t.Fatal(err)
	}
	if err := gitdir.Directory(dir, "modules/a", nobody); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]fs.FileMode{"plain": 0, "pack": 0o444} {
		f, err := gitdir.Create(dir, name, nobody, mode)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := gitdir.Create(dir, name, nobody, mode); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s again: %v", name, err)
		}
	}
	for name, want := range map[string]fs.FileMode{".": 0o750, "modules": 0o755, "modules/a": 0o755, "plain": 0o644, "pack": 0o444} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, info, err, want)
		}
	}
}

// TestNoDirectory pins the errors where the directory cannot be made or opened.
func TestNoDirectory(t *testing.T) {
	top := t.TempDir()
	file, closed := filepath.Join(top, "file"), filepath.Join(top, "closed")
	write(t, file, "")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	o := gitdir.Options{Commit: plumbing.NewHash("ce013625030ba8dba906f756967f9e9ca394464a"), Access: nobody}
	if err := gitdir.Write(filepath.Join(file, ".git"), o); err == nil || !strings.Contains(err.Error(), ".git: mkdir ") {
		t.Errorf("below a file: %v", err)
	}
	if err := gitdir.Write(closed, o); os.Geteuid() != 0 && !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a directory without permissions: %v", err)
	}
	for what, err := range map[string]error{"link": gitdir.Link(top+"/none", "/x", nobody), "directory": gitdir.Directory(top+"/none", "x", nobody)} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
