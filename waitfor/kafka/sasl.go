package kafka

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/internal/words"
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/scram"
)

// mechanisms are the supported SASL mechanisms, the strongest first. One that requires a token is never chosen for a
// password.
var mechanisms = []string{"SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", oauthBearer}

const oauthBearer = "OAUTHBEARER"

// login is the credentials at this attempt.
type login struct{ user, password, token string }

func (c check) currentLogin() (l login, err error) {
	if c.mechanism == oauthBearer {
		l.token, err = secret.Read(c.Settings.Get("token-file"))
		return l, err
	}
	l.user, l.password, err = wire.Login(c.Server, "", "") // Kafka's clients read no variables
	if err != nil || l.user != "" {
		return l, err
	}
	if l.user, err = c.URL.Value(c.URL.Param(user...)); err != nil {
		return l, err
	}
	if password := c.URL.Param("sasl.password", "sasl_plain_password"); password != "" {
		l.password, err = c.URL.Value(password)
	}
	return l, err
}

// none reports whether there are no credentials.
func (l login) none() bool { return l.user == "" && l.token == "" }

// secrets returns the parts of a login that a message must not repeat.
func (c check) secrets(l login) []string {
	return append(c.URL.Secrets(), l.password, l.token)
}

// session connects to the broker at addr and logs in, if there are credentials. A broker that rejects a mechanism lists
// those that it supports, and then closes the connection.
func (c check) session(ctx context.Context, addr string) (*session, error) {
	login, err := c.currentLogin()
	if err != nil {
		return nil, err
	}
	mechanism := c.mechanism
	if mechanism == "" {
		mechanism = mechanisms[0]
		if known := c.offered.Load(); known != nil { // from an earlier attempt
			mechanism = *known
		}
	}
	conn, offered, err := c.begin(ctx, addr, login, mechanism)
	if err == nil && len(offered) > 0 {
		if mechanism, err = c.choose(offered, login); err == nil {
			conn, offered, err = c.begin(ctx, addr, login, mechanism)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(offered) > 0:
		return nil, failure.New(failure.Unexpected, "the broker offers a SASL mechanism and then rejects it")
	}
	return conn, nil
}

// choose returns the strongest of the mechanisms that a broker offers. Without TLS, PLAIN must be requested: an
// impostor could offer nothing else, and would receive the password.
func (c check) choose(offered []string, l login) (string, error) {
	for _, m := range mechanisms {
		if c.mechanism == "" && m != oauthBearer && (m != "PLAIN" || c.Encrypted) && slices.Contains(offered, m) {
			c.offered.Store(&m)
			return m, nil
		}
	}
	f := failure.New(failure.Authentication, "the broker offers SASL with %s only", secret.Quote(strings.Join(offered, ", "), c.secrets(l)...))
	f.Hint = "supported mechanisms are " + words.List(mechanisms) + "; the broker may offer others on other ports"
	switch {
	case c.mechanism != "":
		f.Text += ", not with " + c.mechanism
	case slices.Contains(offered, "PLAIN"):
		f.Text += ", and without TLS"
		f.Hint = "use TLS (--tls), or --mechanism PLAIN to send the password unencrypted"
	}
	return "", f
}

// begin connects and logs in with the mechanism, or returns those that the broker offers instead. Without a user or a
// token it does not log in.
func (c check) begin(ctx context.Context, addr string, l login, mechanism string) (conn *session, offered []string, err error) {
	plain, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return nil, nil, err
	}
	conn = &session{Conversation: plain, check: c}
	defer func() {
		if err != nil || offered != nil {
			plain.Close()
		}
	}()
	poll.Doing(ctx, "asking for the versions")
	if err := conn.askVersions(); err != nil || l.none() {
		return conn, nil, err
	}
	poll.Doing(ctx, "logging in")
	if offered, err := conn.handshake(mechanism); err != nil || offered != nil {
		return nil, offered, err
	}
	err = conn.authenticate(l, mechanism)
	if err != nil && failure.Of(err).Class == failure.Reset { // as old brokers do for a wrong password
		err = conn.refused("the broker closes the connection during the login", mechanism)
	}
	conn.loggedIn = true
	return conn, nil, err
}

// handshake requests the mechanism. It returns the supported ones if the broker does not support it.
func (c *session) handshake(mechanism string) (offered []string, err error) {
	r, err := c.call(keySASLHandshake, 1, appendString(nil, mechanism))
	if err != nil {
		return nil, err
	}
	code := r.int16()
	r.each(func() { offered = append(offered, r.text()) })
	switch {
	case r.short:
		return nil, c.check.Kind.OtherProtocol()
	case code == 0:
		return nil, nil
	case code == unsupportedMechanism && len(offered) > 0:
		return offered, nil
	case code == illegalSASLState:
		return nil, failure.New(failure.Authentication, "the broker does not accept a login on this port").
			WithHint("remove the user, or use the port of a listener with SASL")
	}
	return nil, failure.New(failure.Authentication, "SASL: %s", errorText(code))
}

func (c *session) authenticate(l login, mechanism string) error {
	say := func(text string) (string, error) { return c.sasl(l, mechanism, text) }
	switch mechanism {
	case "PLAIN": // RFC 4616
		_, err := say("\x00" + l.user + "\x00" + l.password)
		return err
	case oauthBearer: // RFC 7628; an answer starts a rejection
		problem, err := say("n,,\x01auth=Bearer " + l.token + "\x01\x01")
		if err == nil && problem != "" {
			if _, err = say("\x01"); err == nil {
				err = c.refused("the broker rejects the token", mechanism)
			}
		}
		return err
	}
	exchange := scram.New(sha512.New, l.user, l.password)
	if mechanism == "SCRAM-SHA-256" {
		exchange = scram.New(sha256.New, l.user, l.password)
	}
	salt, err := say(exchange.First())
	if err != nil {
		return err
	}
	proof, err := exchange.Final(salt)
	if err != nil {
		return err
	}
	signature, err := say(proof)
	if err != nil {
		return err
	}
	return exchange.Verify(signature)
}

// sasl sends one message of the login and returns the broker's answer.
func (c *session) sasl(l login, mechanism, text string) (string, error) {
	r, err := c.call(keySASLAuthenticate, 0, wire.Long(text))
	if err != nil {
		return "", err
	}
	code, message, answer := r.int16(), r.text(), r.bytes()
	switch {
	case r.short:
		return "", c.check.Kind.OtherProtocol()
	case code != 0:
		message = secret.Quote(message, c.check.secrets(l)...)
		if code == saslFailed {
			return "", c.refused(cmp.Or(message, "authentication failed"), mechanism)
		}
		return "", c.refused(cmp.Or(message, errorText(code)), mechanism)
	}
	return string(answer), nil
}

func (c *session) refused(why, mechanism string) error {
	f := failure.New(failure.Authentication, "SASL: %s", why)
	f.Hint = "are user and password right?"
	switch {
	case mechanism == oauthBearer:
		f.Hint = "is the token still valid, and issued for the brokers?"
	case c.check.mechanism == "":
		f.Hint = "are user and password right? if they are for a mechanism other than " + mechanism + ", name it with --mechanism"
	}
	return f
}
