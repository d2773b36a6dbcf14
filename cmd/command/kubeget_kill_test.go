package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/test/fakeapi"
	"initbox/test/soak"
)

// TestKubeGetKilled kills kube-get while it writes new values of a Secret over the old ones. Each file is old or new
// afterwards, and the next run completes them and leaves nothing beside them.
func TestKubeGetKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	const keys = 100
	api := fakeapi.New()
	server := httptest.NewServer(api)
	defer server.Close()
	dir := t.TempDir()
	config, out := filepath.Join(dir, "config"), filepath.Join(dir, "out")
	if err := os.WriteFile(config, []byte(fakeapi.Kubeconfig(server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	value := func(generation int) string { return strings.Repeat(fmt.Sprint(generation), 1000) }
	apply := func(generation int) {
		data := map[string][]byte{}
		for i := range keys {
			data[fmt.Sprintf("key-%d", i)] = []byte(value(generation))
		}
		document, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "many"}, "data": data})
		if err == nil {
			err = api.Apply(string(document))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	command := func() *exec.Cmd {
		cmd := exec.Command("initbox", "kube-get", "k8s:secret/many", out, "--prune", "--kubeconfig", config, "--log-level", "error", "--termination-log", "")
		cmd.Stderr = new(bytes.Buffer)
		return cmd
	}
	whole := time.Duration(0)
	run := func() {
		t.Helper()
		start := time.Now()
		if cmd := command(); cmd.Run() != nil {
			t.Fatalf("kube-get: %s", cmd.Stderr)
		}
		whole = max(whole, time.Since(start))
	}
	require := func(generations ...int) {
		t.Helper()
		for i := range keys {
			content, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("key-%d", i)))
			whole := false
			for _, g := range generations {
				whole = whole || string(content) == value(g)
			}
			if err != nil || !whole {
				t.Fatalf("key-%d: %.20q, %v; want a value of generations %v", i, content, err, generations)
			}
		}
	}
	apply(1)
	run()
	generation, interrupted := 1, 0
	for moment := range soak.Moments(t, 12) {
		generation = 3 - generation
		apply(generation)
		if killAfter(t, command(), time.Duration(moment*float64(whole))) {
			interrupted++
		}
		require(1, 2)
		run()
		require(generation)
		if left, _ := os.ReadDir(out); len(left) != keys+1 { // with the list
			t.Fatalf("%d files, want %d", len(left), keys+1)
		}
	}
	if interrupted == 0 {
		t.Error("no run was killed before its end")
	}
}
