package inotify

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// event is one event as the kernel writes it: the name is padded with zeros.
func event(descriptor int32, mask uint32, name string) []byte {
	padded := 0
	if name != "" {
		padded = (len(name)/16 + 1) * 16
	}
	b := make([]byte, 16+padded)
	binary.NativeEndian.PutUint32(b, uint32(descriptor))
	binary.NativeEndian.PutUint32(b[4:], mask)
	binary.NativeEndian.PutUint32(b[12:], uint32(padded))
	copy(b[16:], name)
	return b
}

func TestConcerned(t *testing.T) {
	w := &watcher{watched: map[int32]children{1: {"file": true}, 2: nil}}
	join := func(descriptor int32, names ...string) (events []byte) {
		for _, name := range names {
			events = append(events, event(descriptor, unix.IN_CREATE, name)...)
		}
		return events
	}
	for i, test := range []struct {
		events []byte
		want   bool
	}{
		{nil, false},
		{join(1, "other"), false},
		{join(1, "file"), true},
		{join(1, "file.tmp"), false},
		{join(1, "other", "another", "file"), true},
		{join(1, "other", "a name that takes more than sixteen bytes", "other"), false},
		{join(1, ""), true},       // the directory itself
		{join(1, "..data"), true}, // of a ConfigMap
		{join(1, ".hidden"), false},
		{join(1, "file")[:15], false}, // not a whole event
		{join(2, "anything"), true},
		{join(3, "file"), false}, // of another directory
		{event(1, unix.IN_IGNORED, ""), false},
		{event(-1, unix.IN_Q_OVERFLOW, ""), true},
	} {
		if got := w.concerned(test.events); got != test.want {
			t.Errorf("%d: %q: %t, want %t", i, test.events, got, test.want)
		}
	}
}

// FuzzEvents requires that nothing beyond the bytes of the events is read.
func FuzzEvents(f *testing.F) {
	f.Add(event(1, unix.IN_CREATE, "file"), "file")
	f.Add(append(event(1, 0, "other"), event(2, 0, "")...), "file")
	f.Add(event(1, 0, "a name that takes more than sixteen bytes")[:20], "file")
	f.Add([]byte("................\xff\xff\xff\xff"), "")
	f.Fuzz(func(t *testing.T, events []byte, child string) {
		w := &watcher{watched: map[int32]children{1: {child: true}}}
		if len(events) < 16 && w.concerned(events) {
			t.Errorf("%x, %q: concerned, without a whole event", events, child)
		}
	})
}

// TestWatch pins which changes are reported: those of the paths, of what is below them, and of links on the way.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) func() error {
		return func() error { return os.WriteFile(at(name), []byte(text), 0o600) }
	}
	relink := func(target, name string) func() error {
		return func() error {
			os.Remove(at("new"))
			if err := os.Symlink(target, at("new")); err != nil {
				return err
			}
			return os.Rename(at("new"), at(name))
		}
	}
	for _, name := range []string{"tree/sub", "v1/templates", "v2/templates", "volume/..1", "volume/..2"} {
		if err := os.MkdirAll(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("file", "1")()
	relink("v1", "current")()
	relink("..1", "volume/..data")()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wake := Watch(ctx, at("file"), at("tree"), at("current/templates"), at("volume"), at("missing/file"))
	if wake == nil {
		t.Skip("no inotify instance is available")
	}
	for _, step := range []struct {
		what   string
		change func() error
		want   bool
	}{
		{"the file", write("file", "2"), true},
		{"another file", write("other", "1"), false},
		{"a file in the tree", write("tree/a", "1"), true},
		{"a file in a directory of the tree", write("tree/sub/a", "1"), true},
		{"a new directory", func() error { return os.Mkdir(at("tree/new"), 0o700) }, true},
		{"a file in it", write("tree/new/a", "1"), true},
		{"a link on the way", relink("v2", "current"), true},
		{"a file behind it", write("v2/templates/a", "1"), true},
		{"a file behind the old one", write("v1/templates/a", "1"), false},
		{"a mounted ConfigMap", relink("..2", "volume/..data"), true},
		{"a missing directory", func() error { return os.Mkdir(at("missing"), 0o700) }, true},
		{"a missing file", write("missing/file", "1"), true},
		{"its neighbour", write("missing/other", "1"), false},
		{"the removed tree", func() error { return os.RemoveAll(at("tree")) }, true},
	} {
		for quiet := false; !quiet; {
			select {
			case <-wake:
			case <-time.After(20 * time.Millisecond): // one change may be several events
				quiet = true
			}
		}
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		limit := 20 * time.Second
		if !step.want {
			limit = 50 * time.Millisecond
		}
		select {
		case <-wake:
			if !step.want {
				t.Errorf("%s is reported", step.what)
			}
		case <-time.After(limit):
			if step.want {
				t.Fatalf("%s is not reported", step.what)
			}
		}
	}
}

// TestWatchFile requires that every change on the way to a file is reported, with dnotify and, when there are too many
// watches for it, without.
func TestWatchFile(t *testing.T) {
	for _, others := range []int32{0, maxQuick} {
		quick.Add(others)
		defer quick.Add(-others)
		dir := t.TempDir()
		at := func(name string) string { return filepath.Join(dir, name) }
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wake := WatchFile(ctx, at("a/b/file"))
		if wake == nil {
			t.Skip("no inotify instance is available")
		}
		for _, step := range []struct {
			what   string
			change func() error
		}{
			{"a missing directory", func() error { return os.MkdirAll(at("a/b"), 0o700) }},
			{"the file", func() error { return os.WriteFile(at("a/b/file"), []byte("1"), 0o600) }},
			{"its content", func() error { return os.WriteFile(at("a/b/file"), []byte("22"), 0o600) }},
			{"its mode", func() error { return os.Chmod(at("a/b/file"), 0o644) }},
			{"a file that replaces it", func() error { return os.Rename(at("a/b/file"), at("a/b/other")) }},
			{"a directory that is replaced", func() error { return os.Rename(at("a"), at("c")) }},
			{"the directory instead", func() error { return os.Rename(at("c"), at("a")) }},
			{"the file again", func() error { return os.Rename(at("a/b/other"), at("a/b/file")) }},
		} {
			for quiet := false; !quiet; {
				select {
				case <-wake:
				case <-time.After(3 * noticePause): // a change is reported twice
					quiet = true
				}
			}
			if err := step.change(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-wake:
			case <-time.After(20 * time.Second):
				t.Fatalf("beside %d others: %s is not reported", others, step.what)
			}
		}
		cancel()
		for quick.Load() != others { // it gives back what it holds
			time.Sleep(time.Millisecond)
		}
	}
}
