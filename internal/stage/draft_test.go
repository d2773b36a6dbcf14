package stage

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

func drafted(t *testing.T, s *Stage, name, content string) Change {
	t.Helper()
	d, err := s.Draft(name)
	if err != nil || d == nil {
		t.Fatalf("got no draft of %s, %v", name, err)
	}
	if _, err := io.WriteString(d, content); err != nil {
		t.Fatal(err)
	}
	c, err := s.PutDraft(name, d, plain)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDraft puts files in place whose content was written before, and leaves nothing else there.
func TestDraft(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, Options{}, "same", "sub/changed")
	before := lstatFile(t, dir+"/same")
	s := openStage(t, dir, Options{})
	if c := drafted(t, s, "same", "content of same"); c.Kind != Unchanged {
		t.Errorf("same is %s", c.Kind)
	}
	drafted(t, s, "sub/changed", "other content")
	drafted(t, s, "new/file", "")
	if d, err := s.Draft("discarded"); err != nil {
		t.Fatal(err)
	} else {
		d.Discard()
	}
	if got := commitAll(t, s); got != "new/file created, sub/changed changed" {
		t.Errorf("done: %s", got)
	}
	s.Close()
	same(t, map[string]string{
		"same": "-rw-r--r-- content of same", "sub": "drwxr-xr-x", "sub/changed": "-rw-r--r-- other content", "new": "drwxr-xr-x", "new/file": "-rw-r--r-- ",
	}, tree(t, dir))
	if after := lstatFile(t, dir+"/same"); after.Ino != before.Ino {
		t.Error("the file that was right was replaced")
	}
}

// TestDraftIsDropped pins that a stage which is not committed leaves no draft, and that no name is taken twice.
func TestDraftIsDropped(t *testing.T) {
	dir := t.TempDir()
	s := openStage(t, dir, Options{})
	drafted(t, s, "a", "x")
	d, err := s.Draft("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutDraft("a", d, plain); err == nil {
		t.Error("a was put twice")
	}
	s.Close()
	same(t, map[string]string{}, tree(t, dir))
}

// TestNoDraft pins where a content cannot wait, and that PutFrom says why.
func TestNoDraft(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"a": {DryRun: true}, "../a": {}, "file/a": {}} {
		s := openStage(t, dir, o)
		if d, err := s.Draft(name); d != nil || err != nil {
			t.Errorf("%s: got %v, %v", name, d, err)
		}
	}
}
