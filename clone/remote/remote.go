// Package remote speaks to Git servers: it lists the references of a repository
// and fetches packs, over HTTP, SSH, git:// and from a folder on this machine.
package remote

import (
	"context"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// A Repository is one on a server, or in a folder. Its methods are for one
// goroutine at a time.
type Repository interface {
	// Refs returns the references whose full names begin with one of the prefixes,
	// all if there are none, HEAD among them if asked for by name. A server that
	// knows no prefixes returns more. An empty repository has none. A HEAD that names
	// a branch that is not there has no ID, if the server tells of it at all.
	Refs(ctx context.Context, prefixes ...string) ([]Ref, error)

	// Fetch asks for a pack. What is in the answer ends with ctx. It is to be read to
	// the end, or closed, before anything else is asked. What no server has is an
	// error that wraps [ErrMoved].
	Fetch(ctx context.Context, r Request) (*Answer, error)

	// Capable reports whether the server understands what only some do: [Filter] or
	// [AnyID].
	Capable(feature string) bool

	Close() error
}

// What only some servers understand, see [Repository.Capable].
const (
	Filter = "filter" // a Request's
	AnyID  = "any-id" // wants of any object: such as the blobs that a Filter left out
)

// Ref is one reference.
type Ref struct {
	Name   string        // in full: HEAD, refs/heads/main
	ID     plumbing.Hash // what it points to; an annotated tag's own id
	Peeled plumbing.Hash // what the annotated tag marks in the end; zero for others
	Target string        // of a symbolic reference, the name of the other; or ""
}

// Commit returns the commit that the reference leads to.
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

// Request says which objects are wanted.
type Request struct {
	Wants  []plumbing.Hash
	Depth  int    // of the history, in commits; 0 for all of it
	Filter string // "blob:none", "tree:0"; "" for all objects
	Tags   bool   // annotated tags of what is sent are sent too, as far as the server can
}

// Answer is what the server sends.
type Answer struct {
	// Pack is the pack alone. An error of the server in the midst of it is an error
	// of Read; so is an end before the server said that it was the end.
	Pack io.ReadCloser

	// Shallow are the commits whose parents are not in the pack.
	Shallow []plumbing.Hash
}
