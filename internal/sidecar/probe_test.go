package sidecar

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func hint(err error) string {
	if hinted, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); ok {
		return hinted.Hint()
	}
	return ""
}

func TestProbeAddress(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "ready": "", "/run/ready": "", "/run/a:80": "", "a:b": "", "9000": ":9000", ":9000": ":9000", "127.0.0.1:9000": "127.0.0.1:9000",
		"0.0.0.0:9000": "0.0.0.0:9000", "[::1]:9000": "[::1]:9000", "localhost:9000": "localhost:9000",
		"0": "!port", "70000": "!port", ":70000": "!port", "host:": "!port", "::1:9000": "!brackets", "99999999999999999999": "!port",
	} {
		got, err := Address(text)
		if wanted, wrong := strings.CutPrefix(want, "!"); wrong {
			if err == nil || !strings.Contains(err.Error()+hint(err), wanted) {
				t.Errorf("%q: %q, %v, want an error with %q", text, got, err, wanted)
			}
		} else if got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestFile pins that the file is there once the first look has succeeded, and gone at the end.
func TestFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "ready")
	os.WriteFile(name, nil, 0o600) // of a killed run
	there := func() bool { _, err := os.Stat(name); return err == nil }
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	err := Run(ctx, Options{File: name}, time.Millisecond, func(context.Context) (string, bool, error) {
		if looks++; there() != (looks > 1) {
			t.Errorf("look %d: there is %v", looks, there())
		}
		if looks == 2 {
			cancel()
		}
		return "", false, nil
	})
	if err != nil || there() {
		t.Errorf("%v; there is %v", err, there())
	}
}

// TestFileIsForeign has --startup-probe name a file that holds something: it stays.
func TestFileIsForeign(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(name, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), Options{File: name}, time.Minute, func(context.Context) (string, bool, error) {
		t.Error("it looks")
		return "", false, nil
	})
	if err == nil || !strings.Contains(err.Error(), "it is not replaced") {
		t.Errorf("error %v", err)
	}
	if content, err := os.ReadFile(name); string(content) != "secret" {
		t.Errorf("the file has %q, %v", content, err)
	}
}
