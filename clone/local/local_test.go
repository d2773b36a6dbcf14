package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"

	"initbox/clone/local"
	"initbox/test/servers"
	"initbox/test/soak"
)

// TestMain puts temporary files in memory: git waits for the disk at every commit.
func TestMain(m *testing.M) { os.Exit(servers.MainInMemory(m)) }

func write(t *testing.T, name, content string) {
	t.Helper()
	os.MkdirAll(filepath.Dir(name), 0o777)
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// text is of some lines that do not compress well, the same for the same seed.
func text(seed uint64, lines int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for range lines {
		fmt.Fprintf(&b, "%016x %016x\n", r.Uint64(), r.Uint64())
	}
	return b.String()
}

// source makes a repository of some commits, with a merge, whose files have changed a little from one to the next.
func source(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	servers.RunGit(t, dir, "init", "-q", "-b", "main")
	big := text(1, 2000)
	for i := range 6 {
		write(t, dir+"/big", fmt.Sprintf("%d\n%s", i, big))
		write(t, fmt.Sprintf("%s/directory/%d/file", dir, i), text(uint64(i), 20))
		write(t, dir+"/directory/same", text(9, 100))
		servers.RunGit(t, dir, "add", ".")
		servers.RunGit(t, dir, "commit", "-qm", fmt.Sprint(i))
		if i == 2 {
			servers.RunGit(t, dir, "tag", "-a", "-m", "x", "v1")
			servers.RunGit(t, dir, "tag", "-a", "-m", "y", "v1-again", "v1")
			servers.RunGit(t, dir, "tag", "light")
			servers.RunGit(t, dir, "branch", "side")
		}
	}
	servers.RunGit(t, dir, "checkout", "-q", "side")
	write(t, dir+"/side", "side\n")
	servers.RunGit(t, dir, "add", ".")
	servers.RunGit(t, dir, "commit", "-qm", "side")
	servers.RunGit(t, dir, "checkout", "-q", "main")
	servers.RunGit(t, dir, "merge", "-q", "-m", "merge", "side")
	return dir
}

func id(t *testing.T, dir, revision string) plumbing.Hash {
	t.Helper()
	return plumbing.NewHash(servers.RunGit(t, dir, "rev-parse", revision))
}

func open(t *testing.T, path string) *local.Repository {
	t.Helper()
	r, err := local.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// fetch has git read the pack, and returns the repository with it, and the names of its objects.
func fetch(t *testing.T, path string, q local.Request) (dir string, objects []string, shallow []plumbing.Hash) {
	t.Helper()
	r := open(t, path)
	pack, shallow, err := r.Pack(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	dir = t.TempDir()
	servers.RunGit(t, dir, "init", "-q", "--bare")
	servers.FeedGit(t, pack, dir, "index-pack", "--stdin")
	index, _ := filepath.Glob(dir + "/objects/pack/*.idx")
	f, err := os.Open(index[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for line := range strings.SplitSeq(servers.FeedGit(t, f, dir, "show-index"), "\n") {
		objects = append(objects, strings.Fields(line)[1])
	}
	slices.Sort(objects)
	return dir, objects, shallow
}

// listed are the names of what git rev-list --objects lists.
func listed(t *testing.T, dir string, args ...string) (objects []string) {
	t.Helper()
	for line := range strings.SplitSeq(servers.RunGit(t, dir, append([]string{"rev-list", "--objects"}, args...)...), "\n") {
		objects = append(objects, line[:40])
	}
	slices.Sort(objects)
	return slices.Compact(objects)
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		has := func(in []string) func(string) bool {
			return func(id string) bool { return slices.Contains(in, id) }
		}
		t.Errorf("%s: too many: %v, missing: %v", what, slices.DeleteFunc(slices.Clone(got), has(want)), slices.DeleteFunc(slices.Clone(want), has(got)))
	}
}

// storages are ways in which a repository may hold the same objects.
var storages = map[string]func(t *testing.T, dir string) string{
	"files": func(t *testing.T, dir string) string { return dir },
	"packed": func(t *testing.T, dir string) string {
		servers.RunGit(t, dir, "gc", "-q", "--aggressive")
		return dir + "/.git"
	},
	"version 1": func(t *testing.T, dir string) string {
		servers.RunGit(t, dir, "-c", "pack.indexVersion=1", "repack", "-qadf")
		return dir
	},
	"large offsets": func(t *testing.T, dir string) string {
		servers.RunGit(t, dir, "repack", "-qadf")
		packs, _ := filepath.Glob(dir + "/.git/objects/pack/*.pack")
		servers.RunGit(t, dir, "index-pack", "--index-version=2,0x40", packs[0])
		return dir
	},
	"named bases": func(t *testing.T, dir string) string {
		servers.RunGit(t, dir, "-c", "repack.useDeltaBaseOffset=false", "repack", "-qadf")
		return dir
	},
	"some packs": func(t *testing.T, dir string) string {
		for _, tip := range []string{"main~3", "main~2", "main~1"} {
			servers.FeedGit(t, strings.NewReader(tip+"\n"), dir, "pack-objects", "-q", "--revs", dir+"/.git/objects/pack/pack")
		}
		servers.RunGit(t, dir, "prune-packed", "-q")
		return dir
	},
	"borrowed": func(t *testing.T, dir string) string {
		servers.RunGit(t, dir, "gc", "-q")
		other := t.TempDir() + "/other"
		servers.RunGit(t, "/", "clone", "-q", "--mirror", "--shared", dir, other)
		third := t.TempDir() + "/third"
		servers.RunGit(t, "/", "clone", "-q", "--mirror", "--shared", other, third)
		write(t, third+"/objects/info/alternates", "# relative, too\n../"+relative(t, third, other)+"/objects\n")
		return third
	},
	"worktree": func(t *testing.T, dir string) string {
		work := t.TempDir() + "/work"
		servers.RunGit(t, dir, "worktree", "add", "-q", work, "-b", "elsewhere", "main")
		servers.RunGit(t, dir, "pack-refs", "--all")
		return work
	},
	"separate": func(t *testing.T, dir string) string {
		work := t.TempDir() + "/work"
		servers.RunGit(t, "/", "clone", "-q", "--mirror", dir, work+".git")
		return work // git adds .git
	},
}

func relative(t *testing.T, from, to string) string {
	t.Helper()
	name, err := filepath.Rel(from, to)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPack(t *testing.T) {
	for name, store := range storages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := source(t)
			head, tag, side := id(t, dir, "main"), id(t, dir, "v1-again"), id(t, dir, "side")
			path := store(t, dir)

			_, got, shallow := fetch(t, path, local.Request{Wants: []plumbing.Hash{head, tag}})
			same(t, "all", got, listed(t, dir, "main", "v1-again"))
			if len(shallow) > 0 {
				t.Errorf("all: shallow %v", shallow)
			}

			clone, got, shallow := fetch(t, path, local.Request{Wants: []plumbing.Hash{head}, Depth: 1})
			if !slices.Equal(shallow, []plumbing.Hash{head}) {
				t.Errorf("shallow %v", shallow)
			}
			write(t, clone+"/shallow", head.String()+"\n")
			same(t, "depth 1", got, listed(t, clone, head.String()))
			servers.RunGit(t, clone, "update-ref", "refs/heads/main", head.String())
			servers.RunGit(t, clone, "symbolic-ref", "HEAD", "refs/heads/main")
			if out := servers.RunGit(t, clone, "fsck", "--strict"); out != "" {
				t.Error(out)
			}

			_, got, shallow = fetch(t, path, local.Request{Wants: []plumbing.Hash{tag, side}, Depth: 2})
			reference := t.TempDir() + "/reference"
			servers.RunGit(t, "/", "init", "-q", "--bare", reference)
			servers.RunGit(t, reference, "fetch", "-q", "--depth=2", "file://"+dir, "refs/tags/v1-again:refs/tags/v1-again", "refs/heads/side:refs/heads/side")
			same(t, "depth 2", got, listed(t, reference, "side", "v1-again"))
			if want, _ := os.ReadFile(reference + "/shallow"); len(strings.Fields(string(want))) != len(shallow) {
				t.Errorf("depth 2: shallow %v, git's %s", shallow, want)
			}

			_, got, _ = fetch(t, path, local.Request{Wants: []plumbing.Hash{head}, Filter: "blob:none"})
			same(t, "no blobs", got, listed(t, dir, "--filter=blob:none", "main"))
			_, got, _ = fetch(t, path, local.Request{Wants: []plumbing.Hash{head}, Filter: "tree:0"})
			same(t, "no trees", got, listed(t, dir, "--filter=tree:0", "main"))
			blob, tree := id(t, dir, "main:big"), id(t, dir, "main~3:directory")
			_, got, _ = fetch(t, path, local.Request{Wants: []plumbing.Hash{blob, tree, blob}, Filter: "blob:none"})
			want := append(listed(t, dir, "--filter=blob:none", "--filter-provided-objects", tree.String()), blob.String())
			slices.Sort(want)
			same(t, "one blob", got, want)
		})
	}
}

func TestRefs(t *testing.T) {
	dir := source(t)
	servers.RunGit(t, dir, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/side")
	servers.RunGit(t, dir, "update-ref", "refs/pull/1/head", "side~1")
	want := func(prefixes ...string) (lines string) {
		args := append([]string{"ls-remote", "--symref", "file://" + dir}, prefixes...)
		return servers.RunGit(t, dir, args...)
	}
	all := want()
	got := func(path string, prefixes ...string) string {
		t.Helper()
		refs, err := open(t, path).Refs(prefixes...)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, r := range refs {
			if r.Target != "" {
				fmt.Fprintf(&b, "ref: %s\t%s\n", r.Target, r.Name)
			}
			fmt.Fprintf(&b, "%s\t%s\n", r.ID, r.Name)
			if !r.Peeled.IsZero() {
				fmt.Fprintf(&b, "%s\t%s^{}\n", r.Peeled, r.Name)
			}
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	if g := got(dir); g != all {
		t.Errorf("files:\n%s\nwant\n%s", g, all)
	}
	servers.RunGit(t, dir, "pack-refs", "--all")
	if g := got(dir); g != all {
		t.Errorf("packed:\n%s\nwant\n%s", g, all)
	}
	packed, _ := os.ReadFile(dir + "/.git/packed-refs")
	_, rest, _ := bytes.Cut(packed, []byte("\n"))
	write(t, dir+"/.git/packed-refs", string(rest)) // from long ago
	if g := got(dir); g != all {
		t.Errorf("packed, without the first line:\n%s\nwant\n%s", g, all)
	}
	write(t, dir+"/.git/refs/heads/broken", "what?\n")
	write(t, dir+"/.git/refs/heads/main.lock", "")
	write(t, dir+"/.git/refs/heads/dangling", "ref: refs/heads/none\n")
	if g := got(dir); g != all {
		t.Errorf("with a broken one:\n%s\nwant\n%s", g, all)
	}
	if g, w := got(dir, "HEAD", "refs/heads/ma"), "ref: refs/heads/main\tHEAD\n"+id(t, dir, "main").String()+"\tHEAD\n"+id(t, dir, "main").String()+"\trefs/heads/main"; g != w {
		t.Errorf("some:\n%s\nwant\n%s", g, w)
	}
	if g, w := got(dir, "refs/tags/"), id(t, dir, "light").String()+"\trefs/tags/light\n"; !strings.HasPrefix(g, w) || strings.Contains(g, "heads") {
		t.Errorf("tags:\n%s", g)
	}
	elsewhere := t.TempDir()
	os.Symlink(dir+"/.git/refs", elsewhere+"/refs") // as git-new-workdir does
	os.Symlink(dir+"/.git/objects", elsewhere+"/objects")
	write(t, elsewhere+"/HEAD", "ref: refs/heads/main\n")
	servers.RunGit(t, dir, "update-ref", "refs/heads/later", "main")
	if g, w := got(elsewhere, "refs/heads/la"), id(t, dir, "main").String()+"\trefs/heads/later"; g != w {
		t.Errorf("linked directories: %s", g)
	}
	servers.RunGit(t, dir, "checkout", "-q", "--detach", "side")
	if g, w := got(dir, "HEAD"), id(t, dir, "side").String()+"\tHEAD"; g != w {
		t.Errorf("detached: %s", g)
	}
	os.Remove(dir + "/.git/HEAD")
	os.Symlink("refs/heads/main", dir+"/.git/HEAD")
	if g, w := got(dir, "HEAD"), "ref: refs/heads/main\tHEAD\n"+id(t, dir, "main").String()+"\tHEAD"; g != w {
		t.Errorf("linked: %s", g)
	}
}

func TestEmpty(t *testing.T) {
	dir := t.TempDir()
	servers.RunGit(t, dir, "init", "-q", "-b", "trunk")
	refs, err := open(t, dir).Refs()
	if err != nil || len(refs) != 1 || refs[0] != (local.Ref{Name: "HEAD", Target: "refs/heads/trunk"}) {
		t.Errorf("%+v, %v", refs, err)
	}
}

// TestShallow reads a repository that has not all of the history itself.
func TestShallow(t *testing.T) {
	dir := source(t)
	clone := t.TempDir() + "/clone"
	servers.RunGit(t, "/", "clone", "-q", "--depth=3", "file://"+dir, clone)
	_, got, shallow := fetch(t, clone, local.Request{Wants: []plumbing.Hash{id(t, dir, "main")}})
	same(t, "all", got, listed(t, clone, "main"))
	want, _ := os.ReadFile(clone + "/.git/shallow")
	var lines strings.Builder
	for _, id := range shallow {
		fmt.Fprintln(&lines, id)
	}
	if lines.String() != string(want) {
		t.Errorf("shallow %v, want %s", shallow, want)
	}
}

func TestNone(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", "x")
	write(t, dir+"/lost/.git", "gitdir: nowhere\n")
	write(t, dir+"/wrong/.git", "hello\n")
	servers.RunGit(t, dir, "init", "-q", "--object-format=sha256", "new")
	servers.RunGit(t, dir, "init", "-q", "table")
	servers.RunGit(t, dir+"/table", "config", "extensions.refStorage", "reftable")
	for path, want := range map[string]error{
		"": local.ErrNone, "/file": local.ErrNone, "/wrong": local.ErrNone, "/lost": local.ErrNone, "/none": os.ErrNotExist, "/file/below": nil,
		"/new": local.ErrFormat, "/table": local.ErrFormat,
	} {
		r, err := local.Open(dir + path)
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if r != nil {
			r.Close()
		}
	}
}

func TestMissing(t *testing.T) {
	dir := source(t)
	none := plumbing.NewHash("0123456789012345678901234567890123456789")
	var missing *local.MissingError
	if _, _, err := open(t, dir).Pack(t.Context(), local.Request{Wants: []plumbing.Hash{none}}); !errors.As(err, &missing) || missing.ID != none || !missing.Wanted {
		t.Errorf("no such object: %v", err)
	}
	blob := servers.RunGit(t, dir, "rev-parse", "main:big")
	os.Remove(dir + "/.git/objects/" + blob[:2] + "/" + blob[2:])
	if _, _, err := open(t, dir).Pack(t.Context(), local.Request{Wants: []plumbing.Hash{id(t, dir, "main")}}); !errors.As(err, &missing) || missing.ID.String() != blob || missing.Wanted {
		t.Errorf("a missing blob: %v", err)
	}
}

// TestBroken changes bytes of the repository: there is an error, or the pack is of
// something else, which a reader notices, but nothing worse.
func TestBroken(t *testing.T) {
	dir := source(t)
	servers.RunGit(t, dir, "repack", "-qadf")
	head := id(t, dir, "main")
	names, _ := filepath.Glob(dir + "/.git/objects/pack/*.[ip][da][xc]*")
	if len(names) != 2 {
		t.Fatal(names)
	}
	r := soak.Rand(t)
	for _, name := range names {
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		os.Chmod(name, 0o666)
		for i := range 90 {
			broken := bytes.Clone(whole)
			switch i % 3 {
			case 0:
				broken = broken[:r.IntN(len(broken))]
			case 1:
				broken[r.IntN(len(broken))] ^= 1 << r.IntN(8)
			case 2:
				broken[r.IntN(min(len(broken), 4000))] = byte(r.Uint32())
			}
			write(t, name, string(broken))
			opened, err := local.Open(dir)
			if err != nil {
				continue
			}
			if pack, _, err := opened.Pack(t.Context(), local.Request{Wants: []plumbing.Hash{head}}); err == nil {
				io.Copy(io.Discard, pack)
				pack.Close()
			}
			opened.Close()
		}
		write(t, name, string(whole))
	}
}

// TestCut has the files of a pack become shorter while they are read.
func TestCut(t *testing.T) {
	dir := source(t)
	servers.RunGit(t, dir, "repack", "-qadf")
	head := id(t, dir, "main")
	r := open(t, dir)
	index, _ := filepath.Glob(dir + "/.git/objects/pack/*.idx")
	os.Chmod(index[0], 0o666)
	if err := os.Truncate(index[0], 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Pack(t.Context(), local.Request{Wants: []plumbing.Hash{head}}); err == nil {
		t.Error("no error")
	}
}

// TestRepacked has git gc run while the repository is open.
func TestRepacked(t *testing.T) {
	dir := source(t)
	head := id(t, dir, "main")
	want := listed(t, dir, "main")
	for range 2 { // from files to a pack, then from a pack to another one
		r := open(t, dir)
		write(t, dir+"/new", "new")
		pack, _, err := r.Pack(t.Context(), local.Request{Wants: []plumbing.Hash{head}})
		if err != nil {
			t.Fatal(err)
		}
		servers.RunGit(t, dir, "repack", "-qadf", "--depth=3")
		servers.RunGit(t, dir, "prune-packed")
		to := t.TempDir()
		servers.RunGit(t, to, "init", "-q", "--bare")
		servers.FeedGit(t, pack, to, "index-pack", "--stdin", "--strict")
		same(t, "all", listed(t, to, head.String()), want)
		if _, _, err := r.Pack(t.Context(), local.Request{Wants: []plumbing.Hash{head}, Depth: 1}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	}
}

func TestEnds(t *testing.T) {
	dir := source(t)
	r := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	q := local.Request{Wants: []plumbing.Hash{id(t, dir, "main")}}
	pack, _, err := r.Pack(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, pack); !errors.Is(err, context.Canceled) {
		t.Errorf("reading on: %v", err)
	}
	if _, _, err := r.Pack(ctx, q); !errors.Is(err, context.Canceled) {
		t.Errorf("asking again: %v", err)
	}
	if pack, _, err = r.Pack(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	pack.Close()
	for range 2 { // and Close of the repository returns
		if _, _, err = r.Pack(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPipe has pipes without a writer where files should be.
func TestPipe(t *testing.T) {
	for _, name := range []string{"HEAD", "config", "packed-refs", "shallow", "objects/info/alternates", "commondir", "refs/heads/main"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			servers.RunGit(t, dir, "init", "-q", "-b", "main", "--bare", ".")
			write(t, filepath.Join(dir, "refs/heads/x"), strings.Repeat("1", 40)+"\n")
			file := filepath.Join(dir, name)
			os.Remove(file)
			if err := unix.Mkfifo(file, 0o600); err != nil {
				t.Skip(err)
			}
			opened, err := local.Open(dir)
			if err != nil {
				return
			}
			defer opened.Close()
			opened.Refs()
			if pack, _, err := opened.Pack(t.Context(), local.Request{Wants: []plumbing.Hash{plumbing.NewHash(strings.Repeat("1", 40))}}); err == nil {
				pack.Close()
				t.Error("a pack of nothing")
			}
		})
	}
}
