package signature

import (
	"bytes"
	"errors"
	"os"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/readfile"
)

// maxKeyFile limits a file of keys, in bytes: the keyring of a large distribution has a few million.
const maxKeyFile = 16 << 20

// Keys are the trusted keys.
type Keys struct {
	pgp openpgp.EntityList
	ssh []sshKey
}

// ReadKeys reads files of keys, each with one or more OpenPGP public keys, armored or not, SSH public keys as in
// authorized_keys or id_*.pub, or allowed signers (ssh-keygen(1), ALLOWED SIGNERS).
//
// A file that cannot be read is not a permanent failure, as it may be mounted late. A file without keys is one.
func ReadKeys(files []string) (Keys, error) {
	var k Keys
	for _, name := range files {
		content, err := readfile.Upto(name, maxKeyFile)
		if err != nil {
			f := failure.New(failure.Missing, "read the keys in %s: %v", name, errors.Unwrap(err))
			if !errors.As(err, new(*os.PathError)) {
				f.Text = "read the keys in " + name + ": " + err.Error()
			}
			f.Hint, f.Err = "is the Secret or ConfigMap mounted, and may this user read it?", err
			return Keys{}, f
		}
		if err := k.add(content); err != nil {
			f := failure.New(failure.Local, "read the keys in %s: %v", name, err)
			f.Hint = "give OpenPGP public keys (gpg --armor --export), SSH public keys (id_ed25519.pub), or a file of allowed signers of ssh-keygen"
			return Keys{}, poll.Permanent(f)
		}
	}
	return k, nil
}

var (
	errNoKey   = errors.New("it contains no key")
	errPrivate = errors.New("it contains a private key, which does not belong here")
)

// add adds the keys of one file.
func (k *Keys) add(content []byte) error {
	switch {
	case len(bytes.TrimSpace(content)) == 0:
		return errNoKey
	case bytes.Contains(content, []byte(" PRIVATE KEY")):
		return errPrivate
	case bytes.Contains(content, []byte("-----BEGIN PGP ")):
		return k.addArmored(content)
	case content[0]&0x80 != 0: // RFC 9580, section 4.2: the first bit of a packet
		return k.addPGP(content)
	}
	return k.addSSH(content)
}

// addArmored adds the keys of one or more armored blocks, and ignores text between them.
func (k *Keys) addArmored(content []byte) error {
	const begin = "-----BEGIN PGP "
	for {
		start := bytes.Index(content, []byte(begin))
		if start < 0 {
			return nil
		}
		content = content[start:]
		next := len(content)
		if i := bytes.Index(content[len(begin):], []byte(begin)); i >= 0 {
			next = len(begin) + i
		}
		block, err := armor.Decode(bytes.NewReader(content[:next]))
		if err != nil {
			return errors.New("its armor is damaged")
		}
		if block.Type != openpgp.PublicKeyType {
			return errors.New("it contains a " + failure.Printable(block.Type) + ", not public keys")
		}
		packets, err := readAtMost(block.Body, maxKeyFile)
		if err != nil {
			return errors.New("its armor is damaged")
		}
		if err := k.addPGP(packets); err != nil {
			return err
		}
		content = content[next:]
	}
}

// addPGP adds the keys of OpenPGP packets, except those that the library does not support.
func (k *Keys) addPGP(packets []byte) error {
	list, err := openpgp.ReadKeyRing(bytes.NewReader(packets))
	if err != nil {
		return errors.New("not OpenPGP keys: " + failure.Printable(err.Error()))
	}
	found := false
	for _, entity := range list {
		if usable(entity) {
			k.pgp = append(k.pgp, entity)
			found = true
		}
	}
	if !found {
		return errNoKey
	}
	return nil
}

// usable removes user IDs without a self-signature, which have only a revocation: the library requires a
// self-signature. It reports whether a user ID is left.
func usable(e *openpgp.Entity) bool {
	for name, id := range e.Identities {
		if id.SelfSignature == nil {
			delete(e.Identities, name)
		}
	}
	self, _ := e.PrimarySelfSignature()
	return self != nil
}
