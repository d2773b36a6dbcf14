package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"initbox/internal/poll"
)

// TestOf pins what each failure is called, whatever it is wrapped in.
func TestOf(t *testing.T) {
	dialed := func(err error) error { return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", err)} }
	for _, tt := range []struct {
		err   error
		class Class
		text  string
	}{
		{dialed(syscall.ECONNREFUSED), Refused, "connection refused"},
		{At("10.0.0.1:80", dialed(syscall.ECONNREFUSED)), Refused, "connection refused (at 10.0.0.1:80)"},
		{dialed(syscall.EHOSTUNREACH), Unreachable, "no route to the host"},
		{dialed(syscall.EACCES), Unreachable, "no route to the host"},
		{dialed(syscall.EMFILE), Local, "too many open files"},
		{fmt.Errorf("read: %w", syscall.ECONNRESET), Reset, "connection closed by the server (reset)"},
		{io.ErrUnexpectedEOF, Reset, "connection closed by the server"},
		{context.DeadlineExceeded, TimedOut, "timed out"},
		{os.ErrDeadlineExceeded, TimedOut, "timed out"},
		{&poll.Hung{For: 1234 * time.Millisecond, Doing: "TLS handshake"}, TimedOut, "TLS handshake: no answer (for 1.2s)"},
		{&fs.PathError{Op: "open", Path: "/ca.pem", Err: fs.ErrNotExist}, Missing, "open /ca.pem: file does not exist"},
		{&fs.PathError{Op: "open", Path: "/ca.pem", Err: fs.ErrPermission}, Local, "open /ca.pem: permission denied"},
		{&fs.PathError{Op: "write", Path: "/out", Err: syscall.ENOSPC}, DiskFull, "write /out: no space left on device"},
		{&url.Error{Op: "Get", URL: "http://app:hunter2@api/", Err: io.EOF}, Reset, "connection closed by the server"},
		{&url.Error{Op: "Get", URL: "http://api/?t=hunter2", Err: errors.New("odd")}, Unexpected, "odd"},
		{fmt.Errorf("wrapped: %w", New(Authentication, "status %d", 401)), Authentication, "status 401"},
	} {
		if f := Of(tt.err); f.Class != tt.class || f.Error() != tt.text {
			t.Errorf("%v: %s, %q, want %s, %q", tt.err, f.Class, f.Error(), tt.class, tt.text)
		}
	}
}

// TestHTTP pins what is made of the errors of net/http: neither the URL nor what
// the server sent is quoted, and another server's failure is not this one's.
func TestHTTP(t *testing.T) {
	const here = "api:8080"
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	proxy := &net.OpError{Op: "proxyconnect", Err: refused}
	for _, tt := range []struct {
		err       error
		class     Class
		text      string
		elsewhere bool
	}{
		{&url.Error{URL: "http://api:8080/?t=hunter2", Err: refused}, Refused, "connection refused", false},
		{&url.Error{URL: "http://other/?t=hunter2", Err: refused}, Refused, "redirected to another server: connection refused", true},
		{&url.Error{URL: "http://api:8080/", Err: proxy}, Refused, "the proxy: connection refused", true},
		{&url.Error{URL: "http://other/", Err: &Failure{Class: Unexpected, Text: "redirected", Elsewhere: true}}, Unexpected, "redirected", true},
		{&url.Error{URL: "http://api:8080/", Err: errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "hunter2"`)}, Unexpected, "the answer is not HTTP", false},
		{&url.Error{URL: "http://api:8080/", Err: errors.New(`failed to parse Location header "hunter2"`)}, Unexpected, "redirected to an invalid URL", false},
		{&url.Error{URL: "http://api:8080/", Err: errors.New(`a new way to say "hunter2"`)}, Unexpected, "a new way to say …", false},
	} {
		f := Of(HTTP(tt.err, here))
		if f.Class != tt.class || f.Text != tt.text || f.Elsewhere != tt.elsewhere {
			t.Errorf("%v: %s, %q, elsewhere %t, want %s, %q, %t", tt.err, f.Class, f.Text, f.Elsewhere, tt.class, tt.text, tt.elsewhere)
		}
	}
}

func TestStatus(t *testing.T) {
	for status, want := range map[int]struct {
		class Class
		text  string
		hint  bool
	}{
		401: {Authentication, "status 401 Unauthorized", true},
		404: {Unexpected, "status 404 Not Found", true},
		418: {Unexpected, "status 418 I'm a teapot", false},
		503: {Unexpected, "status 503 Service Unavailable", true},
		599: {Unexpected, "status 599", true},
	} {
		if f := Status(status); f.Class != want.class || f.Text != want.text || (f.Hint != "") != want.hint {
			t.Errorf("%d: %+v, want %+v", status, f, want)
		}
	}
}

// TestHasty pins that a server which was given no time to answer is not suspected.
func TestHasty(t *testing.T) {
	for after, suspected := range map[time.Duration]bool{90 * time.Millisecond: false, time.Second: true} {
		if hint := Of(&poll.Hung{For: after, Doing: "TLS handshake"}).Hint; strings.Contains(hint, "the server hangs") != suspected {
			t.Errorf("after %v: %q", after, hint)
		}
	}
}
