package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/test/soak"
)

// TestMergeKilled pins that the file is old or new whenever the program is killed, and that the next run leaves nothing
// else behind. DST is among the sources, so that a lost file would be noticed.
func TestMergeKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	dir := t.TempDir()
	name, more := filepath.Join(dir, "app.yaml"), filepath.Join(t.TempDir(), "more.yaml")
	before := []byte("# kept\na: 1\n" + strings.Repeat("# a comment\n", 20_000))
	if err := os.WriteFile(more, []byte("b: 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"merge", name, more, name}
	var after []byte
	var whole time.Duration
	run := func() {
		t.Helper()
		cmd, stderr := initboxCommand(t, args...)
		start := time.Now()
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
		whole = time.Since(start)
		after, _ = os.ReadFile(name)
	}
	write := func() {
		if err := os.WriteFile(name, before, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write()
	run()
	if !bytes.Contains(after, []byte("b: 2")) || !bytes.Contains(after, []byte("# kept")) {
		t.Fatalf("merged: %.100q", after)
	}
	want := bytes.Clone(after)
	killed, runs := 0, 0
	for moment := range soak.Moments(t, 12) {
		write()
		cmd, _ := initboxCommand(t, args...)
		runs++
		if killAfter(t, cmd, time.Duration(moment*float64(whole))) {
			killed++
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, before) && !bytes.Equal(got, want) {
			t.Fatalf("killed after %.2f: %d bytes, %v", moment, len(got), err)
		}
	}
	t.Logf("%d of %d runs were killed before their end; one takes %v", killed, runs, whole)
	run()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || !bytes.Equal(after, want) {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}
