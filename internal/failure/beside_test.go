package failure_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"initbox/internal/failure"
)

// TestBeside pins what is named beside a missing file: not the files of the kubelet, and no control character.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct{ create, open, want string }{
		{"", "password", "DIR is empty: "},
		{"..data", "password", "DIR is empty: "},
		{"url", "password", "DIR has url: "},
		{"password", "passwd", "DIR has password, url: did you mean password? "},
		{"x\x1b[2J", "y", `DIR has password, url, x\x1b[2J: `},
		{"", "no/such", ""},
	} {
		if test.create != "" {
			if err := os.WriteFile(filepath.Join(dir, test.create), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := os.Open(filepath.Join(dir, test.open))
		if got := strings.Replace(failure.Beside(err), dir, "DIR", 1); got != test.want {
			t.Errorf("%s: %q, want %q", test.open, got, test.want)
		}
	}
	if got := failure.Beside(os.ErrPermission); got != "" {
		t.Error(got)
	}
}
