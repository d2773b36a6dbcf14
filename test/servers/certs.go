package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A CA signs certificates. Only clients with its File trust them.
type CA struct {
	File string // the CA's certificate, PEM

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	dir  string
}

// A KeyPair is a certificate and its private key, in two PEM files.
type KeyPair struct{ CertFile, KeyFile string }

// NewCA creates a certificate authority for one test.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{dir: t.TempDir(), key: newKey(t)}
	self := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "initbox test CA"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, self, self, ca.key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.File = filepath.Join(ca.dir, "ca.pem")
	writePEM(t, ca.File, "CERTIFICATE", der)
	return ca
}

// Server issues a certificate for a server at the given host names and addresses.
func (ca *CA) Server(t testing.TB, hosts ...string) KeyPair {
	t.Helper()
	return ca.issue(t, x509.ExtKeyUsageServerAuth, time.Now().Add(time.Hour), hosts)
}

// ExpiredServer issues a certificate that expired a minute ago.
func (ca *CA) ExpiredServer(t testing.TB, hosts ...string) KeyPair {
	t.Helper()
	return ca.issue(t, x509.ExtKeyUsageServerAuth, time.Now().Add(-time.Minute), hosts)
}

// Client issues a client certificate for name.
func (ca *CA) Client(t testing.TB, name string) KeyPair {
	t.Helper()
	return ca.issue(t, x509.ExtKeyUsageClientAuth, time.Now().Add(time.Hour), []string{name})
}

func (ca *CA) issue(t testing.TB, use x509.ExtKeyUsage, notAfter time.Time, hosts []string) KeyPair {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: hosts[0]},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     notAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{use},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, h)
		}
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca.cert, key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(ca.dir, serial.Text(16))
	pair := KeyPair{CertFile: base + ".pem", KeyFile: base + ".key"}
	writePEM(t, pair.CertFile, "CERTIFICATE", der)
	writePEM(t, pair.KeyFile, "PRIVATE KEY", pkcs8)
	return pair
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(file, block, 0o600); err != nil {
		t.Fatal(err)
	}
}
