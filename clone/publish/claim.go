package publish

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// claim is a file among the trees, for a link that is not beside them, where runs for other links do not see it: it may
// be in a volume of another Pod. They keep the trees of each claim. Links of several Pods may have the same path, so
// the name of a claim is made from that and an id, which is in a file beside the link. A run ends its claim where it
// finds its link gone. If the Pod is gone with its volume, no run for the link comes again, and the claim ends when its
// lease is over.
type claim struct {
	Trees []string `json:"trees"` // two while the link is being changed, see [swap.point]
	Link  string   `json:"link"`  // for the log and for people, like Host
	Host  string   `json:"host"`
	Lease int64    `json:"lease,omitempty"` // seconds, see Options.Lease

	name    string
	own     bool // of this run's link
	renewed time.Time
}

const (
	claimInfix = "-link-"
	idSuffix   = "-id"
	nextSuffix = "-next"
)

// margin is the part of a lease after which it is renewed, and by which it lasts longer than it says.
const margin = 8

func (c *claim) lease() time.Duration { return time.Duration(c.Lease) * time.Second }

func (c *claim) due() bool { return c.Lease > 0 && time.Since(c.renewed) > c.lease()/margin }

func (c *claim) expired() bool {
	return c.Lease > 0 && time.Since(c.renewed) > c.lease()+c.lease()/margin
}

func (c *claim) String() string {
	return failure.Printable(c.Link) + " on " + failure.Printable(c.Host)
}

// id returns the name of the file beside the link that has its id.
func (p *place) id() string { return "." + short(p.linkName) + mine + idSuffix }

// ownClaim returns the name of the claim of this run's link, or "" if the link has no id yet. The name does not reveal
// the id, so that no other link can be given it.
func (p *place) ownClaim() string {
	id, err := readSmall(p.links, p.id())
	if err != nil || id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id + "\n" + p.fromTrees))
	return mine + claimInfix + hex.EncodeToString(sum[:8])
}

// claim makes these trees those of the link's claim. It is on the disk when claim returns.
func (t *Target) claim(trees ...string) error {
	name := t.ownClaim()
	if name == "" {
		if err := writeSmall(t.links, t.id(), rand.Text()); err != nil {
			return t.linkFailed(err)
		}
		name = t.ownClaim()
	}
	own := &claim{Trees: slices.Compact(trees), Link: t.options.linkPath(), Lease: int64(t.options.Lease / time.Second)}
	own.Host, _ = os.Hostname()
	there, err := t.readClaim(name) // which is renewed without space, unlike a new file on a full disk
	if err == nil && slices.Equal(there.Trees, own.Trees) && there.Lease == own.Lease && (!there.due() || dirfd.Touch(t.base, name) == nil) {
		return nil
	}
	content, err := json.Marshal(own)
	if err != nil {
		return err
	}
	return writeSmall(t.base, name, string(content))
}

// writeSmall puts a file in place, atomically and on the disk. The kill of a run may leave the file's next content.
func writeSmall(dir *os.File, name, content string) error {
	next := name + nextSuffix
	dirfd.Remove(dir, next)
	f, err := openAt(dir, next, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content + "\n")
	err = cmp.Or(err, f.Chmod(0o644), f.Sync()) // whatever the umask: runs of other users read it
	if err = errors.Join(err, f.Close()); err == nil {
		err = rename(dir, next, dir, name)
	}
	return cmp.Or(err, dirfd.Sync(dir))
}

// readClaim reads a claim. A file that is not a claim is an error.
func (t *Target) readClaim(name string) (*claim, error) {
	f, err := openAt(t.base, name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	content, err := io.ReadAll(io.LimitReader(f, longestMark))
	if err != nil {
		return nil, err
	}
	c := &claim{name: name, renewed: stat.ModTime()}
	if json.Unmarshal(content, c) != nil || len(c.Trees) == 0 || !isHash(c.Trees[0]) {
		return nil, errors.New("it is not in the format of this version")
	}
	return c, nil
}

// claims returns the claims, and removes those whose lease is over. An error means that there may be more.
func (t *Target) claims() (claims []*claim, err error) {
	all, err := names(t.base)
	if err != nil {
		return nil, err
	}
	own := t.ownClaim()
	for _, name := range all {
		next := strings.HasSuffix(name, nextSuffix)
		switch {
		case !strings.HasPrefix(name, mine+claimInfix) || next && !t.lock.Held():
			continue
		case next: // of a killed run
			dirfd.Remove(t.base, name)
			continue
		}
		c, err := t.readClaim(name)
		if errors.Is(err, unix.ENOENT) {
			continue // without locks: a run has just ended it
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s/%s, which may name any of the trees: %w", t.base.Name(), name, err)
		}
		c.own = name == own
		if c.expired() && !c.own && t.lock.Held() && dirfd.Remove(t.base, name) == nil {
			t.log.Info(fmt.Sprintf("%s: the tree of %s is no longer kept: no run has used that link since %s", t.options.Dir, c, c.renewed.UTC().Format(time.RFC3339)))
			continue
		}
		claims = append(claims, c)
	}
	return claims, nil
}

// CheckUnused refuses to replace the worktree of a commit to which another link leads, too: its readers would lose it,
// and if each run has options of its own, they would replace each other's tree forever. Trees that are not as their
// run left them are replaced nevertheless. With GitDir, a tree cannot be shared. With Options.Replace, nothing is
// refused.
func (t *Target) CheckUnused(sha string) error {
	if !t.link() || !isHash(sha) || t.options.Replace {
		return nil
	}
	tree, err := openDir(t.base, sha)
	if err != nil {
		return nil
	}
	defer tree.Close()
	user, hint, err := t.otherUser(sha)
	if user == "" || err != nil {
		return err
	}
	if r, _ := t.inspect(tree, sha); r == nil && t.git == nil {
		return nil
	}
	text := "was made with other options"
	if t.git != nil {
		text = "cannot get another .git directory"
	}
	return poll.Permanent(failure.New(failure.Local, "%s: the tree of %s %s, and the link %s leads to it, too", t.options.Dir, sha, text, user).
		WithHint("give all clones into one DIR the same options (with --verify-signature also the same URL and --ref), or each its own DIR; --replace replaces the tree under the readers of that link" + hint))
}

// otherUser returns a link of another run that leads to a worktree, or "".
func (t *Target) otherUser(sha string) (link, hint string, err error) {
	beside, err := names(t.top)
	if err != nil {
		return "", "", explain("read "+t.options.Dir, err)
	}
	slices.Sort(beside)
	for _, name := range beside {
		own := t.fromTrees == "" && name == t.linkName
		if !own && leads(t.top, name, worktrees) == sha {
			return failure.Printable(filepath.Join(t.options.Dir, name)), "", nil
		}
	}
	claims, err := t.claims()
	if err != nil {
		return "", "", explain("find out which links lead to the tree of "+sha, err)
	}
	for _, c := range claims {
		if !c.own && slices.Contains(c.Trees, sha) {
			return c.String(), fmt.Sprintf("; if the Pod of that link is gone, remove %s/%s", t.base.Name(), c.name), nil
		}
	}
	return "", "", nil
}

// logClaims logs how many trees stay for links of other runs: for some of them, no run may come again.
func (t *Target) logClaims() {
	claims, err := t.claims()
	if err != nil {
		return // it was logged
	}
	var (
		current = t.linked()
		oldest  *claim
		trees   []string
		links   int
	)
	for _, c := range claims {
		others := slices.DeleteFunc(slices.Clone(c.Trees), func(tree string) bool { return tree == current })
		if c.own || len(others) == 0 {
			continue
		}
		links++
		trees = append(trees, others...)
		if oldest == nil || c.renewed.Before(oldest.renewed) {
			oldest = c
		}
	}
	if oldest == nil {
		return
	}
	slices.Sort(trees)
	text := fmt.Sprintf("%s: keeping %s for %s of other runs, the oldest %s, last updated %s", t.options.Dir,
		words.Plural(len(slices.Compact(trees)), "tree"), words.Plural(links, "link"), oldest, oldest.renewed.UTC().Format(time.RFC3339))
	if oldest.Lease == 0 {
		text += fmt.Sprintf("; it has no --link-lease, and its tree stays until %s/%s is removed", t.base.Name(), oldest.name)
	}
	t.log.Info(text)
}
