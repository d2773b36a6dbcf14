package clone

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/clone/publish"
	"initbox/clone/remote"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/semver"
	"initbox/internal/suggest"
)

// revision is what Options.Ref currently means on the server.
type revision struct {
	ref    remote.Ref    // zero for a commit given by its ID
	commit plumbing.Hash // zero if the repository is empty
	asHead remote.Ref    // HEAD, if ref is the branch that it points to
}

// name returns the full name of the reference, or the ID of the commit.
func (r revision) name() string {
	if r.ref.Name == "" {
		return r.commit.String()
	}
	return r.ref.Name
}

// String returns the revision for the log: refs/heads/main at 0123….
func (r revision) String() string {
	switch {
	case r.commit.IsZero():
		return r.name() + ", which has no commit"
	case r.ref.Name == "":
		return r.sha()
	}
	return r.name() + " at " + r.sha()
}

// head returns the branch that HEAD will point to; "" for a detached HEAD.
func (r revision) head() string {
	if strings.HasPrefix(r.ref.Name, "refs/heads/") {
		return r.ref.Name
	}
	return ""
}

// want returns the object to request: for an annotated tag the tag itself, which includes its commit.
func (r revision) want() plumbing.Hash {
	if r.ref.Name == "" {
		return r.commit
	}
	return r.ref.ID
}

// pinned returns the commit if ref is a full ID, whose meaning does not depend on the server.
func pinned(ref string) (plumbing.Hash, bool) {
	id, err := object.ParseID(ref)
	return id, err == nil
}

// resolve asks the repository what ref means. It tries, in this order: a full ID; HEAD; a full name; a branch; a tag;
// an abbreviated ID; a range of versions. A branch takes precedence over a tag of the same name, as with git clone
// --branch.
//
// The stage holds the history in which an abbreviated ID is searched.
func resolve(ctx context.Context, repo remote.Repository, ref string, stage func() (*publish.Stage, error)) (revision, error) {
	if id, ok := pinned(ref); ok {
		return revision{commit: id}, nil
	}
	if ref == "" || ref == "HEAD" {
		return resolveHead(ctx, repo)
	}
	if strings.ContainsFunc(ref, unicode.IsControl) {
		return revision{}, poll.Permanent(failure.New(failure.NoRevision, "the revision %q contains a control character", ref))
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

// headless distinguishes an empty repository, which can be cloned, from one whose HEAD names a branch that does not
// exist.
func headless(ctx context.Context, repo remote.Repository, branch string) (revision, error) {
	refs, err := repo.Refs(ctx, "refs/heads/", "refs/tags/")
	if err != nil || len(refs) == 0 {
		return revision{ref: remote.Ref{Name: branch}}, err
	}
	f := failure.New(failure.NoRevision, "HEAD of the repository names a branch that does not exist")
	f.Hint = "name a branch or a tag with --ref" + near("main", refs)
	return revision{}, poll.Permanent(f)
}

// resolveOther resolves a ref that is not a name.
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
	isVersion := err == nil // so it was meant as a tag; another version must not take its place
	if constraint, err := semver.NewConstraint(ref); err == nil && !isVersion {
		if r, ok := highest(refs, constraint); ok {
			return revision{ref: r, commit: r.Commit()}, nil
		}
		f := failure.New(failure.NoRevision, "no tag is a version in the range %s", failure.Printable(ref))
		f.Hint = "a pre-release such as v1.0.0-rc1 matches only a range that names a pre-release"
		return revision{}, poll.Permanent(f)
	}
	return revision{}, noRevision(ref, refs)
}

func noRevision(ref string, refs []remote.Ref) error {
	f := failure.New(failure.NoRevision, "no branch, tag or commit is named %s", failure.Printable(ref))
	f.Hint = "git ls-remote lists the branches and tags of the server" + near(ref, refs)
	return poll.Permanent(f)
}

// near returns a suggestion for a mistyped ref, to append to a hint.
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

// abbreviated reports whether ref can be an abbreviated ID, of at least the length that git requires.
func abbreviated(ref string) bool {
	const shortest = 4
	return len(ref) >= shortest && len(ref) < len(plumbing.ZeroHash)*2 && strings.Trim(ref, "0123456789abcdefABCDEF") == ""
}

// expand finds the commit whose ID begins with prefix: among the references and, as no server resolves abbreviated IDs,
// in the whole history without its files. It returns the zero revision if there is none.
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

// sha returns the ID of the commit; "" for an empty repository.
func (r revision) sha() string {
	if r.commit.IsZero() {
		return ""
	}
	return r.commit.String()
}
