package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// A cloner is one way to have a directory with a repository's tree, as a user of the
// tool would do it. {url} is the repository, {commit} its HEAD and {dir} a directory that is not there yet.
type cloner struct {
	name, tool string
	args       []string
	again      []string // what is run on what args have made, to be up to date; nil for args once more
	tree       string   // where the tree is below {dir}
	sync       bool     // it is for the disk alone: elsewhere there is nothing to be synced
}

const (
	gitClone     = "git clone"
	gitCloneSync = "git clone, sync"
	gitSync      = "git-sync"
	goGit        = "go-git"
	oursPinned   = "initbox, --ref COMMIT"
)

// cloners lists them as the report does.
var cloners = []cloner{
	{name: ours, tool: ours, args: command([]string{"git-clone", "{url}", "{dir}"})},
	{name: gitClone, tool: "git", args: command([]string{"clone", "--depth", "1", "{url}", "{dir}"}),
		again: command([]string{"-C", "{dir}", "fetch", "--depth", "1"})},
	{name: gitCloneSync, tool: "git", args: []string{"/bin/sh", "-c", `{tool} clone --depth 1 {url} {dir} && sync -f {dir}`}, sync: true},
	{name: gitSync, tool: gitSync, tree: "tree",
		args: command([]string{"--one-time", "--repo", "{url}", "--root", "{dir}", "--link", "tree", "--max-failures", "0"})},
	{name: goGit, tool: goGit, args: command([]string{"{url}", "{dir}"})},
}

// pinnedCloner knows the commit, which never is another one.
var pinnedCloner = cloner{name: oursPinned, tool: ours, args: command([]string{"git-clone", "--ref", "{commit}", "{url}", "{dir}"})}

// argv returns the command line, or that for the second time.
func (c cloner) argv(path string, vars map[string]string, again bool) []string {
	args := c.args
	if again && c.again != nil {
		args = c.again
	}
	return waiter{args: args}.argv(path, vars)
}

// environ is all that a cloner sees of the environment: no configuration of the user's or of the machine's. home is a
// directory of its own, since git-sync keeps some there.
func (c cloner) environ(home string) []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"}
}

// buildGoGit builds the plain program with go-git, and adds it to the tools.
func (b *bench) buildGoGit(ctx context.Context) error {
	path := filepath.Join(b.dir, goGit)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "initbox/bench/gogit")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build of the program with go-git: %w: %s", err, out)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	b.tools[goGit] = tool{name: goGit, path: path, version: "version unknown"}
	for _, m := range info.Deps {
		if m.Path == "github.com/go-git/go-git/v5" {
			b.tools[goGit] = tool{name: goGit, path: path, version: m.Version}
		}
	}
	return nil
}

// A cloning is a cloner's share of a measurement: where it puts its trees, each a new one.
type cloning struct {
	cloner
	where setting
	repo  *repository
	url   string
	dir   string       // that all the directories are in
	runs  int          // so far
	in    *memoryGroup // nil for no limit
}

func (c *cloning) home() string { return filepath.Join(c.dir, "home") }

// directory returns the directory of the last run.
func (c *cloning) directory() string { return filepath.Join(c.dir, strconv.Itoa(c.runs)) }

func (c *cloning) vars() map[string]string {
	return map[string]string{"url": c.url, "dir": c.directory(), "commit": c.repo.commit}
}

// clone does it once, in a new directory or again in the last one.
func (b *bench) clone(ctx context.Context, c *cloning, again bool) (*proc, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, oneCloning, errors.New("still not done"))
	defer cancel()
	if err := os.MkdirAll(c.home(), 0o755); err != nil {
		return nil, err
	}
	if !again {
		c.runs++
	}
	argv := c.argv(b.tools[c.tool].path, c.vars(), again)
	if c.in != nil {
		argv = c.in.inside(argv)
	}
	var p *proc
	start := func() (err error) {
		p, err = b.start(ctx, argv, func(cmd *exec.Cmd) { cmd.Env = c.environ(c.home()) })
		return err
	}
	var err error
	if c.where.core {
		err = onOneCore(start)
	} else {
		err = start()
	}
	if err != nil {
		return nil, err
	}
	<-p.done
	return p, p.err
}

// check holds what a run has left against what git did.
func (c *cloning) check(ctx context.Context) error {
	tree, err := filepath.EvalSymlinks(filepath.Join(c.directory(), c.tree))
	if err != nil {
		return err
	}
	commit, err := head(ctx, tree)
	if err != nil {
		return err
	}
	if commit != c.repo.commit {
		return fmt.Errorf("the tree is of %s, want %s", commit, c.repo.commit)
	}
	got, err := count(tree)
	if err == nil && got != c.repo.tree {
		err = fmt.Errorf("the tree has %+v, git's %+v", got, c.repo.tree)
	}
	return err
}
