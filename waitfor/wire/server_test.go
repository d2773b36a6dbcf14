package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"initbox/internal/failure"
	"initbox/test/servers"
	"initbox/waitfor/target"
)

// kinds has one kind, of servers with a login.
var kinds = target.Kinds{{Schemes: []string{"memcached"}, Usage: "memcached://HOST[:PORT][,HOST…]", Settings: ServerSettings, Hosts: true, Port: "11211"}}

// hang reads until the client gives up.
func hang(c net.Conn) { io.Copy(io.Discard, c) }

func testServer(t testing.TB, text string) Server {
	t.Helper()
	parsed, err := kinds.Target(text, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func talkTo(t testing.TB, ctx context.Context, handle func(net.Conn)) *Conversation {
	t.Helper()
	addr := servers.Serve(t, handle)
	c, err := Connect(ctx, testServer(t, "memcached://"+addr), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func says(text string) func(net.Conn) {
	return func(c net.Conn) { io.WriteString(c, text) }
}

func TestConversation(t *testing.T) {
	c := talkTo(t, t.Context(), says("first\r\nsecond\n1234rest"))
	for _, want := range []string{"first", "second"} {
		if line, err := c.Line(); line != want || err != nil {
			t.Fatalf("line: %q, %v; want %q", line, err, want)
		}
	}
	if p, err := c.Next(4); string(p) != "1234" || err != nil {
		t.Fatalf("read: %q, %v", p, err)
	}
	if _, err := c.Next(5); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read of more than there is: %v", err)
	}
	if _, err := c.Line(); !errors.Is(err, io.EOF) {
		t.Errorf("line after the end: %v", err)
	}
}

// TestConversationIsBounded pins that a server cannot make a check read or reserve more than 1 MiB.
func TestConversationIsBounded(t *testing.T) {
	endless := func(c net.Conn) {
		for p := bytes.Repeat([]byte("x"), 64<<10); ; {
			if _, err := c.Write(p); err != nil {
				return
			}
		}
	}
	for name, ask := range map[string]func(c *Conversation) error{
		"a line":         func(c *Conversation) error { _, err := c.Line(); return err },
		"2 GB":           func(c *Conversation) error { _, err := c.Next(2 << 30); return err },
		"2^64 - 1 bytes": func(c *Conversation) error { _, err := c.Next(1<<64 - 1); return err },
		"all there is":   func(c *Conversation) error { _, err := io.Copy(io.Discard, c); return err },
		"piece after piece": func(c *Conversation) (err error) {
			for err == nil {
				_, err = c.Next(1000)
			}
			return err
		},
		"one byte each time": func(c *Conversation) (err error) {
			for err == nil {
				_, err = c.Next(1)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := talkTo(t, t.Context(), endless)
			err := ask(c)
			if f := failure.Of(err); f.Class != failure.Unexpected {
				t.Errorf("%v, of class %s", err, f.Class)
			}
			if c.left.N < 0 {
				t.Errorf("%d bytes too many were read", -c.left.N)
			}
		})
	}
}

func TestConversationEndsWithItsAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := talkTo(t, ctx, func(c net.Conn) {
		io.WriteString(c, "hello\n")
		hang(c)
	})
	c.Line()
	cancel()
	if _, err := c.Line(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("line after the end of the attempt: %v", err)
	}
}

// TestAny pins that one of several hosts is enough, and which error is the most informative.
func TestAny(t *testing.T) {
	good := servers.Serve(t, hang)
	for _, test := range []struct {
		addrs []string
		errs  map[string]error
		want  string
	}{
		{[]string{"a:1", good}, map[string]error{"a:1": failure.New(failure.Refused, "refused")}, ""},
		{[]string{"a:1", "b:1"}, map[string]error{"a:1": failure.New(failure.Refused, "refused"), "b:1": failure.New(failure.Unexpected, "starting")}, "starting (at b:1)"},
		{[]string{"a:1", "b:1"}, map[string]error{"a:1": failure.New(failure.TimedOut, "no answer"), "b:1": failure.New(failure.Refused, "refused")}, "no answer (at a:1)"},
		{[]string{"a:1"}, map[string]error{"a:1": failure.New(failure.Refused, "refused")}, "refused"},
	} {
		err := Any(t.Context(), Server{Addrs: test.addrs}, func(_ context.Context, addr string) error { return test.errs[addr] })
		got := ""
		if err != nil {
			got = failure.Of(err).Error()
		}
		if got != test.want {
			t.Errorf("%v: %q, want %q", test.addrs, got, test.want)
		}
	}
}

// TestAnyHanging pins that a host that hangs does not delay the others, and that what they report is known meanwhile.
func TestAnyHanging(t *testing.T) {
	if err := Any(t.Context(), testServer(t, "memcached://127.0.0.1:1,127.0.0.1:2"), func(ctx context.Context, addr string) error {
		if addr == "127.0.0.1:1" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestServerAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"memcached://a":                   "a:11211",
		"memcached://a:1,b,[::1],[::1]:2": "a:1 b:11211 [::1]:11211 [::1]:2",
		"memcached://a,":                  "a host is missing",
		"memcached://a,,b":                "a host is missing",
		"memcached://a:0,b":               "port must be",
		"memcached://a:1,b:x":             "port must be",
		"memcached://a,::1":               "an IPv6 address stands in brackets",
		"memcached://":                    "host missing",
	} {
		parsed, err := kinds.Target(text, target.Options{})
		got := ""
		var s Server
		if err == nil {
			s, err = NewServer(parsed)
		}
		if err == nil {
			got = strings.Join(s.Addrs, " ")
		} else {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestLogin pins which source of user and password wins.
func TestLogin(t *testing.T) {
	file := t.TempDir() + "/password"
	if err := os.WriteFile(file, []byte("of a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"THE_USER": "variable", "THE_PASSWORD_FILE": file}
	settings := target.Settings{"user": {"setting"}, "password-file": {file}}
	for _, test := range []struct {
		target   string
		env      map[string]string
		settings target.Settings
		want     string
	}{
		{"memcached://app:pw@a", env, settings, "app pw"},
		{"memcached://app:@a", env, settings, "app "},
		{"memcached://app@a", env, nil, "app of a file"},
		{"memcached://app@a", map[string]string{"THE_PASSWORD": "of a variable"}, nil, "app of a variable"},
		{"memcached://a?user=u&password=p%26q", env, settings, "u p&q"},
		{"memcached://app:${file:" + file + "}@a", nil, nil, "app of a file"},
		{"memcached://a?password=${file:" + file + "}", nil, nil, " of a file"},
		{"memcached://a", env, settings, "setting of a file"},
		{"memcached://a", env, nil, "variable of a file"},
		{"memcached://a", nil, nil, " "},
	} {
		text, err := kinds.Target(test.target, target.Options{Getenv: func(name string) string { return test.env[name] }})
		if err != nil {
			t.Fatal(err)
		}
		if test.settings != nil {
			text.Settings = test.settings
		}
		user, password, err := Login(Server{Target: text}, "THE_USER", "THE_PASSWORD")
		if got := user + " " + password; got != test.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", test.target, got, err, test.want)
		}
	}
}
