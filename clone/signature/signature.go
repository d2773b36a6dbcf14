// Package signature verifies who signed a commit or an annotated tag, over the
// bytes of the object as they came, with OpenPGP and SSH keys that the user
// gives. What a signature covers is as git has it (gitformat-signature(5)).
package signature

import (
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// Class is that of all failures to verify.
const Class failure.Class = "signature"

// Signer is who made a signature that verifies.
type Signer struct {
	Fingerprint string    // of the key: SHA256:… of SSH, hexadecimal digits of OpenPGP
	Name        string    // the user id of OpenPGP; the principals or the comment beside an SSH key; may be empty
	Time        time.Time // when it was made: what an OpenPGP signature says, or an SSH-signed object of itself
}

func (s Signer) String() string {
	if s.Name == "" {
		return s.Fingerprint
	}
	return failure.Printable(s.Name) + " (" + s.Fingerprint + ")"
}

// Verify checks the signature of a commit or an annotated tag of these bytes. Its
// error is permanent, of [Class], and says what is wrong: there is none, it is by
// a key that is none of the given, or by one that has expired or was revoked, or
// it is not of these bytes.
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
		err = hinted("is signed in a way that is not known", "")
	}
	if err != nil {
		return Signer{}, refused(kind, err)
	}
	return s, nil
}

// problem is what is wrong, to follow "the commit" or "the tag".
type problem struct{ text, hint string }

func (p *problem) Error() string { return p.text }

var errUnsigned = hinted("is not signed", "choose a signed tag or commit, or do without --verify-signature")

func hinted(text, hint string) error { return &problem{text, hint} }

func problemf(format string, args ...any) error { return &problem{fmt.Sprintf(format, args...), ""} }

// bad is the problem of a signature that does not verify.
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
