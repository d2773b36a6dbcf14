package stage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("STAGE_DIR"); dir != "" {
		stageChild(dir, os.Getenv("STAGE_HOW"))
	}
	os.Exit(m.Run())
}

// The two generations of files that writers put in the place of each other: each
// has 200, of which 20 are not in the other.
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

// stageChild is the process that is killed: it says when it begins, and puts one
// generation there.
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
	w := writer{Cmd: exec.Command(os.Args[0])}
	w.Env = append(os.Environ(), "STAGE_DIR="+dir, "STAGE_HOW="+how)
	out, err := w.StdoutPipe()
	if err == nil {
		err = w.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w.output = bufio.NewReader(out)
	if line, err := w.output.ReadString('\n'); line != "begin\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	return w
}

// end waits for the child, and reports whether it was killed; nothing else may
// have gone wrong.
func (w writer) end(t *testing.T) (killed bool) {
	t.Helper()
	said, _ := io.ReadAll(w.output)
	err := w.Wait()
	if len(said) > 0 {
		t.Errorf("child said %s", said)
	}
	return err != nil
}

// fastFolder is in memory, if that can be had: what a killed process leaves is the
// same there, and a disk would have to write it all each time.
func fastFolder(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "initbox")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Writers are killed at 500 random moments. Whenever that is, a reader finds each
// file wholly old or new, and the same run again leaves exactly what it would have
// left, and no more. A time bounds it where the machine is slow.
func TestStageKilledAtAnyMoment(t *testing.T) {
	dir := filepath.Join(fastFolder(t), "x/conf")
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
	kill(t, dir, "stage", 500, 50*time.Second, check)
}

// A writer that is killed while it makes the folder, and those above, leaves
// nothing that the next one does not remove.
func TestKilledWhileTheFolderIsMissing(t *testing.T) {
	for _, how := range []string{"stage", "version"} {
		top := fastFolder(t)
		dir := filepath.Join(top, "x/y/conf")
		var want map[string]string
		var whole time.Duration
		killed, start := 0, time.Now()
		for i := 0; i < 40 && time.Since(start) < 10*time.Second; i++ {
			if err := os.RemoveAll(filepath.Join(top, "x")); err != nil {
				t.Fatal(err)
			}
			w, begun := startWriter(t, dir, how+"1"), time.Now()
			if i > 0 {
				time.Sleep(rand.N(whole))
				w.Process.Kill()
			}
			switch hit := w.end(t); {
			case i == 0:
				whole = time.Since(begun)
			case hit:
				killed++
				whole = longer(whole)
			default:
				whole = shorter(whole)
			}
			s, err := openEither(dir, how == "version")
			if err == nil {
				err = putGeneration(s, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				want = withoutIDs(tree(t, top))
			}
			same(t, want, withoutIDs(tree(t, top)))
		}
		t.Logf("%s: %d killed", how, killed)
	}
}

// Readers of a version find all files of one generation.
func TestVersionKilledAtAnyMoment(t *testing.T) {
	dir := filepath.Join(fastFolder(t), "x/conf")
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
	kill(t, dir, "version", 100, 20*time.Second, check)
}

// kill starts writers of alternating generations and kills them, at most so many
// and for so long, while check runs all the time. $INITBOX_TEST_KILLS is how often
// in place of most.
func kill(t *testing.T, dir, how string, most int, longest time.Duration, check func() error) {
	if n, err := strconv.Atoi(os.Getenv("INITBOX_TEST_KILLS")); err == nil {
		most = n
	}
	again := func(generation int) {
		s, err := openEither(dir, how == "version")
		if err == nil {
			err = putGeneration(s, generation)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var want [generations]map[string]string
	var whole time.Duration // a run that is not killed
	for generation := range generations {
		w := startWriter(t, dir, how+strconv.Itoa(generation))
		start := time.Now()
		if w.end(t) {
			t.Fatal("the writer failed")
		}
		whole = max(whole, time.Since(start))
		again(generation)
		want[generation] = withoutIDs(tree(t, filepath.Dir(dir)))
	}
	stop, stopped := make(chan struct{}), sync.WaitGroup{}
	checks := 0
	stopped.Go(func() {
		for {
			if err := check(); err != nil {
				t.Errorf("a reader: %v", err)
				return
			}
			checks++
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond): // the others need the processor, too
			}
		}
	})
	killed := 0
	start := time.Now()
	for i := 0; killed < most && time.Since(start) < longest && !t.Failed(); i++ {
		w := startWriter(t, dir, how+strconv.Itoa(i%generations))
		time.Sleep(rand.N(whole))
		w.Process.Kill()
		if w.end(t) {
			killed++
			whole = longer(whole)
		} else {
			whole = shorter(whole)
		}
		again(i % generations)
		same(t, want[i%generations], withoutIDs(tree(t, filepath.Dir(dir))))
	}
	close(stop)
	stopped.Wait()
	t.Logf("%d killed in %v, a whole run being %v; %d times all files read", killed, time.Since(start), whole, checks)
}

// A writer is killed at any moment of what a whole run takes, as far as one can
// tell: that is too long a time if most come to their end, and too short if none
// does.
func longer(whole time.Duration) time.Duration  { return whole + whole/20 }
func shorter(whole time.Duration) time.Duration { return max(whole-whole/10, time.Millisecond) }

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
