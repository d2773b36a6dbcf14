package servers

import (
	"testing"
	"time"
)

// GRPCHealthOptions configures [StartGRPCHealth].
type GRPCHealthOptions struct {
	Cert         KeyPair       // plaintext if empty
	Service      string        // known beside the server itself
	ServingAfter time.Duration // NOT_SERVING until then
}

// StartGRPCHealth starts a grpc-go health server and returns its address.
func StartGRPCHealth(t testing.TB, o GRPCHealthOptions) (addr string) {
	t.Helper()
	program := buildServer(t, "grpchealth")
	addr = FreeAddr(t)
	p := run(t, program, "--listen", addr, "--cert", o.Cert.CertFile, "--key", o.Cert.KeyFile,
		"--service", o.Service, "--serving-after", o.ServingAfter.String())
	p.untilListening(t, addr)
	return addr
}
