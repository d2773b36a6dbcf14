package real_test

import (
	"io"
	"net"
	"testing"
	"time"

	"initbox/test/servers"
)

// A proxy accepts connections for a server that is not running, and then closes them.
func TestTCPThroughProxy(t *testing.T) {
	t.Parallel()
	backend := servers.FreeAddr(t)
	proxy := servers.StartHAProxy(t, backend, 0)
	// On a busy machine, a proxy may close a connection after the default of 20 ms.
	w := start(t, "wait-for-service", "tcp://"+proxy, "--hold=5s", "--timeout=60s")
	w.untilLogged(`(?i)closed|reset`)
	w.stillWaiting(500 * time.Millisecond)
	listen(t, backend)
	w.wantWithin(soon, ready)
}

// A proxy that retries before it closes holds the connection for longer than --hold: just by connecting, it cannot be
// distinguished from the server. As docs/wait-for-service.md says, a longer hold helps, or a request to the server.
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

// --gone waits until no server answers; a proxy that still accepts counts as one.
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
