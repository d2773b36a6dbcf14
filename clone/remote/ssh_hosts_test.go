package remote

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"initbox/test/servers"
)

// testKey is always the same key for a number.
func testKey(n byte) ssh.PublicKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	key, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(seed).Public())
	if err != nil {
		panic(err)
	}
	return key
}

func line(patterns string, n byte) string {
	key := testKey(n)
	return patterns + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// TestKnownHostsAsOpenSSH compares which lines are about a host with those that ssh-keygen -F finds.
func TestKnownHostsAsOpenSSH(t *testing.T) {
	patterns := []string{
		"example.com", "EXAMPLE.com", "[example.com]:2222", "*.com", "exam?le.com", "a,b,example.com", "*,!example.com", "!example.com,*", "!*.org,*",
		"[*.com]:2222", "[example.com]:*", "10.0.0.?", "[10.0.0.*]:2222", "fd00::1", "[fd00::1]:2222", "*", "**m", "?*?", "*:2222", "a*b*c", "[*]:22??",
		knownhosts.HashHostname("example.com"), knownhosts.HashHostname("[example.com]:2222"), knownhosts.HashHostname("fd00::1"),
	}
	var text strings.Builder
	for _, p := range patterns {
		fmt.Fprintln(&text, line(p, 1))
	}
	k := &knownHosts{log: slog.New(slog.DiscardHandler)}
	if k.add("", text.String()); len(k.skipped) > 0 {
		t.Fatal(k.skipped)
	}
	file := writeTemp(t, text.String())
	for _, address := range []string{"example.com:22", "example.com:2222", "example.org:22", "10.0.0.1:22", "10.0.0.1:2222", "[fd00::1]:22", "[fd00::1]:2222", "b:22", "com:22", "aXbXbc:22"} {
		name := strings.ToLower(knownhosts.Normalize(address))
		out, _ := exec.Command(servers.Need(t, "ssh-keygen"), "-F", name, "-f", file).Output() // fails if there is none
		for i, h := range k.lines {
			found := strings.Contains(string(out), fmt.Sprintf(" line %d ", i+1))
			if got := h.names(name); got != found {
				t.Errorf("%q for %s: %t, but ssh-keygen says %t", patterns[i], name, got, found)
			}
		}
	}
}

// TestHostKeyAlgorithms pins which algorithm is preferred.
func TestHostKeyAlgorithms(t *testing.T) {
	for name, tt := range map[string]struct{ text, first string }{
		"unknown":       {"", ssh.KeyAlgoED25519},
		"known":         {line("example.com", 1), ssh.KeyAlgoED25519},
		"authority":     {line("@cert-authority *.com", 1), "-cert-v01@openssh.com"},
		"another's own": {line("@cert-authority *.org", 1), ssh.KeyAlgoED25519},
	} {
		k := &knownHosts{log: slog.New(slog.DiscardHandler)}
		if k.add("file", tt.text); len(k.skipped) > 0 {
			t.Fatal(k.skipped)
		}
		got := k.algorithms("example.com:22")
		if !strings.HasSuffix(got[0], tt.first) {
			t.Errorf("%s: %q, want %s first", name, got, tt.first)
		}
		for _, a := range got {
			if a == ssh.KeyAlgoRSA || strings.Contains(a, "dss") {
				t.Errorf("%s: %s is weak", name, a)
			}
		}
	}
}

// FuzzKnownHosts pins that no text breaks the parser, and that a key is accepted only if the text contains it.
func FuzzKnownHosts(f *testing.F) {
	f.Add(line("example.com", 1), "example.com", uint16(22))
	f.Add(line("@cert-authority *,!a", 1)+"\n"+line("@revoked *", 2), "b", uint16(2222))
	f.Add(line(knownhosts.HashHostname("a"), 3), "a", uint16(22))
	f.Add(line("****************************a", 4), strings.Repeat("b", 100), uint16(1))
	f.Add("|1|a|b ssh-ed25519 AAAA\n@odd x y z", "a", uint16(22))
	f.Fuzz(func(t *testing.T, text, host string, port uint16) {
		k := &knownHosts{log: slog.New(slog.DiscardHandler)}
		k.add("file", text)
		address := net.JoinHostPort(host, fmt.Sprint(port))
		k.algorithms(address)
		key := testKey(1)
		if k.check(address, key) == nil && !strings.Contains(text, strings.Fields(string(ssh.MarshalAuthorizedKey(key)))[1][30:]) {
			t.Errorf("%q makes %s known", text, address)
		}
		if k.check(address, testKey(200)) == nil && len(k.lines) == 0 {
			t.Errorf("%q makes any key known", text)
		}
	})
}

// encryptedKeys are one key of ECDSA in ENCRYPTED PRIVATE KEY of several kinds, as
// openssl pkcs8 -topk8 makes them; the passphrase is sesame.
var encryptedKeys = map[string]string{
	"AES-256, SHA-256": "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAi+ZL7qQt4jcAICA+gwDAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEFcdp2WmY/i9OInJdWiTFqMEgZDHnVRpla8b51l8ci+JpSgs/sryNjmsvgqMtT6oAtpsCpTlXNBvP9zSa5N2NINEaj9gCsFhLOWMsBDmXOdWH5nwBvfENruYFGyyOwD3OFygyoT+L4uskMt6XxHRO16jUX5uSUadKd1GhwplfwCBEsDWIf9DOqoufCL31LaAPKa4wA9JzSKNMxn6ZxhVl6KmGVI=",
	"AES-128, SHA-512": "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgPoku3YZ+LtQICA+gwDAYIKoZIhvcNAgsFADAdBglghkgBZQMEAQIEEKXR1gj9rT25JffaIDRyuUAEgZD7NtPAe56g25ZwhkaLbYyI5E9he7P73lNrFI4mOgDJUO28r5IfS7C848+lNKXXVeiD3Ev3Kt9odRrWJNFLmckrnCX63Z2aJwbnU0+xLoTybGKo/pmyt6HC8jGK6AZHD8Rcn3m85+M+fZc+N0GJvyvgKWElhwvvVYeDxvbNYRcrvZ71dfGhVC+0BnlL4QfM3i4=",
	"3DES, SHA-1":      "MIHVMEAGCSqGSIb3DQEFDTAzMBsGCSqGSIb3DQEFDDAOBAi5/d4ZSnltjAICA+gwFAYIKoZIhvcNAwcECCEOTHLlY3s+BIGQvosaXlMH8u5p3GbeDxYQFBLlAEn7Fi7wxcsfVQ82J/AoeAFl+2TDei92n1/EMPJ4fbF5Zr3N1PoryYd5o9zZLnBLEyGgrUakM3NDWtImBNzV9eSRTJIFsqmqRsbuc8FOb/oolNKLE5SjS2Bvp+hbdwHyVP/lsl6y961y8xHi7MMMbNQwBbq+1PdWPB8BOzs0",
	"AES-192, scrypt":  "MIHkME8GCSqGSIb3DQEFDTBCMCEGCSsGAQQB2kcECzAUBAjkwrWUQnyDwwICBAACAQgCAQEwHQYJYIZIAWUDBAEWBBCl7CZU//lD0YND5B7ClMdmBIGQTj9avYJMZ2eBkdycQcXE1bYdXwicIpKtI1/eOiETRdM4PJWFRDS6BlSmM/zxvUSbu+uYhxLJGkcpnc4LlNCc9mqRbzC91Uf+nWbLsUxsMyajBcl7pczMlGfLrmJfCEzXv8+RzkYgWLwQ6sO4kEilwvx/0+p6qS56a8F/rxr8C0Pstvlyceun9Fuwkbjx7hU1",
}

// withoutPBES2 is the same key in an older, unsupported encryption.
const withoutPBES2 = "MIGxMBwGCiqGSIb3DQEMAQMwDgQIm9k9N6kZTtQCAggABIGQF1tb8wgNpS1GTFOM/MH3GLH6eSuriVCOkH7S5BrRbR8GGVn6dVPYgvO/9A5JE2VhvaFK+G0xEiThZ6H8V8ogKHJNcof4Sb32jZs7UYT2jCydRIjmIAZd036RsADswfo420nqB4r0lGmJFh/klotV4tbsHQbSthDOxd2YHBahw2n65liNOSt261EgFx9SVeD5"

func unbase64(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestDecryptPKCS8(t *testing.T) {
	var first *ecdsa.PrivateKey
	for name, text := range encryptedKeys {
		key, err := decryptPKCS8(unbase64(text), []byte("sesame"))
		private, ok := key.(*ecdsa.PrivateKey)
		if err != nil || !ok {
			t.Errorf("%s: %T, %v", name, key, err)
			continue
		}
		if first == nil {
			first = private
		}
		if !private.Equal(first) {
			t.Errorf("%s: another key", name)
		}
		if _, err := decryptPKCS8(unbase64(text), []byte("open")); !errors.Is(err, x509.IncorrectPasswordError) {
			t.Errorf("%s: %v, want that the passphrase is wrong", name, err)
		}
	}
	if _, err := decryptPKCS8(unbase64(withoutPBES2), []byte("sesame")); err == nil || !strings.Contains(err.Error(), "ssh-keygen -p") {
		t.Errorf("%v, want what to do", err)
	}
}

// FuzzDecryptPKCS8 pins that no key file breaks the parser.
func FuzzDecryptPKCS8(f *testing.F) {
	f.Add(unbase64(withoutPBES2))
	for _, text := range encryptedKeys {
		f.Add(unbase64(text))
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		if !cheap(der) {
			return // slow, legitimately
		}
		decryptPKCS8(der, []byte("x"))
	})
}

// cheap reports whether deriving the decryption key is fast.
func cheap(der []byte) bool {
	var k encryptedKey
	var params pbes2Params
	if unmarshal(der, &k) != nil || unmarshal(k.Algorithm.Parameters.FullBytes, &params) != nil {
		return true
	}
	var slow pbkdf2Params
	var hard scryptParams
	if unmarshal(params.KDF.Parameters.FullBytes, &slow) == nil {
		return slow.Iterations <= 2000
	}
	return unmarshal(params.KDF.Parameters.FullBytes, &hard) != nil || max(hard.N, hard.R, hard.P) <= 1024
}
