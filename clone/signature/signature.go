// Package signature verifies the signatures of commits and annotated tags with OpenPGP and SSH keys:
//
//	keys, err := signature.ReadKeys([]string{"/etc/keys/alice.asc"})
//	signer, err := signature.Verify(content, plumbing.CommitObject, keys)
//
// It verifies the bytes of the object as they were received. A signature covers what it covers in git
// (gitformat-signature(5)).
package signature

import (
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// Class is the class of all failures to verify a signature.
const Class failure.Class = "signature"

// Signer describes the key of a valid signature.
type Signer struct {
	Fingerprint string    // of the key: SHA256:… for SSH, hexadecimal digits for OpenPGP
	Name        string    // the user ID of an OpenPGP key; the principals or the comment of an SSH key; may be empty
	Time        time.Time // of the signature, according to an OpenPGP signature, or to the object for SSH
}

func (s Signer) String() string {
	if s.Name == "" {
		return s.Fingerprint
	}
	return failure.Printable(s.Name) + " (" + s.Fingerprint + ")"
}

// Verify verifies the signature of a commit or an annotated tag with that content. Its error is permanent, of [Class],
// and says what is wrong: there is no signature, it does not match the content, its key is not among the given ones, or
// the key has expired or was revoked.
func Verify(raw []byte, kind plumbing.ObjectType, keys Keys) (Signer, error) {
	signed, err := split(raw, kind)
	if err != nil {
		return Signer{}, refused(kind, err)
	}
	var s Signer
	switch signed.format {
	case formatNone:
		err = errUnsigned
	case formatPGP:
		s, err = keys.verifyPGP(signed)
	case formatSSH:
		s, err = keys.verifySSH(signed)
	case formatX509:
		err = hinted("is signed with an X.509 certificate, which is not supported", "sign with OpenPGP or SSH keys: see gpg.format in git-config(1)")
	default:
		err = hinted("has an unknown kind of signature", "")
	}
	if err != nil {
		return Signer{}, refused(kind, err)
	}
	return s, nil
}

// problem says what is wrong; it follows "the commit" or "the tag".
type problem struct{ text, hint string }

func (p *problem) Error() string { return p.text }

var errUnsigned = hinted("is not signed", "choose a signed tag or commit, or omit --verify-signature")

func hinted(text, hint string) error { return &problem{text, hint} }

func problemf(format string, args ...any) error { return &problem{fmt.Sprintf(format, args...), ""} }

// bad returns the problem of a signature that is not valid.
func bad(why string) error {
	return hinted("has a bad signature: "+failure.Printable(why), "it was changed after it was signed, or the signature is damaged: do not trust it")
}

func refused(kind plumbing.ObjectType, err error) error {
	f := failure.New(Class, "verify the signature: the %s %v", kind, err)
	if p, ok := err.(*problem); ok {
		f.Hint, f.Err = p.hint, err
	}
	return poll.Permanent(f)
}
