package trust_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/internal/certs"
	"initbox/internal/kube"
	"initbox/pki/trust"
	"initbox/test/fakeapi"
)

// made returns a certificate as PEM, valid from a time on.
func made(t *testing.T, name string, from time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: from, NotAfter: from.Add(100 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// run collects certificates from the sources, and returns the aliases of what it wrote, and the log.
func run(t *testing.T, o trust.Options, sources ...string) (aliases, log string, err error) {
	t.Helper()
	for _, text := range sources {
		s, err := trust.ParseSource(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Sources = append(o.Sources, s)
	}
	var b bytes.Buffer
	o.JKS, o.Mode, o.UID, o.GID = filepath.Join(t.TempDir(), "out.jks"), 0o644, -1, -1
	o.Log = slog.New(slog.NewTextHandler(&b, nil))
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if _, err := trust.Run(t.Context(), o); err != nil {
		return "", b.String(), err
	}
	found, err := certs.Read(o.JKS, certs.DefaultPassword)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range found.Entries {
		names = append(names, e.Alias)
	}
	return strings.Join(names, " "), b.String(), nil
}

// TestSystem pins whose roots are the system's.
func TestSystem(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "a.pem"), made(t, "By File", time.Now()))
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "b.pem"), made(t, "By Folder", time.Now()))
	for want, env := range map[string]map[string]string{
		"by-file":   {"SSL_CERT_FILE": file, "SSL_CERT_DIR": folder},
		"by-folder": {"SSL_CERT_DIR": filepath.Join(dir, "missing") + ":" + folder},
	} {
		got, _, err := run(t, trust.Options{Getenv: func(name string) string { return env[name] }}, "system")
		if got != want || err != nil {
			t.Errorf("%s: got %s, %v", want, got, err)
		}
	}
	if _, _, err := run(t, trust.Options{Getenv: func(string) string { return filepath.Join(dir, "missing") }}, "system"); err == nil {
		t.Error("an image without certificates is no error")
	}
}

// TestRemarks pins what the log says of certificates that programs will not accept.
func TestRemarks(t *testing.T) {
	dir := t.TempDir()
	early := write(t, filepath.Join(dir, "early.pem"), made(t, "x", time.Now().Add(time.Hour)))
	old := write(t, filepath.Join(dir, "old.pem"), made(t, "x", time.Now().Add(-200*time.Hour)))
	write(t, filepath.Join(dir, "bad\n.pem"), []byte("text"))
	got, log, err := run(t, trust.Options{}, dir)
	if got != "early old" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	for _, want := range []string{"not valid yet: early in " + early, "expired: old in " + old, `bad\\n.pem: no certificate in it`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
}

// TestObjects reads all keys of all Secrets that a selector matches, in text and in base64, and stores in them.
func TestObjects(t *testing.T) {
	api := fakeapi.New()
	server := httptest.NewServer(api)
	defer server.Close()
	one, two := made(t, "one", time.Now()), made(t, "two", time.Now())
	found, err := certs.Parse(two, "Two.crt", "")
	if err != nil {
		t.Fatal(err)
	}
	store, err := certs.JKS(nil, certs.Distinct(found.Entries), "hUnter2")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []map[string]any{
		{"kind": "Secret", "metadata": map[string]any{"name": "a", "labels": map[string]string{"ca": "x"}},
			"data": map[string]string{"ca.crt": base64.StdEncoding.EncodeToString(one), "password": "eA=="}},
		{"kind": "Secret", "metadata": map[string]any{"name": "b", "labels": map[string]string{"ca": "x"}},
			"data": map[string]string{"store": base64.StdEncoding.EncodeToString(store)}},
		{"kind": "ConfigMap", "metadata": map[string]any{"name": "b"},
			"data": map[string]string{"text.pem": string(one)}, "binaryData": map[string]string{"ts.jks": base64.StdEncoding.EncodeToString(store)}},
	} {
		o["apiVersion"] = "v1"
		document, _ := json.Marshal(o)
		if err := api.Apply(string(document)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	password := write(t, filepath.Join(dir, "pw"), []byte("hUnter2\n"))
	o := trust.Options{Cluster: kube.Place{
		Kubeconfig: write(t, filepath.Join(dir, "config"), []byte(fakeapi.Kubeconfig(server.URL))),
		Getenv:     func(string) string { return "" },
	}}
	for source, want := range map[string]string{
		"k8s:secrets?selector=ca=x#password-file=" + password:               "ca two",
		"k8s:cm/b?namespace=default#password-file=" + password:              "text two",
		"k8s:configmap/b#key=text.pem":                                      "text",
		"k8s:configmap/b#key=text.pem&key=ts.jks&password-file=" + password: "text two",
	} {
		got, log, err := run(t, o, source)
		if got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", source, got, err, want)
		}
		if strings.Contains(log, "hUnter2") {
			t.Errorf("%s: the log has the password:\n%s", source, log)
		}
	}
}

// TestPermissions pins that a name needs no more than get, and a selector list.
func TestPermissions(t *testing.T) {
	var o trust.Options
	for _, text := range []string{"roots", "k8s:secret/a?namespace=shop", "k8s:configmaps?all", "k8s:clustertrustbundles.certificates.k8s.io/x"} {
		s, err := trust.ParseSource(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Sources = append(o.Sources, s)
	}
	got := o.Permissions()
	if len(got) != 3 || got[0].Namespace != "shop" || got[0].Verbs[0] != "get" || got[0].Names[0] != "a" ||
		got[1].Verbs[0] != "list" || got[1].Names != nil || !got[2].Cluster || got[2].Group != "certificates.k8s.io" {
		t.Errorf("got %+v", got)
	}
}
