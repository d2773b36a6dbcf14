package gitdir

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/gitconfig"
	"initbox/clone/remote"
)

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
	origin   = "refs/remotes/origin/"
)

// packed is the first line of packed-refs. It says that the lines are sorted, and that a tag not followed by a line
// that begins with ^ is not annotated.
const packed = "# pack-refs with: peeled fully-peeled sorted \n"

// refs writes packed-refs, in which each reference is a line instead of a file, and refs/remotes/origin/HEAD.
func (w *writer) refs(o Options) {
	known := make(map[string]remote.Ref)
	for _, r := range o.Refs {
		if name := local(r.Name); name != "" {
			known[name] = r
		}
	}
	if o.Head != "" && !o.Commit.IsZero() {
		known[o.Head] = remote.Ref{ID: o.Commit}
	}
	names := slices.Sorted(maps.Keys(known))

	lines := bytes.NewBufferString(packed)
	for _, name := range names {
		if err := plumbing.ReferenceName(name).Validate(); err != nil {
			w.check(fmt.Errorf("%q is not a reference's name", name))
			return
		}
		r := known[name]
		fmt.Fprintf(lines, "%s %s\n", r.ID, name)
		if !r.Peeled.IsZero() {
			fmt.Fprintf(lines, "^%s\n", r.Peeled)
		}
	}
	if len(names) > 0 {
		w.file("packed-refs", lines.Bytes())
	}
	for _, r := range o.Refs {
		if branch, ok := strings.CutPrefix(r.Target, branches); ok && r.Name == "HEAD" && !known[origin+branch].ID.IsZero() {
			w.directory("refs/remotes/origin")
			w.symbolic(origin+"HEAD", origin+branch)
		}
	}
}

// local returns the name under which a reference of the remote is recorded; "" if it is not.
func local(name string) string {
	if branch, ok := strings.CutPrefix(name, branches); ok && branch != "HEAD" { // which is refs/remotes/origin/HEAD
		return origin + branch
	}
	if strings.HasPrefix(name, tags) {
		return name
	}
	return ""
}

// config writes the file config, in the same order as git.
func (w *writer) config(o Options) {
	var c gitconfig.Writer
	c.Section("core", "")
	version := "0"
	if o.Filter != "" {
		version = "1" // like git: older versions would report missing objects as damage
	}
	c.Set("repositoryformatversion", version)
	c.Set("filemode", "true")
	c.Set("bare", "false")
	c.Set("logallrefupdates", "true")
	if o.Worktree != "" {
		c.Set("worktree", o.Worktree)
	}
	if o.Access.GroupWrite {
		c.Set("sharedRepository", "group")
	}
	if o.Sparse != nil {
		c.Set("sparseCheckout", "true")
		c.Set("sparseCheckoutCone", fmt.Sprint(o.Cone)) // the default differs between versions
	}
	c.Section("remote", "origin")
	c.Set("url", o.Remote)
	if spec := refspec(o.Follow); spec != "" {
		c.Set("fetch", spec)
	}
	if o.Filter != "" {
		c.Set("promisor", "true")
		c.Set("partialclonefilter", o.Filter)
	}
	if branch, ok := strings.CutPrefix(o.Head, branches); ok {
		c.Section("branch", branch)
		c.Set("remote", "origin")
		c.Set("merge", o.Head)
	}
	for _, m := range o.Submodules {
		c.Section("submodule", m.Name)
		c.Set("active", "true")
		c.Set("url", m.URL)
	}
	content, err := c.Bytes()
	w.check(err)
	w.file("config", content)
}

// refspec says which references git fetch updates: see git-fetch(1), "CONFIGURED REMOTE-TRACKING BRANCHES".
func refspec(follow string) string {
	if name := local(follow); name != "" {
		return "+" + follow + ":" + name
	}
	return ""
}
