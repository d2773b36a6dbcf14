package mysql

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"hash"

	"filippo.io/edwards25519"

	"initbox/internal/failure"
	"initbox/waitfor/wire"
)

// errMySQLPlugin is the cause of the failure of a kind of login that is not known here.
var errMySQLPlugin = errors.New("unknown plugin")

// answerTo is what proves the password to a plugin of the server's, given its nonce.
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_authentication_methods.html
// https://mariadb.com/kb/en/authentication-plugin-ed25519/
func (m *session) answerTo(plugin string, nonce []byte) ([]byte, error) {
	password := []byte(m.password)
	switch plugin {
	case "client_ed25519":
		return ed25519(password, nonce)
	case "sha256_password":
		switch {
		case len(password) == 0:
			return []byte{0}, nil
		case m.encrypted:
			return append(password, 0), nil
		}
		return m.askForKey(1)
	}
	if len(password) == 0 {
		return nil, nil
	}
	switch plugin {
	case "mysql_native_password":
		return native(password, nonce), nil
	case "caching_sha2_password":
		return cachingSHA2(password, nonce), nil
	case "mysql_clear_password":
		if m.local || m.verified {
			return append(password, 0), nil
		}
		f := refusedLogin("the server wants the password in the clear")
		f.Hint = "it gets that over TLS with a certificate that verifies: ssl-mode=verify-identity, --ca-file"
		return nil, f
	case "mysql_old_password":
		return nil, refusedLogin("the server wants the password as before MySQL 4.1, which is as good as in the clear")
	}
	f := refusedLogin("the user logs in by the plugin " + wire.Quote(plugin) + ", which is not known here")
	f.Err = errMySQLPlugin
	return nil, f
}

// more answers what a plugin says further, unless it only says that something follows.
func (m *session) more(plugin string, nonce, data []byte) (answer []byte, wanted bool, err error) {
	switch {
	case m.keyAsked:
		m.keyAsked = false
		answer, err = m.encryptPassword(nonce, data)
		return answer, true, err
	case plugin != "caching_sha2_password" || len(data) != 1:
		return nil, false, m.kind.Kind.OtherProtocol()
	case data[0] == 3: // it remembers the password
		return nil, false, nil
	case data[0] == 4 && (m.encrypted || m.local): // it does not, and has to see it
		return append([]byte(m.password), 0), true, nil
	case data[0] == 4:
		answer, err = m.askForKey(2)
		return answer, true, err
	}
	return nil, false, m.kind.Kind.OtherProtocol()
}

// askForKey asks for the server's public key, by the plugin's word for that.
func (m *session) askForKey(word byte) ([]byte, error) {
	if m.noKey {
		f := refusedLogin("the server wants the password encrypted with its key, which allowPublicKeyRetrieval=false forbids to ask for")
		f.Hint = "use TLS"
		return nil, f
	}
	m.keyAsked = true
	return []byte{word}, nil
}

// keyLimit bounds, in bits, what a server can have us compute.
const keyLimit = 8192

func (m *session) encryptPassword(nonce, key []byte) ([]byte, error) {
	block, _ := pem.Decode(key)
	if block == nil || len(nonce) == 0 {
		return nil, m.kind.Kind.OtherProtocol()
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	public, ok := parsed.(*rsa.PublicKey)
	if err != nil || !ok || public.N.BitLen() > keyLimit {
		return nil, m.kind.Kind.OtherProtocol()
	}
	plain := append([]byte(m.password), 0)
	for i := range plain {
		plain[i] ^= nonce[i%len(nonce)]
	}
	secret, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, public, plain, nil)
	if err != nil {
		return nil, failure.New(failure.Unexpected, "the password cannot be encrypted with the server's key")
	}
	return secret, nil
}

// native is SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password))).
func native(password, nonce []byte) []byte {
	h := sha1.New()
	once := hashOf(h, password)
	return xor(once, hashOf(h, nonce, hashOf(h, once)))
}

// cachingSHA2 is SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce).
func cachingSHA2(password, nonce []byte) []byte {
	h := sha256.New()
	once := hashOf(h, password)
	return xor(once, hashOf(h, hashOf(h, once), nonce))
}

func hashOf(h hash.Hash, parts ...[]byte) []byte {
	h.Reset()
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

func xor(a, b []byte) []byte {
	for i := range a {
		a[i] ^= b[i]
	}
	return a
}

// ed25519 signs the nonce as RFC 8032 has it, but for the key, which is the
// password, of whatever length: crypto/ed25519 wants one of 32 bytes.
func ed25519(password, nonce []byte) ([]byte, error) {
	h := sha512.Sum512(password)
	s, err := edwards25519.NewScalar().SetBytesWithClamping(h[:32])
	if err != nil {
		return nil, err
	}
	public := new(edwards25519.Point).ScalarBaseMult(s).Bytes()
	r, err := scalar(h[32:], nonce)
	if err != nil {
		return nil, err
	}
	commitment := new(edwards25519.Point).ScalarBaseMult(r).Bytes()
	k, err := scalar(commitment, public, nonce)
	if err != nil {
		return nil, err
	}
	return append(commitment, edwards25519.NewScalar().MultiplyAdd(k, s, r).Bytes()...), nil
}

func scalar(parts ...[]byte) (*edwards25519.Scalar, error) {
	return edwards25519.NewScalar().SetUniformBytes(hashOf(sha512.New(), parts...))
}
