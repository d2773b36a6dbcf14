package servers

import (
	"path/filepath"
	"testing"
)

// StartHAProxy starts Debian's haproxy in TCP mode in front of one backend and returns its address. Like a sidecar, it
// accepts every connection before it knows whether the backend does. It waits a second before each retry, and then
// closes the connection.
func StartHAProxy(t testing.TB, backend string, retries int) (addr string) {
	t.Helper()
	program, conf := Need(t, "haproxy"), filepath.Join(t.TempDir(), "haproxy.cfg")
	addr = FreeAddr(t)
	writeConfig(t, conf, haproxyConf, map[string]any{"Addr": addr, "Backend": backend, "Retries": retries})
	p := run(t, program, "-db", "-f", conf)
	p.untilListening(t, addr)
	return addr
}

const haproxyConf = `
global
	maxconn 200
defaults
	mode tcp
	timeout connect 2s
	timeout client 60s
	timeout server 60s
	retries {{.Retries}}
listen front
	bind {{.Addr}}
	server backend {{.Backend}}
`
