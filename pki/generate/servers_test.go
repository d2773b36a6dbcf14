package generate

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"initbox/test/servers"
)

// output runs a program and returns what it prints.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestOpenSSL has OpenSSL read the keys in each format, verify the certificates, and make the same groups.
func TestOpenSSL(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	servers.Need(t, "openssl")
	dir := t.TempDir()
	for _, algorithm := range Algorithms() {
		for _, format := range []string{"pkcs8", "pkcs1"} {
			m, err := NewKey(algorithm, format, "", true)
			if err != nil {
				continue // there is none
			}
			key := filepath.Join(dir, algorithm+format)
			if log, err := generate(t, m, key); err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			if public := output(t, "openssl", "pkey", "-in", key, "-pubout"); public != read(t, key+".pub") {
				t.Errorf("%s in %s: OpenSSL derives another public key", algorithm, format)
			}
		}
	}
	for _, algorithm := range []string{"ecdsa", "rsa-2048", "ed25519"} {
		tls := filepath.Join(dir, "tls-"+algorithm)
		m := certificate(t, ca(t), func(o *CertificateOptions) { o.Key = must(NewKey(algorithm, "pkcs8", "", false)) })
		if log, err := generate(t, m, tls); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		cert := filepath.Join(tls, certFile)
		for _, purpose := range []string{"sslserver", "sslclient"} {
			output(t, "openssl", "verify", "-x509_strict", "-purpose", purpose, "-verify_hostname", "web.shop", "-CAfile", filepath.Join(tls, caFile), cert)
			output(t, "openssl", "verify", "-x509_strict", "-purpose", purpose, "-verify_ip", "10.0.0.1", "-CAfile", filepath.Join(tls, caFile), cert)
		}
	}
	chained(t, dir)
	self := filepath.Join(dir, "self")
	if log, err := generate(t, certificate(t), self); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	output(t, "openssl", "verify", "-verify_hostname", "web", "-CAfile", filepath.Join(self, caFile), filepath.Join(self, certFile))
	for _, group := range Groups() {
		params := filepath.Join(dir, group)
		if log, err := generate(t, must(NewDHParam(group)), params); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		if text := output(t, "openssl", "pkeyparam", "-in", params, "-text", "-noout"); !strings.Contains(text, group) {
			t.Errorf("OpenSSL does not recognise %s:\n%s", group, text)
		}
	}
}

// chained makes a root, a CA below it and a certificate of that: the server sends both, and clients trust the root.
func chained(t *testing.T, dir string) {
	t.Helper()
	isCA := func(o *CertificateOptions) { o.IsCA, o.DNS, o.IPs, o.Subject = true, nil, nil, "CN=below" }
	below, bundle, leaf := filepath.Join(dir, "below"), filepath.Join(dir, "bundle.pem"), filepath.Join(dir, "leaf")
	root := ca(t)
	if log, err := generate(t, certificate(t, root, isCA), below); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	// The root stands first, which is the wrong way round for a chain.
	if err := os.WriteFile(bundle, []byte(read(t, below, caFile)+read(t, below, certFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	m := certificate(t, func(o *CertificateOptions) { o.CACertFile, o.CAKeyFile = bundle, filepath.Join(below, keyFile) })
	for range 2 {
		if log, err := generate(t, m, leaf); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
	}
	cert := filepath.Join(leaf, certFile)
	output(t, "openssl", "verify", "-x509_strict", "-verify_hostname", "web", "-CAfile", filepath.Join(leaf, caFile), "-untrusted", cert, cert)
	if n := strings.Count(read(t, leaf, certFile), "BEGIN CERTIFICATE"); n != 2 || read(t, leaf, caFile) != read(t, below, caFile) {
		t.Errorf("the chain has %d certificates, want 2, and ca.crt the root", n)
	}
}

// TestSSHD runs a real sshd with a host key of ours, which a real client verifies and logs in to with another.
func TestSSHD(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	servers.Need(t, "sshd")
	servers.Need(t, "ssh-keygen") // and ssh
	for _, algorithm := range []string{"ed25519", "ecdsa", "rsa-2048"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			host, client := filepath.Join(dir, "host"), filepath.Join(dir, "client")
			for _, key := range []string{host, client} {
				if log, err := generate(t, must(NewKey(algorithm, "openssh", "test@example", false)), key); err != nil {
					t.Fatalf("%v\n%s", err, log)
				}
			}
			sshd := servers.StartSSHD(t, servers.SSHDOptions{Authorized: []string{client + ".pub"}, Config: "HostKey " + host})
			name, port, _ := net.SplitHostPort(sshd.Addr)
			known := filepath.Join(dir, "known_hosts")
			if err := os.WriteFile(known, []byte("["+name+"]:"+port+" "+read(t, host+".pub")), 0o600); err != nil {
				t.Fatal(err)
			}
			out := output(t, "ssh", "-F", "/dev/null", "-p", port, "-i", client, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes",
				"-o", "UserKnownHostsFile="+known, "-o", "StrictHostKeyChecking=yes", sshd.User+"@"+name, "echo", "logged", "in")
			if !strings.Contains(out, "logged in") {
				t.Errorf("ssh: %s", out)
			}
		})
	}
}

// TestNGINX has a real nginx present a certificate of ours, and check passwords with an htpasswd file of ours.
func TestNGINX(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	servers.Need(t, "openssl")
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	htpasswd, tls := filepath.Join(dir, "htpasswd"), filepath.Join(dir, "tls")
	m := certificate(t, ca(t), func(o *CertificateOptions) { o.DNS = []string{"localhost"} })
	for _, step := range []struct {
		m   Maker
		out string
	}{{must(NewHtpasswd("ann", password, 5)), htpasswd}, {m, tls}} {
		if log, err := generate(t, step.m, step.out); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
	}
	nginx := servers.StartNGINX(t, servers.NGINXOptions{
		CA: servers.NewCA(t), Htpasswd: read(t, htpasswd),
		Cert: servers.KeyPair{CertFile: filepath.Join(tls, certFile), KeyFile: filepath.Join(tls, keyFile)},
	})
	for password, want := range map[string]int{"correct horse": http.StatusOK, "wrong": http.StatusUnauthorized} {
		request := must(http.NewRequest(http.MethodGet, "http://"+nginx.HTTP+"/basic", nil))
		request.SetBasicAuth("ann", password)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("with the password %q: status %d, want %d", password, response.StatusCode, want)
		}
	}
	_, port, _ := net.SplitHostPort(nginx.HTTPS)
	client := exec.Command("openssl", "s_client", "-connect", nginx.HTTPS, "-servername", "localhost", "-verify_hostname", "localhost",
		"-verify_return_error", "-CAfile", filepath.Join(tls, caFile))
	client.Stdin = strings.NewReader(fmt.Sprintf("GET /health.json HTTP/1.0\r\nHost: localhost:%s\r\n\r\n", port))
	var out bytes.Buffer
	client.Stdout, client.Stderr = &out, &out
	if err := client.Run(); err != nil || !strings.Contains(out.String(), "Verify return code: 0 (ok)") {
		t.Errorf("openssl s_client: %v\n%s", err, out.String())
	}
}
