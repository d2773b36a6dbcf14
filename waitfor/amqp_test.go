package waitfor

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
)

// recordedConn is a connection to a server that says something, whatever it is asked.
type recordedConn struct{ io.Reader }

func (recordedConn) Write(p []byte) (int, error)      { return len(p), nil }
func (recordedConn) Close() error                     { return nil }
func (recordedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (recordedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (recordedConn) SetDeadline(time.Time) error      { return nil }
func (recordedConn) SetReadDeadline(time.Time) error  { return nil }
func (recordedConn) SetWriteDeadline(time.Time) error { return nil }

// recorded is a conversation with a server that says answer.
func recorded(answer []byte) *conversation {
	return converse(context.Background(), recordedConn{bytes.NewReader(answer)}, "recorded:1")
}

// saysPlainly checks that an error is one of a server, and fit for a log.
func saysPlainly(t *testing.T, err error, secrets ...string) {
	t.Helper()
	if err == nil {
		return
	}
	f := failure.Of(err)
	if said := f.Error() + f.Hint; f.Text == "" || len(said) > 1500 || strings.ContainsAny(said, "\r\n\x00\x1b") {
		t.Errorf("%q, hint %q", f, f.Hint)
	}
	for _, s := range secrets {
		if strings.Contains(f.Error()+f.Hint, s) {
			t.Errorf("%q tells %q", f, s)
		}
	}
}

// amqpMessage is a frame with a method.
func amqpMessage(channel uint16, method uint32, args ...string) string {
	var b bytes.Buffer
	a := amqpConn{conversation: converse(context.Background(), &writerConn{w: &b}, "")}
	a.send(channel, method, []byte(strings.Join(args, "")))
	return b.String()
}

// writerConn is a connection of which only what is written counts.
type writerConn struct {
	recordedConn
	w io.Writer
}

func (c *writerConn) Write(p []byte) (int, error) { return c.w.Write(p) }

// What a broker says, in order, to one who logs in and asks for a queue.
var (
	amqpSaysStart = amqpMessage(0, amqpStart, "\x00\x09", "\x00\x00\x00\x10\x07productS\x00\x00\x00\x03new", "\x00\x00\x00\x0ePLAIN AMQPLAIN", "\x00\x00\x00\x05en_US")
	amqpSaysTune  = amqpMessage(0, amqpTune, "\x07\xff\x00\x02\x00\x00\x00\x3c")
	amqpSaysOpen  = amqpMessage(0, amqpOpenOK, "\x00")
	amqpSaysQueue = amqpMessage(1, amqpChannelOpenOK, "\x00\x00\x00\x00") + amqpMessage(1, amqpQueueDeclareOK, "\x04jobs\x00\x00\x00\x00\x00\x00\x00\x00")
	amqpSaysBye   = amqpMessage(0, amqpCloseOK)
	amqpHeartbeat = "\x08\x00\x00\x00\x00\x00\x00\xce"
)

func amqpSaysClose(code, text string) string {
	return amqpMessage(0, amqpClose, code, string(shortString(text)), "\x00\x0a\x00\x28")
}

// TestAMQPAnswers pins what is made of answers that RabbitMQ gives seldom, and of
// those of other brokers.
func TestAMQPAnswers(t *testing.T) {
	const none, app = "amqp://recorded", "amqp://app:hUnter2@recorded/shop"
	login := amqpSaysStart + amqpSaysTune
	for name, test := range map[string]struct {
		target, answer string
		class          failure.Class // "" for ready
		text           string
	}{
		"no login":                        {none, amqpSaysStart, "", ""},
		"a login":                         {app, login + amqpHeartbeat + amqpSaysOpen + amqpSaysBye, "", ""},
		"no goodbye":                      {app, login + amqpSaysOpen, "", ""},
		"a queue":                         {app + "#queue=jobs", login + amqpSaysOpen + amqpSaysQueue + amqpSaysBye, "", ""},
		"an alarm that is over":           {app + "#no-alarm", login + amqpSaysOpen + amqpMessage(1, amqpChannelOpenOK, "\x00\x00\x00\x00") + amqpMessage(0, amqpUnblocked) + amqpSaysBye, "", ""},
		"an alarm":                        {app + "#no-alarm", login + amqpSaysOpen + amqpMessage(1, amqpChannelOpenOK, "\x00\x00\x00\x00") + amqpMessage(0, amqpBlocked, "\x0dlow on memory"), failure.Unexpected, "takes no messages: low on memory"},
		"AMQP 1.0":                        {none, "AMQP\x03\x01\x00\x00", failure.Unexpected, "speaks not AMQP 0-9-1 but AMQP 1.0.0"},
		"AMQP 0-8":                        {none, amqpMessage(0, amqpStart, "\x00\x08", "\x00\x00\x00\x00", "\x00\x00\x00\x05PLAIN"), failure.Unexpected, "not AMQP 0-9-1"},
		"closed at the login":             {app, amqpSaysStart, failure.Authentication, "closes the connection when it gets the login"},
		"no PLAIN":                        {app, amqpMessage(0, amqpStart, "\x00\x09", "\x00\x00\x00\x00", "\x00\x00\x00\x08EXTERNAL"), failure.Authentication, "no login of kind PLAIN, but EXTERNAL"},
		"a challenge":                     {app, amqpSaysStart + amqpMessage(0, amqpSecure, "\x00\x00\x00\x00"), failure.Authentication, "more than one exchange"},
		"a virtual host that is down":     {app, login + amqpSaysClose("\x02\x1d", "INTERNAL_ERROR - access to vhost 'shop' refused for user 'app': vhost 'shop' is down"), failure.Unexpected, "vhost 'shop' is down"},
		"the password in the broker's":    {app, login + amqpSaysClose("\x01\x93", "ACCESS_REFUSED - hUnter2 is wrong."), failure.Authentication, "says ACCESS_REFUSED - … is wrong"},
		"no word":                         {app, login + amqpSaysClose("\x01\x40", ""), failure.Unexpected, "refuses (code 320)"},
		"a close of one byte":             {app, login + amqpMessage(0, amqpClose, "\x01"), failure.Unexpected, "not AMQP 0-9-1"},
		"a frame without its end":         {none, strings.TrimSuffix(amqpSaysStart, "\xce") + "\x00", failure.Unexpected, "not AMQP 0-9-1"},
		"mechanisms without their end":    {none, amqpMessage(0, amqpStart, "\x00\x09", "\x00\x00\x00\x00", "\x7f\xff\xff\xffPLAIN"), failure.Unexpected, "not AMQP 0-9-1"},
		"the wrong answer":                {app, amqpSaysStart + amqpSaysOpen, failure.Unexpected, "not AMQP 0-9-1"},
		"ends in the middle of an answer": {app, login + amqpSaysOpen[:9], failure.Reset, "connection closed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := talkAMQP(t, test.target, []byte(test.answer))
			saysPlainly(t, err, "hUnter2")
			switch {
			case err == nil && test.class != "":
				t.Errorf("ready, want %s", test.text)
			case err != nil && (failure.Of(err).Class != test.class || !strings.Contains(failure.Of(err).Text, test.text)):
				t.Errorf("%s: %v, want %s: %s", failure.Of(err).Class, err, test.class, test.text)
			}
		})
	}
}

func talkAMQP(t testing.TB, target string, answer []byte) error {
	t.Helper()
	check, err := Parse(target, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := check.(amqpCheck)
	login, err := c.account()
	if err != nil {
		t.Fatal(err)
	}
	return c.talk(t.Context(), amqpConn{conversation: recorded(answer), target: c.target}, login)
}

// TestAMQPTargets pins what a target is read as.
func TestAMQPTargets(t *testing.T) {
	for target, want := range map[string]struct{ vhost, addr, response string }{
		"amqp://a:b@h":                           {"/", "h:5672", "\x00a\x00b"},
		"amqp://a:b@h/":                          {"/", "h:5672", "\x00a\x00b"},
		"amqp://a:b@h//":                         {"/", "h:5672", "\x00a\x00b"},
		"amqp://a:b@h/%2F":                       {"/", "h:5672", "\x00a\x00b"},
		"amqp://a:b@h/%2fx":                      {"/x", "h:5672", "\x00a\x00b"},
		"amqp://a:b%40c@h:1/x%2Fy":               {"x/y", "h:1", "\x00a\x00b@c"},
		"amqps://a:b@h/x?heartbeat=5":            {"x", "h:5671", "\x00a\x00b"},
		"amqp://h/x#tls&user=a&queue=q":          {"x", "h:5671", "\x00a\x00"},
		"amqp://h/x#no-alarm":                    {"x", "h:5672", "\x00guest\x00guest"},
		"amqps://h/x?auth_mechanism=EXTERNAL":    {"x", "h:5671", ""},
		"amqp://a:${env:PW}@h/${env:VHOST}":      {"v/h", "h:5672", "\x00a\x00p@w"},
		"amqp://a:b@[::1],[::1]:7/x?verify=none": {"x", "[::1]:5672", "\x00a\x00b"},
	} {
		check, err := Parse(target, Options{Getenv: func(name string) string { return map[string]string{"PW": "p@w", "VHOST": "v/h"}[name] }})
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		c := check.(amqpCheck)
		login, err := c.account()
		if err != nil || login == nil {
			t.Errorf("%s: %v, %v", target, login, err)
			continue
		}
		if login.vhost != want.vhost || c.addrs[0] != want.addr || login.response != want.response {
			t.Errorf("%s: virtual host %q at %s as %q, want %q", target, login.vhost, c.addrs[0], login.response, want)
		}
	}
	for target, want := range map[string]string{
		"amqp://h?auth_mechanism=x":                  "auth_mechanism: want",
		"amqp://h#queue=" + strings.Repeat("x", 256): "at most 255 bytes",
		"amqp:///x": "host",
	} {
		if _, err := Parse(target, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
}

// FuzzAMQP has a broker say anything to one who asks for all there is.
func FuzzAMQP(f *testing.F) {
	login := amqpSaysStart + amqpSaysTune + amqpSaysOpen
	f.Add([]byte(login + amqpSaysQueue + amqpSaysBye))
	f.Add([]byte(login + amqpMessage(1, amqpChannelOpenOK, "\x00\x00\x00\x00") + amqpMessage(1, amqpChannelClose, "\x01\x94", "\x09NOT_FOUND", "\x00\x32\x00\x0a")))
	f.Add([]byte(login + amqpMessage(1, amqpChannelOpenOK, "\x00\x00\x00\x00") + amqpMessage(0, amqpBlocked, "\x0dlow on memory")))
	f.Add([]byte(amqpSaysStart + amqpHeartbeat + amqpSaysClose("\x01\x93", "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.")))
	f.Add([]byte(amqpSaysStart + amqpSaysTune + amqpSaysClose("\x02\x12", "NOT_ALLOWED - vhost nope not found")))
	f.Add([]byte("AMQP\x00\x00\x09\x01"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		for _, settings := range []string{"", "queue=jobs", "no-alarm"} {
			saysPlainly(t, talkAMQP(t, "amqp://app:hUnter2tIger9@recorded/shop#"+settings, answer), "hUnter2tIger9")
		}
	})
}
