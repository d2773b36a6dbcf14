package corpus_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"testing"
	"time"

	"initbox/internal/certs"
	"initbox/test/servers"
)

// pems are the contents of files by the names that rows have for them: certificates of CAs, a certificate and its key,
// and a CA with its key.
var pems = map[string][]byte{}

// makePEMs fills pems.
func makePEMs(t *testing.T) {
	read := func(name, file string) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pems[name] = content
	}
	ca := servers.NewCA(t)
	pair := ca.Server(t, "app.example")
	read("ca", ca.File)
	read("other", servers.NewCA(t).File)
	read("certificate", pair.CertFile)
	read("key", pair.KeyFile)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "Authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(5, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	pkcs8, keyErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err, keyErr); err != nil {
		t.Fatal(err)
	}
	pems["authority"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pems["authority-key"] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// compareCertificates returns how the certificates of a file or directory differ from those with the names. The name
// roots stands for all of Mozilla's.
func compareCertificates(path string, names []string) error {
	found, err := certs.Read(path, "changeit")
	if err != nil {
		return err
	}
	other := len(found.Entries)
	for _, name := range names {
		block, _ := pem.Decode(pems[name])
		switch {
		case name == "roots":
			if other < 100 {
				return fmt.Errorf("%d certificates", len(found.Entries))
			}
		case !slices.ContainsFunc(found.Entries, func(e certs.Entry) bool { return bytes.Equal(e.Cert.Raw, block.Bytes) }):
			return fmt.Errorf("%s is not among its %d certificates", name, len(found.Entries))
		default:
			other--
		}
	}
	if other > 0 && !slices.Contains(names, "roots") {
		return fmt.Errorf("%d certificates besides %v", other, names)
	}
	return nil
}
