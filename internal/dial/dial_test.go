package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/resolver"
)

// refusedPort returns a port of loopback where nothing listens.
func refusedPort(t *testing.T) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// TestRefusedSaysWhere pins that of a name that stands for several addresses the
// failure says which refused, and of an address does not say it twice.
func TestRefusedSaysWhere(t *testing.T) {
	port := refusedPort(t)
	for host, want := range map[string]string{
		"localhost": "connection refused (at 127.0.0.1:" + port + ")",
		"127.0.0.1": "connection refused",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := New(nil).DialContext(ctx, "tcp4", net.JoinHostPort(host, port))
		cancel()
		if f := failure.Of(err); f.Class != failure.Refused || f.Error() != want {
			t.Errorf("%s: %v, want %s", host, f, want)
		}
	}
}

// TestNoSuchName pins that a name that does not resolve is the resolver's failure, which says why.
func TestNoSuchName(t *testing.T) {
	port := refusedPort(t)
	r := &resolver.Resolver{Servers: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:" + port)}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := New(r).DialContext(ctx, "tcp", "mydb.test.:5432")
	var lookup *resolver.Failure
	if !errors.As(err, &lookup) || !strings.Contains(failure.Of(err).Hint, "nothing listens at 127.0.0.1:"+port) {
		t.Errorf("%v, want the failure of the lookup", err)
	}
}

// TestConnects pins that a connection is that to the address which answers.
func TestConnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := New(nil).DialContext(ctx, "tcp", "localhost:"+port) // ::1, if localhost has it, refuses
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.RemoteAddr().String(); got != l.Addr().String() {
		t.Errorf("connected to %s, want %s", got, l.Addr())
	}
}

// While one address of a host hangs, a refusal by another is not conclusive, in whichever order they come.
func TestOneAddressRefuses(t *testing.T) {
	refused := poll.Outcome[net.Conn]{Finished: true, Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}
	noRoute := poll.Outcome[net.Conn]{Finished: true, Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}}
	timedOut := poll.Outcome[net.Conn]{Finished: true, Err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}}
	unfinished := poll.Outcome[net.Conn]{}
	for _, tt := range []struct {
		outcomes []poll.Outcome[net.Conn]
		class    failure.Class
	}{
		{[]poll.Outcome[net.Conn]{refused, timedOut}, failure.TimedOut},
		{[]poll.Outcome[net.Conn]{timedOut, refused}, failure.TimedOut},
		{[]poll.Outcome[net.Conn]{refused, unfinished}, failure.TimedOut},
		{[]poll.Outcome[net.Conn]{noRoute, refused}, failure.Refused},
		{[]poll.Outcome[net.Conn]{refused, refused}, failure.Refused},
	} {
		if got := failure.Of(mostTelling("mydb", tt.outcomes)).Class; got != tt.class {
			t.Errorf("%v: %s, want %s", tt.outcomes, got, tt.class)
		}
	}
}
