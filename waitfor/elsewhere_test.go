package waitfor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"initbox/internal/poll"
)

// check makes one attempt at target.
func check(t *testing.T, target string, o Options) error {
	t.Helper()
	c, err := Parse(target, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return c.Check(ctx)
}

// A failure of a proxy, or of where a redirect leads, is not the target's.
func TestFailuresElsewhere(t *testing.T) {
	nobody := refusedAddr(t)
	redirecting := httptest.NewServer(http.RedirectHandler("http://"+nobody+"/", http.StatusFound))
	defer redirecting.Close()
	err := check(t, redirecting.URL, Options{})
	if f := classify(err); f.Class != Refused || !strings.HasPrefix(f.Text, "redirected to another server: ") {
		t.Errorf("%v", err)
	}
	if err := check(t, redirecting.URL, Options{Gone: true}); err == nil {
		t.Error("a server that redirects is taken for gone")
	}
}

// A redirect with a body must not take it to another server.
func TestBodyStaysHere(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	redirecting := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer redirecting.Close()
	err := check(t, redirecting.URL+"#request-body=hunter2", Options{})
	if err == nil || reached {
		t.Errorf("error %v, other server reached: %v", err, reached)
	}
}

// While one address of a host hangs, that another refuses proves nothing, in
// whichever order they come.
func TestOneAddressRefuses(t *testing.T) {
	refused := poll.Outcome[net.Conn]{Finished: true, Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	noRoute := poll.Outcome[net.Conn]{Finished: true, Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}}
	timedOut := poll.Outcome[net.Conn]{Finished: true, Err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}}
	unfinished := poll.Outcome[net.Conn]{}
	for _, tt := range []struct {
		outcomes []poll.Outcome[net.Conn]
		class    Class
	}{
		{[]poll.Outcome[net.Conn]{refused, timedOut}, TimedOut},
		{[]poll.Outcome[net.Conn]{timedOut, refused}, TimedOut},
		{[]poll.Outcome[net.Conn]{refused, unfinished}, TimedOut},
		{[]poll.Outcome[net.Conn]{noRoute, refused}, Refused},
		{[]poll.Outcome[net.Conn]{refused, refused}, Refused},
	} {
		if got := classify(dialFailure("mydb", tt.outcomes)).Class; got != tt.class {
			t.Errorf("%v: %s, want %s", tt.outcomes, got, tt.class)
		}
	}
}

// What others wrote cannot forge a line of the log.
func TestPrintable(t *testing.T) {
	got := printable("a\nb\x1b[2K\u202e\x00é" + strings.Repeat("x", 5000))
	if strings.ContainsAny(got, "\n\x1b\x00\u202e") || !strings.HasPrefix(got, `a\nb\x1b[2K\u202e\x00é`) || len(got) > 1100 {
		t.Errorf("%.80q, %d bytes", got, len(got))
	}
	f := classify(errors.New("says\r\nERROR forged"))
	if strings.ContainsAny(f.Text, "\r\n") {
		t.Errorf("%q", f.Text)
	}
}
