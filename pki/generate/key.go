package generate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"initbox/internal/certs"
)

// Key makes a private key.
type Key struct {
	algorithm string
	format    string
	comment   string
	public    bool // beside the key, in .pub
}

// algorithms make the private keys. Their names say the curve or the bits.
var algorithms = map[string]func() (crypto.Signer, error){
	"ed25519": func() (crypto.Signer, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	},
	"ecdsa":      ecdsaKey(elliptic.P256()),
	"ecdsa-p384": ecdsaKey(elliptic.P384()),
	"ecdsa-p521": ecdsaKey(elliptic.P521()),
	"rsa":        rsaKey(3072), // 128 bits of security, as ssh-keygen
	"rsa-2048":   rsaKey(2048),
	"rsa-4096":   rsaKey(4096),
}

func ecdsaKey(curve elliptic.Curve) func() (crypto.Signer, error) {
	return func() (crypto.Signer, error) { return ecdsa.GenerateKey(curve, rand.Reader) }
}

func rsaKey(bits int) func() (crypto.Signer, error) {
	return func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, bits) }
}

// Algorithms returns the names of the algorithms of keys.
func Algorithms() []string { return slices.Sorted(maps.Keys(algorithms)) }

// KeyFormats are the formats of private keys. pkcs1 is that of RSA keys, and for ECDSA SEC 1: both are what OpenSSL
// calls traditional.
var KeyFormats = []string{"pkcs8", "pkcs1", "openssh"}

// NewKey returns a maker of keys. With public, or the format openssh, whose comment it has, the public key is beside
// the private one, with .pub at the end of the name.
func NewKey(algorithm, format, comment string, public bool) (Key, error) {
	switch {
	case algorithms[algorithm] == nil:
		return Key{}, fmt.Errorf("algorithm: want %s", strings.Join(Algorithms(), ", "))
	case !slices.Contains(KeyFormats, format):
		return Key{}, fmt.Errorf("key-format: want %s", strings.Join(KeyFormats, ", "))
	case format == "pkcs1" && algorithm == "ed25519":
		return Key{}, errors.New("key-format: an ed25519 key has the format pkcs8 or openssh")
	case strings.ContainsAny(comment, "\r\n"):
		return Key{}, errors.New("comment: it cannot contain a line break")
	}
	return Key{algorithm, format, comment, public || format == "openssh"}, nil
}

const public = ".pub"

func (k Key) String() string { return k.algorithm + " key" }

func (k Key) layout() layout {
	if k.public {
		return layout{names: []string{"", public}}
	}
	return oneFile
}

// check looks at the private key only if there is a public one to be right. That is made from it.
func (k Key) check(old Files) (verdict, error) {
	v, err := absent(old)
	if v.Reason != "" || !k.public {
		return v, err
	}
	key, err := certs.ParseKey(old[""], nil)
	if err != nil {
		return v, fmt.Errorf("its public key cannot be made: %w", err)
	}
	if !k.isPublic(old[public], key.Public()) {
		return verdict{Reason: "its public key is missing or another"}, nil
	}
	return v, nil
}

// isPublic returns whether a file has the public key; its comment and its line breaks do not matter.
func (k Key) isPublic(data []byte, key crypto.PublicKey) bool {
	if k.format == "openssh" {
		have, _, _, _, err := ssh.ParseAuthorizedKey(data)
		want, wrong := ssh.NewPublicKey(key)
		return err == nil && wrong == nil && bytes.Equal(have.Marshal(), want.Marshal())
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	block, _ := pem.Decode(data)
	return err == nil && block != nil && bytes.Equal(block.Bytes, der)
}

func (k Key) make(old Files) (files Files, err error) {
	files = Files{"": old[""]}
	var key crypto.Signer
	if len(old[""]) > 0 {
		key, err = certs.ParseKey(old[""], nil)
	} else if key, err = algorithms[k.algorithm](); err == nil {
		files[""], err = k.private(key)
	}
	if err == nil && k.public {
		files[public], err = k.publicFile(key.Public())
	}
	return files, err
}

// private returns a private key in the format, in PEM.
func (k Key) private(key crypto.Signer) ([]byte, error) {
	block := &pem.Block{Type: "PRIVATE KEY"}
	var err error
	rsaKey, isRSA := key.(*rsa.PrivateKey)
	switch {
	case k.format == "openssh":
		block, err = ssh.MarshalPrivateKey(key, k.comment)
	case k.format == "pkcs8":
		block.Bytes, err = x509.MarshalPKCS8PrivateKey(key)
	case isRSA:
		block.Type, block.Bytes = "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)
	default:
		block.Type = "EC PRIVATE KEY"
		block.Bytes, err = x509.MarshalECPrivateKey(key.(*ecdsa.PrivateKey))
	}
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
}

// publicFile returns a public key as a line of authorized_keys, or in PEM.
func (k Key) publicFile(key crypto.PublicKey) ([]byte, error) {
	if k.format != "openssh" {
		der, err := x509.MarshalPKIXPublicKey(key)
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
	}
	line, err := ssh.NewPublicKey(key)
	if err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(ssh.MarshalAuthorizedKey(line), []byte("\n"))
	if k.comment != "" {
		text = append(text, " "+k.comment...)
	}
	return append(text, '\n'), nil
}
