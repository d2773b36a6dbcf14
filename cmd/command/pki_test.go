package command

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// authority signs the certificates of the tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool // of itself
}

// pki returns the authority whose certificate is pki/ca.pem in every script; stranger returns one that no client knows.
var (
	pki      = sync.OnceValue(func() *authority { return newAuthority("initbox test CA") })
	stranger = sync.OnceValue(func() *authority { return newAuthority("unknown CA") })
)

func newAuthority(name string) *authority {
	a := new(authority)
	template := certificateTemplate(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.cert, a.key = sign(template, nil)
	a.pool = x509.NewCertPool()
	a.pool.AddCert(a.cert)
	return a
}

func certificateTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-24 * time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

// sign makes a key and a certificate of it, signed by a or, if that is nil, by itself.
func sign(template *x509.Certificate, a *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	parent, signer := template, key
	if a != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return cert, key
}

// serverCertificate returns what a server shows: one that is good for loopback, or expired, or wrong-name (for
// other.example), or unknown (of an unknown authority).
func serverCertificate(name string) (*tls.Config, error) {
	template := certificateTemplate(name)
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	signer := pki()
	switch name {
	case "good":
	case "expired":
		template.NotAfter = time.Now().Add(-time.Hour)
	case "wrong-name":
		template.DNSNames, template.IPAddresses = []string{"other.example"}, nil
	case "unknown":
		signer = stranger()
	default:
		return nil, fmt.Errorf("tls=%s: want good, expired, wrong-name or unknown", name)
	}
	cert, key := sign(template, signer)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}, nil
}

// clientCertificate is the one that servers with client-ca accept.
var clientCertificate = sync.OnceValue(func() []byte {
	template := certificateTemplate("client")
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	cert, key := sign(template, pki())
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
})

// writePKI writes ca.pem, client.pem (certificate and key), client-cert.pem and client-key.pem.
func writePKI(dir string) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	block, rest := pem.Decode(clientCertificate())
	for name, content := range map[string][]byte{
		"ca.pem":          pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pki().cert.Raw}),
		"client.pem":      clientCertificate(),
		"client-cert.pem": pem.EncodeToMemory(block),
		"client-key.pem":  rest,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
