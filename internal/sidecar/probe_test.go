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

// TestFile pins that the file is there once the first check has succeeded, and gone at the end.
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

// TestFileIsForeign has --startup-probe name what no sidecar made: it stays, also if it came while the sidecar ran.
func TestFileIsForeign(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(name string) error{
		"file":      func(name string) error { return os.WriteFile(name, []byte("secret"), 0o600) },
		"directory": func(name string) error { return os.Mkdir(name, 0o700) },
		"link":      func(name string) error { return os.Symlink("elsewhere", name) },
	} {
		file := filepath.Join(t.TempDir(), "ready")
		if err := create(file); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(file)
		err := Run(t.Context(), Options{File: file}, time.Minute, func(context.Context) (string, bool, error) {
			t.Errorf("%s: it looks", name)
			return "", false, nil
		})
		if err == nil || !strings.Contains(err.Error(), "it is not replaced") {
			t.Errorf("%s: error %v", name, err)
		}
		if after, err := os.Lstat(file); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: it is gone, or another: %v", name, err)
		}
		os.Remove(file)
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		err = Run(ctx, Options{File: file}, time.Millisecond, func(context.Context) (string, bool, error) {
			if looks++; looks == 2 {
				os.Remove(file)
				if err := create(file); err != nil {
					t.Error(err)
				}
				cancel()
			}
			return "", false, nil
		})
		if _, there := os.Lstat(file); err != nil || there != nil {
			t.Errorf("%s: %v; after the end %v", name, err, there)
		}
	}
}
