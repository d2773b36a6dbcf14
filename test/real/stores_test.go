package real_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

const storePassword = "s3cr3t-st0re"

// TestKeyStores has Java, keytool and openssl use what keystore makes, also for mutual TLS, and with nginx.
func TestKeyStores(t *testing.T) {
	t.Parallel()
	java, keytool, openssl := servers.Need(t, "java"), servers.Need(t, "keytool"), servers.Need(t, "openssl")
	ca, stranger := servers.NewCA(t), servers.NewCA(t)
	https := servers.StartNGINX(t, servers.NGINXOptions{CA: ca}).HTTPS
	dir := t.TempDir()
	password, store := filepath.Join(dir, "password"), func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(password, []byte(storePassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string]servers.KeyPair{"server": ca.Server(t, "127.0.0.1", "localhost"), "client": ca.Client(t, "client")} {
		start(t, "keystore", "--cert-file="+pair.CertFile, "--key-file="+pair.KeyFile, "--ca-file="+ca.File, "--password-file="+password, "--alias="+name,
			"--pkcs12="+store(name+".p12"), "--jks="+store(name+".jks"), "--pem="+store(name+".pem")).want(ready)
	}
	other := stranger.Client(t, "client")
	start(t, "keystore", "--cert-file="+other.CertFile, "--key-file="+other.KeyFile, "--ca-file="+stranger.File, "--password-file="+password, "--pkcs12="+store("other.p12")).want(ready)

	t.Run("java", func(t *testing.T) {
		t.Parallel()
		url := "https://" + https + "/client-cert"
		out := runWithPassword(t, java, "-XX:TieredStopAtLevel=1", "testdata/Stores.java",
			"connect", store("server.p12"), store("client.jks"), "connect", store("server.jks"), store("client.p12"),
			"get", url, store("client.p12"), store("client.p12"), "get", url, store("client.jks"), store("server.jks"),
			"get", url, "-", store("client.p12"), "get", url, store("client.p12"), store("other.p12"), "decrypt", store("server.pem"))
		const want = `connect server.p12 client.jks: server CN=127.0.0.1, client CN=client, answer 42
connect server.jks client.p12: server CN=127.0.0.1, client CN=client, answer 42
get client.p12 client.p12: 200
get client.jks server.jks: 200
get - client.p12: 403
get client.p12 other.p12: PKIX path validation failed
decrypt server.pem: EC
`
		if withoutReasons(out) != want {
			t.Errorf("%s\nwant\n%s", out, want)
		}
	})
	for _, name := range []string{"server.p12", "server.jks"} {
		t.Run("keytool, "+name, func(t *testing.T) {
			t.Parallel()
			out := runWithPassword(t, keytool, "-J-XX:TieredStopAtLevel=1", "-list", "-v", "-keystore", store(name), "-storepass:env", "STORE_PASSWORD")
			for _, want := range []string{"contains 2 entries", "Alias name: server", "Entry type: PrivateKeyEntry", "Certificate chain length: 2", "Alias name: ca", "Entry type: trustedCertEntry"} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
	t.Run("openssl", func(t *testing.T) {
		t.Parallel()
		runWithPassword(t, openssl, "pkcs12", "-in", store("server.p12"), "-passin", "env:STORE_PASSWORD", "-nodes", "-out", store("server-again.pem"))
		again := store("again.p12")
		start(t, "keystore", "--cert-file="+store("server-again.pem"), "--ca-file="+ca.File, "--password-file="+password, "--alias=server", "--pkcs12="+again).want(ready)
		if first, second := read(t, store("server.p12")), read(t, again); first != second {
			t.Error("what openssl reads in a store does not make the same store")
		}
		runWithPassword(t, openssl, "pkey", "-in", store("server.pem"), "-passin", "env:STORE_PASSWORD", "-noout", "-check")
	})
}

// TestTrustBundles has Java, keytool and openssl use what trust-bundle makes of all public roots and a private one.
func TestTrustBundles(t *testing.T) {
	t.Parallel()
	java, keytool, openssl := servers.Need(t, "java"), servers.Need(t, "keytool"), servers.Need(t, "openssl")
	ca := servers.NewCA(t)
	server := ca.Server(t, "127.0.0.1", "localhost")
	https := servers.StartNGINX(t, servers.NGINXOptions{CA: ca, Cert: server}).HTTPS
	dir := t.TempDir()
	password, store := filepath.Join(dir, "password"), func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(password, []byte(storePassword), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "trust-bundle", "roots", ca.File, "--password-file="+password, "--pem="+store("all.pem"), "--jks="+store("all.jks"), "--pkcs12="+store("all.p12"), "--hash-dir="+store("hashed")).want(ready)
	start(t, "trust-bundle", "roots", "--password-file="+password, "--jks="+store("roots.jks"), "--pkcs12="+store("roots.p12")).want(ready)
	count := strings.Count(read(t, store("all.pem")), "BEGIN CERTIFICATE")

	t.Run("java", func(t *testing.T) {
		t.Parallel()
		url := "https://" + https + "/health.json"
		out := runWithPassword(t, java, "-XX:TieredStopAtLevel=1", "testdata/Stores.java",
			"get", url, "-", store("all.jks"), "get", url, "-", store("all.p12"), "get", url, "-", store("roots.jks"), "get", url, "-", store("roots.p12"))
		const want = "get - all.jks: 200\nget - all.p12: 200\nget - roots.jks: PKIX path building failed\nget - roots.p12: PKIX path building failed\n"
		if withoutReasons(out) != want {
			t.Errorf("%s\nwant\n%s", out, want)
		}
	})
	for _, name := range []string{"all.p12", "all.jks"} {
		t.Run("keytool, "+name, func(t *testing.T) {
			t.Parallel()
			out := runWithPassword(t, keytool, "-J-XX:TieredStopAtLevel=1", "-list", "-keystore", store(name), "-storepass:env", "STORE_PASSWORD")
			if n := strings.Count(out, "trustedCertEntry"); n != count || n < 100 || !strings.Contains(out, "\nca, ") {
				t.Errorf("%d trusted certificates of %d:\n%s", n, count, out)
			}
		})
	}
	t.Run("openssl", func(t *testing.T) {
		t.Parallel()
		runWithPassword(t, openssl, "verify", "-no-CAfile", "-no-CAstore", "-CApath", store("hashed"), server.CertFile)
		other := servers.NewCA(t).Server(t, "localhost")
		if out, err := exec.Command(openssl, "verify", "-no-CAfile", "-no-CAstore", "-CApath", store("hashed"), other.CertFile).CombinedOutput(); err == nil {
			t.Errorf("the certificate of another authority is accepted: %s", out)
		}
		ours := links(t, store("hashed"))
		runWithPassword(t, openssl, "rehash", store("hashed")) // makes all links again
		if theirs := links(t, store("hashed")); len(ours) != count || !maps.Equal(ours, theirs) {
			t.Errorf("%d links, want %d:\n%v\nbut openssl rehash makes\n%v", len(ours), count, ours, theirs)
		}
	})
}

// links returns the links in a directory, and the certificates that they lead to.
func links(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			found[e.Name()] = to
		}
	}
	return found
}

// runWithPassword returns the output of a program, with the stores' password in STORE_PASSWORD.
func runWithPassword(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "STORE_PASSWORD="+storePassword)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(program), err, out)
	}
	return string(out)
}

// withoutReasons cuts the rest of lines that differs between versions of Java.
func withoutReasons(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		before, _, found := strings.Cut(line, " failed: ")
		if found {
			before += " failed\n"
		}
		b.WriteString(before)
	}
	return b.String()
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
