package publish

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func claimsIn(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, worktrees, ".initbox-link-*"))
	must(t, err)
	return all
}

// pods are Pods that share the directory root of a lasting volume. Each has a volume of its own, which they mount at
// the same path, app: one at a time is there.
type pods struct {
	*testing.T
	top, in string
	o       Options
	log     strings.Builder
}

func newPods(t *testing.T) *pods {
	p := &pods{T: t, top: t.TempDir()}
	p.o = Options{Dir: filepath.Join(p.top, "root"), Link: filepath.Join(p.top, "app/current"), Log: slog.New(slog.NewTextHandler(&p.log, nil))}
	return p
}

// enter makes the volume of a Pod the one at app.
func (p *pods) enter(pod string) {
	p.Helper()
	app := filepath.Join(p.top, "app")
	if p.in != "" {
		must(p.T, os.Rename(app, filepath.Join(p.top, p.in)))
	}
	p.in = pod
	if err := os.Rename(filepath.Join(p.top, pod), app); errors.Is(err, fs.ErrNotExist) {
		must(p.T, os.Mkdir(app, 0o755))
	}
}

// want checks which tree the link of each Pod leads to, and that there are no others.
func (p *pods) want(links map[string]string) {
	p.Helper()
	var trees []string
	for pod, sha := range links {
		dir := pod
		if pod == p.in {
			dir = "app"
		}
		content, err := os.ReadFile(filepath.Join(p.top, dir, "current/a"))
		if want := map[string]string{sha1: "1", sha2: "22"}[sha]; err != nil || string(content) != want {
			p.Errorf("the link of %s leads to %q, %v; want %q", pod, content, err, want)
		}
		trees = append(trees, sha)
	}
	slices.Sort(trees)
	p.wantTrees(slices.Compact(trees)...)
}

func (p *pods) wantTrees(want ...string) {
	p.Helper()
	all, err := filepath.Glob(filepath.Join(p.o.Dir, worktrees, "[0-9a-f]*"))
	must(p.T, err)
	for i := range all {
		all[i] = filepath.Base(all[i])
	}
	if !slices.Equal(all, want) {
		p.Errorf("trees %q, want %q", all, want)
	}
}

// age makes all claims as old as if they had been renewed then for the last time.
func (p *pods) age(by time.Duration) {
	p.Helper()
	then := time.Now().Add(-by)
	for _, name := range claimsIn(p.T, p.o.Dir) {
		must(p.T, os.Chtimes(name, then, then))
	}
}

// Links at the same path, in volumes of several Pods, are told apart: no Pod removes the tree of another one.
func TestPods(t *testing.T) {
	p := newPods(t)
	p.enter("one")
	put(t, p.o, sha1, withGit1)
	p.want(map[string]string{"one": sha1})
	p.enter("two")
	put(t, p.o, sha2, withGit2)
	p.want(map[string]string{"one": sha1, "two": sha2})
	for _, text := range []string{"keeping 1 tree for 1 link of other runs, the oldest " + p.o.Link + " on ", "its tree stays until " + p.o.Dir + "/.worktrees/.initbox-link-"} {
		if !strings.Contains(p.log.String(), text) {
			t.Errorf("the log does not say %q:\n%s", text, &p.log)
		}
	}
	p.enter("three") // which has not cloned yet
	if got := current(t, p.o); got != "" {
		t.Errorf("current %q", got)
	}
	for pod, sha := range map[string]string{"one": sha1, "two": sha2} {
		p.enter(pod)
		if got := current(t, p.o); got != sha {
			t.Errorf("%s: current %q, want %q", pod, got, sha)
		}
	}
	p.want(map[string]string{"one": sha1, "two": sha2})
	p.enter("one")
	put(t, p.o, sha2, withGit2)
	p.want(map[string]string{"one": sha2, "two": sha2})

	// The claim of a link that is gone ends with the next run for it, and that of a volume that is gone does not.
	p.enter("two")
	put(t, p.o, sha1, withGit1)
	must(t, os.Remove(p.o.Link))
	p.wantTrees(sha1, sha2)
	current(t, p.o)
	p.want(map[string]string{"one": sha2})
	put(t, p.o, sha1, withGit1)
	p.enter("one")
	must(t, os.RemoveAll(filepath.Join(p.top, "two")))
	p.age(10 * 365 * 24 * time.Hour)
	current(t, p.o)
	put(t, p.o, sha2, bare2)
	p.wantTrees(sha1, sha2)
}

// A copy of a link, with its id, is another link.
func TestCopiedLink(t *testing.T) {
	p := newPods(t)
	p.enter("one")
	put(t, p.o, sha1, withGit1)
	must(t, os.CopyFS(filepath.Join(p.top, "copy"), os.DirFS(filepath.Dir(p.o.Link))))
	other := p.o
	other.Link = filepath.Join(p.top, "copy/current")
	put(t, other, sha2, withGit2)
	p.want(map[string]string{"one": sha1, "copy": sha2})
}

// With a lease, a claim ends when no run has renewed it for that time. Each run for the link renews it.
func TestLease(t *testing.T) {
	p := newPods(t)
	p.o.Lease = 80 * time.Minute
	p.enter("one")
	put(t, p.o, sha1, withGit1)
	p.enter("two")
	put(t, p.o, sha2, withGit2)
	for range 3 {
		p.age(80 * time.Minute)
		p.enter("one")
		current(t, p.o)
		p.enter("two")
		current(t, p.o)
		p.want(map[string]string{"one": sha1, "two": sha2})
	}
	before, err := os.Stat(claimsIn(t, p.o.Dir)[0])
	must(t, err)
	p.enter("one")
	current(t, p.o)
	p.enter("two")
	current(t, p.o)
	if after, err := os.Stat(claimsIn(t, p.o.Dir)[0]); err != nil || !os.SameFile(before, after) {
		t.Errorf("a claim that was renewed just now is written again: %v", err)
	}

	must(t, os.RemoveAll(filepath.Join(p.top, "one")))
	p.age(91 * time.Minute)
	current(t, p.o)
	p.want(map[string]string{"two": sha2})
	if text := "the tree of " + p.o.Link; !strings.Contains(p.log.String(), text) || len(claimsIn(t, p.o.Dir)) != 1 {
		t.Errorf("claims %q, and the log is\n%s", claimsIn(t, p.o.Dir), &p.log)
	}

	// A link in the directory itself needs no claim, and its runs remove the tree of the claim that has ended.
	must(t, os.RemoveAll(filepath.Join(p.top, "app")))
	here := Options{Dir: p.o.Dir, Link: "current"}
	put(t, here, sha1, withGit1)
	p.wantTrees(sha1, sha2)
	p.age(91 * time.Minute)
	current(t, here)
	p.wantTrees(sha1)
	if left := claimsIn(t, p.o.Dir); len(left) > 0 {
		t.Errorf("claims %q", left)
	}
}

// A run does not end its own claim, and renews it on a full disk, too: while no file can be made beside it.
func TestRenewWithoutSpace(t *testing.T) {
	p := newPods(t)
	p.o.Lease, p.o.Warned = 80*time.Minute, new(Warned)
	p.enter("one")
	put(t, p.o, sha1, withGit1)
	claim := claimsIn(t, p.o.Dir)[0]
	tree{"x": "in the way of its next content"}.write(t, claim+nextSuffix)
	p.age(91 * time.Minute)
	current(t, p.o)
	if s, err := os.Stat(claim); err != nil || time.Since(s.ModTime()) > time.Hour {
		t.Errorf("the claim is not renewed: %v, %v", s, err)
	}
	const text = "root: cannot record that the link "
	if strings.Contains(p.log.String(), text) {
		t.Errorf("the log says %q:\n%s", text, &p.log)
	}
	p.o.Lease = 2 * time.Hour // which takes other content
	for range 2 {
		p.age(91 * time.Minute)
		current(t, p.o)
	}
	if _, err := os.Stat(claim); err != nil || strings.Count(p.log.String(), text+p.o.Link+" uses its tree, so runs for other links may remove the tree") != 1 {
		t.Errorf("%v, and the log does not say %q once:\n%s", err, text, &p.log)
	}
	p.want(map[string]string{"one": sha1})
}

// A sidecar keeps the tree of before until its next look, whatever runs of other Pods do meanwhile.
func TestKeepForOthers(t *testing.T) {
	p := newPods(t)
	p.o.Keep = true
	p.enter("one")
	put(t, p.o, sha1, withGit1)
	put(t, p.o, sha2, withGit2)
	p.enter("two")
	put(t, p.o, sha2, withGit2)
	p.wantTrees(sha1, sha2)
	p.enter("one")
	current(t, p.o)
	p.want(map[string]string{"one": sha2, "two": sha2})
}

// While a claim cannot be read, no tree is removed: it may be the one that is claimed.
func TestUnreadableClaim(t *testing.T) {
	p := newPods(t)
	p.enter("one")
	put(t, p.o, sha1, withGit1)
	bad := claimsIn(t, p.o.Dir)[0] + "x"
	p.o.Warned = new(Warned)
	for _, content := range []string{"", "{", `{"trees": []}`, `{"trees": ["x"]}`} {
		must(t, os.WriteFile(bad, []byte(content), 0o644))
		put(t, p.o, sha2, withGit2)
		p.wantTrees(sha1, sha2)
		put(t, p.o, sha1, withGit1)
		p.wantTrees(sha1, sha2)
	}
	must(t, os.Remove(bad))
	must(t, os.Mkdir(bad, 0o755))
	put(t, p.o, sha2, withGit2)
	p.wantTrees(sha1, sha2)
	put(t, p.o, sha1, withGit1)
	for reason, times := range map[string]int{"it is not in the format of this version": 1, "it is not a regular file": 1} {
		text := p.o.Dir + ": removing no trees: cannot read " + bad + ", which may name any of the trees: " + reason + "; if it is the file of a link that no longer exists, remove it"
		if strings.Count(p.log.String(), text) != times {
			t.Errorf("the log does not say %q once:\n%s", text, &p.log)
		}
	}
	must(t, os.Remove(bad))
	current(t, p.o)
	p.want(map[string]string{"one": sha1})
}
