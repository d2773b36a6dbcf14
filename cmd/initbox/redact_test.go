package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"initbox/waitfor"
)

// TestNoSecretIsPrinted runs the program on every form of a target with a
// password or token in it, at every log level and in every log format, and looks
// for them in all that it writes.
func TestNoSecretIsPrinted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	addr := server.Listener.Addr().String()
	for _, secret := range []string{"hUnter2tIger9", "hUnter2/tIger9", "hUnter2#tIger9"} {
		t.Setenv("INITBOX_TEST_VALUE", secret)
		// Forms that are targets are waited for together, the others tried one by
		// one: the first of them ends the program.
		var targets []string
		for i, form := range secretForms(t, addr, secret) {
			variant := logVariants[i%len(logVariants)]
			if _, err := waitfor.Parse(form, waitfor.Options{Getenv: os.Getenv}); err == nil {
				targets = append(targets, form)
			} else {
				runWithSecret(t, exitUsage, append(variant, "wait-for-service", form))
			}
			if form != secret {
				runWithSecret(t, exitUsage, append(variant, "wait-for-dns", "--timeout", "1ms", "--type", "A", form, "10.0.0.1"))
			}
		}
		for _, variant := range logVariants {
			runWithSecret(t, exitTimeout, append(append(variant, "wait-for-service", "--timeout", "150ms"), targets...))
		}
	}
}

// logVariants are the ways to log, as the environment of a run.
var logVariants = [][]string{
	{"debug", "text"}, {"info", "text"}, {"warn", "text"}, {"error", "text"},
	{"debug", "json"}, {"info", "json"}, {"warn", "json"}, {"error", "json"},
}

// runWithSecret runs the program with a log level, a log format, and arguments.
func runWithSecret(t *testing.T, want int, args []string) {
	t.Helper()
	termination := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(termination, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	line := append([]string{"initbox", args[2], "--log-level", args[0], "--log-format", args[1], "--termination-log", termination}, args[3:]...)
	var stdout, stderr bytes.Buffer
	if got := run(line, strings.NewReader(""), &stdout, &stderr); got != want {
		t.Errorf("%q: status %d, want %d\n%s", args, got, want, stderr.String())
	}
	message, err := os.ReadFile(termination)
	if err != nil {
		t.Fatal(err)
	}
	if len(message) == 0 || stderr.Len() == 0 {
		t.Errorf("%q: said nothing", args)
	}
	for what, text := range map[string]string{"stdout": stdout.String(), "stderr": stderr.String(), "termination log": string(message)} {
		for _, mark := range []string{"unter2", "iger9"} {
			if i := strings.Index(strings.ToLower(text), mark); i >= 0 {
				t.Errorf("%q: %s tells the secret: …%s…", args[:min(4, len(args))], what, text[max(0, i-200):min(len(text), i+50)])
			}
		}
	}
}

// secretForms reads the list that package waitfor is tested with, there with all
// schemes.
func secretForms(t *testing.T, addr, secret string) []string {
	t.Helper()
	data, err := os.ReadFile("../../waitfor/testdata/secret-forms.txt")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	var forms []string
	for form := range strings.Lines(string(data)) {
		form = strings.TrimSuffix(form, "\n")
		if form == "" || strings.HasPrefix(form, "# ") {
			continue
		}
		form = strings.NewReplacer("ADDR", addr, "FILE", file, "SECRET", secret).Replace(form)
		if !strings.Contains(form, "SCHEME") {
			forms = append(forms, form)
			continue
		}
		for _, scheme := range []string{"tcp", "http", "dns", "postgres"} {
			forms = append(forms, strings.ReplaceAll(form, "SCHEME", scheme))
		}
	}
	return forms
}
