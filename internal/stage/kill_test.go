package stage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"initbox/test/servers"
	"initbox/test/soak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("STAGE_DIR"); dir != "" {
		stageChild(dir, os.Getenv("STAGE_HOW"))
	}
	os.Exit(servers.Main(m))
}

// The two generations of files with which writers replace each other: each has 200 files, of which 20 are not in the
// other.
const (
	generations = 2
	filesEach   = 200
	only        = 20
)

func nameOf(i int) string { return fmt.Sprintf("sub%d/f%d", i%10, i) }

func contentOf(generation, i int) []byte {
	if i%4 == 0 {
		generation = 0 // some are the same in both
	}
	return bytes.Repeat(fmt.Appendf(nil, "%d %06d\n", generation, i), 100+i)
}

// putGeneration renders a generation, in the order of the names or another.
func putGeneration(s *Stage, generation int) error {
	for i := generation * only; i < generation*only+filesEach; i++ {
		if _, err := s.Put(nameOf(i), contentOf(generation, i), plain); err != nil {
			return err
		}
	}
	_, err := s.Commit()
	return errors.Join(err, s.Close())
}

func openEither(dir string, asVersion bool) (*Stage, error) {
	if asVersion {
		return OpenVersion(dir, Options{})
	}
	return Open(dir, Options{Prune: true})
}

// stageChild is the process that is killed: it says when it begins, and puts one generation there.
func stageChild(dir, how string) {
	asVersion, generation := strings.HasPrefix(how, "version"), int(how[len(how)-1]-'0')
	fmt.Println("begin")
	s, err := openEither(dir, asVersion)
	if err == nil {
		err = putGeneration(s, generation)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// writer is a child.
type writer struct {
	*exec.Cmd
	output *bufio.Reader
}

// startWriter returns when the child begins.
func startWriter(t *testing.T, dir, how string) writer {
	t.Helper()
	cmd := soak.Child("STAGE_DIR="+dir, "STAGE_HOW="+how)
	return writer{cmd, soak.Start(t, cmd, "begin")}
}

// end waits for the child, and reports whether it was killed; nothing else may have gone wrong.
func (w writer) end(t *testing.T) (killed bool) {
	t.Helper()
	said, _ := io.ReadAll(w.output)
	err := w.Wait()
	if len(said) > 0 {
		t.Errorf("child said %s", said)
	}
	return err != nil
}

// Writers are killed at many moments. Whenever that is, a reader finds each file wholly old or new, and the same run
// again leaves exactly what it would have left, and no more.
func TestStageKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	dir := filepath.Join(servers.MemoryDir(t), "x/conf")
	check := func() error {
		for i := range filesEach + only {
			content, err := os.ReadFile(filepath.Join(dir, nameOf(i)))
			if errors.Is(err, fs.ErrNotExist) && (i < only || i >= filesEach) {
				continue // only one generation has it
			}
			if err != nil {
				return err
			}
			if !bytes.Equal(content, contentOf(0, i)) && !bytes.Equal(content, contentOf(1, i)) {
				return fmt.Errorf("%s is neither old nor new: %d bytes", nameOf(i), len(content))
			}
		}
		return nil
	}
	kill(t, dir, "stage", check)
}

// A writer that is killed while it makes the directory, and those above, leaves
// nothing that the next one does not remove.
func TestKilledWhileTheDirectoryIsMissing(t *testing.T) {
	servers.Slow(t)
	for _, how := range []string{"stage", "version"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			top := servers.MemoryDir(t)
			dir := filepath.Join(top, "x/y/conf")
			whole := max(run(t, dir, how+"0", nil), run(t, dir, how+"1", nil))
			want := withoutIDs(tree(t, top))
			killed := 0
			for moment := range soak.Moments(t, 10) {
				if err := os.RemoveAll(filepath.Join(top, "x")); err != nil {
					t.Fatal(err)
				}
				after := time.Duration(moment * float64(whole))
				if run(t, dir, how+"1", &after) == 0 {
					killed++
				}
				finish(t, dir, how+"1")
				same(t, want, withoutIDs(tree(t, top)))
			}
			t.Logf("%d killed", killed)
		})
	}
}

// Readers of a version find all files of one generation.
func TestVersionKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	servers.Slow(t)
	dir := filepath.Join(servers.MemoryDir(t), "x/conf")
	check := func() error {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		generation := -1
		for i := range filesEach + only {
			content, err := root.ReadFile(nameOf(i))
			if errors.Is(err, fs.ErrNotExist) {
				if now, err := os.Stat(dir); err != nil {
					return err
				} else if mine, err := root.Stat("."); err != nil || !os.SameFile(now, mine) {
					return nil // the version was removed since it was opened
				}
				if generation == -1 && i < only {
					generation = 1
				}
				if (generation == 1) == (i < only) {
					continue
				}
				return fmt.Errorf("%s is missing", nameOf(i))
			}
			if err != nil {
				return err
			}
			if generation == -1 {
				generation = 0
			}
			if !bytes.Equal(content, contentOf(generation, i)) {
				return fmt.Errorf("%s is not of generation %d", nameOf(i), generation)
			}
		}
		return nil
	}
	kill(t, dir, "version", check)
}

// run starts a writer, kills it after that time unless that is nil, and returns how long it took, or 0 if it was
// killed.
func run(t *testing.T, dir, how string, after *time.Duration) time.Duration {
	t.Helper()
	w, start := startWriter(t, dir, how), time.Now()
	if after != nil {
		time.Sleep(*after)
		w.Process.Kill()
	}
	if killed := w.end(t); !killed {
		return time.Since(start)
	}
	if after == nil {
		t.Fatal("the writer failed")
	}
	return 0
}

// finish puts in place, in this process, what a writer does.
func finish(t *testing.T, dir, how string) {
	t.Helper()
	s, err := openEither(dir, strings.HasPrefix(how, "version"))
	if err == nil {
		err = putGeneration(s, int(how[len(how)-1]-'0'))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// kill starts writers of alternating generations and kills them, while check runs all the time.
func kill(t *testing.T, dir, how string, check func() error) {
	var want [generations]map[string]string
	whole := time.Duration(0) // of a run that is not killed; the longer, since this process may see late that it has begun
	for generation := range generations {
		whole = max(whole, run(t, dir, how+strconv.Itoa(generation), nil))
		finish(t, dir, how+strconv.Itoa(generation))
		want[generation] = withoutIDs(tree(t, filepath.Dir(dir)))
	}
	stop, checks := make(chan struct{}), 0
	var reader sync.WaitGroup
	reader.Go(func() {
		for ; ; checks++ {
			if err := check(); err != nil {
				t.Errorf("a reader: %v", err)
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond): // the others need the processor, too
			}
		}
	})
	killed, runs := 0, 0
	for moment := range soak.Moments(t, 20) {
		generation := runs % generations
		runs++
		after := time.Duration(moment * float64(whole))
		if run(t, dir, how+strconv.Itoa(generation), &after) == 0 {
			killed++
		}
		finish(t, dir, how+strconv.Itoa(generation))
		same(t, want[generation], withoutIDs(tree(t, filepath.Dir(dir))))
		if t.Failed() {
			break
		}
	}
	close(stop)
	reader.Wait()
	t.Logf("%d of %d killed, a whole run being %v; %d times all files read", killed, runs, whole, checks)
}

// withoutIDs takes the random part out of the names of versions.
func withoutIDs(files map[string]string) map[string]string {
	all := map[string]string{}
	hide := func(s string) string {
		if before, after, ok := strings.Cut(s, ".conf.initbox-"); ok && len(after) >= idLength {
			return before + ".conf.initbox-ID" + after[idLength:]
		}
		return s
	}
	for name, what := range files {
		all[hide(name)] = hide(what)
	}
	return all
}
