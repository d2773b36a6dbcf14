package waitfor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/internal/words"
)

// kafkaMechanisms are those of SASL that are known here, the strongest first. One that
// wants a token is never chosen for who has a password.
var kafkaMechanisms = []string{"SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", oauthBearer}

const oauthBearer = "OAUTHBEARER"

// kafkaLogin is who to be, as it is now.
type kafkaLogin struct{ user, password, token string }

func (c kafkaCheck) currentLogin() (l kafkaLogin, err error) {
	if c.mechanism == oauthBearer {
		l.token, err = secret.Read(c.settings.get("token-file"))
		return l, err
	}
	l.user, l.password, err = c.login("", "") // Kafka's clients know no variables
	if err != nil || l.user != "" {
		return l, err
	}
	if l.user, err = c.url.Value(c.param(kafkaUser...)); err != nil {
		return l, err
	}
	if password := c.param("sasl.password", "sasl_plain_password"); password != "" {
		l.password, err = c.url.Value(password)
	}
	return l, err
}

// none reports whether there is nobody to be.
func (l kafkaLogin) none() bool { return l.user == "" && l.token == "" }

// secrets are what no broker may have told of a login.
func (c kafkaCheck) secrets(l kafkaLogin) []string {
	return append(c.url.Secrets(), l.password, l.token)
}

// session connects to the broker at addr and logs in, if there is a login. A broker
// that refuses a mechanism names those that it has, and then closes the connection.
func (c kafkaCheck) session(ctx context.Context, addr string) (*kafkaConn, error) {
	login, err := c.currentLogin()
	if err != nil {
		return nil, err
	}
	mechanism := c.mechanism
	if mechanism == "" {
		mechanism = kafkaMechanisms[0]
		if known := c.offered.Load(); known != nil { // by an earlier attempt
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
		return nil, failure.New(failure.Unexpected, "the broker offers a SASL mechanism and then refuses it")
	}
	return conn, nil
}

// choose picks the strongest of the mechanisms that a broker offers. Without TLS, PLAIN
// has to be asked for: whoever passes for the broker could offer nothing else, and would
// be told the password.
func (c kafkaCheck) choose(offered []string, l kafkaLogin) (string, error) {
	for _, m := range kafkaMechanisms {
		if c.mechanism == "" && m != oauthBearer && (m != "PLAIN" || c.encrypted) && slices.Contains(offered, m) {
			c.offered.Store(&m)
			return m, nil
		}
	}
	f := failure.New(failure.Authentication, "the broker offers SASL with %s only", quote(strings.Join(offered, ", "), c.secrets(l)...))
	f.Hint = "known are " + words.List(kafkaMechanisms) + "; the broker may offer others on other ports"
	switch {
	case c.mechanism != "":
		f.Text += ", not with " + c.mechanism
	case slices.Contains(offered, "PLAIN"):
		f.Text += ", and without TLS"
		f.Hint = "speak TLS with it (--tls), or say --mechanism PLAIN if the password is to be sent as it is"
	}
	return "", f
}

// begin connects and logs in with the mechanism, or returns those that the broker
// offers instead. Without a user or a token there is no login.
func (c kafkaCheck) begin(ctx context.Context, addr string, l kafkaLogin, mechanism string) (conn *kafkaConn, offered []string, err error) {
	plain, err := c.connect(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	conn = &kafkaConn{conversation: plain, check: c}
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
	if err != nil && failure.Of(err).Class == failure.Reset { // as old ones do for a wrong password
		err = conn.refused("the broker closes the connection during the login", mechanism)
	}
	conn.loggedIn = true
	return conn, nil, err
}

// handshake names the mechanism. If the broker does not have it, it says which it has.
func (c *kafkaConn) handshake(mechanism string) (offered []string, err error) {
	r, err := c.call(kafkaSASLHandshake, 1, appendKafkaString(nil, mechanism))
	if err != nil {
		return nil, err
	}
	code := r.int16()
	r.each(func() { offered = append(offered, r.text()) })
	switch {
	case r.short:
		return nil, c.check.otherProtocol()
	case code == 0:
		return nil, nil
	case code == kafkaUnsupportedMechanism && len(offered) > 0:
		return offered, nil
	case code == kafkaIllegalSASLState:
		f := failure.New(failure.Authentication, "the broker has no login on this port")
		f.Hint = "leave out the user, or use the port of a listener with SASL"
		return nil, f
	}
	return nil, failure.New(failure.Authentication, "SASL: %s", kafkaError(code))
}

func (c *kafkaConn) authenticate(l kafkaLogin, mechanism string) error {
	say := func(text string) (string, error) { return c.sasl(l, mechanism, text) }
	switch mechanism {
	case "PLAIN": // RFC 4616
		_, err := say("\x00" + l.user + "\x00" + l.password)
		return err
	case oauthBearer: // RFC 7628; an answer is the beginning of the refusal
		problem, err := say("n,,\x01auth=Bearer " + l.token + "\x01\x01")
		if err == nil && problem != "" {
			if _, err = say("\x01"); err == nil {
				err = c.refused("the broker refuses the token", mechanism)
			}
		}
		return err
	}
	scram := newSCRAM(sha512.New, l.user, l.password)
	if mechanism == "SCRAM-SHA-256" {
		scram = newSCRAM(sha256.New, l.user, l.password)
	}
	salt, err := say(scram.first())
	if err != nil {
		return err
	}
	proof, err := scram.final(salt)
	if err != nil {
		return err
	}
	signature, err := say(proof)
	if err != nil {
		return err
	}
	return scram.verify(signature)
}

// sasl says one thing of the login and returns what the broker says to it.
func (c *kafkaConn) sasl(l kafkaLogin, mechanism, text string) (string, error) {
	request := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	r, err := c.call(kafkaSASLAuthenticate, 0, request)
	if err != nil {
		return "", err
	}
	code, message, answer := r.int16(), r.text(), r.bytes()
	switch {
	case r.short:
		return "", c.check.otherProtocol()
	case code != 0:
		message = quote(message, c.check.secrets(l)...)
		if code == kafkaSASLFailed {
			return "", c.refused(cmp.Or(message, "authentication failed"), mechanism)
		}
		return "", c.refused(cmp.Or(message, kafkaError(code)), mechanism)
	}
	return string(answer), nil
}

func (c *kafkaConn) refused(why, mechanism string) error {
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
