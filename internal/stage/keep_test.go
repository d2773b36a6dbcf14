package stage

import (
	"os"
	"strings"
	"testing"
)

// TestKeepAndForget pins that a file that is kept is not pruned, and that one that was forgotten may be Put again, also
// as a directory, or else is as if it had never been Put.
func TestKeepAndForget(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, Options{Prune: true}, "kept", "stale", "name")
	s, err := Open(dir, Options{Prune: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(name, content string) {
		t.Helper()
		if _, err := s.Put(name, []byte(content), Attr{Mode: 0o644, UID: -1, GID: -1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Keep("kept"); err != nil {
		t.Fatal(err)
	}
	put("name", "changed")
	s.Forget("name")
	put("name", "again")
	put("dir", "file")
	s.Forget("dir")
	put("dir/below", "1")
	put("gone/below", "1")
	s.Forget("gone/below")
	put("gone", "file")
	s.Forget("gone")
	done, err := s.Commit()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range done {
		got = append(got, c.Name+" "+string(c.Kind))
	}
	if got, want := strings.Join(got, ", "), "dir/below created, name changed, stale removed"; got != want {
		t.Errorf("done %q, want %q", got, want)
	}
	if text, _ := os.ReadFile(dir + "/name"); string(text) != "again" {
		t.Errorf("name holds %q", text)
	}
	if list, _ := os.ReadFile(dir + "/" + ListName); strings.Count(string(list), "\n") != 4 || !strings.Contains(string(list), `"kept"`) {
		t.Errorf("the list: %s", list)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 4 { // with the list
		t.Errorf("%d entries", len(entries))
	}
}
