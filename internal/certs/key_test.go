package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"initbox/test/servers"
)

// TestParseKey reads keys in every format that openssl and Go write.
func TestParseKey(t *testing.T) {
	rsaKey, ecKey, edKey := testKeys(t)
	inPEM := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	sec1, err := x509.MarshalECPrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	openSSH, err := ssh.MarshalPrivateKey(edKey, "")
	if err != nil {
		t.Fatal(err)
	}
	pkcs1, certificate := x509.MarshalPKCS1PrivateKey(rsaKey), inPEM("CERTIFICATE", []byte("any"))
	for name, tt := range map[string]struct {
		data []byte
		want crypto.Signer
	}{
		"PKCS #8, RSA":        {inPEM("PRIVATE KEY", pkcs8(t, rsaKey)), rsaKey},
		"PKCS #8, Ed25519":    {inPEM("PRIVATE KEY", pkcs8(t, edKey)), edKey},
		"PKCS #8 in DER":      {pkcs8(t, ecKey), ecKey},
		"PKCS #1":             {inPEM("RSA PRIVATE KEY", pkcs1), rsaKey},
		"PKCS #1 in DER":      {pkcs1, rsaKey},
		"SEC 1":               {append(inPEM("EC PARAMETERS", []byte{5, 0}), inPEM("EC PRIVATE KEY", sec1)...), ecKey},
		"SEC 1 in DER":        {sec1, ecKey},
		"OpenSSH":             {pem.EncodeToMemory(openSSH), edKey},
		"behind certificates": {append(certificate, inPEM("PRIVATE KEY", pkcs8(t, edKey))...), edKey},
	} {
		key, err := ParseKey(tt.data, nil)
		if err != nil || !same(key, tt.want) {
			t.Errorf("%s: %T, %v", name, key, err)
		}
		if key, err = ParseKey(tt.data, []byte("not needed")); err != nil || !same(key, tt.want) {
			t.Errorf("%s, with a password: %T, %v", name, key, err)
		}
	}
}

// TestParseEncryptedKey reads keys that openssl has encrypted, with the right password, a wrong one and none.
func TestParseEncryptedKey(t *testing.T) {
	rsaKey, ecKey, _ := testKeys(t)
	openssl, dir := servers.Need(t, "openssl"), t.TempDir()
	for name, tt := range map[string]struct {
		key  crypto.Signer
		args []string
	}{
		"PKCS #8":            {rsaKey, []string{"pkcs8", "-topk8", "-v2", "aes-256-cbc"}},
		"PKCS #8 in DER":     {ecKey, []string{"pkcs8", "-topk8", "-outform", "DER"}},
		"PEM, PKCS #1":       {rsaKey, []string{"rsa", "-traditional", "-aes256"}},
		"PEM, PKCS #1, 3DES": {rsaKey, []string{"rsa", "-traditional", "-des3"}},
		"PEM, SEC 1":         {ecKey, []string{"ec", "-aes128"}},
	} {
		plain, file := filepath.Join(dir, "plain"), filepath.Join(dir, "encrypted")
		if err := os.WriteFile(plain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8(t, tt.key)}), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append(tt.args, "-in", plain, "-out", file, "-passout", "pass:sesame")
		if out, err := exec.Command(openssl, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if key, err := ParseKey(data, []byte("sesame")); err != nil || !same(key, tt.key) {
			t.Errorf("%s: %T, %v", name, key, err)
		}
		if _, err := ParseKey(data, []byte("open")); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("%s, with a wrong password: %v", name, err)
		}
		if _, err := ParseKey(data, nil); !errors.Is(err, ErrEncrypted) {
			t.Errorf("%s, without a password: %v", name, err)
		}
	}
}

func TestNoKey(t *testing.T) {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("any")})
	for _, data := range [][]byte{nil, []byte("x"), certificate} {
		if _, err := ParseKey(data, nil); !errors.Is(err, ErrNoKey) {
			t.Errorf("%q: %v", data, err)
		}
	}
}

// FuzzParseKey pins that no file breaks the parser, and that what is parsed can be written.
func FuzzParseKey(f *testing.F) {
	_, key, _ := testKeys(f)
	f.Add(pkcs8(f, key))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8(f, key)}))
	for _, text := range encryptedKeys {
		f.Add(unbase64(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if block, _ := pem.Decode(data); !cheap(data) || block != nil && (!cheap(block.Bytes) || block.Type == "OPENSSH PRIVATE KEY") {
			return // slow, legitimately
		}
		key, err := ParseKey(data, []byte("x"))
		if err != nil {
			return
		}
		if _, err := x509.MarshalPKCS8PrivateKey(key); err != nil {
			t.Errorf("%T: %v", key, err)
		}
	})
}

func testKeys(t testing.TB) (*rsa.PrivateKey, *ecdsa.PrivateKey, ed25519.PrivateKey) {
	t.Helper()
	rsaKey, rsaErr := rsa.GenerateKey(rand.Reader, 2048)
	ecKey, ecErr := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, edKey, edErr := ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(rsaErr, ecErr, edErr); err != nil {
		t.Fatal(err)
	}
	return rsaKey, ecKey, edKey
}

func pkcs8(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func same(a, b crypto.Signer) bool {
	return a != nil && a.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(b.Public())
}
