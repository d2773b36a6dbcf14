package tlsconfig_test

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"initbox/internal/certs"
	"initbox/internal/failure"
	"initbox/internal/tlsconfig"
	"initbox/test/servers"
)

// TestWhatIsVerified shakes hands with a server whose certificate is for other.example.
func TestWhatIsVerified(t *testing.T) {
	ca, stranger := servers.NewCA(t), servers.NewCA(t)
	type options = tlsconfig.Options
	const wrongName = "TLS: the certificate is not for localhost but for other.example"
	const unknown = "TLS: the certificate is signed by an unknown authority (CN=initbox test CA)"
	for name, test := range map[string]struct {
		options
		want string
	}{
		"nothing known":        {options{ServerName: "other.example"}, unknown},
		"name":                 {options{CAFile: ca.File}, wrongName},
		"expected name":        {options{CAFile: ca.File, ServerName: "other.example"}, ""},
		"the CA alone":         {options{CAFile: ca.File, OnlyCA: true, ServerName: "other.example"}, ""},
		"the CA alone, name":   {options{CAFile: ca.File, OnlyCA: true}, wrongName},
		"any name":             {options{CAFile: ca.File, AnyName: true}, ""},
		"any name, unknown CA": {options{CAFile: stranger.File, AnyName: true}, unknown},
		"any name, no CA":      {options{AnyName: true}, unknown},
		"nothing verified":     {options{CAFile: stranger.File, AnyName: true, Insecure: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			conf, err := test.Load()
			if err != nil {
				t.Fatal(err)
			}
			if conf.ServerName == "" {
				conf.ServerName = "localhost"
			}
			got := ""
			if err := handshake(t, conf, ca.Server(t, "other.example")); err != nil {
				got = failure.Of(err).Text
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestStores verifies a server against the stores of Java's programs.
func TestStores(t *testing.T) {
	ca := servers.NewCA(t)
	found, err := certs.Read(ca.File, "")
	if err != nil {
		t.Fatal(err)
	}
	server := ca.Server(t, "localhost")
	for name, store := range map[string]func(*certs.Key, []certs.Entry, string) ([]byte, error){"JKS": certs.JKS, "PKCS#12": certs.PKCS12} {
		data, err := store(nil, certs.Distinct(found.Entries), "secret")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "trust.store")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		conf, err := tlsconfig.Options{CAFile: file, CAPassword: "secret", OnlyCA: true, ServerName: "localhost"}.Load()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := handshake(t, conf, server); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := (tlsconfig.Options{CAFile: file}).Load(); !errors.Is(err, certs.ErrPassword) {
			t.Errorf("%s, with another password: %v", name, err)
		}
	}
}

func handshake(t *testing.T, conf *tls.Config, server servers.KeyPair) error {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(server.CertFile, server.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return tls.Client(conn, conf).Handshake()
}
