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
	"initbox/internal/secret"
)

// errPlugin is the cause of a failure that an unsupported authentication plugin leads to.
var errPlugin = errors.New("unknown plugin")

// answerTo returns the response to the nonce of an authentication plugin of the server.
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
		return nil, refusedLogin("the server requires the password in cleartext").
			WithHint("the password is only sent that way over TLS with a verified certificate: ssl-mode=verify-identity, --ca-file")
	case "mysql_old_password":
		return nil, refusedLogin("the server requires the password hash from before MySQL 4.1, which is no safer than cleartext")
	}
	f := refusedLogin("the user logs in by the plugin " + secret.Quote(plugin) + ", which is not supported")
	f.Err = errPlugin
	return nil, f
}

// more returns the answer to further data from a plugin. None is wanted if the plugin only announces the next packet.
func (m *session) more(plugin string, nonce, data []byte) (answer []byte, wanted bool, err error) {
	switch {
	case m.keyAsked:
		m.keyAsked = false
		answer, err = m.encryptPassword(nonce, data)
		return answer, true, err
	case plugin != "caching_sha2_password" || len(data) != 1:
		return nil, false, m.target.Kind.OtherProtocol()
	case data[0] == 3: // the server has the password in its cache
		return nil, false, nil
	case data[0] == 4 && (m.encrypted || m.local): // it has not, and needs the password itself
		return append([]byte(m.password), 0), true, nil
	case data[0] == 4:
		answer, err = m.askForKey(2)
		return answer, true, err
	}
	return nil, false, m.target.Kind.OtherProtocol()
}

// askForKey returns the plugin's request for the server's public key.
func (m *session) askForKey(word byte) ([]byte, error) {
	if m.noKey {
		return nil, refusedLogin("the server requires the password encrypted with its public key, and allowPublicKeyRetrieval=false forbids requesting that").
			WithHint("use TLS")
	}
	m.keyAsked = true
	return []byte{word}, nil
}

// keyLimit is the longest key accepted from a server, in bits: it limits the time spent on encryption.
const keyLimit = 8192

func (m *session) encryptPassword(nonce, key []byte) ([]byte, error) {
	block, _ := pem.Decode(key)
	if block == nil || len(nonce) == 0 {
		return nil, m.target.Kind.OtherProtocol()
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	public, ok := parsed.(*rsa.PublicKey)
	if err != nil || !ok || public.N.BitLen() > keyLimit {
		return nil, m.target.Kind.OtherProtocol()
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

// ed25519 signs the nonce as in RFC 8032, except that the password, of any length, is the private key: crypto/ed25519
// requires one of 32 bytes.
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
