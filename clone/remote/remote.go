// Package remote talks to Git servers. It lists the references of a repository and fetches packs, over HTTP, SSH and
// git://, or from a directory on this machine:
//
//	u, err := remote.ParseURL("https://git.example.com/team/repo.git", os.Getenv)
//	repo, err := remote.Open(ctx, u, remote.Options{Stall: time.Minute})
//	defer repo.Close()
//	refs, err := repo.Refs(ctx, "HEAD")
//	answer, err := repo.Fetch(ctx, remote.Request{Wants: []plumbing.Hash{refs[0].Commit()}, Depth: 1})
//	io.Copy(file, answer.Pack)
package remote

import (
	"context"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// A Repository is a repository on a server, or in a directory. Only one goroutine at a time may call its methods.
type Repository interface {
	// Refs returns the references whose full names begin with one of the prefixes, or all without prefixes. HEAD is
	// among them if it is requested by name. An empty repository has no references. A HEAD that names a branch that
	// does not exist has no ID; not all servers list it.
	Refs(ctx context.Context, prefixes ...string) ([]Ref, error)

	// Fetch requests a pack, which ends with ctx. It must be read to its end, or closed, before the next call. If the
	// server does not have one of the objects, the error wraps [ErrMoved].
	Fetch(ctx context.Context, r Request) (*Answer, error)

	// Capable reports whether the server has an optional feature: [Filter] or [AnyID].
	Capable(feature string) bool

	Close() error
}

// Features that only some servers have, see [Repository.Capable].
const (
	Filter = "filter" // the Filter of a Request
	AnyID  = "any-id" // fetching any object by its ID, such as the blobs that a Filter omitted
)

// Ref is a reference.
type Ref struct {
	Name   string        // in full: HEAD, refs/heads/main
	ID     plumbing.Hash // the object that it points to; for an annotated tag, the tag object
	Peeled plumbing.Hash // the object that an annotated tag finally points to; zero for other references
	Target string        // the name of the reference that a symbolic reference points to, or ""
}

// Commit returns the commit that the reference finally points to.
func (r Ref) Commit() plumbing.Hash {
	if !r.Peeled.IsZero() {
		return r.Peeled
	}
	return r.ID
}

// Short returns the name as people write it: main, v1.2.
func (r Ref) Short() string {
	for _, prefix := range []string{"refs/heads/", "refs/tags/", "refs/remotes/"} {
		if short, ok := strings.CutPrefix(r.Name, prefix); ok {
			return short
		}
	}
	return r.Name
}

// Request says which objects to fetch.
type Request struct {
	Wants  []plumbing.Hash
	Depth  int    // of the history, in commits; 0 for all of it
	Filter string // "blob:none", "blob:limit=…", "tree:0"; "" for all objects
	Tags   bool   // include annotated tags of the objects sent, if the server can
}

// Answer is the server's answer to a [Request].
type Answer struct {
	// Pack is the pack, without the protocol around it. Read returns an error if the server reports one in the middle
	// of the pack, or if the answer ends early.
	Pack io.ReadCloser

	// Shallow are the commits whose parents are not in the pack.
	Shallow []plumbing.Hash
}
