package mongodb

import (
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/forms"
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/scram"
)

// Mechanisms of a login. The two of SCRAM differ in their hash.
const (
	scramSHA1   = "SCRAM-SHA-1"
	scramSHA256 = "SCRAM-SHA-256"
	plain       = "PLAIN" // for users of an LDAP server
	noLogin     = "none"
)

// parseLogin reads how to log in
// (https://github.com/mongodb/specifications/blob/master/source/auth/auth.md).
func (c *check) parseLogin() error {
	c.source = cmp.Or(c.URL.Param("authSource"), c.source)
	switch mechanism := strings.ToUpper(c.URL.Param("authMechanism")); mechanism {
	case "", scramSHA1, scramSHA256:
		c.login = mechanism
	case plain:
		c.login, c.source = plain, "$external"
	case "MONGODB-X509", "MONGODB-AWS", "MONGODB-OIDC", "GSSAPI":
		c.login = noLogin // hello alone counts, as without a user
		return nil
	default:
		return errors.New("authMechanism: want SCRAM-SHA-256, SCRAM-SHA-1 or PLAIN; with MONGODB-X509, MONGODB-AWS, MONGODB-OIDC and GSSAPI there is no login")
	}
	_, password := c.URL.User.Password()
	user := c.URL.User.Username() != "" || c.Settings.On("user")
	switch {
	case user && !password && !c.Settings.On("password-file"):
		return errors.New("the user has no password: add one as in mongodb://USER:${env:NAME}@HOST, or password-file; without a user there is no login")
	case !user && c.Settings.On("password-file"):
		return errors.New("password-file needs a user")
	}
	return nil
}

// database returns the database that has the user.
func (s *session) database() string {
	path, err := s.URL.Value(strings.Trim(s.URL.Path, "/"))
	if err != nil {
		path = "" // it is read again for the login
	}
	return cmp.Or(s.source, path, "admin")
}

// logIn logs in with the mechanism of the URL, or else the strongest of those that the server offers for the user.
func (s *session) logIn(ctx context.Context, offered []string) error {
	poll.Doing(ctx, "logging in")
	mechanism := s.login
	switch {
	case mechanism != "":
	case slices.Contains(offered, scramSHA256):
		mechanism = scramSHA256
	default: // as drivers do, also for a user that the server does not know
		mechanism = scramSHA1
	}
	if mechanism == plain { // RFC 4616
		_, err := s.sasl(command("saslStart").text("mechanism", plain), "\x00"+s.user+"\x00"+s.password)
		return err
	}
	exchange := scram.New(sha256.New, s.user, s.password)
	if mechanism == scramSHA1 {
		exchange = scram.New(sha1.New, s.user, s.digest())
	}
	answer, err := s.sasl(command("saslStart").text("mechanism", mechanism), exchange.First())
	if err != nil {
		return err
	}
	final, err := exchange.Final(answer.payload)
	if err != nil {
		return err
	}
	if answer, err = s.sasl(command("saslContinue").number("conversationId", answer.conversation), final); err != nil {
		return err
	}
	if err := exchange.Verify(answer.payload); err != nil {
		return err
	}
	for range 2 { // some servers want an empty message to end it
		if answer.done {
			return nil
		}
		if answer, err = s.sasl(command("saslContinue").number("conversationId", answer.conversation), ""); err != nil {
			return err
		}
	}
	return s.Kind.OtherProtocol()
}

// digest is what MongoDB uses as the password with SHA-1.
func (s *session) digest() string {
	sum := md5.Sum([]byte(s.user + ":mongo:" + s.password))
	return hex.EncodeToString(sum[:])
}

// answer is the server's answer to one step of a login.
type answer struct {
	status
	conversation int32
	done         bool
	payload      string
}

// sasl sends one step of a login.
func (s *session) sasl(step document, payload string) (a answer, err error) {
	reply, err := s.send(step.bytes("payload", payload), s.database())
	if err == nil {
		a.status, err = readMongoState(reply)
	}
	switch {
	case errors.Is(err, errNotMongo):
		return a, s.Kind.OtherProtocol()
	case err != nil:
		return a, err
	case !a.ok:
		return a, s.rejected(a.status)
	}
	err = eachBSON(reply, func(kind byte, name string, value []byte) {
		switch {
		case name == "conversationId":
			a.conversation = int32(bsonNumber(kind, value))
		case name == "done":
			a.done = bsonNumber(kind, value) == 1
		case name == "payload" && kind == bsonBytes:
			a.payload = string(value[5:])
		}
	})
	return a, err
}

// rejected converts the error with which the server ends a login.
func (s *session) rejected(state status) error {
	f := failure.New(failure.Authentication, "login failed: %s", secret.Quote(cmp.Or(state.says, wire.Wordless), append(s.URL.Secrets(), s.password, s.digest())...))
	f.Hint = "are user and password right?"
	if database := s.database(); forms.Harmless(database) {
		f.Hint += " the user is looked up in the database " + database + ", which authSource in the URL names"
	}
	return f
}
