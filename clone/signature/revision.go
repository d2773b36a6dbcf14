package signature

import (
	"errors"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/internal/failure"
	"initbox/internal/poll"
)

// Revision is a commit, and the annotated tags that lead to it.
type Revision struct {
	Start  plumbing.Hash // what the reference has: a tag, or the commit
	Commit plumbing.Hash // what is checked out
	Tag    string        // the name by which a tag was asked for, as in v1.2; "" for none

	// Objects are the bytes of those that were received, by the id that they were
	// found to have, not by the one that the server has said.
	Objects map[plumbing.Hash][]byte
}

// maxTags is how many tags may lead to one another.
const maxTags = 16

// VerifyRevision checks that a commit is signed, or a tag that leads to it, and
// says which. Where a server says that a tag leads, or what its name is, counts for
// nothing: a signed tag of another commit, or one of an older release under the
// name of a newer one, does not do.
func VerifyRevision(r Revision, keys Keys) (s Signer, kind plumbing.ObjectType, err error) {
	id := r.Start
	for range maxTags {
		raw, found := r.Objects[id]
		if id == r.Commit || !found {
			break
		}
		tag, tagErr := object.ParseTag(raw)
		if tagErr != nil {
			break
		}
		s, tagErr := Verify(raw, plumbing.TagObject, keys)
		if tagErr == nil && id == r.Start && r.Tag != "" && tag.Name != r.Tag {
			tagErr = refused(plumbing.TagObject, hinted("was made as "+failure.Printable(tag.Name)+", not as "+failure.Printable(r.Tag), "somebody has given the name to another tag: do not trust it"))
		}
		if tagErr == nil && !r.leads(tag.Object) {
			tagErr = refused(plumbing.TagObject, hinted("leads to another commit than the server says", "do not trust the server"))
		}
		if tagErr == nil {
			return s, plumbing.TagObject, nil
		}
		err = worse(err, tagErr)
		id = tag.Object
	}
	raw, found := r.Objects[r.Commit]
	if !found {
		return Signer{}, 0, poll.Permanent(failure.New(Class, "verify the signature: the commit was not received"))
	}
	s, commitErr := Verify(raw, plumbing.CommitObject, keys)
	if commitErr != nil {
		return Signer{}, 0, worse(err, commitErr)
	}
	return s, plumbing.CommitObject, nil
}

// leads reports whether an object is the commit, or a tag that leads to it.
func (r *Revision) leads(id plumbing.Hash) bool {
	for range maxTags {
		if id == r.Commit {
			return true
		}
		tag, err := object.ParseTag(r.Objects[id])
		if err != nil {
			return false
		}
		id = tag.Object
	}
	return false
}

// worse returns which of two failures is told: that a signature does not do before
// that there is none.
func worse(a, b error) error {
	if a == nil || errors.Is(a, errUnsigned) && !errors.Is(b, errUnsigned) {
		return b
	}
	return a
}
