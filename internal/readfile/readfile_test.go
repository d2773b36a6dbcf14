package readfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAll(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, size := range map[string]int64{"empty": 0, "small": 10, "full": Limit, "large": Limit + 1} {
		if err := os.WriteFile(path(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path(name), size); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		path("empty"): "", path("small"): "", path("full"): "", os.DevNull: "",
		path("large"): "longer than", "/dev/zero": "longer than",
		path("pipe"): "not a file but a pipe", dir: "is a directory", path("missing"): "no such file",
	} {
		_, err := All(name)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %q", name, err, want)
		case want != "" && !errors.As(err, new(*fs.PathError)):
			t.Errorf("%s: error %T", name, err)
		}
	}
}
