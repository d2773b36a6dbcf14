package certs

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"

	"golang.org/x/crypto/scrypt"
)

// The structures of RFC 8018 (PBES2) and RFC 7914 (scrypt).
type (
	encryptedKey struct { // RFC 5958, section 3
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	pbes2Params struct {
		KDF, Cipher pkix.AlgorithmIdentifier
	}
	pbkdf2Params struct {
		Salt       []byte
		Iterations int
		KeyLength  int                      `asn1:"optional"`
		PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
	}
	scryptParams struct {
		Salt      []byte
		N, R, P   int
		KeyLength int `asn1:"optional"`
	}
)

const (
	oidPBES2  = "1.2.840.113549.1.5.13"
	oidPBKDF2 = "1.2.840.113549.1.5.12"
	oidScrypt = "1.3.6.1.4.1.11591.4.11"
)

var pkcs8Hashes = map[string]func() hash.Hash{
	"":                    sha1.New, // the default
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
}

var pkcs8Ciphers = map[string]struct {
	keyLength int
	block     func([]byte) (cipher.Block, error)
}{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

// maxScryptMemory limits the memory, in bytes, that a key file may demand.
const maxScryptMemory = 64 << 20

// DecryptPKCS8 decrypts an ENCRYPTED PRIVATE KEY, as openssl pkcs8 -topk8 and ssh-keygen -m PKCS8 write it. Its error
// for a wrong passphrase is [x509.IncorrectPasswordError].
func DecryptPKCS8(der, passphrase []byte) (any, error) {
	var k encryptedKey
	var params pbes2Params
	if err := unmarshal(der, &k); err != nil {
		return nil, err
	}
	if oid := k.Algorithm.Algorithm.String(); oid != oidPBES2 {
		return nil, fmt.Errorf("its encryption is not supported (%s): convert it with openssl pkcs8 -topk8 -in FILE -out NEW", oid)
	}
	if err := unmarshal(k.Algorithm.Parameters.FullBytes, &params); err != nil {
		return nil, err
	}
	c, ok := pkcs8Ciphers[params.Cipher.Algorithm.String()]
	if !ok {
		return nil, fmt.Errorf("its cipher is not supported (%s)", params.Cipher.Algorithm)
	}
	key, err := deriveKey(params.KDF, passphrase, c.keyLength)
	if err != nil {
		return nil, err
	}
	block, err := c.block(key)
	if err != nil {
		return nil, err
	}
	var iv []byte
	if err := unmarshal(params.Cipher.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	size := block.BlockSize()
	if len(iv) != size || len(k.Data) == 0 || len(k.Data)%size != 0 {
		return nil, errMalformed
	}
	plain := make([]byte, len(k.Data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, k.Data)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > size {
		return nil, x509.IncorrectPasswordError
	}
	private, err := x509.ParsePKCS8PrivateKey(plain[:len(plain)-padding])
	if err != nil {
		return nil, x509.IncorrectPasswordError // garbage that happens to have valid padding
	}
	return private, nil
}

var errMalformed = errors.New("its encryption is malformed")

func unmarshal(der []byte, to any) error {
	if rest, err := asn1.Unmarshal(der, to); err != nil || len(rest) > 0 {
		return errMalformed
	}
	return nil
}

func deriveKey(kdf pkix.AlgorithmIdentifier, passphrase []byte, length int) ([]byte, error) {
	switch oid := kdf.Algorithm.String(); oid {
	case oidPBKDF2:
		var p pbkdf2Params
		if err := unmarshal(kdf.Parameters.FullBytes, &p); err != nil {
			return nil, err
		}
		prf, ok := pkcs8Hashes[p.PRF.Algorithm.String()]
		if !ok || p.Iterations < 1 || p.Iterations > maxIterations {
			return nil, errMalformed
		}
		return pbkdf2.Key(prf, string(passphrase), p.Salt, p.Iterations, length)
	case oidScrypt:
		var p scryptParams
		if err := unmarshal(kdf.Parameters.FullBytes, &p); err != nil {
			return nil, err
		}
		if p.N < 2 || p.R < 1 || p.P < 1 || p.P > 16 || p.R > maxScryptMemory/128 || p.N > maxScryptMemory/128/p.R {
			return nil, errMalformed
		}
		return scrypt.Key(passphrase, p.Salt, p.N, p.R, p.P, length)
	default:
		return nil, fmt.Errorf("its key derivation is not supported (%s)", oid)
	}
}
