package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"initbox/test/soak"
)

// killedFiles is how many files the tree has that is rendered and killed.
const killedFiles = 200

// renderKills is how often the rendering of each tree is killed, under go test.
const renderKills = 12

// TestRenderKilled kills the program while it renders a tree over an older one. A reader finds each file old or new at
// all times, and the next run leaves the tree as one that was never interrupted.
func TestRenderKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	for name, flags := range map[string][]string{"tree": {"--prune"}, "version": {"--atomic-dir"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKilling(t, flags)
			whole := k.run(1)
			want := [2]map[string]string{1: k.tree()}
			whole = max(whole, k.run(0))
			want[0] = k.tree()
			readers := k.readAllTheTime()
			defer readers()
			interrupted, runs := 0, 0
			for moment := range soak.Moments(t, renderKills) {
				runs++
				generation := runs % 2
				if killAfter(t, k.command(generation), time.Duration(moment*float64(whole))) {
					interrupted++
				}
				k.run(generation)
				requireTree(t, want[generation], k.tree())
			}
			t.Logf("%d of %d runs were killed before their end; one takes %v", interrupted, runs, whole)
			if interrupted == 0 {
				t.Error("no run was killed before its end")
			}
		})
	}
}

// killing renders one tree of templates with different values.
type killing struct {
	*testing.T
	templates, out string
	args           []string
}

func newKilling(t *testing.T, flags []string) *killing {
	k := &killing{T: t, templates: t.TempDir()}
	k.out = filepath.Join(t.TempDir(), "config")
	for i := range killedFiles {
		dir := filepath.Join(k.templates, fmt.Sprintf("d%d", i%10))
		os.MkdirAll(dir, 0o755)
		text := "{{ .Values.generation }}\n{{ repeat 500 .Values.generation }}\n{{ .Values.generation }}\n"
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.tmpl", i)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k.args = append([]string{"render", k.templates + ":" + k.out, "--log-level", "error", "--termination-log", ""}, flags...)
	return k
}

func (k *killing) command(generation int) *exec.Cmd {
	cmd := exec.Command("initbox", append(k.args, "--set-string", fmt.Sprintf("generation=%d", generation))...)
	cmd.Stderr = new(bytes.Buffer)
	return cmd
}

// run renders to the end, and returns how long it took.
func (k *killing) run(generation int) time.Duration {
	k.Helper()
	start := time.Now()
	cmd := k.command(generation)
	if err := cmd.Run(); err != nil {
		k.Fatalf("render: %v: %s", err, cmd.Stderr)
	}
	return time.Since(start)
}

// tree returns all that there is, by name.
func (k *killing) tree() map[string]string {
	k.Helper()
	all := map[string]string{}
	root, err := filepath.EvalSymlinks(k.out)
	if err != nil {
		k.Fatal(err)
	}
	for _, dir := range []string{root, filepath.Dir(k.out)} { // what is left beside the directory, too
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(dir, name)
			if dir != root {
				if name == root {
					return fs.SkipDir
				}
				if d.Type() == fs.ModeSymlink {
					all["beside: a link"] = ""
					return nil
				}
				all["beside: "+rel] = d.Type().String()
				return nil
			}
			text := ""
			if d.Type().IsRegular() {
				data, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				text = string(data)
			}
			all[rel] = d.Type().String() + text
			return nil
		})
		if err != nil {
			k.Fatal(err)
		}
	}
	return all
}

func requireTree(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Fatalf("%s is %.60q, want %.60q", name, got[name], text)
		}
	}
	for name := range got {
		if _, there := want[name]; !there {
			t.Fatalf("%s was left", name)
		}
	}
}

// readAllTheTime reads files of the tree until the function it returns is called:
// each has to be wholly of one generation.
func (k *killing) readAllTheTime() (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	random := soak.Rand(k.T)
	go func() {
		defer close(over)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
			i := random.IntN(killedFiles)
			name := filepath.Join(k.out, fmt.Sprintf("d%d", i%10), strconv.Itoa(i))
			data, err := os.ReadFile(name)
			if errors.Is(err, fs.ErrNotExist) && isLink(k.out) {
				continue // the link was replaced, and its old directory removed, while the name was looked up
			}
			if err != nil {
				k.Errorf("a reader: %v", err)
				return
			}
			g := string(data[:min(1, len(data))])
			if g == "" || string(data) != g+"\n"+strings.Repeat(g, 500)+"\n"+g+"\n" {
				k.Errorf("a reader found a part of %s: %.40q", name, data)
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-over })
}

func isLink(name string) bool {
	_, err := os.Readlink(name)
	return err == nil
}
