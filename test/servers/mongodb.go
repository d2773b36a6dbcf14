package servers

import "testing"

// StartMongoDB starts FerretDB, which speaks MongoDB's protocol, and returns its address. It is not in a replica set.
// With a certificate, it only accepts TLS.
func StartMongoDB(t testing.TB, cert KeyPair) (addr string) {
	t.Helper()
	program := buildServer(t, "mongodb")
	addr = FreeAddr(t)
	p := run(t, program, "--listen", addr, "--cert", cert.CertFile, "--key", cert.KeyFile, "--data", t.TempDir())
	p.untilListening(t, addr)
	return addr
}
