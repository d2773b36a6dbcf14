package command

import (
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"initbox/test/servers"
)

func TestProbeAddress(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "ready": "", "/run/ready": "", "/run/a:80": "", "a:b": "", "9000": ":9000", ":9000": ":9000", "127.0.0.1:9000": "127.0.0.1:9000",
		"0.0.0.0:9000": "0.0.0.0:9000", "[::1]:9000": "[::1]:9000", "localhost:9000": "localhost:9000",
		"0": "!port", "70000": "!port", ":70000": "!port", "host:": "!port", "::1:9000": "!brackets", "99999999999999999999": "!port",
	} {
		got, err := probeAddress(text)
		if wanted, wrong := strings.CutPrefix(want, "!"); wrong {
			if err == nil || !strings.Contains(err.Error()+hintOf(err), wanted) {
				t.Errorf("%q: %q, %v, want an error with %q", text, got, err, wanted)
			}
		} else if got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestProbe pins that the probe listens on the given address only, and does not succeed before it is ready.
func TestProbe(t *testing.T) {
	_, port, _ := net.SplitHostPort(servers.FreeAddr(t))
	p, err := openProbe("127.0.0.2:" + port)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
		conn.Close()
		t.Error("it also listens on 127.0.0.1")
	}
	for _, want := range []string{"503 not ready\n", "200 ready\n"} {
		resp, err := http.Get("http://127.0.0.2:" + port + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := resp.Status[:4] + string(body); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if err := p.ready(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProbeWithoutFiles pins that an error of Accept, which the next call would only return again, keeps no processor
// busy.
func TestProbeWithoutFiles(t *testing.T) {
	l := &failingListener{errs: []error{syscall.EMFILE, net.ErrClosed}}
	start := time.Now()
	(&startupProbe{listener: l}).serve()
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
