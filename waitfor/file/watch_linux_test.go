package file

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"initbox/waitfor/target"
)

// kinds has only the kind of the package.
var kinds = target.Kinds{&Kind}

// inotifyEvent is one event as the kernel writes it: the name is padded with zeros.
func inotifyEvent(name string) []byte {
	padded := 0
	if name != "" {
		padded = (len(name)/16 + 1) * 16
	}
	b := make([]byte, 16+padded)
	binary.NativeEndian.PutUint32(b[12:], uint32(padded))
	copy(b[16:], name)
	return b
}

func TestConcerns(t *testing.T) {
	join := func(names ...string) (events []byte) {
		for _, name := range names {
			events = append(events, inotifyEvent(name)...)
		}
		return events
	}
	for _, test := range []struct {
		events []byte
		want   bool
	}{
		{nil, false},
		{join("other"), false},
		{join("file"), true},
		{join("file.tmp"), false},
		{join("other", "another", "file"), true},
		{join("other", "a name that takes more than sixteen bytes", "other"), false},
		{join(""), true},       // the directory itself
		{join("..data"), true}, // of a ConfigMap
		{join("..data_tmp"), true},
		{join(".hidden"), false},
		{join("file")[:15], false}, // not a whole event
	} {
		if got := concerns(test.events, "file"); got != test.want {
			t.Errorf("concerns(%q) = %t, want %t", test.events, got, test.want)
		}
	}
}

// FuzzInotifyEvents requires that nothing beyond the bytes of the events is read.
func FuzzInotifyEvents(f *testing.F) {
	f.Add(inotifyEvent("file"), "file")
	f.Add(append(inotifyEvent("other"), inotifyEvent("")...), "file")
	f.Add(inotifyEvent("a name that takes more than sixteen bytes")[:20], "file")
	f.Add([]byte("................\xff\xff\xff\xff"), "")
	f.Fuzz(func(t *testing.T, events []byte, child string) {
		if len(events) < 16 && concerns(events, child) {
			t.Errorf("concerns(%x, %q), without a whole event", events, child)
		}
	})
}

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
