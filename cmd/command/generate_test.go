package command

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	"initbox/internal/words"
	"initbox/test/soak"
)

// TestGenerateKilled kills the program while it makes a certificate, the first time and when that is for other names.
// Another run completes it, for the key that a killed one has made, and leaves nothing else behind.
func TestGenerateKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	run := func(dir, name string, after time.Duration) {
		cmd, stderr := initboxCommand(t, "generate", "certificate", dir, "--dns", name)
		if after > 0 {
			killAfter(t, cmd, after)
		} else if err := cmd.Run(); err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
	}
	start := time.Now()
	run(t.TempDir(), "web", 0)
	whole := time.Since(start)
	for moment := range soak.Moments(t, 40) {
		dir := t.TempDir()
		after := max(1, time.Duration(moment*float64(whole)))
		for _, name := range []string{"web", "other"} {
			run(dir, name, after)
			key, _ := os.ReadFile(filepath.Join(dir, "tls.key"))
			run(dir, name, 0)
			requireCertificate(t, dir, name)
			if now, err := os.ReadFile(filepath.Join(dir, "tls.key")); err != nil || len(key) > 0 && string(now) != string(key) {
				t.Errorf("killed at %.3f, for %s: the key that was there was not kept: %v", moment, name, err)
			}
		}
	}
}

// requireCertificate fails the test unless a directory has a key, a certificate for the name and its CA, and nothing
// else.
func requireCertificate(t *testing.T, dir, name string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		t.Fatalf("ca.crt: %v: %q", err, ca)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("in the directory are %v (%v), want three files", words.Each(entries, os.DirEntry.Name), err)
	}
}
