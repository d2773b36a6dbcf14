package postgres

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/scram"
)

// A session is a conversation with a PostgreSQL server.
type session struct {
	*wire.Conversation
	target  *target.Target
	options *options
	host    string   // as the target names the server
	secrets []string // never shown

	offered bool              // the server supports TLS
	status  map[string]string // the server's parameters (ParameterStatus)
	key     []byte            // to cancel a query: process ID and secret key
	state   string            // SQLSTATE of the server's last error
}

// message returns a message of the given kind; if that is 0, one without a kind, as the first message of a connection
// is.
func message(kind byte, body []byte) []byte {
	message := binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body)))
	message = append(message, body...)
	if kind == 0 {
		return message[1:]
	}
	return message
}

func (p *session) send(kind byte, body string) error {
	_, err := p.Write(message(kind, []byte(body)))
	return err
}

// secure starts TLS, if the try demands it and the server supports it.
func (p *session) secure(try try) error {
	o := p.options.tls
	if o.ServerName == "" {
		o.ServerName = p.host
	}
	switch try {
	case tryPlain:
		return nil
	case tryDirect:
		p.offered = true
		return p.Encrypt(o, "postgresql")
	}
	poll.Doing(p.Ctx, "asking for TLS")
	if err := p.send(0, "\x04\xd2\x16\x2f"); err != nil { // SSLRequest: 80877103
		return err
	}
	answer, err := p.Next(1)
	switch {
	case err != nil:
		return err
	case answer[0] == 'S':
		p.offered = true
		return p.Encrypt(o)
	case answer[0] != 'N':
		return p.target.Kind.OtherProtocol()
	case try == tryOffered:
		return nil
	}
	return failure.New(failure.TLS, "TLS: the server does not offer it").
		WithHint("set ssl = on and a certificate on the server, or connect without TLS: sslmode=disable")
}

// startup sends the startup message, with the user, the database and the session's parameters.
func (p *session) startup(user string) error {
	var b bytes.Buffer
	b.WriteString("\x00\x03\x00\x00") // version 3.0
	for _, parameter := range [][2]string{
		{"user", user},
		{"database", cmp.Or(p.options.database, user)},
		{"application_name", p.options.application},
		{"client_encoding", "UTF8"},
		{"options", p.options.options},
	} {
		if parameter[1] != "" && !strings.Contains(parameter[0]+parameter[1], "\x00") {
			b.WriteString(parameter[0] + "\x00" + parameter[1] + "\x00")
		}
	}
	b.WriteByte(0)
	return p.send(0, b.String())
}

// longestGreeting is longer than any message that a server sends before it has accepted a login.
const longestGreeting = 30000

// lastAuthentication is the highest type of an authentication message.
const lastAuthentication = 12

// begin returns the server's next authentication message, of kind 'R', or its error.
func (p *session) begin() (kind byte, body []byte, err error) {
	for {
		head, err := p.Next(5)
		if err != nil {
			return 0, nil, err
		}
		n := binary.BigEndian.Uint32(head[1:])
		if !slices.Contains([]byte("RENv"), head[0]) || n < 4 {
			return 0, nil, p.target.Kind.OtherProtocol()
		}
		if n > longestGreeting {
			return 0, nil, wire.TooLong(uint64(n))
		}
		switch body, err := p.Next(uint64(n - 4)); {
		case err != nil:
			return 0, nil, err
		case head[0] == 'E':
			return 'E', nil, p.failure(body)
		case head[0] == 'R' && (len(body) < 4 || binary.BigEndian.Uint32(body) > lastAuthentication):
			return 0, nil, p.target.Kind.OtherProtocol()
		case head[0] == 'R':
			return 'R', body, nil
		}
	}
}

// next returns the server's next answer, without the asynchronous messages before it, or its error.
func (p *session) next() (kind byte, body []byte, err error) {
	for {
		head, err := p.Next(5)
		if err != nil {
			return 0, nil, err
		}
		n := binary.BigEndian.Uint32(head[1:])
		if n < 4 || head[0] < 'A' || head[0] > 'z' {
			return 0, nil, p.target.Kind.OtherProtocol()
		}
		body, err := p.Next(uint64(n - 4))
		if err != nil {
			return 0, nil, err
		}
		switch head[0] {
		case 'E':
			return 'E', nil, p.failure(body)
		case 'S':
			if name, value, ok := strings.Cut(string(body), "\x00"); ok && len(p.status) < 100 {
				if p.status == nil {
					p.status = map[string]string{}
				}
				p.status[name] = strings.TrimSuffix(value, "\x00")
			}
		case 'K':
			p.key = body
		case 'N', 'A': // a notice, a notification
		default:
			return head[0], body, nil
		}
	}
}

// failure converts an error message of the server, and keeps its text.
//
// https://www.postgresql.org/docs/current/protocol-error-fields.html
func (p *session) failure(body []byte) error {
	fields := map[byte]string{}
	for part := range strings.SplitSeq(string(body), "\x00") {
		if part != "" && fields[part[0]] == "" {
			fields[part[0]] = secret.Quote(part[1:], p.secrets...)
		}
	}
	p.state = fields['C']
	class := failure.Unexpected
	if strings.HasPrefix(p.state, "28") || p.state == "42501" {
		class = failure.Authentication
	}
	f := failure.New(class, "%s", cmp.Or(fields['M'], wire.Wordless))
	f.Note = fields['D']
	f.Hint = cmp.Or(hints[p.state], hints[p.state[:min(2, len(p.state))]], fields['H'], "the server reported this error: look at its log")
	return f
}

// login logs in, and returns when the server is ready for a query.
func (p *session) login() error {
	poll.Doing(p.Ctx, "logging in")
	if err := p.startup(p.options.user); err != nil {
		return err
	}
	if err := p.authenticate(); err != nil {
		return err
	}
	for {
		kind, _, err := p.next()
		if kind == 'Z' || err != nil {
			return err
		}
	}
}

// authenticate logs in by the method that the server asks for.
func (p *session) authenticate() error {
	_, body, err := p.begin()
	if err != nil {
		return err
	}
	method, ok := map[uint32]string{0: "none", 3: "password", 5: "md5", 10: "scram-sha-256", 7: "gss", 9: "sspi"}[binary.BigEndian.Uint32(body)]
	binding := p.options.binding == "require" && method != "scram-sha-256"
	switch {
	case !ok || method == "gss" || method == "sspi":
		return failure.New(failure.Authentication, "the server requires an unsupported login method (%s)", cmp.Or(method, "an obsolete one")).
			WithHint("supported methods are password, md5 and scram-sha-256; for a target without a user, readiness is checked without a login")
	case !p.options.allows(method) || binding:
		return failure.New(failure.Authentication, "the server requires a login method that the target does not allow (%s)", method).
			WithHint("see require_auth and channel_binding in the target; or is this the wrong server?")
	case method == "none":
		return nil
	}
	password, err := p.password()
	if err != nil {
		return err
	}
	switch method {
	case "password":
		err = p.send('p', password+"\x00")
	case "md5":
		inner := md5Hex(password + p.options.user)
		err = p.send('p', "md5"+md5Hex(inner+string(body[4:]))+"\x00")
	default:
		err = p.scram(strings.Split(string(body[4:]), "\x00"), password)
	}
	if err != nil {
		return err
	}
	_, body, err = p.begin()
	switch {
	case err != nil:
		return err
	case binary.BigEndian.Uint32(body) != 0:
		return p.target.Kind.OtherProtocol()
	}
	return nil
}

func md5Hex(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// password returns the password, which is only read when the server asks for it.
func (p *session) password() (string, error) {
	password, err := p.options.password(p.Addr, p.host)
	if err != nil {
		return "", err
	}
	if password == "" {
		return "", failure.New(failure.Authentication, "the server requires a password, and the target has no password").
			WithHint("set one with ${file:…} or ${env:…} in the target, --password-file, PGPASSWORD or PGPASSFILE; for a target without a user, readiness is checked without a login")
	}
	p.secrets = append(p.secrets, password)
	return password, nil
}

// scram logs in by one of the mechanisms, and verifies that the server knows the password, too.
func (p *session) scram(mechanisms []string, password string) error {
	const plus = "SCRAM-SHA-256-PLUS"
	s := scram.New(sha256.New, "", password) // the server has the user's name already
	mechanism := strings.TrimSuffix(plus, "-PLUS")
	conn, encrypted := p.Conn.(*tls.Conn)
	switch {
	case !encrypted || p.options.binding == "disable":
	case !slices.Contains(mechanisms, plus):
		s.Unoffered()
	case s.Bind(conn.ConnectionState().PeerCertificates[0]):
		mechanism = plus
	}
	switch {
	case p.options.binding == "require" && mechanism != plus:
		return failure.New(failure.Authentication, "the target requires a login that is bound to the TLS channel, which is not possible here").
			WithHint("channel_binding=require needs TLS that ends at the server itself, and a certificate with a common signature algorithm")
	case !slices.Contains(mechanisms, mechanism):
		return failure.New(failure.Authentication, "the server does not offer a login by SCRAM-SHA-256").
			WithHint("supported methods are password, md5 and scram-sha-256")
	}
	first := s.First()
	if err := p.send('p', mechanism+"\x00"+string(wire.Long(first))); err != nil {
		return err
	}
	answer, err := p.sasl(11)
	if err != nil {
		return err
	}
	final, err := s.Final(answer)
	if err != nil {
		return err
	}
	if err := p.send('p', final); err != nil {
		return err
	}
	if answer, err = p.sasl(12); err != nil {
		return err
	}
	return s.Verify(answer)
}

// sasl returns the content of the server's next authentication message, which must be of the given type.
func (p *session) sasl(kind uint32) (string, error) {
	_, body, err := p.begin()
	if err == nil && binary.BigEndian.Uint32(body) != kind {
		err = p.target.Kind.OtherProtocol()
	}
	if err != nil {
		return "", err
	}
	return string(body[4:]), nil
}

// ask runs a query and returns the first column of its first row.
func (p *session) ask(query string) (answer wire.QueryAnswer, err error) {
	if strings.Contains(query, "\x00") {
		query = strings.ReplaceAll(query, "\x00", " ")
	}
	if err := p.send('Q', query+"\x00"); err != nil {
		return answer, err
	}
	for {
		kind, body, err := p.next()
		switch {
		case err != nil && answer.Row && kind == 0 && p.Ctx.Err() == nil:
			return answer, nil // the first row is enough
		case err != nil:
			return answer, err
		case kind == 'D' && !answer.Row:
			if answer, err = p.column(body); err != nil {
				return answer, err
			}
		case kind == 'G' || kind == 'H' || kind == 'W':
			return answer, failure.New(failure.Unexpected, "the query is a COPY, which has no rows").WithHint("use a SELECT")
		case kind == 'Z':
			return answer, nil
		}
	}
}

// column reads the first column of a row.
func (p *session) column(row []byte) (wire.QueryAnswer, error) {
	if len(row) < 2 {
		return wire.QueryAnswer{}, p.target.Kind.OtherProtocol()
	}
	columns, rest := binary.BigEndian.Uint16(row), row[2:]
	if columns == 0 {
		return wire.QueryAnswer{Row: true, Null: true}, nil
	}
	if len(rest) < 4 {
		return wire.QueryAnswer{}, p.target.Kind.OtherProtocol()
	}
	n, rest := int32(binary.BigEndian.Uint32(rest)), rest[4:]
	if n == -1 {
		return wire.QueryAnswer{Row: true, Null: true}, nil
	}
	if n < 0 || int(n) > len(rest) {
		return wire.QueryAnswer{}, p.target.Kind.OtherProtocol()
	}
	return wire.QueryAnswer{Value: string(rest[:n]), Row: true}, nil
}

// terminate ends the session, so that the server does not log a lost connection.
func (p *session) terminate() {
	p.Conn.SetWriteDeadline(time.Now().Add(cancelWithin))
	p.send('X', "")
}
