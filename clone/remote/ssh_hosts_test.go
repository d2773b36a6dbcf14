package remote

import (
	"crypto/ed25519"
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
