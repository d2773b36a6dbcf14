package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"initbox/clone/access"
	"initbox/test/servers"
	"initbox/test/soak"
)

// TestMain is, with $PUBLISH_CHILD, a run that publishes a tree of generations: each file holds its number.
func TestMain(m *testing.M) {
	group, noGroup := strconv.Atoi(os.Getenv("PUBLISH_GROUP"))
	if uid, err := strconv.Atoi(os.Getenv("PUBLISH_UID")); err == nil {
		var groups []int
		if noGroup == nil {
			groups = []int{group}
			syscall.Umask(0o002)
		}
		if err := errors.Join(syscall.Setgroups(groups), syscall.Setgid(uid), syscall.Setuid(uid)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	if dir := os.Getenv("PUBLISH_CHILD"); dir != "" {
		o := Options{Dir: dir, Link: os.Getenv("PUBLISH_LINK"), NoSync: true}
		o.KeepOld, _ = time.ParseDuration(os.Getenv("PUBLISH_KEEP_OLD"))
		o.Access.GroupWrite = noGroup == nil
		if uid, err := strconv.Atoi(os.Getenv("PUBLISH_OWNER")); err == nil {
			o.Access.Owner = &access.Owner{UID: uid, GID: uid}
		}
		generation := os.Getenv("PUBLISH_GENERATION")
		if err := child(o, generation, os.Getenv("PUBLISH_GIT") != "", os.Getenv("PUBLISH_HOW")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(servers.Main(m))
}

const (
	directories = 12
	perEach     = 8
)

// hashOf is the commit of a generation.
func hashOf(generation string) string { return strings.Repeat(generation, 40)[:40] }

func child(o Options, generation string, git bool, how string) error {
	t, err := Open(context.Background(), o)
	if err != nil {
		return err
	}
	defer t.Close()
	t.noExchange = how == "without exchange"
	fmt.Println("opened")
	if how == "wait" {
		os.Stdin.Read(make([]byte, 1)) // until it is killed
	}
	if m := t.Current(); m != nil && m.SHA == hashOf(generation) {
		fmt.Println("nothing to do")
		return nil
	}
	s, err := t.Stage()
	if err != nil {
		return err
	}
	if how == "reuse" && t.Earlier(hashOf(generation)) != nil {
		return t.Reuse(context.Background(), s, hashOf(generation))
	}
	for i := range directories {
		dir := filepath.Join(s.Tree, fmt.Sprintf("d%d", i), "sub")
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		for j := range perEach {
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(j)), []byte(generation), 0o644); err != nil {
				return err
			}
		}
	}
	only := filepath.Join(s.Tree, "only"+generation) // what the other does not have
	if err := os.WriteFile(only, []byte(generation), 0o644); err != nil {
		return err
	}
	if git {
		if err := os.Mkdir(filepath.Join(s.Tree, ".git"), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(s.Tree, ".git", "HEAD"), []byte(generation), 0o644); err != nil {
			return err
		}
	}
	return t.Publish(context.Background(), s, Marker{SHA: hashOf(generation)})
}

func command(o Options, generation string, git bool, how string) *exec.Cmd {
	cmd := soak.Child("PUBLISH_CHILD="+o.Dir, "PUBLISH_LINK="+o.Link, "PUBLISH_GENERATION="+generation, "PUBLISH_HOW="+how, "PUBLISH_KEEP_OLD="+o.KeepOld.String())
	if git {
		cmd.Env = append(cmd.Env, "PUBLISH_GIT=1")
	}
	cmd.Stdout = new(bytes.Buffer)
	return cmd
}

// wholeGeneration reads the tree at path and returns the generation that all of it
// is of. An error is that of a tree which is not whole.
func wholeGeneration(path string, git bool) (string, error) {
	files, generation := 0, ""
	root, err := os.OpenRoot(path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(name, ".initbox-") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, "initbox.json") || strings.HasPrefix(name, ".initbox-") {
			return nil
		}
		content, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		g := string(content)
		if generation == "" {
			generation = g
		}
		if g == "" || g != generation {
			return fmt.Errorf("%s is of generation %q, others of %q", name, g, generation)
		}
		files++
		return nil
	})
	want := directories*perEach + 1
	if git {
		want++
	}
	if err == nil && files != want {
		err = fmt.Errorf("there are %d files, want %d", files, want)
	}
	return generation, err
}

type killCase struct {
	name, how string
	link, git bool
	elsewhere bool // the link is not in the directory
	keepOld   time.Duration
	mount     string // what the directory is; "" for a real directory, "none" for the working directory of the run
}

// TestKilled kills runs at many moments. Whatever they were doing, the directory is the old tree or the new one; where
// it is a mount point that holds only if there is a marker. The next run leaves nothing but its tree.
func TestKilled(t *testing.T) {
	servers.Slow(t)
	cases := []killCase{
		{name: "directory", git: true},
		{name: "directory without .git"},
		{name: "link", link: true, git: true},
		{name: "link without .git", link: true},
		{name: "link, old trees kept", link: true, git: true, keepOld: time.Hour},
		{name: "link without .git, old trees kept", link: true, keepOld: time.Hour},
		{name: "link, old trees reused", link: true, git: true, keepOld: time.Hour, how: "reuse"},
		{name: "link without .git, old trees reused", link: true, keepOld: time.Hour, how: "reuse"},
		{name: "link elsewhere", link: true, git: true, elsewhere: true},
		{name: "mount", git: true, mount: "tmpfs"},
		{name: "mount without .git", mount: "tmpfs"},
		{name: "mount without exchange", git: true, mount: "tmpfs", how: "without exchange"},
		{name: "working directory", git: true, mount: "none"},
		{name: "working directory without .git", mount: "none"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			k := &killing{T: t, killCase: c, o: Options{Dir: filepath.Join(top, "app"), KeepOld: c.keepOld}, top: top}
			if c.link {
				k.o.Link = "current"
			}
			if c.elsewhere {
				k.o.Link = "../else/where/current"
			}
			switch c.mount {
			case "":
			case "none":
				if err := os.Mkdir(k.o.Dir, 0o755); err != nil {
					t.Fatal(err)
				}
			default:
				servers.Tmpfs(t, k.o.Dir, "size=50m")
			}
			k.run(8)
		})
	}
}

// TestKilledPod kills the first run of a Pod whose link is in a volume of its own, beside another Pod with such a link:
// each link is whole, and the next run leaves two trees and two claims.
func TestKilledPod(t *testing.T) {
	servers.Slow(t)
	t.Parallel()
	top := t.TempDir()
	one := Options{Dir: filepath.Join(top, "root"), Link: "../one/current"}
	two := Options{Dir: one.Dir, Link: "../two/current"}
	run := func(o Options, generation string) time.Duration {
		t.Helper()
		start := time.Now()
		cmd := command(o, generation, true, "")
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, cmd.Stdout)
		}
		return time.Since(start)
	}
	whole := func(o Options, want string) {
		t.Helper()
		if g, err := wholeGeneration(o.linkPath(), true); err != nil || g != want {
			t.Fatalf("%s: generation %q, %v; want %s", o.Link, g, err, want)
		}
	}
	took := run(one, "1")
	claim := claimsIn(t, one.Dir)[0]
	killed := 0
	for moment := range soak.Moments(t, 12) {
		cmd := command(two, "2", true, "")
		must(t, cmd.Start())
		time.Sleep(time.Duration(moment * float64(took)))
		cmd.Process.Kill()
		cmd.Wait()
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			killed++
		}
		whole(one, "1")
		if _, err := os.Lstat(two.linkPath()); err == nil {
			whole(two, "2")
		}
		run(two, "2")
		whole(one, "1")
		whole(two, "2")
		claims := claimsIn(t, one.Dir)
		if got := read(t, top); len(got) != 2*(directories*perEach+1+1+1+1+1+1) || len(claims) != 2 {
			t.Fatalf("there is\n%v", got)
		}
		for _, name := range claims { // as if the Pod had never been there
			if name != claim {
				must(t, os.Remove(name))
			}
		}
		must(t, os.RemoveAll(filepath.Dir(two.linkPath())))
	}
	t.Logf("%d runs were killed before their end; one takes %v", killed, took)
}

type killing struct {
	*testing.T
	killCase
	o    Options
	top  string
	runs int // that came to their end
}

func (k *killing) command(generation string) *exec.Cmd {
	cmd := command(k.o, generation, k.git, k.how)
	if k.mount == "none" {
		cmd.Dir = k.o.Dir
	}
	return cmd
}

// tree is where readers look.
func (k *killing) tree() string { return k.o.linkPath() }

func (k *killing) run(kills int) {
	whole := min(k.finish("2"), k.finish("1"))
	stop := k.readAllTheTime()
	defer stop()
	killed, runs := 0, 0
	for moment := range soak.Moments(k, kills) {
		generation := []string{"2", "1"}[runs%2]
		runs++
		cmd := k.command(generation)
		if err := cmd.Start(); err != nil {
			k.Fatal(err)
		}
		time.Sleep(time.Duration(moment * float64(whole)))
		cmd.Process.Kill()
		cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
			killed++
		}
		k.check()
		k.finish(generation)
	}
	k.Logf("%d of %d runs were killed before their end; one takes %v", killed, runs, whole)
}

// check looks at what a killed run leaves.
func (k *killing) check() {
	k.Helper()
	if k.mount == "" {
		if _, err := wholeGeneration(k.tree(), k.git); err != nil {
			k.Fatal(err)
		}
	}
	sha := current(k, k.o)
	if k.mount == "" && sha == "" && k.git {
		k.Fatal("a whole tree has no marker")
	}
	if sha == "" {
		return
	}
	if g, err := wholeGeneration(k.tree(), k.git); err != nil || hashOf(g) != sha {
		k.Fatalf("the marker is of %s; the tree of generation %q: %v", sha, g, err)
	}
}

// finish lets a run come to its end, and looks whether it leaves its tree and
// nothing else. It returns how long the run took.
func (k *killing) finish(generation string) time.Duration {
	k.Helper()
	cmd := k.command(generation)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		k.Fatalf("%v: %s", err, cmd.Stdout)
	}
	took := time.Since(start)
	if g, err := wholeGeneration(k.tree(), k.git); err != nil || g != generation {
		k.Fatalf("generation %q, %v; want %s", g, err, generation)
	}
	if sha := current(k, k.o); sha != hashOf(generation) {
		k.Fatalf("current %q", sha)
	}
	want := directories*perEach + 1
	if k.git {
		want++
	}
	if k.link {
		want++
	}
	if k.elsewhere {
		want += 2 // its claim and its id
	}
	want++ // the marker
	if k.runs++; k.keepOld > 0 && k.runs > 1 {
		other := map[string]string{"1": "2", "2": "1"}[generation]
		if g, err := wholeGeneration(filepath.Join(k.o.Dir, worktrees, hashOf(other)), k.git); err != nil || g != other {
			k.Fatalf("the old tree is of generation %q, %v; want %s", g, err, other)
		}
		want *= 2 // with the note instead of the link
	}
	if got := read(k, k.top); len(got) != want {
		k.Fatalf("there is\n%v", got)
	}
	return took
}

// readAllTheTime looks at the tree until the function that it returns is called.
func (k *killing) readAllTheTime() (stop func()) {
	if k.mount != "" {
		return func() {} // only a marker vouches for it: see check
	}
	var done atomic.Bool
	var over sync.WaitGroup
	looks := 0
	over.Go(func() {
		for !done.Load() {
			if err := k.look(); err != nil {
				k.Error("a reader: ", err)
				return
			}
			looks++
		}
	})
	return func() {
		done.Store(true)
		over.Wait()
		k.Logf("a reader looked %d times", looks)
	}
}

// look reads the tree once. It may be replaced, and the old one removed, meanwhile.
func (k *killing) look() error {
	before, err := os.Stat(k.tree())
	if err != nil {
		return err
	}
	_, whole := wholeGeneration(k.tree(), k.git)
	if whole == nil {
		return nil
	}
	after, err := os.Stat(k.tree())
	if err != nil || !os.SameFile(before, after) {
		return err
	}
	return whole
}

// Runs at once each find the directory free or wait; one after the other publishes, or has nothing to do.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	for _, link := range []string{"", "current"} {
		for range 3 {
			o := Options{Dir: filepath.Join(t.TempDir(), "not/there/yet"), Link: link}
			var all sync.WaitGroup
			var idle atomic.Int32
			for range 4 {
				all.Go(func() {
					cmd := command(o, "1", true, "")
					if err := cmd.Run(); err != nil {
						t.Errorf("%v: %s", err, cmd.Stdout)
					}
					if strings.Contains(cmd.Stdout.(*bytes.Buffer).String(), "nothing to do") {
						idle.Add(1)
					}
				})
			}
			all.Wait()
			if g, err := wholeGeneration(filepath.Join(o.Dir, link), true); err != nil || g != "1" {
				t.Errorf("generation %q, %v", g, err)
			}
			if idle.Load() != 3 {
				t.Errorf("%d of 4 had nothing to do, want 3", idle.Load())
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Dir), ".*")); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		}
	}
}

// A run that waits gives up at its deadline, and names the host that it waited for.
func TestWaiting(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "app")}
	first := open(t, o)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Open(ctx, o)
		host, _ := os.Hostname()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another run, on "+host) {
			t.Errorf("error %v", err)
		}
	})
	first.Close()
	open(t, o).Close()
	requireTree(t, filepath.Dir(o.Dir), tree{})

	// A sibling has another lock.
	one, two := open(t, o), open(t, Options{Dir: o.Dir + "2"})
	one.Close()
	two.Close()
}

// A lock is free as soon as its holder is killed.
func TestKilledHolder(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "app")}
	cmd := soak.Child("PUBLISH_CHILD="+o.Dir, "PUBLISH_GENERATION=1", "PUBLISH_HOW=wait")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	soak.Start(t, cmd, "opened")
	cmd.Process.Kill()
	cmd.Wait()
	open(t, o).Close()
	requireTree(t, filepath.Dir(o.Dir), tree{})
}
