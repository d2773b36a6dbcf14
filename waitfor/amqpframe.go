package waitfor

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
)

// Methods of AMQP 0-9-1: the number of the class and that in the class.
const (
	amqpStart, amqpStartOK      = 10<<16 | 10, 10<<16 | 11
	amqpSecure                  = 10<<16 | 20
	amqpTune, amqpTuneOK        = 10<<16 | 30, 10<<16 | 31
	amqpOpen, amqpOpenOK        = 10<<16 | 40, 10<<16 | 41
	amqpClose, amqpCloseOK      = 10<<16 | 50, 10<<16 | 51
	amqpBlocked                 = 10<<16 | 60
	amqpUnblocked               = 10<<16 | 61
	amqpChannelOpen             = 20<<16 | 10
	amqpChannelOpenOK           = 20<<16 | 11
	amqpChannelClose            = 20<<16 | 40
	amqpExchangeDeclare         = 40<<16 | 10
	amqpExchangeDeclareOK       = 40<<16 | 11
	amqpQueueDeclare            = 50<<16 | 10
	amqpQueueDeclareOK          = 50<<16 | 11
	amqpPublish                 = 60<<16 | 40
	amqpMethodFrame             = 1
	amqpHeaderFrame             = 2
	amqpHeartbeatFrame          = 8
	amqpFrameEnd           byte = 0xCE
)

// amqpShort is as long as a short string may be.
const amqpShort = 255

// shortString and longString are a text as AMQP has it, after its length.
func shortString(s string) []byte { return append([]byte{byte(len(s))}, s...) }
func longString(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}

// amqpConn is a conversation in AMQP 0-9-1.
type amqpConn struct {
	*conversation
	target  *target
	secrets []string
}

// begin sends the protocol's header and returns the mechanisms for a login that
// connection.start names, separated by spaces.
func (a *amqpConn) begin() (mechanisms string, err error) {
	if _, err := a.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return "", err
	}
	args, err := a.expect(amqpStart)
	if err != nil {
		return "", err
	}
	if len(args) < 2 || args[0] != 0 || args[1] != 9 {
		return "", a.target.otherProtocol()
	}
	_, rest, ok := cutLong(args[2:]) // the server's properties
	text, _, ok2 := cutLong(rest)
	if !ok || !ok2 {
		return "", a.target.otherProtocol()
	}
	return string(text), nil
}

// cutLong takes a long string or a table from the front of args.
func cutLong(args []byte) (value, rest []byte, ok bool) {
	if len(args) < 4 || uint64(binary.BigEndian.Uint32(args)) > uint64(len(args)-4) {
		return nil, nil, false
	}
	end := 4 + int(binary.BigEndian.Uint32(args))
	return args[4:end], args[end:], true
}

// logIn goes from connection.start to where a virtual host can be opened. If
// leaveUnanswered, the broker is to notice soon that nobody is there any more.
func (a *amqpConn) logIn(l *amqpLogin, leaveUnanswered bool) error {
	// Without the first, a broker closes the connection without a word; without
	// the second, nobody is told that it takes no messages.
	var capabilities, properties bytes.Buffer
	for _, name := range []string{"authentication_failure_close", "connection.blocked"} {
		capabilities.Write(shortString(name))
		capabilities.WriteString("t\x01")
	}
	properties.Write(shortString("product"))
	properties.WriteByte('S')
	properties.Write(longString("initbox"))
	properties.Write(shortString("capabilities"))
	properties.WriteByte('F')
	properties.Write(longString(capabilities.String()))
	tune, err := a.call(0, amqpStartOK, amqpTune, longString(properties.String()),
		shortString(l.mechanism), longString(l.response), shortString("en_US"))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // as section 4.2.3 of the protocol wants it
		f := failure.New(failure.Authentication, "the broker closes the connection when it gets the login")
		f.Hint, f.Err = amqpLoginHint, err
		return f
	}
	if err != nil {
		return err
	}
	if len(tune) < 8 { // channels, bytes of a frame, heartbeat
		return a.target.otherProtocol()
	}
	binary.BigEndian.PutUint16(tune[6:], 0)
	if leaveUnanswered {
		binary.BigEndian.PutUint16(tune[6:], 2) // seconds
	}
	return a.send(0, amqpTuneOK, tune[:8])
}

// publishable asks whether the broker takes messages, and ends the conversation. A
// broker with an alarm tells that only to who publishes
// (https://www.rabbitmq.com/docs/connection-blocked), and that as soon as the header
// of a message is there: so a message of one byte is announced, and never sent. A
// broker that takes messages then answers to connection.close; one that does not
// says so, and reads nothing more until the alarm is over.
func (a *amqpConn) publishable() error {
	if err := a.send(1, amqpPublish, []byte{0, 0}, shortString(""), shortString(""), []byte{0}); err != nil {
		return err
	}
	header := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, 1) // class, weight, bytes of the message
	if err := a.frame(amqpHeaderFrame, 1, append(header, 0, 0)); err != nil {
		return err
	}
	_, err := a.call(0, amqpClose, amqpCloseOK, amqpGoodbye)
	return err
}

// amqpGoodbye are the arguments of connection.close: 200, no text, no method.
var amqpGoodbye = []byte{0, 200, 0, 0, 0, 0, 0}

// leave ends the conversation so that the broker does not log a loss of it. What
// was to be known is known.
func (a *amqpConn) leave() {
	if a.send(0, amqpClose, amqpGoodbye) == nil {
		a.conn.SetReadDeadline(time.Now().Add(time.Second))
		a.expect(amqpCloseOK)
	}
}

// call sends a method and returns the arguments of the one that answers it.
func (a *amqpConn) call(channel uint16, method, answer uint32, args ...[]byte) ([]byte, error) {
	if err := a.send(channel, method, args...); err != nil {
		return nil, err
	}
	return a.expect(answer)
}

func (a *amqpConn) send(channel uint16, method uint32, args ...[]byte) error {
	payload := binary.BigEndian.AppendUint32(nil, method)
	return a.frame(amqpMethodFrame, channel, append(payload, bytes.Join(args, nil)...))
}

func (a *amqpConn) frame(kind byte, channel uint16, payload []byte) error {
	p := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	p = binary.BigEndian.AppendUint32(p, uint32(len(payload)))
	_, err := a.Write(append(append(p, payload...), amqpFrameEnd))
	return err
}

// expect returns the arguments of the next method, which is to be the one given.
func (a *amqpConn) expect(method uint32) ([]byte, error) {
	for {
		got, args, err := a.next()
		if err != nil {
			return nil, err
		}
		switch got {
		case method:
			return args, nil
		case amqpBlocked:
			if len(args) == 0 || int(args[0]) > len(args)-1 {
				return nil, a.target.otherProtocol()
			}
			f := failure.New(failure.Unexpected, "the broker takes no messages: %s", quote(string(args[1:1+int(args[0])]), a.secrets...))
			f.Hint = "a memory or disk alarm blocks who publishes: see rabbitmq-diagnostics alarms"
			return nil, poll.After(time.Second, f) // for the broker notices late that a connection which it blocks has ended
		case amqpUnblocked: // an alarm that is over
		case amqpClose, amqpChannelClose:
			return nil, a.refusal(got, args)
		case amqpSecure:
			return nil, failure.New(failure.Authentication, "the broker wants more than one exchange for the login")
		default:
			return nil, a.target.otherProtocol()
		}
	}
}

// next reads the next frame that has a method.
func (a *amqpConn) next() (method uint32, args []byte, err error) {
	for {
		header, err := a.read(7)
		if err != nil {
			return 0, nil, err
		}
		if string(header[:4]) == "AMQP" { // the version that it would have
			return 0, nil, a.otherVersion(header[4:])
		}
		kind, size := header[0], binary.BigEndian.Uint32(header[3:])
		if kind != amqpMethodFrame && kind != amqpHeartbeatFrame {
			return 0, nil, a.target.otherProtocol()
		}
		payload, err := a.read(uint64(size) + 1)
		switch {
		case err != nil:
			return 0, nil, err
		case payload[size] != amqpFrameEnd:
			return 0, nil, a.target.otherProtocol()
		case kind == amqpHeartbeatFrame:
			continue
		case size < 4:
			return 0, nil, a.target.otherProtocol()
		}
		return binary.BigEndian.Uint32(payload), payload[4:size], nil
	}
}

// otherVersion is the failure of a broker that answers with a header, of which the
// first four bytes and the last are not given.
func (a *amqpConn) otherVersion(version []byte) error {
	last, err := a.read(1)
	if err != nil {
		return err
	}
	f := failure.New(failure.Unexpected, "the server speaks not AMQP 0-9-1 but AMQP %d.%d.%d", version[1], version[2], last[0])
	f.Hint = "wait for the port of a server of AMQP 1.0 with tcp:// or tls://"
	return f
}

const amqpLoginHint = "are user and password right, and may the user log in from here? (guest may only from the broker's own host)"

// refusal is the failure that connection.close or channel.close tells.
func (a *amqpConn) refusal(method uint32, args []byte) error {
	if len(args) < 3 || int(args[2]) > len(args)-3 {
		return a.target.otherProtocol()
	}
	code, text := binary.BigEndian.Uint16(args), strings.TrimSuffix(string(args[3:3+int(args[2])]), ".")
	if method == amqpClose {
		a.send(0, amqpCloseOK)
	} else {
		defer a.leave()
	}
	f := failure.New(failure.Unexpected, "the broker says %s", quote(text, a.secrets...))
	if text == "" {
		f.Text = fmt.Sprintf("the broker refuses (code %d)", code)
	}
	switch {
	case code == 403: // ACCESS_REFUSED
		f.Class, f.Hint = failure.Authentication, amqpLoginHint
	case code == 530 && strings.Contains(text, "limit"): // NOT_ALLOWED, as all these
		f.Hint = "there is no room for another connection: who holds the others?"
	case code == 530 && strings.Contains(text, "refused for user"):
		f.Class, f.Hint = failure.Authentication, "give the user permissions in the virtual host: rabbitmqctl set_permissions"
	case code == 530:
		f.Hint = `does the virtual host exist? it is the URL's path, percent-encoded ("/" is %2F, or no path)`
	case code == 404 && method == amqpChannelClose:
		f.Hint = "queues and exchanges are declared by who uses them, or by definitions: did that run, in this virtual host?"
	case code == 541, code == 320:
		f.Hint = "the broker is starting or stopping, or its virtual host is down: look at its log"
	}
	return f
}
