package servers

import (
	"syscall"
	"testing"
)

// GRPCHealth is a grpc-go server that answers the standard health protocol.
type GRPCHealth struct {
	Addr string // host:port

	proc *process
}

// GRPCHealthOptions configures [StartGRPCHealth].
type GRPCHealthOptions struct {
	Cert       KeyPair // plaintext if empty
	Service    string  // known in addition to the server itself
	NotServing bool    // NOT_SERVING until [GRPCHealth.SetServing]
}

// StartGRPCHealth starts the server of test/grpchealth, which it builds if necessary.
func StartGRPCHealth(t testing.TB, o GRPCHealthOptions) *GRPCHealth {
	t.Helper()
	program := buildServer(t, "grpchealth")
	h := &GRPCHealth{Addr: FreeAddr(t)}
	args := []string{"--listen", h.Addr, "--cert", o.Cert.CertFile, "--key", o.Cert.KeyFile, "--service", o.Service}
	if o.NotServing {
		args = append(args, "--not-serving")
	}
	h.proc = run(t, program, args...)
	h.proc.untilListening(t, h.Addr)
	return h
}

// SetServing makes the server, and its service, SERVING.
func (h *GRPCHealth) SetServing(t testing.TB) {
	t.Helper()
	if err := h.proc.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
}
