package file

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"initbox/waitfor/target"
)

// kinds has only the kind of the package.
var kinds = target.Kinds{&Kind}

// TestWatchReports pins that a change far up the path is reported, not found by polling.
func TestWatchReports(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "file")
	check, err := kinds.Parse("file://"+path, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wake := check.(target.Watcher).Watch(ctx)
	if wake == nil {
		t.Skip("no inotify instance is available")
	}
	for _, change := range []func() error{
		func() error { return os.Mkdir(filepath.Join(dir, "a"), 0o777) },
		func() error { return os.Mkdir(filepath.Join(dir, "a", "b"), 0o777) },
		func() error { return os.WriteFile(path, []byte("one"), 0o666) },
		func() error { return os.WriteFile(path, []byte("more"), 0o666) },
		func() error { return os.Rename(path, path+".old") },
		func() error { return os.Rename(path+".old", path) },
		func() error { return os.Remove(path) },
	} {
		drain(wake)
		if err := change(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-wake:
		case <-time.After(20 * time.Second):
			t.Fatal("a change was not reported")
		}
	}
}

// drain discards what earlier changes left: one change may cause two events.
func drain(wake <-chan struct{}) {
	for {
		select {
		case <-wake:
		case <-time.After(20 * time.Millisecond):
			return
		}
	}
}
