package amqp

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

// message is a frame with a method.
func message(channel uint16, method uint32, args ...string) string {
	var b bytes.Buffer
	a := session{Conversation: wire.Converse(context.Background(), &writerConn{w: &b}, "")}
	a.send(channel, method, []byte(strings.Join(args, "")))
	return b.String()
}

// writerConn is a connection that only records what is written.
type writerConn struct {
	kindtest.RecordedConn
	w io.Writer
}

func (c *writerConn) Write(p []byte) (int, error) { return c.w.Write(p) }

// Messages of a broker, in order, to a client that logs in and checks a queue.
var (
	saysStart = message(0, methodStart, "\x00\x09", "\x00\x00\x00\x10\x07productS\x00\x00\x00\x03new", "\x00\x00\x00\x0ePLAIN AMQPLAIN", "\x00\x00\x00\x05en_US")
	saysTune  = message(0, methodTune, "\x07\xff\x00\x02\x00\x00\x00\x3c")
	saysOpen  = message(0, methodOpenOK, "\x00")
	saysQueue = message(1, methodChannelOpenOK, "\x00\x00\x00\x00") + message(1, methodQueueDeclareOK, "\x04jobs\x00\x00\x00\x00\x00\x00\x00\x00")
	saysBye   = message(0, methodCloseOK)
	heartbeat = "\x08\x00\x00\x00\x00\x00\x00\xce"
)

func saysClose(code, text string) string {
	return message(0, methodClose, code, string(shortString(text)), "\x00\x0a\x00\x28")
}

// TestAnswers pins the results of answers that RabbitMQ gives rarely, or that other brokers give.
func TestAnswers(t *testing.T) {
	const none, app = "amqp://recorded", "amqp://app:hUnter2@recorded/shop"
	login := saysStart + saysTune
	for name, test := range map[string]struct {
		target, answer string
		class          failure.Class // "" for ready
		text           string
	}{
		"no login":                        {none, saysStart, "", ""},
		"a login":                         {app, login + heartbeat + saysOpen + saysBye, "", ""},
		"no goodbye":                      {app, login + saysOpen, "", ""},
		"a queue":                         {app + "#queue=jobs", login + saysOpen + saysQueue + saysBye, "", ""},
		"an alarm that is over":           {app + "#no-alarm", login + saysOpen + message(1, methodChannelOpenOK, "\x00\x00\x00\x00") + message(0, methodUnblocked) + saysBye, "", ""},
		"an alarm":                        {app + "#no-alarm", login + saysOpen + message(1, methodChannelOpenOK, "\x00\x00\x00\x00") + message(0, methodBlocked, "\x0dlow on memory"), failure.Unexpected, "accepts no messages: low on memory"},
		"AMQP 1.0":                        {none, "AMQP\x03\x01\x00\x00", failure.Unexpected, "does not speak AMQP 0-9-1 but AMQP 1.0.0"},
		"AMQP 0-8":                        {none, message(0, methodStart, "\x00\x08", "\x00\x00\x00\x00", "\x00\x00\x00\x05PLAIN"), failure.Unexpected, "not AMQP 0-9-1"},
		"closed at the login":             {app, saysStart, failure.Authentication, "closes the connection when it receives the credentials"},
		"no PLAIN":                        {app, message(0, methodStart, "\x00\x09", "\x00\x00\x00\x00", "\x00\x00\x00\x08EXTERNAL"), failure.Authentication, "not support the login mechanism PLAIN, but EXTERNAL"},
		"a challenge":                     {app, saysStart + message(0, methodSecure, "\x00\x00\x00\x00"), failure.Authentication, "a multi-step login"},
		"a virtual host that is down":     {app, login + saysClose("\x02\x1d", "INTERNAL_ERROR - access to vhost 'shop' refused for user 'app': vhost 'shop' is down"), failure.Unexpected, "vhost 'shop' is down"},
		"the password in the text":        {app, login + saysClose("\x01\x93", "ACCESS_REFUSED - hUnter2 is wrong."), failure.Authentication, "reports ACCESS_REFUSED - […] is wrong"},
		"no text":                         {app, login + saysClose("\x01\x40", ""), failure.Unexpected, "refuses (code 320)"},
		"a close of one byte":             {app, login + message(0, methodClose, "\x01"), failure.Unexpected, "not AMQP 0-9-1"},
		"a frame without its end":         {none, strings.TrimSuffix(saysStart, "\xce") + "\x00", failure.Unexpected, "not AMQP 0-9-1"},
		"mechanisms without their end":    {none, message(0, methodStart, "\x00\x09", "\x00\x00\x00\x00", "\x7f\xff\xff\xffPLAIN"), failure.Unexpected, "not AMQP 0-9-1"},
		"the wrong answer":                {app, saysStart + saysOpen, failure.Unexpected, "not AMQP 0-9-1"},
		"ends in the middle of an answer": {app, login + saysOpen[:9], failure.Reset, "connection closed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := talkAMQP(t, test.target, []byte(test.answer))
			kindtest.SaysPlainly(t, err, "hUnter2")
			switch {
			case err == nil && test.class != "":
				t.Errorf("ready, want %s", test.text)
			case err != nil && (failure.Of(err).Class != test.class || !strings.Contains(failure.Of(err).Text, test.text)):
				t.Errorf("%s: %v, want %s: %s", failure.Of(err).Class, err, test.class, test.text)
			}
		})
	}
}

func talkAMQP(t testing.TB, text string, answer []byte) error {
	t.Helper()
	parsed, err := kinds.Parse(text, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := parsed.(check)
	login, err := c.account()
	if err != nil {
		t.Fatal(err)
	}
	return c.talk(t.Context(), session{Conversation: kindtest.Recorded(answer), target: c.Target}, login)
}

// TestTargets pins how targets are read.
func TestTargets(t *testing.T) {
	for text, want := range map[string]struct{ vhost, addr, response string }{
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
		parsed, err := kinds.Parse(text, target.Options{Getenv: func(name string) string { return map[string]string{"PW": "p@w", "VHOST": "v/h"}[name] }})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		c := parsed.(check)
		login, err := c.account()
		if err != nil || login == nil {
			t.Errorf("%s: %v, %v", text, login, err)
			continue
		}
		if login.vhost != want.vhost || c.Addrs[0] != want.addr || login.response != want.response {
			t.Errorf("%s: virtual host %q at %s as %q, want %q", text, login.vhost, c.Addrs[0], login.response, want)
		}
	}
	for text, want := range map[string]string{
		"amqp://h?auth_mechanism=x":                  "auth_mechanism: want",
		"amqp://h#queue=" + strings.Repeat("x", 256): "at most 255 bytes",
		"amqp:///x": "host",
	} {
		if _, err := kinds.Parse(text, target.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Fuzz reads any answers of a broker to all checks together.
func Fuzz(f *testing.F) {
	login := saysStart + saysTune + saysOpen
	f.Add([]byte(login + saysQueue + saysBye))
	f.Add([]byte(login + message(1, methodChannelOpenOK, "\x00\x00\x00\x00") + message(1, methodChannelClose, "\x01\x94", "\x09NOT_FOUND", "\x00\x32\x00\x0a")))
	f.Add([]byte(login + message(1, methodChannelOpenOK, "\x00\x00\x00\x00") + message(0, methodBlocked, "\x0dlow on memory")))
	f.Add([]byte(saysStart + heartbeat + saysClose("\x01\x93", "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.")))
	f.Add([]byte(saysStart + saysTune + saysClose("\x02\x12", "NOT_ALLOWED - vhost nope not found")))
	f.Add([]byte("AMQP\x00\x00\x09\x01"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		for _, settings := range []string{"", "queue=jobs", "no-alarm"} {
			kindtest.SaysPlainly(t, talkAMQP(t, "amqp://app:hUnter2tIger9@recorded/shop#"+settings, answer), "hUnter2tIger9")
		}
	})
}
