// Package cassandra waits for Cassandra and ScyllaDB, in versions 3 and 4 of the native protocol:
// cassandra://[USER:PASSWORD@]HOST[:PORT][,HOST…][/KEYSPACE].
//
// A cluster is ready when one of the nodes starts a session, or asks for credentials to do so. With a keyspace, in the
// path or in the setting keyspace, it must accept the login, if it requires one, and have the keyspace.
package cassandra

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/forms"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is the kind of targets with the schemes cassandra and scylla.
var Kind = target.Kind{
	Schemes: []string{"cassandra", "scylla"},
	Usage:   "cassandra://[USER:PASSWORD@]HOST[:PORT][,HOST…][/KEYSPACE]",
	Ready:   "a node starts a session, and has the keyspace if the target names one",
	Settings: slices.Concat([]target.Setting{
		{Name: "keyspace", Value: "NAME", Usage: "the keyspace exists, as in the path; the check needs a login if the cluster requires one"},
	}, wire.ServerSettings),
	Protocol: "Cassandra's native protocol",
	Hosts:    true,
	Port:     "9042",
	Parse:    parse,
}

// check starts a session. A node that then asks for credentials (AUTHENTICATE) is as ready as one that does not
// (READY).
//
// https://github.com/apache/cassandra/blob/trunk/doc/native_protocol_v4.spec
type check struct{ wire.Server }

func parse(t *target.Target) (target.Check, error) {
	if t.Settings.On("keyspace") && strings.Trim(t.URL.Path, "/") != "" {
		return nil, errors.New("keyspace: the path of the target already names one")
	}
	s, err := wire.NewServer(t)
	s.Encrypted = s.Encrypted || forms.Yes(t.URL.Param("ssl", "tls"))
	return check{s}, err
}

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server, c.ask) }

func (c check) ask(ctx context.Context, addr string) error {
	s := session{Server: c.Server, version: 4} // supported by Cassandra since 2.2, and by ScyllaDB
	for {
		err := s.run(ctx, addr)
		if s.spoken >= s.version || !errors.Is(err, errVersion) {
			return err
		}
		s.version = s.spoken // lower each time, so the loop ends
	}
}

// Opcodes of the protocol.
const (
	cqlError        = 0x00
	cqlStartup      = 0x01
	cqlReady        = 0x02
	cqlAuthenticate = 0x03
	cqlOptions      = 0x05
	cqlSupported    = 0x06
	cqlQuery        = 0x07
	cqlResult       = 0x08
	cqlAuthResponse = 0x0F
	cqlAuthSuccess  = 0x10
)

// session is a conversation with a node in one version of the protocol.
type session struct {
	wire.Server
	conn            *wire.Conversation
	version, spoken byte // of our requests; of the node's last answer
	secrets         []string
}

// run connects to the node at addr, and runs the session.
func (s *session) run(ctx context.Context, addr string) (err error) {
	if s.conn, err = wire.Connect(ctx, s.Server, addr); err != nil {
		return err
	}
	defer s.conn.Close()
	return s.talk(ctx)
}

// talk starts the session, and checks the keyspace.
func (s *session) talk(ctx context.Context) error {
	s.secrets = s.URL.Secrets()
	poll.Doing(ctx, "asking for the options")
	if _, err := s.call(cqlOptions, nil, cqlSupported); err != nil {
		return err
	}
	poll.Doing(ctx, "starting a session")
	options := slices.Concat([]byte{0, 1}, cqlString("CQL_VERSION"), cqlString("3.0.0"))
	answer, err := s.call(cqlStartup, options, cqlReady, cqlAuthenticate)
	if err != nil {
		return err
	}
	keyspace, err := s.keyspace()
	if err != nil || keyspace == "" {
		return err
	}
	if answer == cqlAuthenticate {
		if err := s.logIn(ctx); err != nil {
			return err
		}
	}
	poll.Doing(ctx, "asking for the keyspace")
	use := wire.Long(`USE "` + strings.ReplaceAll(keyspace, `"`, `""`) + `"`)
	_, err = s.call(cqlQuery, append(use, 0, 1, 0), cqlResult) // consistency ONE, no flags
	return err
}

// keyspace returns the keyspace that the target names, or "".
func (s *session) keyspace() (string, error) {
	if s.Settings.On("keyspace") {
		return s.Settings.Get("keyspace"), nil
	}
	u, err := s.URL.Expand()
	if err != nil {
		return "", err
	}
	return strings.Trim(u.Path, "/"), nil
}

// logIn answers AUTHENTICATE, in the form of PasswordAuthenticator (RFC 4616).
func (s *session) logIn(ctx context.Context) error {
	user, password, err := wire.Login(s.Server, "", "")
	if err != nil {
		return err
	}
	if user == "" {
		return failure.New(failure.Authentication, "the cluster requires a login to check the keyspace").
			WithHint("add user and password to the target, or remove the keyspace")
	}
	s.secrets = append(s.secrets, password)
	poll.Doing(ctx, "logging in")
	_, err = s.call(cqlAuthResponse, wire.Long("\x00"+user+"\x00"+password), cqlAuthSuccess)
	return err
}

// cqlString encodes a text after its length, of two bytes.
func cqlString(s string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...)
}

// call sends a request, and returns the opcode of its answer, which must be one of wanted.
func (s *session) call(opcode byte, body []byte, wanted ...byte) (byte, error) {
	frame := binary.BigEndian.AppendUint32([]byte{s.version, 0, 0, 0, opcode}, uint32(len(body))) // no flags, stream 0
	if _, err := s.conn.Write(append(frame, body...)); err != nil {
		return 0, err
	}
	header, err := s.conn.Next(9)
	if err != nil {
		return 0, err
	}
	s.spoken = header[0] &^ 0x80
	if header[0]&0x80 == 0 || s.spoken == 0 || s.spoken > 0x10 || header[2] != 0 || header[3] != 0 || header[4] > cqlAuthSuccess {
		return 0, s.Kind.OtherProtocol()
	}
	if s.spoken < 3 { // its frames have another format
		return 0, failure.New(failure.Unexpected, "the node supports no later version of the native protocol than %d", s.spoken).
			WithHint("versions 3 and 4 are supported, which Cassandra has since 2.1")
	}
	answer, err := s.conn.Next(uint64(binary.BigEndian.Uint32(header[5:])))
	switch {
	case err != nil:
		return 0, err
	case header[4] == cqlError:
		return 0, s.refusal(header[1], answer)
	case s.spoken != s.version || !slices.Contains(wanted, header[4]):
		return 0, s.Kind.OtherProtocol()
	}
	return header[4], nil
}

// errVersion is the cause of a failure because the node does not support our version of the protocol.
var errVersion = errors.New("protocol version")

// refusal converts an ERROR message: a code and a text. Flags announce other fields before them.
func (s *session) refusal(flags byte, body []byte) error {
	if flags != 0 {
		return failure.New(failure.Unexpected, "the node answers with an error")
	}
	if len(body) < 6 || int(binary.BigEndian.Uint16(body[4:])) > len(body)-6 {
		return s.Kind.OtherProtocol()
	}
	code := binary.BigEndian.Uint32(body)
	text := strings.TrimSuffix(string(body[6:6+binary.BigEndian.Uint16(body[4:])]), ".")
	f := failure.New(failure.Unexpected, "the node reports %s", secret.Quote(text, s.secrets...))
	switch code {
	case 0x000A: // a protocol error
		f.Err = errVersion
	case 0x0100, 0x2100: // bad credentials, unauthorized
		f.Class, f.Hint = failure.Authentication, "are user and password right, and does the user exist in the cluster already?"
	case 0x1000, 0x1001, 0x1002, 0x0000: // unavailable, overloaded, bootstrapping, a server error
		f.Hint = "the node is running, but not in service yet: see nodetool status, and its log"
	case 0x2200: // invalid
		f.Hint = "keyspaces are created by migrations: did they run? the name is case-sensitive"
	}
	return f
}
