package servers

import (
	"path/filepath"
	"testing"
)

// Nats is a NATS server.
type Nats struct {
	Addr   string
	Client KeyPair // a certificate that it accepts over TLS; empty without TLS
}

// NatsOptions configures [StartNats].
type NatsOptions struct {
	CA     *CA    // for TLS, with certificates of it for the server and its clients; nil for plaintext
	Config string // more of its configuration; {{.Dir}} is a directory for data
}

// StartNats starts Debian's NATS server.
func StartNats(t testing.TB, o NatsOptions) *Nats {
	t.Helper()
	program := Need(t, "nats-server")
	n := &Nats{Addr: FreeAddr(t)}
	data := struct {
		Addr, CAFile, Dir string
		Pair              KeyPair
	}{Addr: n.Addr, Dir: t.TempDir()}
	text := "listen: {{.Addr}}\n" + o.Config
	if o.CA != nil {
		data.CAFile, data.Pair = o.CA.File, o.CA.Server(t, "127.0.0.1", "localhost")
		n.Client = o.CA.Client(t, "initbox")
		text += `
tls { cert_file: "{{.Pair.CertFile}}", key_file: "{{.Pair.KeyFile}}", ca_file: "{{.CAFile}}", verify: true }`
	}
	file := filepath.Join(data.Dir, "nats.conf")
	writeConfig(t, file, text, data)
	run(t, program, "-c", file).untilListening(t, n.Addr)
	return n
}
