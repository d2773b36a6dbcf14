package real_test

import (
	"io"
	"net"
	"testing"
	"time"

	"initbox/test/servers"
)

// A proxy accepts on behalf of a server that is not there, and then closes.
func TestTCPThroughProxy(t *testing.T) {
	t.Parallel()
	backend := servers.FreeAddr(t)
	proxy := servers.StartHAProxy(t, backend, 0)
	// A proxy on a busy machine closes later than the 20 ms that are the default.
	w := start(t, "wait-for-service", "tcp://"+proxy, "--hold=5s", "--timeout=60s")
	w.untilLogged(`(?i)closed|reset`)
	w.stillWaiting(500 * time.Millisecond)
	listen(t, backend)
	w.wantWithin(soon, ready)
}

// A proxy that tries again before it closes holds the connection for longer than --hold:
// by connecting alone, it cannot be distinguished from the server. docs/wait-for-service.md says
// so; a longer hold, or asking the server something, is the way out.
func TestTCPThroughProxyThatHolds(t *testing.T) {
	t.Parallel()
	backend := servers.FreeAddr(t)
	proxy := servers.StartHAProxy(t, backend, 1) // closes after one second
	start(t, "wait-for-service", "tcp://"+proxy, "--timeout=60s").want(ready)
	start(t, "wait-for-service", "tcp://"+proxy+"#hold=9s", "--timeout=60s").stuck(`(?i)closed|reset`)
	start(t, "wait-for-service", "http://"+proxy, "--timeout=3s").want(deadline)
	listen(t, backend)
	start(t, "wait-for-service", "tcp://"+proxy+"#hold=2s", "--timeout=60s").want(ready)
}

// --gone waits until no server is there; a proxy that still accepts is one.
func TestGoneNeedsRefused(t *testing.T) {
	t.Parallel()
	backend := servers.FreeAddr(t)
	proxy := servers.StartHAProxy(t, backend, 0)
	start(t, "wait-for-service", "--gone", "tcp://"+proxy, "--timeout=1s").want(deadline)
	start(t, "wait-for-service", "--gone", "tcp://"+backend, "--timeout=60s").want(ready)
}

// listen accepts connections at addr until the test ends, and never closes one first.
func listen(t *testing.T, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	accept(l)
}

func accept(l net.Listener) {
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, c)
				c.Close()
			}()
		}
	}()
}
