package render

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"initbox/internal/perm"
	"initbox/internal/stage"
	"initbox/render/format"
)

// long is longer than what is read of a template.
const long = maxSource + 1<<20

// longTree returns a directory with one file, which takes no room on the disk and ends in tail.
func longTree(t *testing.T, name, tail string) string {
	t.Helper()
	dir := tree(t, map[string]string{name: ""})
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(tail), long); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCopyLongFile copies a file that is longer than any template may be, in little memory, and leaves it alone after
// that: a later run that would change nothing, and one that changes the last bytes.
func TestCopyLongFile(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 65 MiB three times")
	}
	out := t.TempDir()
	for _, c := range []struct{ tail, want string }{{"1", "created"}, {"1", ""}, {"2", "changed"}} {
		var before, after runtime.MemStats
		var diff bytes.Buffer
		o := Options{Sources: []Source{{longTree(t, "f", c.tail), out}}}
		planned, dry := o, o
		planned.DryRun, planned.Diff = true, &diff
		dry.DryRun = true
		for _, o := range []Options{planned, dry, o} {
			runtime.ReadMemStats(&before)
			changes, err := Run(t.Context(), o)
			runtime.ReadMemStats(&after)
			if err != nil || len(changes) > 0 != (c.want != "") || c.want != "" && changes[0].What != c.want {
				t.Fatalf("%v, %v, want %q", changes, err, c.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > maxSource {
				t.Errorf("%s: allocates %d MiB", c.want, used>>20)
			}
		}
		if got, want := diff.String(), "Files "+out+"/f differ, and are longer than 8 MiB\n"; got != want && c.want != "" || got != "" && c.want == "" {
			t.Errorf("the difference is %q", got)
		}
		if text, err := os.ReadFile(out + "/f"); len(text) != long+1 || string(text[long:]) != c.tail || err != nil {
			t.Errorf("%d bytes, %v", len(text), err)
		}
	}
}

// TestCopyOfChangingFile pins that a file that is written to while it is copied is an error, not half old and half new.
func TestCopyOfChangingFile(t *testing.T) {
	for name, change := range map[string]func(*os.File) error{
		"nothing":   func(*os.File) error { return nil },
		"truncated": func(f *os.File) error { return f.Truncate(2) },
		"longer":    func(f *os.File) error { _, err := f.WriteAt([]byte("x"), 4); return err },
		"rewritten": func(f *os.File) error {
			_, err := f.WriteAt([]byte("5678"), 0)
			return errors.Join(err, os.Chtimes(f.Name(), time.Time{}, time.Unix(1, 0)))
		},
	} {
		dir := tree(t, map[string]string{"f": "1234"})
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		r, _, err := (&item{root: root, name: "f", shown: "src/f"}).content(func() error { return nil })()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, "f"), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(change(f), f.Close()); err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(r)
		if want := "read src/f: another program has changed it meanwhile"; name == "nothing" && err != nil || name != "nothing" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckedCopyIsLimited pins that only a file that is checked has a limit.
func TestCheckedCopyIsLimited(t *testing.T) {
	ini, err := format.Named("ini")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Validate: true}, {Formats: []perm.Rule[*format.Format]{{Pattern: "*.ini", Value: ini}}}} {
		o.Sources = []Source{{longTree(t, "a.ini", "x"), t.TempDir()}}
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "a.ini is longer than 64 MiB, the limit for files that --validate, --format or --schema check") {
			t.Errorf("%v", err)
		}
	}
}

// TestCopyEnds pins the errors of a source that cannot be read to its end: they name the source.
func TestCopyEnds(t *testing.T) {
	dir := tree(t, map[string]string{"f": "text"})
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	it := &item{root: root, name: "f", shown: "src/f"}
	over, cancel := context.WithCancelCause(t.Context())
	run := &run{}
	r, size, err := it.content(run.ended(over))()
	if err != nil || size != 4 {
		t.Fatal(size, err)
	}
	defer r.Close()
	cancel(fs.ErrClosed)
	if _, err := io.ReadAll(r); !errors.Is(err, fs.ErrClosed) || err.Error() != "copy src/f: file already closed" {
		t.Errorf("%v", err)
	}
	run.committing.Store(true)
	if text, err := io.ReadAll(r); string(text) != "text" || err != nil {
		t.Errorf("while files are put in place: %q, %v", text, err)
	}
	directory := &item{root: root, name: ".", shown: "src"}
	broken, _, err := directory.content(run.ended(t.Context()))()
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	if _, err := io.ReadAll(broken); err == nil || err.Error() != "read src: is a directory" {
		t.Errorf("%v", err)
	}
	s, err := stage.Open(t.TempDir(), stage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	gone := &item{root: root, name: "gone", shown: "src/gone"}
	_, err = s.PutFrom("f", gone.content(run.ended(t.Context())), stage.Attr{Mode: 0o644, UID: -1, GID: -1})
	if err = withHint(err); !errors.Is(err, fs.ErrNotExist) || err.Error() != "read src/gone: no such file or directory" {
		t.Errorf("%v, want the error of the source, without the destination", err)
	}
}
