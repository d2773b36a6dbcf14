package clone

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/clone/publish"
	"initbox/clone/remote"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/suggest"
)

// revision is what Options.Ref means to the server now.
type revision struct {
	ref    remote.Ref    // the zero Ref for a commit that was asked for by its id
	commit plumbing.Hash // zero: the repository is empty
	asHead remote.Ref    // HEAD itself, if the branch is what it leads to
}

// name is the revision as the server calls it.
func (r revision) name() string {
	if r.ref.Name == "" {
		return r.commit.String()
	}
	return r.ref.Name
}

// String is the revision in a log: refs/heads/main at 0123….
func (r revision) String() string {
	switch {
	case r.commit.IsZero():
		return r.name() + ", which has no commit"
	case r.ref.Name == "":
		return r.sha()
	}
	return r.name() + " at " + r.sha()
}

// head is the branch that HEAD is to name; "" for a detached HEAD.
func (r revision) head() string {
	if strings.HasPrefix(r.ref.Name, "refs/heads/") {
		return r.ref.Name
	}
	return ""
}

// want is the object to ask for: of an annotated tag itself, which leads to the commit.
func (r revision) want() plumbing.Hash {
	if r.ref.Name == "" {
		return r.commit
	}
	return r.ref.ID
}

// pinned returns the commit that ref names whatever a server says.
func pinned(ref string) (plumbing.Hash, bool) {
	id, err := object.ParseID(ref)
	return id, err == nil
}

// resolve asks the repository what ref means. In order: a whole id; HEAD; a full
// name; a branch; a tag; an abbreviated id; a range of versions. A branch comes
// before a tag of its name, as with git clone --branch.
//
// The stage is for the history that an abbreviated id is looked for in.
func resolve(ctx context.Context, repo remote.Repository, ref string, stage func() (*publish.Stage, error)) (revision, error) {
	if id, ok := pinned(ref); ok {
		return revision{commit: id}, nil
	}
	if ref == "" || ref == "HEAD" {
		return resolveHead(ctx, repo)
	}
	if strings.ContainsFunc(ref, unicode.IsControl) {
		return revision{}, poll.Permanent(failure.New(failure.NoRevision, "the revision %q has a control character in it", ref))
	}
	names := []string{"refs/heads/" + ref, "refs/tags/" + ref, "refs/" + ref}
	if strings.HasPrefix(ref, "refs/") {
		names = []string{ref}
	}
	refs, err := repo.Refs(ctx, names...)
	if err != nil {
		return revision{}, err
	}
	for _, name := range names {
		if r, ok := find(refs, name); ok {
			return revision{ref: r, commit: r.Commit()}, nil
		}
	}
	return resolveOther(ctx, repo, ref, stage)
}

// resolveHead follows HEAD to its branch.
func resolveHead(ctx context.Context, repo remote.Repository) (revision, error) {
	refs, err := repo.Refs(ctx, "HEAD")
	if err != nil {
		return revision{}, err
	}
	head, _ := find(refs, "HEAD")
	if head.ID.IsZero() {
		return headless(ctx, repo, head.Target)
	}
	r := revision{ref: head, commit: head.Commit()}
	if head.Target != "" {
		r.ref.Name, r.asHead = head.Target, head
	}
	return r, nil
}

// headless tells an empty repository, which a clone is as good as any of, from one
// whose HEAD names a branch that is not there.
func headless(ctx context.Context, repo remote.Repository, branch string) (revision, error) {
	refs, err := repo.Refs(ctx, "refs/heads/", "refs/tags/")
	if err != nil || len(refs) == 0 {
		return revision{ref: remote.Ref{Name: branch}}, err
	}
	f := failure.New(failure.NoRevision, "its HEAD names a branch that it does not have")
	f.Hint = "name a branch or a tag with --ref" + near("main", refs)
	return revision{}, poll.Permanent(f)
}

// resolveOther reads ref as what is no name.
func resolveOther(ctx context.Context, repo remote.Repository, ref string, stage func() (*publish.Stage, error)) (revision, error) {
	refs, err := repo.Refs(ctx, "refs/heads/", "refs/tags/")
	if err != nil {
		return revision{}, err
	}
	if abbreviated(ref) {
		r, err := expand(ctx, repo, refs, ref, stage)
		if err != nil || !r.commit.IsZero() {
			return r, err
		}
	}
	_, err = semver.NewVersion(ref)
	isVersion := err == nil // and so a name: what was deleted must not become another
	if constraint, err := semver.NewConstraint(ref); err == nil && !isVersion {
		if r, ok := highest(refs, constraint); ok {
			return revision{ref: r, commit: r.Commit()}, nil
		}
		f := failure.New(failure.NoRevision, "no tag is a version in the range %s", failure.Printable(ref))
		f.Hint = "a version before a release, as in v1.0.0-rc1, is only in a range that names one"
		return revision{}, poll.Permanent(f)
	}
	return revision{}, noRevision(ref, refs)
}

func noRevision(ref string, refs []remote.Ref) error {
	f := failure.New(failure.NoRevision, "no branch, tag or commit is named %s", failure.Printable(ref))
	f.Hint = "git ls-remote lists what the server has" + near(ref, refs)
	return poll.Permanent(f)
}

// near returns what was probably meant by ref, for a hint.
func near(ref string, refs []remote.Ref) string {
	known := make([]string, len(refs))
	for i, r := range refs {
		known[i] = failure.Printable(r.Short())
	}
	if meant := suggest.Closest(ref, known); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return ""
}

func find(refs []remote.Ref, name string) (remote.Ref, bool) {
	for _, r := range refs {
		if r.Name == name {
			return r, true
		}
	}
	return remote.Ref{}, false
}

// highest returns the tag with the highest version in the range.
func highest(refs []remote.Ref, in *semver.Constraints) (best remote.Ref, found bool) {
	var highest *semver.Version
	for _, r := range refs {
		name, isTag := strings.CutPrefix(r.Name, "refs/tags/")
		v, err := semver.NewVersion(name)
		if isTag && err == nil && in.Check(v) && (highest == nil || v.GreaterThan(highest)) {
			best, highest = r, v
		}
	}
	return best, highest != nil
}

// abbreviated reports whether ref can be the beginning of an id, of at least the
// length that git asks for.
func abbreviated(ref string) bool {
	const shortest = 4
	return len(ref) >= shortest && len(ref) < len(plumbing.ZeroHash)*2 && strings.Trim(ref, "0123456789abcdefABCDEF") == ""
}

// expand finds the commit whose id begins with prefix: among those that have a name
// and, since no server is asked for the beginning of an id, in the whole history,
// without its files. The zero revision means that there is none.
func expand(ctx context.Context, repo remote.Repository, refs []remote.Ref, prefix string, stage func() (*publish.Stage, error)) (revision, error) {
	prefix = strings.ToLower(prefix)
	found := make(map[plumbing.Hash]bool)
	for _, r := range refs {
		if id := r.Commit(); strings.HasPrefix(id.String(), prefix) {
			found[id] = true
		}
	}
	if len(found) == 0 && repo.Capable(remote.Filter) {
		s, err := stage()
		if err != nil {
			return revision{}, err
		}
		history, err := commits(ctx, repo, refs, prefix, s)
		if err != nil {
			return revision{}, fmt.Errorf("looking for %s in the history: %w", prefix, err)
		}
		found = history
	}
	if len(found) > 1 {
		return revision{}, poll.Permanent(failure.New(failure.NoRevision, "%d commits begin with %s", len(found), prefix))
	}
	for id := range found {
		return revision{commit: id}, nil
	}
	return revision{}, nil
}

// sha is the commit, for people; "" of an empty repository.
func (r revision) sha() string {
	if r.commit.IsZero() {
		return ""
	}
	return r.commit.String()
}
