package certs_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"initbox/internal/certs"
)

// made returns a certificate with that subject, signed by itself, and its key.
func made(t testing.TB, subject []byte) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	template := &x509.Certificate{
		SerialNumber: serial, RawSubject: subject, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func named(t testing.TB, name string) *x509.Certificate {
	subject, err := asn1.Marshal(pkix.Name{CommonName: name}.ToRDNSequence())
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := made(t, subject)
	return cert
}

func entries(t testing.TB, names ...string) (list []certs.Entry) {
	for _, name := range names {
		list = append(list, certs.Entry{Alias: name, Cert: named(t, name)})
	}
	return list
}

func write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// show returns the aliases with the common names, one a line.
func show(list []certs.Entry) string {
	var b strings.Builder
	for _, e := range list {
		b.WriteString(e.Alias + " " + e.Cert.Subject.CommonName + "\n")
	}
	return b.String()
}

// TestRead reads every format, by its bytes.
func TestRead(t *testing.T) {
	list := entries(t, "one", "two")
	der := append(slices.Clone(list[0].Cert.Raw), list[1].Cert.Raw...)
	jks, err := certs.JKS(nil, list, "secret")
	if err != nil {
		t.Fatal(err)
	}
	p12, err := certs.PKCS12(nil, list, "secret")
	if err != nil {
		t.Fatal(err)
	}
	trusted := pem.EncodeToMemory(&pem.Block{Type: "TRUSTED CERTIFICATE", Bytes: append(slices.Clone(list[0].Cert.Raw), 0x30, 0)})
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"PEM":            {certs.PEM(list), "corp one\ncorp-2 two\n"},
		"PEM with text":  {append([]byte("# ours\r\n"), bytes.ReplaceAll(certs.PEM(list), []byte("\n"), []byte("\r\n"))...), "corp one\ncorp-2 two\n"},
		"PEM appended":   {append([]byte("\ufeff"), bytes.ReplaceAll(certs.PEM(list), []byte("-----\n-----"), []byte("----------"))...), "corp one\ncorp-2 two\n"},
		"OpenSSL's":      {trusted, "corp one\n"},
		"DER":            {der, "corp one\ncorp-2 two\n"},
		"Java key store": {jks, "one one\ntwo two\n"},
		"PKCS#12":        {p12, "corp one\ncorp-2 two\n"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "Corp.CRT")
			write(t, file, test.data)
			found, err := certs.Read(file, "secret")
			if err != nil {
				t.Fatal(err)
			}
			if got := show(certs.Distinct(found.Entries)); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
			if found.Entries[0].Source != file {
				t.Errorf("source %q", found.Entries[0].Source)
			}
		})
	}
}

// TestReadFolder reads a mounted Secret: links to files below ..data, keys beside certificates, and text.
func TestReadFolder(t *testing.T) {
	dir := t.TempDir()
	list := entries(t, "one", "two")
	write(t, filepath.Join(dir, "..2026_11_23", "ca.crt"), certs.PEM(list[:1]))
	write(t, filepath.Join(dir, "..2026_11_23", "sub", "more.pem"), certs.PEM(list))
	write(t, filepath.Join(dir, "tls.key"), []byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"))
	write(t, filepath.Join(dir, "readme"), []byte("text"))
	for link, target := range map[string]string{
		"..data": "..2026_11_23", "ca.crt": "..data/ca.crt", "sub": "..data/sub", "loop": ".", "nowhere": "gone",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := certs.Read(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(certs.Distinct(found.Entries)), "ca one\nmore two\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(found.Ignored) != 1 || !strings.Contains(found.Ignored[0], "readme: no certificate in it: neither PEM nor DER") {
		t.Errorf("ignored: %q", found.Ignored)
	}
}

// TestIgnored pins that a certificate of several that cannot be read is named.
func TestIgnored(t *testing.T) {
	list := entries(t, "one", "two")
	text := string(certs.PEM(list))
	for name, broken := range map[string]string{
		"cut":      text[:len(text)-60],
		"not DER":  strings.Replace(text, "CERTIFICATE-----\nMII", "CERTIFICATE-----\nMIJ", 1),
		"not text": strings.Replace(text, "CERTIFICATE-----\nMII", "CERTIFICATE-----\n!II", 1),
	} {
		found, err := certs.Parse([]byte(broken), "a\n.pem", "")
		if err != nil || len(found.Entries) != 1 || len(found.Ignored) != 1 || !strings.Contains(found.Ignored[0], `a\n.pem: `) {
			t.Errorf("%s: %d certificates, ignored %q, %v", name, len(found.Entries), found.Ignored, err)
		}
	}
}

// TestSameBytes pins what keeps stores from being written again.
func TestSameBytes(t *testing.T) {
	cert, private := made(t, named(t, "key").RawSubject)
	key := &certs.Key{Alias: "key", Private: private, Chain: []*x509.Certificate{cert}}
	list := entries(t, "one", "two")
	for name, store := range map[string]func(*certs.Key, []certs.Entry, string) ([]byte, error){"JKS": certs.JKS, "PKCS#12": certs.PKCS12} {
		seen := map[string]string{}
		for what, make := range map[string]func() ([]byte, error){
			"certificates":       func() ([]byte, error) { return store(nil, list, "secret") },
			"another password":   func() ([]byte, error) { return store(nil, list, "other") },
			"fewer certificates": func() ([]byte, error) { return store(nil, list[:1], "secret") },
			"a key":              func() ([]byte, error) { return store(key, list, "secret") },
		} {
			a, err := make()
			b, errB := make()
			if err != nil || errB != nil || !bytes.Equal(a, b) {
				t.Errorf("%s: %s: %v, %v, or the bytes differ", name, what, err, errB)
			}
			if other := seen[string(a)]; other != "" {
				t.Errorf("%s: %s: the same bytes as for %s", name, what, other)
			}
			seen[string(a)] = what
		}
	}
}

// TestSubjectHash compares with OpenSSL, for the texts that it changes before it hashes them.
func TestSubjectHash(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl")
	}
	text := func(tag int, b string) asn1.RawValue { return asn1.RawValue{Tag: tag, Bytes: []byte(b)} }
	type attribute struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	type partSET []attribute
	cn, o := asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.ObjectIdentifier{2, 5, 4, 10}
	for name, parts := range map[string][]partSET{
		"spaces":       {{{o, text(12, "  A \t\n B  ")}}, {{cn, text(19, "Root CA")}}},
		"not ASCII":    {{{o, text(12, "ÄÖÜ Öffentlich")}}},
		"empty":        {{{o, text(12, "")}}},
		"BMP":          {{{o, text(30, "\x00A\x00\xdc\x00 \x00 \x00B")}}},
		"Latin-1":      {{{o, text(20, "A\xdc B")}}},
		"several":      {{{cn, text(12, "z")}, {o, text(19, "A")}}},
		"IA5, numbers": {{{o, text(22, "A  B")}}, {{o, text(18, "1  2")}}},
	} {
		t.Run(name, func(t *testing.T) {
			subject, err := asn1.Marshal(parts)
			if err != nil {
				t.Fatal(err)
			}
			cert, _ := made(t, subject)
			files := certs.Directory([]certs.Entry{{Alias: "a", Cert: cert}})
			file := filepath.Join(t.TempDir(), "a.pem")
			write(t, file, files[0].Content)
			out, err := exec.Command(openssl, "x509", "-noout", "-hash", "-in", file).CombinedOutput()
			if want := strings.TrimSpace(string(out)) + ".0"; err != nil || files[1].Name != want {
				t.Errorf("%s, want %s (%v)", files[1].Name, want, err)
			}
		})
	}
}

// TestDirectory pins that certificates with one subject have links with different numbers.
func TestDirectory(t *testing.T) {
	var names []string
	for _, f := range certs.Directory(certs.Distinct(entries(t, "one", "one", "../two"))) {
		names = append(names, f.Name+">"+f.Target)
	}
	got := strings.Join(names, " ")
	if len(names) != 6 || !strings.HasSuffix(names[1], ".0>one.pem") || !strings.HasSuffix(names[3], ".1>one-2.pem") || names[4] != "-two.pem>" {
		t.Errorf("got %s", got)
	}
}

// TestHostile pins that what a store claims costs neither memory nor time.
func TestHostile(t *testing.T) {
	head := "\xfe\xed\xfe\xed\x00\x00\x00\x02"
	p12, err := certs.PKCS12(nil, entries(t, "one"), "secret")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ data, want string }{
		"entries":      {head + "\xff\xff\xff\xff", "truncated or damaged"},
		"chain":        {head + "\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01a12345678\x00\x00\x00\x01k\xff\xff\xff\xff", "truncated or damaged"},
		"certificate":  {head + "\x00\x00\x00\x01\x00\x00\x00\x02\x00\x01a12345678\x00\x05X.509\xff\xff\xff\xff", "truncated or damaged"},
		"version":      {"\xfe\xed\xfe\xed\x00\x00\x00\x09", "version 9 of Java key stores is not supported"},
		"iterations":   {strings.ReplaceAll(string(p12), "\x02\x02\x08\x00", "\x02\x02\x7f\xff"), "password is wrong"},
		"JCEKS":        {"\xce\xce\xce\xce", "JCEKS is not supported"},
		"indefinite":   {"0\x80\x02\x01\x03", "in BER is not supported"},
		"PKCS#7":       {"0\x0b\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", "PKCS#7 is not supported"},
		"text":         {"hello", "neither PEM nor DER"},
		"nothing":      {"", "neither PEM nor DER"},
		"broken DER":   {"0\x03\x01\x02", "no certificate in it"},
		"only keys":    {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "no certificate in it"},
		"broken PEM":   {"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1: x509: "},
		"not a length": {"0\x84\xff\xff\xff\xff\x02", "no certificate in it"},
	} {
		_, err := certs.Parse([]byte(test.data), "a\nb", "other")
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q, want %q", name, err, test.want)
		}
	}
}

// TestIterations refuses a store that asks for a day of hashing, wherever it does.
func TestIterations(t *testing.T) {
	type algorithm struct {
		ID         asn1.ObjectIdentifier
		Parameters any
	}
	type hashing struct {
		Salt       []byte
		Iterations int
	}
	type mac struct {
		Digest     []byte
		Salt       []byte
		Iterations int
	}
	id := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 1, 3}
	inner, err := asn1.Marshal(algorithm{id, hashing{[]byte("saltsalt"), 1 << 31}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]any{
		"of the MAC": struct {
			Version int
			Mac     mac
		}{3, mac{[]byte("d"), []byte("s"), 1 << 31}},
		"of the content": struct {
			Version int
			Content []byte
		}{3, inner},
	} {
		data, err := asn1.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := certs.Parse(data, "a.p12", "x"); err == nil || !strings.Contains(err.Error(), "hashed 2147483648 times") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostileAliases pins that an alias in a store cannot lead out of a directory, or control a terminal.
func TestHostileAliases(t *testing.T) {
	list := entries(t, "one")
	for alias, want := range map[string]string{
		"../../etc/passwd": "-..-etc-passwd", "a\x1b[2Jb": "a-[2jb", "": "certificate", "..": "certificate", " A ": "a",
		"\u202e\xff😀": "---", strings.Repeat("ä", 4000): strings.Repeat("ä", 64),
	} {
		list[0].Alias = alias
		got := certs.Distinct(list)
		if got[0].Alias != want {
			t.Errorf("%q becomes %q, want %q", alias, got[0].Alias, want)
		}
		for name, store := range map[string]func(*certs.Key, []certs.Entry, string) ([]byte, error){"JKS": certs.JKS, "PKCS#12": certs.PKCS12} {
			if _, err := store(nil, got, "changeit"); err != nil {
				t.Errorf("%q: %s: %v", alias, name, err)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	list := entries(f, "one")
	jks, _ := certs.JKS(nil, list, "changeit")
	p12, _ := certs.PKCS12(nil, list, "changeit")
	for _, data := range [][]byte{jks, p12, certs.PEM(list), list[0].Cert.Raw} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := certs.Parse(data, "f", "changeit")
		if err == nil && len(found.Entries) == 0 {
			t.Error("neither a certificate nor an error")
		}
		list := certs.Distinct(found.Entries)
		if len(list) == 0 {
			return
		}
		certs.Directory(list)
		for name, store := range map[string]func(*certs.Key, []certs.Entry, string) ([]byte, error){"JKS": certs.JKS, "PKCS#12": certs.PKCS12} {
			made, err := store(nil, list, "changeit")
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			again, err := certs.Parse(made, "f", "changeit")
			if err != nil || len(again.Entries) != len(list) {
				t.Errorf("%s: %d certificates come back as %d: %v", name, len(list), len(again.Entries), err)
			}
		}
	})
}
