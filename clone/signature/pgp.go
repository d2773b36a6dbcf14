package signature

import (
	"bytes"
	"crypto"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"initbox/internal/failure"
)

// verifyPGP verifies an OpenPGP signature like gpg --verify, at the current time: as in git, a key that has expired
// since the signature is not accepted.
func (k Keys) verifyPGP(s *signed) (Signer, error) {
	packets, err := dearmor(s.signature)
	if err != nil {
		return Signer{}, bad(err.Error())
	}
	sig, err := onlySignature(packets)
	if err != nil {
		return Signer{}, err
	}
	id := *sig.IssuerKeyId
	known := k.pgp.KeysById(id)
	if len(known) == 0 {
		return Signer{}, k.unknown(fmt.Sprintf("the OpenPGP key %016X", id))
	}
	_, entity, err := openpgp.VerifyDetachedSignature(k.pgp, bytes.NewReader(s.payload), bytes.NewReader(packets), nil)
	if err != nil {
		return Signer{}, pgpProblem(err, sig, known[0])
	}
	who := Signer{Fingerprint: fingerprint(known[0].PublicKey), Time: sig.CreationTime.UTC()}
	if len(known) > 1 { // with the same ID; use the one that signed
		who.Fingerprint = fingerprint(entity.PrimaryKey)
	}
	if identity := entity.PrimaryIdentity(); identity != nil {
		who.Name = identity.Name
	}
	return who, nil
}

func fingerprint(key *packet.PublicKey) string {
	return strings.ToUpper(hex.EncodeToString(key.Fingerprint))
}

// unknown returns the problem of a signature by a key that was not given.
func (k Keys) unknown(key string) error {
	return hinted("is signed by "+key+", which is not among the given keys", "if you trust that key, add it to the files of --verify-signature")
}

// dearmor returns the packets of an armored block, which must be the whole text.
func dearmor(text []byte) ([]byte, error) {
	_, after, ended := bytes.Cut(text, []byte("-----END "))
	_, after, _ = bytes.Cut(after, []byte("-----"))
	if !ended || len(bytes.TrimSpace(after)) > 0 {
		return nil, errors.New("its armor is not the end of the object")
	}
	block, err := armor.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("its armor is damaged")
	}
	packets, err := readAtMost(block.Body, maxSignature)
	if err != nil {
		return nil, errors.New("its armor is damaged")
	}
	return packets, nil
}

func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("longer than %d bytes", limit)
	}
	return data, err
}

// onlySignature returns the only packet. Like git, it refuses several: it would not be clear which one was verified.
func onlySignature(packets []byte) (*packet.Signature, error) {
	reader := packet.NewReader(bytes.NewReader(packets))
	first, err := reader.Next()
	if err != nil {
		return nil, bad("its packet is damaged")
	}
	sig, ok := first.(*packet.Signature)
	if !ok || sig.IssuerKeyId == nil {
		return nil, bad("it does not name its key")
	}
	if _, err := reader.Next(); err != io.EOF {
		return nil, bad("several signatures in one armor")
	}
	if sig.SigType != packet.SigTypeBinary && sig.SigType != packet.SigTypeText {
		return nil, bad("it does not sign a document")
	}
	switch sig.Hash {
	case crypto.MD5, crypto.SHA1, crypto.RIPEMD160:
		return nil, hinted("has a signature over "+sig.Hash.String()+", which can be forged", "sign it again, with SHA-256")
	}
	return sig, nil
}

// pgpProblem explains why a signature by that key is not accepted.
func pgpProblem(err error, sig *packet.Signature, key openpgp.Key) error {
	name := "the OpenPGP key " + fingerprint(key.PublicKey)
	now := time.Now()
	self, _ := key.Entity.PrimarySelfSignature()
	switch {
	case errors.Is(err, pgperrors.ErrKeyExpired):
		when := latestExpiry(key.Entity.PrimaryKey, self)
		if key.PublicKey != key.Entity.PrimaryKey && (when.IsZero() || when.After(now)) {
			when = latestExpiry(key.PublicKey, key.SelfSignature)
		}
		if when.IsZero() {
			return hinted("is signed by "+name+", which is not valid before "+day(key.PublicKey.CreationTime), "are the clocks right?")
		}
		return hinted("is signed by "+name+", which expired on "+day(when), "if its owner has extended it, export it again")
	case errors.Is(err, pgperrors.ErrKeyRevoked):
		text := "is signed by " + name + ", which was revoked"
		for _, r := range append(key.Revocations, key.Entity.Revocations...) {
			return hinted(text+" on "+day(r.CreationTime), "choose a revision signed by another key")
		}
		return hinted(text, "choose a revision signed by another key")
	case errors.Is(err, pgperrors.ErrSignatureExpired):
		if sig.CreationTime.After(now) {
			return hinted("has a signature from the future, "+day(sig.CreationTime), "are the clocks right?")
		}
		if sig.SigLifetimeSecs == nil || !sig.SigExpired(now) {
			return hinted("is signed by "+name+", whose self-signatures have expired", "export the key again")
		}
		return hinted("has a signature that expired on "+day(sig.CreationTime.Add(time.Duration(*sig.SigLifetimeSecs)*time.Second)), "sign it again")
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return hinted("is signed by "+name+", which is not for signing", "")
	}
	return bad("it does not match the content and " + name)
}

// latestExpiry returns when a key expires according to its self-signatures, or zero.
func latestExpiry(key *packet.PublicKey, self *packet.Signature) time.Time {
	if self == nil || self.KeyLifetimeSecs == nil || *self.KeyLifetimeSecs == 0 {
		return time.Time{}
	}
	return key.CreationTime.Add(time.Duration(*self.KeyLifetimeSecs) * time.Second)
}

func day(t time.Time) string { return failure.Printable(t.UTC().Format(time.RFC3339)) }
