package command

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"initbox/test/soak"
)

// TestRequestKilled kills the program while it sends the files of a directory. Run again, it sends the rest: each file
// was accepted, and twice at most the one whose answer the killed run did not record.
func TestRequestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	const files = 20
	dir := t.TempDir()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.json", i)), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	got := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path]++
	}))
	defer server.Close()
	request := func(round int, state string) *exec.Cmd {
		cmd := exec.Command("initbox", "request", fmt.Sprintf("%s/%d/{name}", server.URL, round), "--each", dir, "--once", state)
		cmd.Stderr = new(bytes.Buffer)
		cmd.Env = append(os.Environ(), "POD_UID=5f1b", "INITBOX_TERMINATION_LOG="+os.DevNull)
		return cmd
	}
	start := time.Now()
	if cmd := request(0, filepath.Join(t.TempDir(), "state")); cmd.Run() != nil {
		t.Fatal(cmd.Stderr)
	}
	whole := time.Since(start)
	round := 0
	for moment := range soak.Moments(t, 10) {
		round++
		state := filepath.Join(t.TempDir(), "state")
		killed := killAfter(t, request(round, state), time.Duration(moment*float64(whole)))
		if cmd := request(round, state); cmd.Run() != nil {
			t.Fatal(cmd.Stderr)
		}
		again := 0
		mu.Lock()
		for i := range files {
			switch n := got[fmt.Sprintf("/%d/%02d", round, i)]; {
			case n == 2:
				again++
			case n != 1:
				t.Errorf("file %d was sent %d times", i, n)
			}
		}
		mu.Unlock()
		if again > 1 || again > 0 && !killed {
			t.Errorf("%d files were sent twice, killed: %v", again, killed)
		}
	}
}
