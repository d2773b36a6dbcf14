// Package scram implements the client's side of a login with SCRAM (RFC 5802, RFC 7677):
//
//	c := scram.New(sha256.New, user, password)
//	send(c.First())
//	final, err := c.Final(receive())
//	send(final)
//	err = c.Verify(receive())
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"hash"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/secret"
)

// maxIterations limits the iterations of the hash that a server may request, to a second of processor time. Servers
// request 4096 to some hundred thousand.
const maxIterations = 1_000_000

// A Client is the client's side of one login, in which each side proves that it knows the password without sending it.
// SASLprep (RFC 4013), which unifies different encodings of a password, is not implemented: it leaves what is in use,
// ASCII and composed letters, unchanged.
type Client struct {
	hash           func() hash.Hash
	user, password string
	nonce          string
	header         string // of GS2: whether the login is bound to the channel
	binding        []byte // identifies the channel; nil if it is not bound
	signature      []byte // expected of the server
}

// New returns the client of a login with a hash, such as sha256.New or sha512.New.
func New(hash func() hash.Hash, user, password string) *Client {
	return &Client{hash: hash, user: user, password: password, nonce: rand.Text(), header: "n,,"}
}

// Bind makes it a login of a -PLUS mechanism, bound to the TLS channel of the server with the certificate. It reports
// whether the certificate allows that.
func (s *Client) Bind(cert *x509.Certificate) bool {
	if s.binding = serverEndPoint(cert); s.binding == nil {
		return false
	}
	s.header = "p=tls-server-end-point,,"
	return true
}

// Unoffered tells the server that the client could bind the channel, but saw no offer: a server that did offer it then
// knows that the offer was removed on the way.
func (s *Client) Unoffered() { s.header = "y,," }

// serverEndPoint returns the channel binding tls-server-end-point (RFC 5929, section 4.1), or nil where it is
// undefined.
func serverEndPoint(cert *x509.Certificate) []byte {
	var h hash.Hash
	switch cert.SignatureAlgorithm {
	case x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1,
		x509.SHA256WithRSA, x509.SHA256WithRSAPSS, x509.DSAWithSHA256, x509.ECDSAWithSHA256:
		h = sha256.New()
	case x509.SHA384WithRSA, x509.SHA384WithRSAPSS, x509.ECDSAWithSHA384:
		h = sha512.New384()
	case x509.SHA512WithRSA, x509.SHA512WithRSAPSS, x509.ECDSAWithSHA512:
		h = sha512.New()
	default:
		return nil
	}
	h.Write(cert.Raw)
	return h.Sum(nil)
}

// First returns the client's first message.
func (s *Client) First() string { return s.header + s.firstBare() }

func (s *Client) firstBare() string {
	return "n=" + strings.NewReplacer("=", "=3D", ",", "=2C").Replace(s.user) + ",r=" + s.nonce
}

// Final returns the client's answer to the server's first message. Its errors are of class unexpected answer.
func (s *Client) Final(serverFirst string) (string, error) {
	nonce, salt, iterations := "", []byte(nil), 0
	for attribute := range strings.SplitSeq(serverFirst, ",") {
		name, value, _ := strings.Cut(attribute, "=")
		switch name {
		case "r":
			nonce = value
		case "s":
			salt, _ = base64.StdEncoding.DecodeString(value)
		case "i":
			iterations, _ = strconv.Atoi(value)
		case "m":
			return "", unexpected("the server requires an unsupported extension of SCRAM")
		}
	}
	switch {
	case len(nonce) <= len(s.nonce) || !strings.HasPrefix(nonce, s.nonce) || len(salt) == 0 || iterations < 1:
		return "", unexpected("the server's message is not SCRAM")
	case iterations > maxIterations:
		return "", unexpected("the server requires %d iterations of the hash, more than %d", iterations, maxIterations)
	}
	salted, err := pbkdf2.Key(s.hash, s.password, salt, iterations, s.hash().Size())
	if err != nil {
		return "", failure.New(failure.Local, "SCRAM: %v", err)
	}
	bare := "c=" + base64.StdEncoding.EncodeToString(append([]byte(s.header), s.binding...)) + ",r=" + nonce
	message := s.firstBare() + "," + serverFirst + "," + bare
	clientKey := s.mac(salted, "Client Key")
	stored := s.hash()
	stored.Write(clientKey)
	proof := s.mac(stored.Sum(nil), message)
	subtle.XORBytes(proof, proof, clientKey)
	s.signature = s.mac(s.mac(salted, "Server Key"), message)
	return bare + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

func unexpected(format string, args ...any) error {
	return failure.New(failure.Unexpected, format, args...).WithHint("is this the intended server, or an impostor?")
}

// Verify reads the server's last message, which proves that the server knows the password, too, or says why the login
// failed. Its errors are of class authentication.
func (s *Client) Verify(serverFinal string) error {
	name, value, _ := strings.Cut(serverFinal, "=")
	value, _, _ = strings.Cut(value, ",")
	signature, err := base64.StdEncoding.DecodeString(value)
	switch {
	case name == "e":
		return failure.New(failure.Authentication, "login failed: %s", secret.Quote(value, s.password)).WithHint("are user and password right?")
	case name != "v" || err != nil || s.signature == nil || !hmac.Equal(signature, s.signature):
		return failure.New(failure.Authentication, "the server did not prove that it knows the password").
			WithHint("is this the intended server, or an impostor?")
	}
	return nil
}

func (s *Client) mac(key []byte, text string) []byte {
	h := hmac.New(s.hash, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
