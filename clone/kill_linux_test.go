package clone_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"initbox/clone"
	"initbox/clone/access"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/servers"
	"initbox/test/soak"
)

// TestMain clones if $CLONE_CHILD is set: the test binary is its own child process. Otherwise it runs the tests, in a
// mount namespace where permitted, so that their mounts disappear with them. Their temporary files are then in memory:
// thousands are written and removed, and every commit of git's waits for the disk.
func TestMain(m *testing.M) {
	*clone.CostlyPause = 50 * time.Millisecond
	if text := os.Getenv("CLONE_CHILD"); text != "" {
		os.Exit(runChild(text))
	}
	const inside = "CLONE_NAMESPACE"
	if os.Getenv(inside) == "" {
		runtime.LockOSThread() // with which the other process ends
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if cmd.Start() == nil {
			cmd.Wait()
			os.Exit(cmd.ProcessState.ExitCode())
		}
		runtime.UnlockOSThread()
		os.Exit(m.Run())
	}
	os.Exit(runInside(m))
}

// runInside runs the tests in their mount namespace.
func runInside(m *testing.M) int {
	dir, err := os.MkdirTemp("", "clone")
	if err == nil {
		defer os.Remove(dir) // the mount point; what is mounted there ends with the namespace
		err = errors.Join(
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"),
			os.Setenv("TMPDIR", dir),
		)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	return m.Run()
}

// child describes a clone to be made by another process.
type child struct {
	URL, Dir, Ref, GitDir, Link string
	Submodules                  clone.Submodules
	Depth, MaxFiles             int
	Once                        bool // only one attempt
	Replace                     bool

	UID          int    // of the process; 0 for that of the tests
	ReadOnlyRoot bool   // only mounts below / are writable
	OpenFiles    uint64 // limit for open files; 0 for that of the tests
}

// outcome is the result of a child.
type outcome struct {
	clone.Result
	Error, Class, Hint string
	Permanent          bool
	Peak               int64 // of its memory, in bytes
}

// runChild is the main function of a child.
func runChild(text string) int {
	var c child
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = c.become()
	}
	var out outcome
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if c.Once {
			out.Result, err = runOnce(ctx, c.options(), slog.NewTextHandler(os.Stderr, nil))
		} else {
			out.Result, err = clone.Run(ctx, c.options())
		}
	}
	if err != nil {
		f := failure.Of(err)
		out.Error, out.Class, out.Hint, out.Permanent = err.Error(), string(f.Class), f.Hint, poll.IsPermanent(err)
	}
	out.Peak = peak()
	if json.NewEncoder(os.Stdout).Encode(out) != nil {
		return 1
	}
	return 0
}

func (c child) options() clone.Options {
	return clone.Options{
		URL: c.URL, Dir: c.Dir, Ref: c.Ref, GitDir: c.GitDir, Link: c.Link, Replace: c.Replace, Submodules: c.Submodules, Depth: c.Depth, MaxFiles: c.MaxFiles,
		Access: access.Access{Umask: 0o022}, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
}

// become sets the user, the mounts and the limits of the process.
func (c child) become() error {
	var err error
	if c.ReadOnlyRoot { // in a mount namespace of its own
		err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	}
	if c.OpenFiles > 0 {
		err = errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: c.OpenFiles, Max: c.OpenFiles}))
	}
	if c.UID != 0 {
		err = errors.Join(err, syscall.Setgroups(nil), syscall.Setgid(c.UID), syscall.Setuid(c.UID))
	}
	return err
}

// peak returns the peak memory of the process, in bytes.
func peak() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, _ := strconv.ParseInt(strings.Fields(text + " 0")[0], 10, 64)
	return kilobytes << 10
}

// command returns the command of the child, not started.
func (c child) command(t testing.TB) *exec.Cmd {
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GOMEMLIMIT=") && !strings.HasPrefix(v, "GOGC=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "CLONE_CHILD="+string(text))
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if c.ReadOnlyRoot {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
	}
	return cmd
}

// run runs the child to its end.
func (c child) run(t testing.TB) outcome {
	t.Helper()
	cmd := c.command(t)
	err := cmd.Run()
	var out outcome
	if err == nil {
		err = json.Unmarshal(cmd.Stdout.(*bytes.Buffer).Bytes(), &out)
	}
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, cmd.Stdout, cmd.Stderr)
	}
	return out
}

// digest returns a digest of a tree, without .git and the files of initbox in the top directory.
func digest(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir+"/", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir+"/" {
			return err
		}
		if d.Name() == ".git" || strings.HasPrefix(name, dir+"/.initbox") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := []byte(nil)
		switch d.Type() {
		case 0:
			content, err = os.ReadFile(name)
		case fs.ModeSymlink:
			var to string
			to, err = os.Readlink(name)
			content = []byte(to)
		}
		fmt.Fprintf(h, "%s\x00%v\x00%d\x00%s", strings.TrimPrefix(name, dir), info.Mode(), len(content), content)
		return err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// twoRevisions is a repository with branches one and two, served from memory, with the digests of their trees, made by
// git.
type twoRevisions struct {
	url     string
	digests map[string]string // by branch
	shas    map[string]string
}

func newTwoRevisions(t *testing.T, change func(t *testing.T, dir, branch string)) *twoRevisions {
	skipIfShort(t)
	dir := t.TempDir()
	origin := newRepository(t, filepath.Join(dir, "origin"))
	r := &twoRevisions{digests: map[string]string{}, shas: map[string]string{}}
	for _, branch := range []string{"one", "two"} {
		git(t, origin, "checkout", "-q", "-B", branch)
		change(t, origin, branch)
		r.shas[branch] = commit(t, origin, branch)
	}
	git(t, origin, "repack", "-adfq")
	replay := func(h http.Handler) http.Handler { return &servers.Replay{Live: h} }
	r.url = servers.StartGit(t, dir, servers.GitOptions{Wrap: replay}).URL + "/origin"
	for branch := range r.shas {
		want := filepath.Join(dir, "want-"+branch)
		git(t, dir, "clone", "-q", "--depth", "1", "--branch", branch, "--recurse-submodules", "--shallow-submodules", r.url, want)
		var err error
		if r.digests[branch], err = digest(want); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// smallHistory is a repository with few files and several commits.
func smallHistory(t *testing.T, dir, branch string) {
	for i := range 3 {
		put(t, dir, "log", strings.Repeat("a line that stays\n", 100)+branch+strconv.Itoa(i))
		put(t, dir, branch+"/file", strconv.Itoa(i))
		commit(t, dir, strconv.Itoa(i))
	}
	os.Remove(filepath.Join(dir, "link"))
	os.Symlink(branch+"/file", filepath.Join(dir, "link"))
}

// manyAndSubmodules is a repository with many files and with submodules.
func manyAndSubmodules(t *testing.T, dir, branch string) {
	files := 1000
	if soak.Running(t) {
		files = 3000
	}
	for i := range files {
		if branch == "two" && i%3 == 0 {
			os.Remove(filepath.Join(dir, fmt.Sprintf("%d/%d/one-%d", i%29, i%7, i)))
		} else if branch == "one" || i%2 == 0 {
			put(t, dir, fmt.Sprintf("%d/%d/%s-%d", i%29, i%7, branch, i), fmt.Sprint(i, strings.Repeat(branch, i%500)))
		}
	}
	for _, name := range []string{"inner", "outer"} {
		module := dir + "-" + name
		if branch == "one" {
			newRepository(t, module)
			for i := range 100 {
				put(t, module, fmt.Sprintf("%d/%d", i%10, i), name)
			}
			commit(t, module, "first")
			git(t, dir, "submodule", "--quiet", "add", "../"+filepath.Base(module), "modules/"+name)
			continue
		}
		put(t, module, "second", name)
		commit(t, module, "second")
		git(t, filepath.Join(dir, "modules", name), "fetch", "-q", module)
		git(t, filepath.Join(dir, "modules", name), "checkout", "-q", "FETCH_HEAD")
	}
}

// TestKilled kills clones at several moments. Each leaves the directory absent, or with the whole old tree, or with the
// whole new one; in a mount point, where files cannot appear at once, this holds if there is a marker. The next run
// leaves its tree and nothing else.
func TestKilled(t *testing.T) {
	t.Parallel()
	repositories := map[string]*twoRevisions{"small": newTwoRevisions(t, smallHistory), "large": newTwoRevisions(t, manyAndSubmodules)}
	places := map[string]killCase{
		"directory":  {leaves: []string{"app"}},
		"elsewhere":  {gitDir: "git/data", leaves: []string{"app", "git"}},
		"remove":     {gitDir: clone.GitRemove, leaves: []string{".app.initbox.json", "app"}},
		"link":       {link: "current", leaves: []string{"app"}},
		"mount":      {mount: true, leaves: []string{"app"}},
		"mount bare": {mount: true, gitDir: clone.GitRemove, leaves: []string{"app"}},
	}
	first := 0
	for size, repository := range repositories {
		for _, name := range slices.Sorted(maps.Keys(places)) {
			t.Run(size+" "+name, func(t *testing.T) {
				t.Parallel()
				newKilling(t, repository, places[name]).run(first)
			})
			first++ // so that the moments at which there was no tree before differ from place to place
		}
	}
}

type killCase struct {
	gitDir, link string
	mount        bool
	leaves       []string // names of the directory and of what belongs beside it
}

type killing struct {
	*testing.T
	killCase
	*twoRevisions
	top   string
	child child
}

func newKilling(t *testing.T, r *twoRevisions, c killCase) *killing {
	k := &killing{T: t, twoRevisions: r, killCase: c, top: t.TempDir()}
	k.child = child{URL: r.url, Dir: filepath.Join(k.top, "app"), Link: c.link, GitDir: c.gitDir, Depth: 1, Submodules: clone.SubmodulesRecursive}
	if c.mount {
		servers.Tmpfs(t, k.child.Dir, "size=200m")
	}
	if strings.Contains(c.gitDir, "/") {
		k.child.GitDir = filepath.Join(k.top, c.gitDir)
	}
	return k
}

// run kills clones at five moments of an undisturbed run. The first of them is number i, which decides what it clones
// and whether there is a tree before.
func (k *killing) run(i int) {
	whole := time.Minute
	for range 2 {
		whole = min(whole, k.finish(k.wanted(i), false))
		i++
	}
	kills, killed, missing := 0, 0, 0
	for moment := range soak.Moments(k, 5) {
		absent := i%5 == 4
		if absent {
			k.clear()
		}
		k.child.Ref = k.wanted(i)
		cmd := k.child.command(k)
		if err := cmd.Start(); err != nil {
			k.Fatal(err)
		}
		time.Sleep(time.Duration(moment * float64(whole)))
		cmd.Process.Kill()
		cmd.Wait()
		kills++
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
			killed++
		}
		if !k.check(absent) {
			missing++
		}
		k.finish(k.wanted(i), i%5 == 3)
		i++
	}
	k.Logf("%d of %d runs were killed before they ended; %d of them left no tree, or no marker; an undisturbed run takes %v", killed, kills, missing, whole)
}

// wanted is the branch that clone number i wants: never the one that is there.
func (k *killing) wanted(i int) string { return []string{"two", "one"}[i%2] }

// clear removes what there is.
func (k *killing) clear() {
	all, _ := filepath.Glob(filepath.Join(k.top, "*"))
	if k.mount {
		all, _ = filepath.Glob(filepath.Join(k.child.Dir, "*"))
		all = append(all, filepath.Join(k.child.Dir, ".git"))
	}
	for _, name := range all {
		if err := os.RemoveAll(name); err != nil {
			k.Fatal(err)
		}
	}
}

// tree returns the path that readers use.
func (k *killing) tree() string { return filepath.Join(k.child.Dir, k.link) }

// marked returns the commit that the marker names, or "" without a marker.
func (k *killing) marked() string {
	name := filepath.Join(k.tree(), ".git/initbox.json")
	switch {
	case k.gitDir == clone.GitRemove && k.mount:
		name = filepath.Join(k.child.Dir, ".initbox.json")
	case k.gitDir == clone.GitRemove:
		name = filepath.Join(k.top, ".app.initbox.json")
	case k.gitDir != "":
		name = filepath.Join(k.child.GitDir, "initbox.json")
	}
	var marker struct{ SHA string }
	if text, err := os.ReadFile(name); err == nil {
		if err := json.Unmarshal(text, &marker); err != nil {
			k.Fatalf("%s: %v", name, err)
		}
	}
	return marker.SHA
}

// check checks what a killed run has left, and reports whether that is a complete tree.
func (k *killing) check(absent bool) bool {
	k.Helper()
	sha := k.marked()
	if k.mount && sha == "" {
		return false
	}
	is, err := digest(k.tree())
	if absent && errors.Is(err, fs.ErrNotExist) && sha == "" {
		return false
	}
	if err != nil {
		k.Fatal(err)
	}
	branch := k.branch(is)
	if branch == "" {
		k.Fatalf("the tree is neither the old one nor the new one")
	}
	if sha != "" && sha != k.shas[branch] {
		k.Fatalf("the marker names %s, the tree is that of branch %s", sha, branch)
	}
	return true
}

// branch returns the branch whose tree has that digest.
func (r *twoRevisions) branch(digest string) string {
	for branch, d := range r.digests {
		if d == digest {
			return branch
		}
	}
	return ""
}

// finish runs a clone to its end, checks that it leaves its tree and nothing else, and returns how long the clone took.
func (k *killing) finish(branch string, ask bool) (took time.Duration) {
	k.Helper()
	k.child.Ref = branch
	start := time.Now()
	out := k.child.run(k)
	took = time.Since(start)
	if out.Error != "" || out.SHA != k.shas[branch] {
		k.Fatalf("%+v, want %s", out, k.shas[branch])
	}
	if is, err := digest(k.tree()); err != nil || is != k.digests[branch] {
		k.Fatalf("the tree is that of %q, %v; want %s", k.branch(is), err, branch)
	}
	if sha := k.marked(); sha != k.shas[branch] {
		k.Fatalf("the marker is of %q, want %s", sha, k.shas[branch])
	}
	k.requireNames(k.top, k.leaves...)
	inner, _ := filepath.Glob(filepath.Join(k.tree(), ".*"))
	inner = slices.DeleteFunc(inner, func(name string) bool {
		return slices.Contains([]string{".git", ".gitmodules", ".initbox.json"}, filepath.Base(name))
	})
	if len(inner) > 0 {
		k.Fatalf("there is %q", inner)
	}
	if k.link != "" {
		k.requireNames(k.child.Dir, ".worktrees", k.link)
		k.requireNames(filepath.Join(k.child.Dir, ".worktrees"), k.shas[branch])
	}
	if ask && k.gitDir != clone.GitRemove {
		sound(k, k.tree())
	}
	return took
}

func (k *killing) requireNames(dir string, want ...string) {
	k.Helper()
	requireNames(k, dir, want...)
}

// requireNames fails unless a directory contains exactly these names.
func requireNames(t testing.TB, dir string, want ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("in %s are %q, %v; want %q", dir, got, err, want)
	}
}

// TestAtOnce has several processes clone into one directory. Of those that want the same revision, one makes it and the
// others find it in place. In any case, a reader finds a complete tree at every instant.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	r := newTwoRevisions(t, smallHistory)
	for name, branches := range map[string][]string{
		"two": {"one", "one"}, "four": {"one", "one", "one", "one"}, "others": {"one", "two", "one", "two"},
	} {
		for _, link := range []string{"", "current"} {
			t.Run(name+" "+link, func(t *testing.T) {
				t.Parallel()
				top := t.TempDir()
				c := child{URL: r.url, Dir: filepath.Join(top, "app"), Link: link, Depth: 1, Ref: "two"}
				if out := c.run(t); out.Error != "" {
					t.Fatal(out.Error)
				}
				stop := r.read(t, filepath.Join(c.Dir, link))
				var all sync.WaitGroup
				var changed atomic.Int32
				for _, branch := range branches {
					c := c
					c.Ref = branch
					all.Go(func() {
						out := c.run(t)
						if out.Error != "" || out.SHA != r.shas[branch] {
							t.Errorf("%+v", out)
						}
						if out.Changed {
							changed.Add(1)
						}
					})
				}
				all.Wait()
				stop()
				if n := changed.Load(); name != "others" && n != 1 {
					t.Errorf("%d of %d have done it", n, len(branches))
				}
				is, err := digest(filepath.Join(c.Dir, link))
				if branch := r.branch(is); branch == "" || name != "others" && branch != "one" {
					t.Errorf("the tree is that of %q, %v", branch, err)
				}
				sound(t, filepath.Join(c.Dir, link))
				requireNames(t, top, "app")
				if link != "" {
					requireNames(t, c.Dir, ".worktrees", link)
				}
			})
		}
	}
}

// read looks at a tree until the function that it returns is called.
func (r *twoRevisions) read(t *testing.T, dir string) (stop func()) {
	var done atomic.Bool
	var over sync.WaitGroup
	looks := 0
	over.Go(func() {
		for ; !done.Load(); looks++ {
			if err := r.look(dir); err != nil {
				t.Error("a reader: ", err)
				return
			}
		}
	})
	return func() {
		done.Store(true)
		over.Wait()
		t.Logf("a reader looked %d times", looks)
	}
}

// look reads the tree once, while it may be replaced, and the old one removed.
func (r *twoRevisions) look(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer opened.Close() // as long as it is open no other directory has its number
	is, err := digest(fmt.Sprintf("/proc/self/fd/%d", opened.Fd()))
	if err == nil && r.branch(is) != "" {
		return nil
	}
	before, _ := opened.Stat()
	after, failed := os.Stat(dir)
	if failed != nil {
		return failed
	}
	if !os.SameFile(before, after) {
		return nil
	}
	if err == nil {
		err = errors.New("the tree is of neither revision")
	}
	return err
}

// TestAnyUser clones as a user without an entry in /etc/passwd into an emptyDir, with everything else read-only.
func TestAnyUser(t *testing.T) {
	t.Parallel()
	r := newTwoRevisions(t, smallHistory)
	dir := t.TempDir()
	servers.Tmpfs(t, filepath.Join(dir, "volume"), "size=20m,mode=0777")
	for name := dir; name != "/"; name = filepath.Dir(name) {
		if info, err := os.Stat(name); err == nil && info.Mode()&0o001 == 0 {
			os.Chmod(name, info.Mode()|0o001) // as the root of a container is: it may be passed through
		}
	}
	for name, c := range map[string]child{
		"mount":     {Dir: filepath.Join(dir, "volume")},
		"remove":    {Dir: filepath.Join(dir, "volume"), GitDir: clone.GitRemove},
		"directory": {Dir: filepath.Join(dir, "volume/a/b")},
		"link":      {Dir: filepath.Join(dir, "volume/links"), Link: "current"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				all, _ := filepath.Glob(filepath.Join(dir, "volume/.*"))
				more, _ := filepath.Glob(filepath.Join(dir, "volume/*"))
				for _, name := range append(all, more...) {
					os.RemoveAll(name)
				}
			}()
			c.URL, c.Depth, c.UID, c.ReadOnlyRoot = r.url, 1, 1000, true
			for _, branch := range []string{"one", "two", "two"} {
				c.Ref = branch
				out := c.run(t)
				if out.Error != "" {
					t.Fatalf("%s; %s", out.Error, out.Hint)
				}
				if is, err := digest(filepath.Join(c.Dir, c.Link)); err != nil || r.branch(is) != branch {
					t.Errorf("the tree is that of %q, %v; want %s", r.branch(is), err, branch)
				}
				if info, err := os.Stat(filepath.Join(c.Dir, c.Link, "log")); err != nil || info.Sys().(*syscall.Stat_t).Uid != 1000 {
					t.Errorf("the owner of a file: %v, %v", info, err)
				}
			}
			if c.GitDir == "" {
				sound(t, filepath.Join(c.Dir, c.Link))
			}
		})
	}
	t.Run("no volume", func(t *testing.T) {
		out := child{URL: r.url, Depth: 1, UID: 1000, ReadOnlyRoot: true, Dir: "/initbox-test-none"}.run(t)
		if !strings.Contains(out.Error, "read-only file system") || !out.Permanent || !strings.Contains(out.Hint, "readOnly") {
			t.Errorf("%+v", out)
		}
	})
}
