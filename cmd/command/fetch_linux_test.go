package command

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"initbox/test/servers"
	"initbox/test/soak"
)

// generations serves a tree and a file, of which there are two generations, with entity tags and ranges.
type generations struct {
	now     atomic.Int64
	content [2]map[string][]byte
}

// fetchedFiles is how many files the tree has.
const fetchedFiles = 200

func newGenerations(t *testing.T) *generations {
	g := &generations{}
	for n := range g.content {
		bodies, entries := map[string]string{}, []tar.Header{}
		for i := range fetchedFiles {
			name := fmt.Sprintf("d%d/%d", i%10, i)
			bodies[name] = strings.Repeat(fmt.Sprintf("%d\n", n), 2000)
			entries = append(entries, tar.Header{Name: name, Mode: 0o644})
		}
		entries = append(entries, tar.Header{Name: fmt.Sprintf("only%d", n), Mode: 0o644}) // which the other generation has not
		g.content[n] = map[string][]byte{
			"/tree.tar.gz": servers.Gzip(t, servers.Tar(t, bodies, entries...)),
			"/file":        bytes.Repeat([]byte{'0' + byte(n)}, 1<<20),
		}
	}
	return g
}

func (g *generations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content := g.content[g.now.Load()][r.URL.Path]
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(content)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// TestFetchKilled kills the program while it replaces an older generation. A reader finds each file old or new at all
// times, and the next run leaves the directory as one that was never interrupted.
func TestFetchKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	g := newGenerations(t)
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	for name, args := range map[string][]string{
		"added":    {s.URL + "/tree.tar.gz#unpack", s.URL + "/file#to=sub/file"},
		"replaced": {s.URL + "/tree.tar.gz#unpack", s.URL + "/file#to=sub/file", "--replace"},
		"file":     {s.URL + "/file"},
	} {
		t.Run(name, func(t *testing.T) { killFetches(t, g, name, args) }) // one after the other: the generation is one for all
	}
}

func killFetches(t *testing.T, g *generations, name string, args []string) {
	dst := filepath.Join(t.TempDir(), "plugins")
	command := func() *exec.Cmd {
		cmd := exec.Command("initbox", append(append([]string{"fetch"}, args...), dst, "--log-level", "error", "--termination-log", "")...)
		cmd.Stderr = new(bytes.Buffer)
		return cmd
	}
	run := func(generation int64) (files map[string]string, took time.Duration) {
		t.Helper()
		g.now.Store(generation)
		start := time.Now()
		if cmd := command(); cmd.Run() != nil {
			t.Fatalf("fetch: %s", cmd.Stderr)
		}
		took = time.Since(start)
		return filesBelow(t, filepath.Dir(dst)), took
	}
	var want [2]map[string]string
	run(0)
	want[1], _ = run(1)
	var whole time.Duration
	want[0], whole = run(0)
	stop := make(chan struct{})
	defer close(stop)
	go readWhole(t, dst, stop)
	interrupted, runs := 0, 0
	for moment := range soak.Moments(t, 12) {
		runs++
		generation := int64(runs % 2)
		g.now.Store(generation)
		if killAfter(t, command(), time.Duration(moment*float64(whole))) {
			interrupted++
		}
		got, _ := run(generation)
		requireTree(t, want[generation], got)
	}
	t.Logf("%s: %d of %d runs were killed before their end; one takes %v", name, interrupted, runs, whole)
	if interrupted == 0 {
		t.Error("no run was killed before its end")
	}
}

// filesBelow returns all files below dir with their contents; of a record, only the name.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		all[rel] = d.Type().String()
		if d.Type().IsRegular() && !strings.HasSuffix(rel, ".json") {
			data, err := os.ReadFile(name)
			all[rel] += string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// readWhole reads a file until stop is closed: it is of one generation, and is there, unless its directory is being
// replaced.
func readWhole(t *testing.T, dst string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		for _, name := range []string{dst, filepath.Join(dst, "sub/file"), filepath.Join(dst, fmt.Sprintf("d%d/%d", i%10, i%fetchedFiles))} {
			data, err := os.ReadFile(name)
			if err != nil || len(data) == 0 {
				continue
			}
			same := bytes.Count(data, data[:1]) // a tree's file has as many lines, of one character each
			if (same != 2000 || bytes.Count(data, []byte{'\n'}) != 2000 || len(data) != 4000) && (same != 1<<20 || len(data) != 1<<20) {
				t.Errorf("a reader found a part of %s: %d bytes", name, len(data))
				return
			}
		}
	}
}

// TestFetchFaults has disks and rights fail under files that are already there. The error says why, and nothing has
// changed.
func TestFetchFaults(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount file systems and to become another user")
	}
	if testing.Short() {
		t.Skip("mounts file systems")
	}
	t.Parallel()
	program := filepath.Join(everyonesDir(t), "initbox")
	copyProgram(t, program)
	s := httptest.NewServer(newGenerations(t))
	t.Cleanup(s.Close)
	for _, c := range []struct{ name, mount, url, flags, uid, want, hint string }{
		{"full disk, file", "mount -t tmpfs -o size=256k none $D", "/file", "", "0", "no space left on device", "make the volume larger"},
		{"full disk, tree", "mount -t tmpfs -o size=256k none $D", "/tree.tar.gz#unpack", "", "0", "no space left on device", "make the volume larger"},
		{"full of names", "mount -t tmpfs -o nr_inodes=50 none $D", "/tree.tar.gz#unpack", "--replace", "0", "no space left on device", "make the volume larger"},
		{"read-only", "mount -t tmpfs none $D; RO=1", "/file", "", "0", "read-only file system", ""},
		{"not allowed", "mount -t tmpfs -o mode=755 none $D", "/file", "", "65534", "permission denied", ""},
		{"owner", "mount -t tmpfs -o mode=777 none $D", "/file#owner=1", "", "65534", "operation not permitted", "CHOWN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := filepath.Join(everyonesDir(t), "plugins")
			os.MkdirAll(d, 0o755)
			// In a mount namespace of its own: the mounts end with it.
			script := strings.ReplaceAll(c.mount, "$D", d) + `
				cd ` + d + ` && printf old > old && printf old > file && chmod 644 old file
				[ -z "$RO" ] || mount -o remount,ro .
				find . -exec stat -c '%n %i %Y %s' {} + | grep -v '^\. ' | sort > /proc/self/fd/3
				setpriv --reuid "$ID" --regid "$ID" --clear-groups "$@"; status=$?
				find . -exec stat -c '%n %i %Y %s' {} + | grep -v '^\. ' | sort > /proc/self/fd/4
				exit $status`
			cmd := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", program, "fetch", s.URL+c.url, d, "--termination-log", "")
			if c.flags != "" {
				cmd.Args = append(cmd.Args, c.flags)
			}
			cmd.Env = append(os.Environ(), "ID="+c.uid, "RO=")
			before, after := scratch(t), scratch(t)
			cmd.ExtraFiles = []*os.File{before, after}
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "hint: ") || !strings.Contains(string(out), c.hint) {
				t.Errorf("%v: %s, want status 1, %q and a hint with %q", err, out, c.want, c.hint)
			}
			was, is := content(t, before), content(t, after)
			if was != is || !strings.Contains(was, "old") {
				t.Errorf("before there was\n%sand now is\n%s", was, is)
			}
		})
	}
}
