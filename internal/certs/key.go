package certs

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Errors of [ParseKey]. The caller adds which file, and which setting names the password.
var (
	ErrEncrypted     = errors.New("the key is encrypted, and no password was given")
	ErrWrongPassword = errors.New("the password of the key is wrong")
	ErrNoKey         = errors.New("no private key in it")
)

// ParseKey returns the first private key in data: PEM or DER, in PKCS #8 (RFC 5958), PKCS #1 (RFC 8017), SEC 1 (RFC
// 5915) or, in PEM, the format of OpenSSH. In PEM, other blocks before the key are passed over, such as certificates
// and EC PARAMETERS. The password decrypts PKCS #8 as [DecryptPKCS8] does, and the older PEM with a DEK-Info header; a
// key that is not encrypted does not need it, and nil stands for none.
//
// Its errors quote nothing of data; they are [ErrEncrypted], [ErrWrongPassword], [ErrNoKey], or say what is not
// supported.
func ParseKey(data, password []byte) (crypto.Signer, error) {
	key, err := parsePEMKey(data, password)
	if errors.Is(err, ErrNoKey) && !bytes.Contains(data, []byte("-----BEGIN ")) {
		key, err = parseDERKey(data, password)
	}
	switch {
	case errors.As(err, new(*ssh.PassphraseMissingError)):
		return nil, ErrEncrypted
	case errors.Is(err, x509.IncorrectPasswordError):
		return nil, ErrWrongPassword
	case err != nil:
		return nil, err
	}
	if ed, ok := key.(*ed25519.PrivateKey); ok { // as package ssh returns it
		key = *ed
	}
	if signer, ok := key.(crypto.Signer); ok {
		return signer, nil
	}
	return nil, fmt.Errorf("a key of this kind cannot sign (%T)", key)
}

func parsePEMKey(data, password []byte) (any, error) {
	for {
		block, rest := pem.Decode(data)
		switch {
		case block == nil:
			return nil, ErrNoKey
		case !strings.HasSuffix(block.Type, "PRIVATE KEY"):
			data = rest
			continue
		case block.Type == "ENCRYPTED PRIVATE KEY":
			return parseEncrypted(block.Bytes, password)
		}
		key, err := ssh.ParseRawPrivateKey(pem.EncodeToMemory(block))
		if !errors.As(err, new(*ssh.PassphraseMissingError)) {
			return key, malformed(err)
		}
		if password == nil {
			return nil, err
		}
		key, err = ssh.ParseRawPrivateKeyWithPassphrase(pem.EncodeToMemory(block), password)
		if err != nil && block.Headers["DEK-Info"] != "" { // there is no checksum: a wrong password mostly yields garbage
			err = x509.IncorrectPasswordError
		}
		return key, malformed(err)
	}
}

// parseDERKey parses a key without PEM, which does not say its format.
func parseDERKey(der, password []byte) (any, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	if unmarshal(der, new(encryptedKey)) != nil {
		return nil, ErrNoKey
	}
	return parseEncrypted(der, password)
}

func parseEncrypted(der, password []byte) (any, error) {
	if password == nil {
		return nil, ErrEncrypted
	}
	return DecryptPKCS8(der, password)
}

// malformed returns err, or what stands for it if its text may quote the key.
func malformed(err error) error {
	if err == nil || errors.Is(err, x509.IncorrectPasswordError) || errors.As(err, new(*ssh.PassphraseMissingError)) {
		return err
	}
	return errors.New("the private key in it is malformed, or of a kind that is not supported")
}
