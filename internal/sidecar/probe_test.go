package sidecar

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"initbox/test/servers"
)

func hint(err error) string {
	if hinted, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return hinted.Hint()
	}
	return ""
}

func TestProbeAddress(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "ready": "", "/run/ready": "", "/run/a:80": "", "a:b": "", "9000": ":9000", ":9000": ":9000", "127.0.0.1:9000": "127.0.0.1:9000",
		"0.0.0.0:9000": "0.0.0.0:9000", "[::1]:9000": "[::1]:9000", "localhost:9000": "localhost:9000",
		"0": "!port", "70000": "!port", ":70000": "!port", "host:": "!port", "::1:9000": "!brackets", "99999999999999999999": "!port",
	} {
		got, err := Address(text)
		if wanted, wrong := strings.CutPrefix(want, "!"); wrong {
			if err == nil || !strings.Contains(err.Error()+hint(err), wanted) {
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
	p, err := OpenProbe("127.0.0.2:"+port, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
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
		if err := p.Ready(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProbeWithoutFiles pins that an error of Accept, which the next call would only return again, keeps no processor
// busy.
func TestProbeWithoutFiles(t *testing.T) {
	l := &failingListener{errs: []error{syscall.EMFILE, net.ErrClosed}}
	start := time.Now()
	(&Probe{listener: l}).serve()
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

// TestHealth pins the paths of a port that has them.
func TestHealth(t *testing.T) {
	addr := servers.FreeAddr(t)
	var sick atomic.Bool
	p, err := OpenProbe(addr, func() error {
		if sick.Load() {
			return errors.New("the API server is \x1b[2J away")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ask := func(method, path string) string {
		t.Helper()
		req, _ := http.NewRequest(method, "http://"+addr+path, nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Status[:4] + strings.TrimSpace(string(body))
	}
	for _, step := range []struct {
		do    func()
		wants map[string]string
	}{
		{func() {}, map[string]string{"/startupz": "503 not ready", "/readyz": "503 not ready", "/livez": "200 alive", "/": "503 not ready", "/healthz/x": "404 want /startupz, /readyz, /livez or /healthz"}},
		{func() { p.Ready() }, map[string]string{"/": "200 ready", "/startupz?verbose": "200 ready", "/readyz": "200 ready", "/healthz": "200 healthy"}},
		{func() { sick.Store(true) }, map[string]string{"/startupz": "200 ready", "/readyz": "200 ready", "/livez": "200 alive", "/healthz": `503 the API server is \x1b[2J away`}},
	} {
		step.do()
		for path, want := range step.wants {
			if got := ask("GET", path); got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	}
	if got := ask("HEAD", "/livez"); got != "200 " {
		t.Errorf("HEAD: %q", got)
	}
}

// TestProbeNamesForeignFile has --startup-probe name a file that holds something: it stays.
func TestProbeNamesForeignFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(name, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenProbe(name, nil); err == nil || !strings.Contains(err.Error(), "it is not replaced") {
		t.Errorf("error %v", err)
	}
	if content, err := os.ReadFile(name); string(content) != "secret" {
		t.Errorf("the file has %q, %v", content, err)
	}
}
