package certs

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os/exec"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"initbox/test/servers"
)

// TestKeyStore reads stores with another library and with openssl, whatever the password.
func TestKeyStore(t *testing.T) {
	key, trusted := testKey(t)
	for _, password := range []string{"changeit", "pä$$ wörd€", strings.Repeat("long", 40)} {
		der, err := PKCS12(key, trusted, password)
		if err != nil {
			t.Fatal(err)
		}
		again, err := PKCS12(key, trusted, password)
		if err != nil || !bytes.Equal(der, again) {
			t.Errorf("the same content gives another store, %v", err)
		}
		_, leaf, others, err := pkcs12.DecodeChain(der, password)
		if err != nil || !leaf.Equal(key.Chain[0]) || len(others) != 1 || !others[0].Equal(trusted[0].Cert) {
			t.Errorf("%q: %d other certificates, %v", password, len(others), err)
		}
		cmd := exec.Command(servers.Need(t, "openssl"), "pkcs12", "-nodes", "-passin", "env:STORE_PASSWORD")
		cmd.Env = append(cmd.Environ(), "STORE_PASSWORD="+password)
		cmd.Stdin = bytes.NewReader(der)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Count(string(out), "BEGIN CERTIFICATE") != 2 || !strings.Contains(string(out), "friendlyName: kafka") || !strings.Contains(string(out), "friendlyName: ca") {
			t.Errorf("%q: %v: %s", password, err, out)
		}
		text, err := KeyPEM(key, password)
		if err != nil {
			t.Fatal(err)
		}
		private, err := ParseKey(text, []byte(password))
		if err != nil || !same(private, key.Private) {
			t.Errorf("%q: the encrypted key in PEM: %v", password, err)
		}
	}
}

// testKey returns a key with its certificate, and the CA's.
func testKey(t testing.TB) (*Key, []Entry) {
	t.Helper()
	_, caKey, leafKey := testKeys(t)
	template := func(name string, ca bool) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
			NotBefore: time.Unix(1e9, 0), NotAfter: time.Unix(4e9, 0), IsCA: ca, BasicConstraintsValid: true,
		}
	}
	sign := func(template, parent *x509.Certificate, public any) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, public, caKey)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	ca := sign(template("CA", true), template("CA", true), caKey.Public())
	leaf := sign(template("kafka-0.kafka", false), ca, leafKey.Public())
	return &Key{Alias: "kafka", Private: leafKey, Chain: []*x509.Certificate{leaf, ca}}, []Entry{{Alias: "ca", Cert: ca}}
}
