package memcached

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/nats"
	"initbox/waitfor/redis"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// kinds has the package's kind, and others that are tried on its servers.
var kinds = target.Kinds{&Kind, &redis.Kind, &nats.Kind}

func TestServer(t *testing.T) {
	t.Parallel()
	auth := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("app:hUnter2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	text, binary := servers.StartMemcached(t), servers.StartMemcached(t, "-B", "binary")
	kindtest.Ready(t, kinds, "memcached://"+text)
	kindtest.Ready(t, kinds, "memcached://"+binary)
	kindtest.Ready(t, kinds, "memcached://"+text+","+binary)
	kindtest.Ready(t, kinds, "memcached://"+servers.StartMemcached(t, "-Y", auth))
	kindtest.Ready(t, kinds, "memcached://"+servers.StartMemcachedSASL(t))
	kindtest.NotReady(t, kinds, "memcached://"+text+","+kindtest.RefusedAddr(t), failure.Refused, "connection refused (at ")
	kindtest.NotReady(t, kinds, "redis://"+text, failure.Unexpected, "the answer is not Redis")
	kindtest.NotReady(t, kinds, "nats://"+text+"#tls-first", failure.TLS, "does not speak TLS")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	addr := servers.StartMemcached(t, servers.MemcachedTLS(ca.Server(t, "127.0.0.1"))...)
	kindtest.Ready(t, kinds, "memcached://"+addr+"#tls&ca-file="+ca.File)
	kindtest.Ready(t, kinds, "memcached://"+addr+"#tls&insecure")
	kindtest.NotReady(t, kinds, "memcached://"+addr+"#tls", failure.TLS, "TLS:")
	kindtest.NotReady(t, kinds, "memcached://"+addr, failure.Reset, "connection ")
}

func TestWords(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"SERVER_ERROR out of memory\r\n":       "memcached reports SERVER_ERROR out of memory",
		"ERROR Too many open connections\r\n":  "memcached reports ERROR Too many open connections",
		"\x81\x0b\x00\x00\x00\x00\x00\x20\r\n": "the answer is not memcached",
		"VERSION\r\n":                          "the answer is not memcached",
		"-ERR unknown command 'version'\r\n":   "the answer is not memcached",
	} {
		f := kindtest.Attempt(t, kinds, "memcached://"+servers.Serve(t, func(c net.Conn) { io.WriteString(c, answer); kindtest.Hang(c) }))
		if f == nil || f.Class != failure.Unexpected || !strings.HasPrefix(f.Text, want) {
			t.Errorf("%q: %+v, want %q", answer, f, want)
		}
	}
}

// TestGone pins that several servers are gone when all of them are.
func TestGone(t *testing.T) {
	running := servers.Serve(t, func(c net.Conn) { io.WriteString(c, "VERSION 1.6.18\r\n"); kindtest.Hang(c) })
	refused := kindtest.RefusedAddr(t)
	if err := kindtest.Check(t, kinds, "memcached://"+refused+","+running+"#gone", target.Options{}); err == nil {
		t.Error("gone while one answers")
	}
	if err := kindtest.Check(t, kinds, "memcached://"+refused+","+refused+"#gone", target.Options{}); err != nil {
		t.Error(err)
	}
}

// FuzzMemcached checks that no answer makes the readers panic, and that none is valid in both protocols.
func Fuzz(f *testing.F) {
	f.Add([]byte("VERSION 1.6.18\r\n"))
	f.Add([]byte("CLIENT_ERROR unauthenticated\r\n"))
	f.Add([]byte("\x81\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x001.6.18"))
	f.Add([]byte("SERVER_ERROR out of memory\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		c := check{wire.Server{Target: kindtest.Target(t, kinds, "memcached://127.0.0.1")}}
		if c.text(kindtest.Replayed(t.Context(), said)) == nil && c.binary(kindtest.Replayed(t.Context(), said)) == nil {
			t.Errorf("%q is ready in both protocols", said)
		}
	})
}
