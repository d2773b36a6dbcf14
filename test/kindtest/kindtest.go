// Package kindtest helps to test kinds of targets: attempts at a target and requirements for their failures, servers
// that hang, refuse or replay recorded answers, and passwords with all delimiters of URLs.
//
//	var kinds = target.Kinds{&Kind} // the kinds under test
//
//	kindtest.Ready(t, kinds, "memcached://"+addr)
//	kindtest.NotReady(t, kinds, "memcached://"+addr, failure.Unexpected, "not memcached")
package kindtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/servers"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
	"initbox/waitfor/wire/httpapi"
)

// Hang reads until the client disconnects.
func Hang(c net.Conn) { io.Copy(io.Discard, c) }

// Says returns the address of a server that answers each connection with the text alone. It is for examples, which
// have no [testing.TB], and runs until the program ends.
func Says(text string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				panic(err)
			}
			go func() {
				defer c.Close()
				io.WriteString(c, text)
				c.(*net.TCPConn).CloseWrite()
				Hang(c)
			}()
		}
	}()
	return l.Addr().String()
}

// Check makes one attempt at target.
func Check(t *testing.T, kinds target.Kinds, text string, o target.Options) error {
	t.Helper()
	c, err := kinds.Parse(text, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	return c.Check(ctx)
}

// File returns the name of a new file with the text, such as a password.
func File(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Secret is a form of a password, and its parts that must not be printed.
type Secret struct{ Text, Marks string }

// Secrets contain, unencoded, the delimiters between parts of a URL. In some, the parts are numbers, which may be
// mistaken for a port.
var Secrets = []Secret{
	{"hUnter2tIger9", "Unter2 Iger9"},
	{"hUnter2/tIger9", "Unter2 Iger9"},
	{"hUnter2?tIger9", "Unter2 Iger9"},
	{"hUnter2#tIger9", "Unter2 Iger9"},
	{"hUnter2@tIger9", "Unter2 Iger9"},
	{"hUnter2:tIger9", "Unter2 Iger9"},
	{"hUnter2%40tIger9", "Unter2 Iger9"},
	{"hUnter2%2FtIger9", "Unter2 Iger9"},
	{"hUnter2%tIger9", "Unter2 Iger9"},
	{"hUnter2 tIger9", "Unter2 Iger9"},
	{"hUnter2&tIger9=", "Unter2 Iger9"},
	{"hUnter2;tIger9", "Unter2 Iger9"},
	{"hUnter2\\tIger9", "Unter2 Iger9"},
	{"hUnter2\"tIger9", "Unter2 Iger9"},
	{"hUnter2\ntIger9", "Unter2 Iger9"},
	{"hUnter2é\x01tIger9", "Unter2 Iger9"},
	{"hUnter2}${tIger9", "Unter2 Iger9"},
	{"[hUnter2]tIger9", "Unter2 Iger9"},
	{"%68Unter2%74Iger9", "Unter2 Iger9"},
	{"73191380/40287130", "73191380 40287130"},
	{"7319?40287130", "40287130"},
	{"7319#40287130", "40287130"},
	{"7319@40287130", "40287130"},
}

// In returns a part of the secret that s contains, or "".
func (secret Secret) In(s string) string {
	marks := strings.Fields(secret.Marks)
	for _, sent := range []string{secret.Text, "app:" + secret.Text, "\x00app\x00" + secret.Text} {
		marks = append(marks, base64.StdEncoding.EncodeToString([]byte(sent)))
	}
	for _, mark := range marks {
		if strings.Contains(strings.ToLower(s), strings.ToLower(mark)) {
			return mark
		}
	}
	return ""
}

// RefusedAddr returns an address that refuses connections until the test ends: a socket that is bound to the port, but
// does not listen, blocks it for others.
func RefusedAddr(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}

// Repeated returns the forms in which a server may repeat the secret.
func (secret Secret) Repeated(received []byte) string {
	plain, basic := secret.Text, base64.StdEncoding.EncodeToString([]byte("app:"+secret.Text))
	var said []string
	for _, sent := range []string{plain, url.QueryEscape(plain), url.PathEscape(plain), basic} {
		if bytes.Contains(received, []byte(sent)) {
			said = append(said, "'"+sent[:min(128, len(sent))]+"'", sent, url.QueryEscape(sent), url.PathEscape(sent))
		}
	}
	return strings.Join(said, " ")
}

// Attempt makes one attempt at a target, and returns the failure, or nil if it is ready.
func Attempt(t testing.TB, kinds target.Kinds, text string, env ...string) *failure.Failure {
	t.Helper()
	check, err := kinds.Parse(text, target.Options{Getenv: func(name string) string {
		for i := 0; i+1 < len(env); i += 2 {
			if env[i] == name {
				return env[i+1]
			}
		}
		return ""
	}})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if err = poll.Try(t.Context(), servers.Patience, check.Check); err == nil {
		return nil
	}
	f := failure.Of(err)
	if f.Hint != "" && strings.Contains(f.Hint, "hUnter2") || strings.Contains(f.Error(), "hUnter2") {
		t.Errorf("%s: %v (%s) shows the password", text, f, f.Hint)
	}
	return f
}

// Ready fails the test if the target is not ready.
func Ready(t testing.TB, kinds target.Kinds, text string, env ...string) {
	t.Helper()
	if f := Attempt(t, kinds, text, env...); f != nil {
		t.Errorf("%s: %s: %v", text, f.Class, f)
	}
}

// NotReady fails the test unless the attempt at a target fails with the class and the words.
func NotReady(t testing.TB, kinds target.Kinds, text string, class failure.Class, words string, env ...string) {
	t.Helper()
	f := Attempt(t, kinds, text, env...)
	switch {
	case f == nil:
		t.Errorf("%s is ready, want %s: %s", text, class, words)
	case f.Class != class || !strings.Contains(f.Error(), words):
		t.Errorf("%s: %s: %v; want %s: %s", text, f.Class, f, class, words)
	case f.Hint == "":
		t.Errorf("%s: %v has no hint", text, f)
	}
}

// BecomesReady waits until a target is ready.
func BecomesReady(t testing.TB, kinds target.Kinds, text string) {
	t.Helper()
	end := time.Now().Add(servers.Patience)
	for {
		f := Attempt(t, kinds, text)
		if f == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", text, f)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// AttemptWith makes one attempt, whose failure must not contain the secret.
func AttemptWith(t *testing.T, kinds target.Kinds, text, secret string, env map[string]string) error {
	t.Helper()
	o := target.Options{Getenv: func(name string) string { return env[name] }}
	check, err := kinds.Parse(text, o)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	err = check.Check(ctx)
	if f := failure.Of(err); err != nil && secret != "" && strings.Contains(f.Error()+f.Hint+err.Error(), secret) {
		t.Errorf("%s shows %s", text, secret)
	}
	return err
}

// RequireSays requires that an attempt failed with the class and the words, or succeeded if words is "".
func RequireSays(t *testing.T, text string, err error, class failure.Class, words string) {
	t.Helper()
	if words == "" {
		if err != nil {
			t.Errorf("%s: %v, want ready", text, err)
		}
		return
	}
	if f := failure.Of(err); err == nil || f.Class != class || !strings.Contains(f.Error(), words) || f.Hint == "" {
		t.Errorf("%s: %v, want %s: %s, and a hint", text, err, class, words)
	}
}

// Replayed returns a conversation in which all answers of the server have already arrived.
func Replayed(ctx context.Context, said []byte) *wire.Conversation {
	return wire.Converse(ctx, RecordedConn{bytes.NewReader(said)}, "127.0.0.1:1")
}

// Target returns a parsed target, without the checks of its kind.
func Target(t testing.TB, kinds target.Kinds, text string) *target.Target {
	t.Helper()
	parsed, err := kinds.Target(text, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// RecordedConn is a connection to a server that sends a fixed answer to any request.
type RecordedConn struct{ io.Reader }

func (RecordedConn) Write(p []byte) (int, error)      { return len(p), nil }
func (RecordedConn) Close() error                     { return nil }
func (RecordedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (RecordedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (RecordedConn) SetDeadline(time.Time) error      { return nil }
func (RecordedConn) SetReadDeadline(time.Time) error  { return nil }
func (RecordedConn) SetWriteDeadline(time.Time) error { return nil }

// Recorded returns a conversation with a server that sends answer.
func Recorded(answer []byte) *wire.Conversation {
	return wire.Converse(context.Background(), RecordedConn{bytes.NewReader(answer)}, "recorded:1")
}

// SaysPlainly checks that an error is about a server's answer, and fit for a log.
func SaysPlainly(t *testing.T, err error, secrets ...string) {
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
			t.Errorf("%q shows %q", f, s)
		}
	}
}

// Failure makes one attempt at a target.
func Failure(t testing.TB, kinds target.Kinds, text string, o target.Options) *failure.Failure {
	t.Helper()
	check, err := kinds.Parse(text, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), servers.Patience)
	defer cancel()
	if err := check.Check(ctx); err != nil {
		return failure.Of(err)
	}
	return nil
}

// RequireFailure requires a failure of the class with the text and a hint, or no failure if text is "".
func RequireFailure(t testing.TB, got *failure.Failure, class failure.Class, text string) {
	t.Helper()
	switch {
	case text == "" && got == nil:
	case text == "" || got == nil:
		t.Errorf("%v, want %q", got, text)
	case got.Class != class || !strings.Contains(got.Text, text) || got.Hint == "":
		t.Errorf("%s: %s; hint: %s; want %s: %s, and a hint", got.Class, got.Error(), got.Hint, class, text)
	}
}

// Fuzzed returns the check of a target, without an attempt.
func Fuzzed[T target.Check](f *testing.F, kinds target.Kinds, text string) T {
	f.Helper()
	check, err := kinds.Parse(text, target.Options{})
	if err != nil {
		f.Fatal(err)
	}
	return check.(T)
}

// Answer is a server's answer that contains a secret.
func Answer(status uint16, body []byte) *httpapi.Answer {
	return &httpapi.Answer{Status: int(status), Header: http.Header{}, Body: body, Secrets: []string{"hUnter2"}}
}

// RequireQuiet requires that an error is a failure, without a secret in it.
func RequireQuiet(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if f := failure.Of(err); f.Text == "" || strings.Contains(f.Error(), "hUnter2") || strings.ContainsAny(f.Error(), "\n\x1b") {
		t.Errorf("%q", f.Error())
	}
}

// A ScriptedConn is a connection on which all answers of a server have already arrived.
type ScriptedConn struct {
	net.Conn
	Server *bytes.Reader
	Said   io.Writer
}

func (c ScriptedConn) Read(p []byte) (int, error)  { return c.Server.Read(p) }
func (c ScriptedConn) Write(p []byte) (int, error) { return c.Said.Write(p) }
func (c ScriptedConn) SetDeadline(time.Time) error { return nil }
func (c ScriptedConn) Close() error                { return nil }
