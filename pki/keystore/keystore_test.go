package keystore_test

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
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"initbox/internal/certs"
	"initbox/internal/stage"
	"initbox/pki/keystore"
	"initbox/test/soak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("KEYSTORE_WRITE_FOREVER"); dir != "" {
		for i := 0; ; i++ {
			if _, err := keystore.Run(options(dir, fmt.Sprintf("%d.pem", i%2))); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			if i == 3 {
				fmt.Println("writing")
			}
		}
	}
	os.Exit(m.Run())
}

func options(dir, cert string) keystore.Options {
	return keystore.Options{
		CertFile: filepath.Join(dir, cert), Alias: "k", Attr: stage.Attr{Mode: 0o600, UID: -1, GID: -1},
		PKCS12: filepath.Join(dir, "out/k.p12"), JKS: filepath.Join(dir, "out/k.jks"), PEM: filepath.Join(dir, "out/k.pem"),
	}
}

// identity is a certificate with its key.
type identity struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue returns a certificate that issuer signs or, if that is nil, its own key.
func issue(t testing.TB, name string, issuer *identity, change func(*x509.Certificate)) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return certify(t, name, key, issuer, change)
}

// certify is issue for a key that exists.
func certify(t testing.TB, name string, key *ecdsa.PrivateKey, issuer *identity, change func(*x509.Certificate)) *identity {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if change != nil {
		change(template)
	}
	if issuer == nil {
		issuer = &identity{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.cert, key.Public(), issuer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &identity{cert, key}
}

// write writes the key of the first identity, unless keyless, and the certificates of all.
func write(t testing.TB, file string, keyless bool, all ...*identity) {
	t.Helper()
	var b bytes.Buffer
	if !keyless {
		der, err := x509.MarshalPKCS8PrivateKey(all[0].key)
		if err != nil {
			t.Fatal(err)
		}
		pem.Encode(&b, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	for _, id := range all {
		pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: id.cert.Raw})
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestChain pins which certificates are in the chain, and in which order.
func TestChain(t *testing.T) {
	root := issue(t, "root", nil, nil)
	middle := issue(t, "middle", root, nil)
	leaf := issue(t, "leaf", middle, nil)
	stranger := issue(t, "stranger", nil, nil)
	sameName := issue(t, "middle", root, nil)
	left, right := issue(t, "left", nil, nil), issue(t, "right", nil, nil)
	crossed := []*identity{certify(t, "left", left.key, right, nil), certify(t, "right", right.key, left, nil)}
	for name, tt := range map[string]struct {
		given, trusted []*identity // the first of given has the key
		chain, left    string
	}{
		"as it should be":         {[]*identity{leaf, middle}, []*identity{root}, "leaf middle root", ""},
		"wrong order":             {[]*identity{leaf, root, middle}, nil, "leaf middle root", ""},
		"the rest is trusted":     {[]*identity{leaf}, []*identity{root, middle}, "leaf middle root", ""},
		"the root is not known":   {[]*identity{leaf, middle}, nil, "leaf middle", ""},
		"not of the chain":        {[]*identity{leaf, stranger, middle}, nil, "leaf middle", "CN=stranger"},
		"another of the same":     {[]*identity{leaf, sameName, middle}, []*identity{root}, "leaf middle root", "CN=middle"},
		"self-signed":             {[]*identity{root}, nil, "root", ""},
		"self-signed and trusted": {[]*identity{root}, []*identity{root}, "root", ""},
		"issued by one another":   {crossed, nil, "left right", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := options(dir, "cert.pem")
			write(t, o.CertFile, false, tt.given...)
			if tt.trusted != nil {
				o.CAFile = filepath.Join(dir, "ca.pem")
				write(t, o.CAFile, true, tt.trusted...)
			}
			r, err := keystore.Run(o)
			if err != nil {
				t.Fatal(err)
			}
			found, err := certs.Read(o.PEM, "")
			if err != nil {
				t.Fatal(err)
			}
			var chain []string
			for _, e := range found.Entries {
				chain = append(chain, e.Cert.Subject.CommonName)
			}
			if got := strings.Join(chain, " "); got != tt.chain {
				t.Errorf("%s, want %s", got, tt.chain)
			}
			if got := strings.Join(r.Warnings, "\n"); (tt.left == "") != (got == "") || !strings.HasSuffix(got, tt.left) {
				t.Errorf("warnings %q, want one of %q", got, tt.left)
			}
		})
	}
}

// TestDates pins that a certificate that is not valid now is named, and put into the store all the same.
func TestDates(t *testing.T) {
	for want, change := range map[string]func(*x509.Certificate){
		"expired on":       func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) },
		"not valid before": func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) },
	} {
		o := options(t.TempDir(), "cert.pem")
		write(t, o.CertFile, false, issue(t, "line\nbreak", nil, change))
		r, err := keystore.Run(o)
		if err != nil || !r.Changed() || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], want) || strings.Contains(r.Warnings[0], "\n") {
			t.Errorf("%q, %v; want a warning that it is %s", r.Warnings, err, want)
		}
	}
}

// TestRenewedMeanwhile replaces the Secret, as the kubelet does, while it is read: its key and its certificate always
// match in the store.
func TestRenewedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "tls")
	for _, version := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		id := issue(t, version, nil, nil)
		write(t, filepath.Join(dir, version, "tls.key"), false, id)
		write(t, filepath.Join(dir, version, "tls.crt"), true, id)
	}
	o := options(dir, "tls/tls.crt")
	o.KeyFile = filepath.Join(dir, "tls/tls.key")
	seen := map[string]bool{}
	for i := 0; len(seen) < 2 || i < 20; i++ {
		if err := os.Symlink(string("ab"[i%2]), link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := keystore.Run(o)
			done <- err
		}()
		if err := os.Symlink(string("ab"[(i+1)%2]), link+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+".new", link); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		seen[whole(t, o)] = true
	}
}

// whole returns the name in the certificate of the stores, all of which must be readable.
func whole(t *testing.T, o keystore.Options) string {
	t.Helper()
	store, err := os.ReadFile(o.PKCS12)
	if err != nil {
		t.Fatal(err)
	}
	key, cert, err := pkcs12.Decode(store, certs.DefaultPassword)
	if err != nil {
		t.Fatal(err)
	}
	if !key.(*ecdsa.PrivateKey).PublicKey.Equal(cert.PublicKey) {
		t.Errorf("the key of %s is another one's", cert.Subject)
	}
	text, err := os.ReadFile(o.PEM)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certs.ParseKey(text, nil); err != nil {
		t.Error(err)
	}
	if store, err := os.ReadFile(o.JKS); err != nil || !bytes.HasPrefix(store, []byte("\xfe\xed\xfe\xed")) {
		t.Errorf("half a JKS store of %d bytes, %v", len(store), err)
	}
	return cert.Subject.CommonName
}

// Whenever the writer is killed, each store is whole, and the next run leaves nothing behind.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 2 {
		write(t, filepath.Join(dir, fmt.Sprintf("%d.pem", i)), false, issue(t, fmt.Sprint(i), nil, nil))
	}
	for moment := range soak.Moments(t, 15) {
		cmd := soak.Child("KEYSTORE_WRITE_FOREVER=" + dir)
		soak.Start(t, cmd, "writing")
		time.Sleep(time.Duration(moment * float64(50*time.Millisecond))) // it writes all the time
		cmd.Process.Kill()
		cmd.Wait()
		whole(t, options(dir, ""))
	}
	if _, err := keystore.Run(options(dir, "0.pem")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "out"))
	names := slices.Collect(func(yield func(string) bool) {
		for _, e := range entries {
			if !yield(e.Name()) {
				return
			}
		}
	})
	if want := []string{"k.jks", "k.p12", "k.pem"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
}

// TestUnwritable pins that a store that cannot be written ends the run, and is named.
func TestUnwritable(t *testing.T) {
	o := options(t.TempDir(), "cert.pem")
	write(t, o.CertFile, false, issue(t, "leaf", nil, nil))
	o.JKS = filepath.Join(o.CertFile, "k.jks") // below a file
	_, err := keystore.Run(o)
	if err == nil || !strings.Contains(err.Error(), "write "+o.JKS) {
		t.Errorf("%v, want that %s cannot be written", err, o.JKS)
	}
	if _, err := os.Stat(o.PEM); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was written after a failure: %v", o.PEM, err)
	}
}
