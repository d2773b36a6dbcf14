package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// magic is that of OpenSSH's PROTOCOL.sshsig, namespace that of git.
const (
	magic     = "SSHSIG"
	namespace = "git"
)

// sshSignature is a signature after the magic (PROTOCOL.sshsig).
type sshSignature struct {
	Version   uint32
	PublicKey []byte
	Namespace string
	Reserved  string
	Hash      string
	Signature []byte
}

// sshMessage is the message that the key signs, after the magic.
type sshMessage struct {
	Namespace string
	Reserved  string
	Hash      string
	Sum       []byte
}

// verifySSH verifies an SSH signature like ssh-keygen -Y verify for git, at the time that the object names.
func (k Keys) verifySSH(s *signed) (Signer, error) {
	blob, err := sshBlob(s.signature)
	if err != nil {
		return Signer{}, bad(err.Error())
	}
	sig, key, err := parseSSH(blob)
	if err != nil {
		return Signer{}, err
	}
	print := ssh.FingerprintSHA256(key)
	allowed, err := k.allowed(key, s.when)
	if err != nil {
		return Signer{}, err
	}
	made := new(ssh.Signature)
	if err := ssh.Unmarshal(sig.Signature, made); err != nil {
		return Signer{}, bad("it is malformed")
	}
	if made.Format == ssh.KeyAlgoRSA {
		return Signer{}, hinted("has a signature over SHA-1, which can be forged", "sign it again, with a current OpenSSH")
	}
	sum, err := sshSum(sig.Hash, s.payload)
	if err != nil {
		return Signer{}, err
	}
	message := append([]byte(magic), ssh.Marshal(sshMessage{sig.Namespace, sig.Reserved, sig.Hash, sum})...)
	if err := key.Verify(message, made); err != nil {
		return Signer{}, bad("it does not match the content and the SSH key " + print)
	}
	return Signer{Fingerprint: print, Name: allowed.name, Time: s.when.UTC()}, nil
}

// sshBlob decodes the armor, which nothing may follow.
func sshBlob(text []byte) ([]byte, error) {
	const begin, end = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
	body, ok := bytes.CutPrefix(text, []byte(begin))
	body, after, ended := bytes.Cut(body, []byte(end))
	if !ok || !ended || len(bytes.TrimSpace(after)) > 0 {
		return nil, errors.New("its armor is not the end of the object")
	}
	blob := make([]byte, base64.StdEncoding.DecodedLen(len(body)))
	n, err := base64.StdEncoding.Decode(blob, bytes.Join(bytes.Fields(body), nil))
	if err != nil {
		return nil, errors.New("its armor is damaged")
	}
	return blob[:n], nil
}

// parseSSH parses a decoded signature.
func parseSSH(blob []byte) (*sshSignature, ssh.PublicKey, error) {
	rest, ok := bytes.CutPrefix(blob, []byte(magic))
	if !ok {
		return nil, nil, bad("it is not an SSH signature")
	}
	sig := new(sshSignature)
	if err := ssh.Unmarshal(rest, sig); err != nil {
		return nil, nil, bad("it is malformed")
	}
	if sig.Version != 1 {
		return nil, nil, problemf("has an SSH signature of the unknown version %d", sig.Version)
	}
	if sig.Namespace != namespace {
		return nil, nil, bad(fmt.Sprintf("it was made for %q, not for git", sig.Namespace))
	}
	key, err := ssh.ParsePublicKey(sig.PublicKey)
	if err != nil {
		return nil, nil, bad("its key has an unknown type")
	}
	if _, isCert := key.(*ssh.Certificate); isCert {
		return nil, nil, hinted("is signed with an SSH certificate, which is not supported", "sign with the key itself")
	}
	return sig, key, nil
}

func sshSum(name string, content []byte) ([]byte, error) {
	switch name {
	case "sha256":
		sum := sha256.Sum256(content)
		return sum[:], nil
	case "sha512":
		sum := sha512.Sum512(content)
		return sum[:], nil
	}
	return nil, bad(fmt.Sprintf("its hash %q is neither sha256 nor sha512", strings.ToLower(name)))
}
