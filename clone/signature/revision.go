package signature

import (
	"errors"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/internal/failure"
	"initbox/internal/poll"
)

// Revision is a commit, with the annotated tags that point to it.
type Revision struct {
	Start  plumbing.Hash // the object that the reference points to: a tag, or the commit
	Commit plumbing.Hash // to be checked out
	Tag    string        // the name of the requested tag, such as v1.2; "" for none

	// Objects are the contents of the objects received, by their computed IDs, not by those that the server claims.
	Objects map[plumbing.Hash][]byte
}

// maxTags limits chains of tags.
const maxTags = 16

// VerifyRevision verifies that a commit, or a tag that points to it, is signed, and returns which. It does not trust
// what the server says about a tag: it refuses a signed tag of another commit, and a tag of an older release under the
// name of a newer one.
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
			tagErr = refused(plumbing.TagObject, hinted("was made as "+failure.Printable(tag.Name)+", not as "+failure.Printable(r.Tag), "it may be another tag that was renamed: do not trust it"))
		}
		if tagErr == nil && !r.leads(tag.Object) {
			tagErr = refused(plumbing.TagObject, hinted("points to a commit other than the one that the server reported", "do not trust the server"))
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

// leads reports whether an object is the commit, or a tag that points to it.
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

// worse returns which of two failures to report: a bad signature is worse than none.
func worse(a, b error) error {
	if a == nil || errors.Is(a, errUnsigned) && !errors.Is(b, errUnsigned) {
		return b
	}
	return a
}
