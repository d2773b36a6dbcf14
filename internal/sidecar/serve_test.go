package sidecar

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/test/servers"
)

// request returns the status and the body of an answer, and its header.
func request(t *testing.T, method, address string, header http.Header) (string, http.Header) {
	t.Helper()
	req, _ := http.NewRequest(method, "http://"+address, nil)
	maps.Copy(req.Header, header)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status[:4] + strings.TrimSpace(string(body)), resp.Header
}

// TestPort pins what the port answers before the first success, after it, and when checks fail, and that it is at its
// address only.
func TestPort(t *testing.T) {
	t.Parallel()
	_, port, _ := net.SplitHostPort(servers.FreeAddr(t))
	address := "127.0.0.2:" + port
	ctx, cancel := context.WithCancel(t.Context())
	ask := func(when string, wants map[string]string) {
		t.Helper()
		for _, path := range slices.Sorted(maps.Keys(wants)) {
			if got, _ := request(t, "GET", address+path, nil); got != wants[path] {
				t.Errorf("%s, %s: %q, want %q", when, path, got, wants[path])
			}
		}
	}
	looks := 0
	err := Run(ctx, Options{HTTP: address}, time.Millisecond, func(context.Context) (string, bool, error) {
		switch looks++; looks {
		case 1:
			if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
				conn.Close()
				t.Error("it also listens at 127.0.0.1")
			}
			const early = "503 not ready: the first attempt is still running"
			ask("first", map[string]string{"": early, "/startupz": early, "/readyz": early, "/livez": "200 alive", "/healthz": early,
				"/healthz/x": "404 want /startupz, /readyz, /livez, /healthz or /metrics", "/debug/pprof/": "404 want /startupz, /readyz, /livez, /healthz or /metrics"})
		case 2:
			ask("later", map[string]string{"": "200 ready", "/startupz?verbose": "200 ready", "/readyz": "200 ready", "/livez": "200 alive", "/healthz": "200 healthy"})
			if got, _ := request(t, "HEAD", address+"/livez", nil); got != "200 " {
				t.Errorf("HEAD: %q", got)
			}
			cancel()
		}
		return "", false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("it still listens after the end")
	}
}

// TestGitSyncPaths pins that all paths but /metrics are one, as with git-sync: its probes may name any.
func TestGitSyncPaths(t *testing.T) {
	l := &loop{Options: Options{GitSync: true}, tally: newTally()}
	for _, ready := range []bool{false, true} {
		l.ready = ready
		for _, path := range []string{"/", "/livez", "/healthz", "/anything"} {
			if got := l.answers(path, ""); (got.status == "200 OK") != ready {
				t.Errorf("%s: %v, if ready is %v", path, got, ready)
			}
		}
	}
	if got := l.answers("/metrics", ""); !strings.Contains(got.text, "git_sync_count_total") {
		t.Errorf("/metrics: %v", got)
	}
}

// TestPortIsPrintable pins that an answer cannot change a terminal.
func TestPortIsPrintable(t *testing.T) {
	l := &loop{Options: Options{Health: func() error { return errors.New("the API server is \x1b[2J away") }}, ready: true, succeeded: time.Now(), tally: newTally()}
	addr := servers.FreeAddr(t)
	s, err := listen(addr, l.answers)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, _ := request(t, "GET", addr+"/healthz", nil); got != `503 the API server is \x1b[2J away` {
		t.Errorf("%q", got)
	}
	if _, err := listen(addr, l.answers); failure.Hint(err) == "" || !strings.Contains(err.Error(), "listen for probes: ") {
		t.Errorf("a port in use: %v", err)
	}
}

// TestServeHalfRequests pins that connections that send half a request do not keep a probe from its answer, and that
// only so many stay open.
func TestServeHalfRequests(t *testing.T) {
	t.Parallel()
	addr := servers.FreeAddr(t)
	s, err := listen(addr, func(string, string) answer { return answer{status: "200 OK", text: "ready"} })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var conns []net.Conn
	for range 2 * maxOpen {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET / HTTP/1.1\r\n")
		conns = append(conns, conn)
	}
	if got, _ := request(t, "GET", addr+"/", nil); got != "200 ready" {
		t.Errorf("%q", got)
	}
	for _, conn := range conns[:maxOpen] {
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("an old connection is still open: %v", err)
		}
	}
}

// TestServeWithoutFiles pins that an error of Accept, which the next call would only return again, keeps no processor
// busy.
func TestServeWithoutFiles(t *testing.T) {
	l := &failingListener{errs: []error{syscall.EMFILE, net.ErrClosed}}
	start := time.Now()
	(&server{Listener: l}).serve()
	if took := time.Since(start); took < acceptPause || len(l.errs) > 0 {
		t.Errorf("asked again after %v, and not for %v", took, l.errs)
	}
}

// failingListener returns errors, in order.
type failingListener struct {
	net.Listener
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, err
}
