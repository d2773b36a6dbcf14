package real_test

import (
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
