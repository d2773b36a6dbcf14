package waitfor

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"initbox/internal/failure"
	"initbox/test/servers"
)

func TestMemcachedServer(t *testing.T) {
	t.Parallel()
	auth := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("app:hUnter2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text, binary := servers.StartMemcached(t), servers.StartMemcached(t, "-B", "binary")
	isReady(t, "memcached://"+text)
	isReady(t, "memcached://"+binary)
	isReady(t, "memcached://"+text+","+binary)
	isReady(t, "memcached://"+servers.StartMemcached(t, "-Y", auth))
	isReady(t, "memcached://"+servers.StartMemcachedSASL(t))
	isNot(t, "memcached://"+text+","+refusedAddr(t), failure.Refused, "connection refused (at ")
	isNot(t, "redis://"+text, failure.Unexpected, "the answer is not Redis")
	isNot(t, "nats://"+text+"#tls-first", failure.TLS, "does not speak TLS")
}

func TestMemcachedTLS(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	addr := servers.StartMemcached(t, servers.MemcachedTLS(ca.Server(t, "127.0.0.1"))...)
	isReady(t, "memcached://"+addr+"#tls&ca-file="+ca.File)
	isReady(t, "memcached://"+addr+"#tls&insecure")
	isNot(t, "memcached://"+addr+"#tls", failure.TLS, "TLS:")
	isNot(t, "memcached://"+addr, failure.Reset, "connection ")
}

func TestMemcachedWords(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"SERVER_ERROR out of memory\r\n":       "memcached says SERVER_ERROR out of memory",
		"ERROR Too many open connections\r\n":  "memcached says ERROR Too many open connections",
		"\x81\x0b\x00\x00\x00\x00\x00\x20\r\n": "the answer is not memcached",
		"VERSION\r\n":                          "the answer is not memcached",
		"-ERR unknown command 'version'\r\n":   "the answer is not memcached",
	} {
		f := oneAttempt(t, "memcached://"+servers.Serve(t, func(c net.Conn) { io.WriteString(c, answer); hang(c) }))
		if f == nil || f.Class != failure.Unexpected || !strings.HasPrefix(f.Text, want) {
			t.Errorf("%q: %+v, want %q", answer, f, want)
		}
	}
}

// TestMemcachedGone pins that several are gone when none is left.
func TestMemcachedGone(t *testing.T) {
	there := servers.Serve(t, func(c net.Conn) { io.WriteString(c, "VERSION 1.6.18\r\n"); hang(c) })
	nobody := refusedAddr(t)
	if err := check(t, "memcached://"+nobody+","+there+"#gone", Options{}); err == nil {
		t.Error("gone while one answers")
	}
	if err := check(t, "memcached://"+nobody+","+nobody+"#gone", Options{}); err != nil {
		t.Error(err)
	}
}

// FuzzMemcached: no answer makes the readers panic, and none is one in both protocols.
func FuzzMemcached(f *testing.F) {
	f.Add([]byte("VERSION 1.6.18\r\n"))
	f.Add([]byte("CLIENT_ERROR unauthenticated\r\n"))
	f.Add([]byte("\x81\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x001.6.18"))
	f.Add([]byte("SERVER_ERROR out of memory\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		c := memcachedCheck{server{target: fuzzTarget(t, "memcached://127.0.0.1")}}
		if c.text(replayed(t.Context(), said)) == nil && c.binary(replayed(t.Context(), said)) == nil {
			t.Errorf("%q is ready in both protocols", said)
		}
	})
}
