package amqp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Methods of AMQP 0-9-1: the numbers of the class and of the method in it.
const (
	methodStart, methodStartOK      = 10<<16 | 10, 10<<16 | 11
	methodSecure                    = 10<<16 | 20
	methodTune, methodTuneOK        = 10<<16 | 30, 10<<16 | 31
	methodOpen, methodOpenOK        = 10<<16 | 40, 10<<16 | 41
	methodClose, methodCloseOK      = 10<<16 | 50, 10<<16 | 51
	methodBlocked                   = 10<<16 | 60
	methodUnblocked                 = 10<<16 | 61
	methodChannelOpen               = 20<<16 | 10
	methodChannelOpenOK             = 20<<16 | 11
	methodChannelClose              = 20<<16 | 40
	methodExchangeDeclare           = 40<<16 | 10
	methodExchangeDeclareOK         = 40<<16 | 11
	methodQueueDeclare              = 50<<16 | 10
	methodQueueDeclareOK            = 50<<16 | 11
	methodPublish                   = 60<<16 | 40
	methodFrame                     = 1
	headerFrame                     = 2
	heartbeatFrame                  = 8
	frameEnd                   byte = 0xCE
)

// maxShort is the maximum length of a short string.
const maxShort = 255

// shortString encodes a text, after its length of one byte.
func shortString(s string) []byte { return append([]byte{byte(len(s))}, s...) }

// session is a conversation in AMQP 0-9-1.
type session struct {
	*wire.Conversation
	target  *target.Target
	secrets []string
}

// begin sends the protocol's header and returns the login mechanisms from connection.start, separated by spaces.
func (a *session) begin() (mechanisms string, err error) {
	if _, err := a.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return "", err
	}
	args, err := a.expect(methodStart)
	if err != nil {
		return "", err
	}
	if len(args) < 2 || args[0] != 0 || args[1] != 9 {
		return "", a.target.Kind.OtherProtocol()
	}
	_, rest, ok := cutLong(args[2:]) // the server's properties
	text, _, ok2 := cutLong(rest)
	if !ok || !ok2 {
		return "", a.target.Kind.OtherProtocol()
	}
	return string(text), nil
}

// cutLong cuts a long string or a table off the front of args.
func cutLong(args []byte) (value, rest []byte, ok bool) {
	if len(args) < 4 || uint64(binary.BigEndian.Uint32(args)) > uint64(len(args)-4) {
		return nil, nil, false
	}
	end := 4 + int(binary.BigEndian.Uint32(args))
	return args[4:end], args[end:], true
}

// logIn answers connection.start and connection.tune; then a virtual host can be opened. With leaveUnanswered, short
// heartbeats let the broker soon notice that the client has gone.
func (a *session) logIn(l *credentials, leaveUnanswered bool) error {
	// Without the first, a broker closes the connection without a reason; without the second, it does not report that
	// it accepts no messages.
	var capabilities, properties bytes.Buffer
	for _, name := range []string{"authentication_failure_close", "connection.blocked"} {
		capabilities.Write(shortString(name))
		capabilities.WriteString("t\x01")
	}
	properties.Write(shortString("product"))
	properties.WriteByte('S')
	properties.Write(wire.Long("initbox"))
	properties.Write(shortString("capabilities"))
	properties.WriteByte('F')
	properties.Write(wire.Long(capabilities.String()))
	tune, err := a.call(0, methodStartOK, methodTune, wire.Long(properties.String()),
		shortString(l.mechanism), wire.Long(l.response), shortString("en_US"))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // as section 4.2.3 of the protocol requires
		f := failure.New(failure.Authentication, "the broker closes the connection when it receives the credentials")
		f.Hint, f.Err = loginHint, err
		return f
	}
	if err != nil {
		return err
	}
	if len(tune) < 8 { // channels, bytes of a frame, heartbeat
		return a.target.Kind.OtherProtocol()
	}
	binary.BigEndian.PutUint16(tune[6:], 0)
	if leaveUnanswered {
		binary.BigEndian.PutUint16(tune[6:], 2) // seconds
	}
	return a.send(0, methodTuneOK, tune[:8])
}

// publishable checks that the broker accepts messages, and closes the connection. A broker reports an alarm only to
// publishers (https://www.rabbitmq.com/docs/connection-blocked), when it has received the header of a message: so a
// message of one byte is announced, and never sent. A broker that accepts messages then answers connection.close; one
// that does not reports that, and reads nothing more until the alarm is over.
func (a *session) publishable() error {
	if err := a.send(1, methodPublish, []byte{0, 0}, shortString(""), shortString(""), []byte{0}); err != nil {
		return err
	}
	header := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, 1) // class, weight, bytes of the message
	if err := a.frame(headerFrame, 1, append(header, 0, 0)); err != nil {
		return err
	}
	_, err := a.call(0, methodClose, methodCloseOK, goodbye)
	return err
}

// goodbye are the arguments of connection.close: 200, no text, no method.
var goodbye = []byte{0, 200, 0, 0, 0, 0, 0}

// leave closes the connection, so that the broker does not log a lost one. Errors no longer matter.
func (a *session) leave() {
	if a.send(0, methodClose, goodbye) == nil {
		a.Conn.SetReadDeadline(time.Now().Add(time.Second))
		a.expect(methodCloseOK)
	}
}

// call sends a method and returns the arguments of the one that answers it.
func (a *session) call(channel uint16, method, answer uint32, args ...[]byte) ([]byte, error) {
	if err := a.send(channel, method, args...); err != nil {
		return nil, err
	}
	return a.expect(answer)
}

func (a *session) send(channel uint16, method uint32, args ...[]byte) error {
	payload := binary.BigEndian.AppendUint32(nil, method)
	return a.frame(methodFrame, channel, append(payload, bytes.Join(args, nil)...))
}

func (a *session) frame(kind byte, channel uint16, payload []byte) error {
	p := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	p = binary.BigEndian.AppendUint32(p, uint32(len(payload)))
	_, err := a.Write(append(append(p, payload...), frameEnd))
	return err
}

// expect returns the arguments of the next method, which must be the given one.
func (a *session) expect(method uint32) ([]byte, error) {
	for {
		got, args, err := a.next()
		if err != nil {
			return nil, err
		}
		switch got {
		case method:
			return args, nil
		case methodBlocked:
			if len(args) == 0 || int(args[0]) > len(args)-1 {
				return nil, a.target.Kind.OtherProtocol()
			}
			f := failure.New(failure.Unexpected, "the broker accepts no messages: %s", secret.Quote(string(args[1:1+int(args[0])]), a.secrets...))
			f.Hint = "a memory or disk alarm blocks publishers: see rabbitmq-diagnostics alarms"
			return nil, poll.After(time.Second, f) // the broker notices late that a connection that it blocks has ended
		case methodUnblocked: // an alarm that is over
		case methodClose, methodChannelClose:
			return nil, a.refusal(got, args)
		case methodSecure:
			return nil, failure.New(failure.Authentication, "the broker requires a multi-step login, which is not supported")
		default:
			return nil, a.target.Kind.OtherProtocol()
		}
	}
}

// next reads the next frame that has a method.
func (a *session) next() (method uint32, args []byte, err error) {
	for {
		header, err := a.Next(7)
		if err != nil {
			return 0, nil, err
		}
		if string(header[:4]) == "AMQP" { // the version that the server supports
			return 0, nil, a.otherVersion(header[4:])
		}
		kind, size := header[0], binary.BigEndian.Uint32(header[3:])
		if kind != methodFrame && kind != heartbeatFrame {
			return 0, nil, a.target.Kind.OtherProtocol()
		}
		payload, err := a.Next(uint64(size) + 1)
		switch {
		case err != nil:
			return 0, nil, err
		case payload[size] != frameEnd:
			return 0, nil, a.target.Kind.OtherProtocol()
		case kind == heartbeatFrame:
			continue
		case size < 4:
			return 0, nil, a.target.Kind.OtherProtocol()
		}
		return binary.BigEndian.Uint32(payload), payload[4:size], nil
	}
}

// otherVersion is the failure of a broker that answers with a protocol header. The last byte of the version is still to
// be read.
func (a *session) otherVersion(version []byte) error {
	last, err := a.Next(1)
	if err != nil {
		return err
	}
	return failure.New(failure.Unexpected, "the server does not speak AMQP 0-9-1 but AMQP %d.%d.%d", version[1], version[2], last[0]).
		WithHint("for a server of AMQP 1.0, wait for its port with tcp:// or tls://")
}

const loginHint = "are user and password right, and may the user log in from this host? (guest may only log in from the broker's own host)"

// refusal converts connection.close or channel.close.
func (a *session) refusal(method uint32, args []byte) error {
	if len(args) < 3 || int(args[2]) > len(args)-3 {
		return a.target.Kind.OtherProtocol()
	}
	code, text := binary.BigEndian.Uint16(args), strings.TrimSuffix(string(args[3:3+int(args[2])]), ".")
	if method == methodClose {
		a.send(0, methodCloseOK)
	} else {
		defer a.leave()
	}
	f := failure.New(failure.Unexpected, "the broker reports %s", secret.Quote(text, a.secrets...))
	if text == "" {
		f.Text = fmt.Sprintf("the broker refuses (code %d)", code)
	}
	switch {
	case code == 403: // ACCESS_REFUSED
		f.Class, f.Hint = failure.Authentication, loginHint
	case code == 530 && strings.Contains(text, "limit"): // NOT_ALLOWED, as all these
		f.Hint = "the connection limit is reached: which clients hold connections?"
	case code == 530 && strings.Contains(text, "refused for user"):
		f.Class, f.Hint = failure.Authentication, "give the user permissions in the virtual host: rabbitmqctl set_permissions"
	case code == 530:
		f.Hint = `does the virtual host exist? it is the URL's path, percent-encoded ("/" is %2F, or no path)`
	case code == 404 && method == methodChannelClose:
		f.Hint = "queues and exchanges are declared by the applications that use them, or by definitions: did that happen, in this virtual host?"
	case code == 541, code == 320:
		f.Hint = "the broker is starting or stopping, or its virtual host is down: look at its log"
	}
	return f
}
