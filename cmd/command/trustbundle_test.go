package command

import (
	"bytes"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"initbox/internal/certs"
	"initbox/test/soak"
)

// TestTrustBundleKilled kills the program while it replaces older stores. Each store is the old or the new one at all
// times, each certificate in the directory is whole, and the next run completes them and leaves nothing behind.
func TestTrustBundleKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	dir := t.TempDir()
	var sources []string
	for i, name := range []string{"old", "new"} {
		cert, _ := sign(certificateTemplate(name), nil)
		file := filepath.Join(dir, name+".pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, file)
		if i == 1 {
			sources = append(sources, "roots")
		}
	}
	into := func(out string, sources ...string) *exec.Cmd {
		cmd, _ := initboxCommand(t, append([]string{"trust-bundle", "--pem", out + "/ca.crt", "--jks", out + "/ts.jks", "--pkcs12", out + "/ts.p12", "--hash-dir", out + "/certs"}, sources...)...)
		return cmd
	}
	run := func(cmd *exec.Cmd) {
		if out, err := cmd.Output(); err != nil {
			t.Fatalf("%v: %s, %s", err, out, cmd.Stderr)
		}
	}
	old, updated, out := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "out")
	run(into(old, sources[:1]...))
	start := time.Now()
	run(into(updated, sources...))
	whole := time.Since(start)
	killed, n := 0, 0
	for moment := range soak.Moments(t, 20) {
		run(into(out, sources[:1]...))
		if killAfter(t, into(out, sources...), time.Duration(moment*float64(whole))) {
			killed++
		}
		n++
		for _, name := range []string{"ca.crt", "ts.jks", "ts.p12"} {
			got := readFile(t, filepath.Join(out, name))
			if !bytes.Equal(got, readFile(t, filepath.Join(old, name))) && !bytes.Equal(got, readFile(t, filepath.Join(updated, name))) {
				t.Fatalf("%s is neither the old nor the new one", name)
			}
		}
		if found, err := certs.Read(filepath.Join(out, "certs"), ""); err != nil || len(found.Ignored) > 0 {
			t.Fatalf("certificates by hash: %v, %q", err, found.Ignored)
		}
	}
	t.Logf("%d of %d runs were killed before their end; one takes %v", killed, n, whole)
	run(into(out, sources...))
	if diff, err := exec.Command("diff", "-r", "--no-dereference", updated, out).CombinedOutput(); err != nil {
		t.Errorf("after the last run: %s", diff)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
