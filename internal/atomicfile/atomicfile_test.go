package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"initbox/internal/perm"
	"initbox/test/soak"
)

func TestMain(m *testing.M) {
	if name := os.Getenv("ATOMICFILE_WRITE_FOREVER"); name != "" {
		for i := 0; ; i++ {
			if err := Write(name, content(i), 0o640); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			if i == 10 {
				fmt.Println("writing")
			}
		}
	}
	if name := os.Getenv("ATOMICFILE_COPY_FOREVER"); name != "" {
		program, err := os.ReadFile(name)
		for i := 0; err == nil; i++ {
			err = Writer{}.Copy(name, bytes.NewReader(append(program, byte(i))), 0o755) // an ELF file may be longer than it says
		}
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// content is large enough that a writer is often killed in the middle of it, and shows whether it is whole.
func content(i int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%08d\n", i%10)), 20_000)
}

func TestWrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a[b*?\\c")
	for _, text := range []string{"first", "second, longer", ""} {
		if err := Write(name, []byte(text), 0o604); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != text {
			t.Fatalf("got %q, %v, want %q", got, err, text)
		}
		if stat, _ := os.Stat(name); stat.Mode() != 0o604 {
			t.Errorf("mode %v, want 0604", stat.Mode())
		}
	}
	if left := names(t, filepath.Dir(name)); len(left) != 1 {
		t.Errorf("directory holds %q", left)
	}
}

func TestUnchangedIsNotTouched(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{strings.Repeat("large", 50_000), "same"} {
		if err := Write(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour).Truncate(time.Second)
		os.Chtimes(name, old, old)
		if err := Write(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if stat, _ := os.Stat(name); !stat.ModTime().Equal(old) {
			t.Errorf("modification time of %d bytes changed", len(text))
		}
	}
	if err := Write(name, []byte("same"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stat, _ := os.Stat(name); stat.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600", stat.Mode())
	}
}

// TestOwner gives a file to another user, and leaves one alone that belongs to it.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	name := filepath.Join(t.TempDir(), "f")
	w := Writer{Owner: &perm.Owner{UID: 1234, GID: 5678}}
	var s, again unix.Stat_t
	if err := errors.Join(Write(name, []byte("x"), 0o600), w.Write(name, []byte("x"), 0o600), unix.Stat(name, &s)); err != nil {
		t.Fatal(err)
	}
	if s.Uid != 1234 || s.Gid != 5678 || s.Mode&0o7777 != 0o600 {
		t.Errorf("it belongs to %d:%d, with mode %o", s.Uid, s.Gid, s.Mode)
	}
	if err := errors.Join(w.Write(name, []byte("x"), 0o600), unix.Stat(name, &again)); err != nil || again.Ino != s.Ino || again.Ctim != s.Ctim {
		t.Errorf("a file that is right was written again: %v", err)
	}
}

// Whenever the writer is killed, the file is whole, and the next writer leaves nothing behind.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	for moment := range soak.Moments(t, 20) {
		cmd := soak.Child("ATOMICFILE_WRITE_FOREVER=" + name)
		soak.Start(t, cmd, "writing")
		time.Sleep(time.Duration(moment * float64(20*time.Millisecond))) // it writes all the time
		cmd.Process.Kill()
		cmd.Wait()
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(content(0)) || !bytes.Equal(got, bytes.Repeat(got[:9], 20_000)) {
			t.Fatalf("half a file of %d bytes", len(got))
		}
	}
	if err := Write(name, []byte("done"), 0o644); err != nil {
		t.Fatal(err)
	}
	if left := names(t, dir); len(left) != 1 {
		t.Errorf("directory holds %q", left)
	}
}

// The temporary file of a writer that lives is not swept away, not even when it is written and closed.
func TestSweepSparesTheLiving(t *testing.T) {
	dir := t.TempDir()
	f, lock, err := open(t, dir).create()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.Name()); err != nil {
		t.Error(err)
	}
}

// open returns the file called f in a directory.
func open(t *testing.T, name string) file {
	t.Helper()
	dir, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return file{dir, "f"}
}

// A device or a pipe is not replaced by a file, and a link that is followed stays a link.
func TestWhatIsThereIsKept(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, dir} {
		if err := Write(name, []byte("new"), 0o644); err == nil {
			t.Errorf("%s was replaced", name)
		}
	}
	if err := (Writer{Follow: true}).Write(link, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	if stat, _ := os.Lstat(link); stat.Mode()&fs.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
	if got, _ := os.ReadFile(file); string(got) != "new" {
		t.Errorf("the link's file holds %q", got)
	}
}

func TestLongName(t *testing.T) {
	if err := Write(filepath.Join(t.TempDir(), strings.Repeat("n", 250)), []byte("x"), 0o644); err != nil {
		t.Error(err)
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	err := Write(filepath.Join(t.TempDir(), "missing", "f"), nil, 0o644)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("error %v", err)
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// A program can be replaced while it runs, and run at any instant, also when several processes replace it. (They are
// processes of their own: what a process has open for writing, its children have open too, until they become another
// program.)
func TestCopyOfAProgram(t *testing.T) {
	sleeper, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program, err := os.ReadFile(sleeper)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "sleep")
	if err := (Writer{}.Copy(name, bytes.NewReader(program), 0o755)); err != nil {
		t.Fatal(err)
	}
	running := exec.Command(name, "60")
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		running.Process.Kill()
		running.Wait()
	}()
	var output [3]bytes.Buffer
	var writers [3]*exec.Cmd
	for i := range writers {
		cmd := soak.Child("ATOMICFILE_COPY_FOREVER=" + name)
		cmd.Stdout = &output[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		writers[i] = cmd
	}
	for range 50 {
		if out, err := exec.Command(name, "0").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
	for i, cmd := range writers {
		cmd.Process.Kill()
		cmd.Wait()
		if output[i].Len() > 0 {
			t.Error(output[i].String())
		}
	}
	if err := (Writer{}.Copy(name, bytes.NewReader(program), 0o755)); err != nil {
		t.Fatal(err)
	}
	if left := names(t, filepath.Dir(name)); len(left) != 1 {
		t.Errorf("directory holds %q", left)
	}
}

// When what is copied cannot be read to its end, the old file stays.
func TestCopyOfWhatCannotBeRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := Write(name, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	content := struct {
		io.Reader
		io.Seeker
	}{io.MultiReader(strings.NewReader("new"), iotest.ErrReader(broken)), strings.NewReader("new and more")}
	if err := (Writer{}.Copy(name, content, 0o644)); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if got, _ := os.ReadFile(name); string(got) != "old" {
		t.Errorf("file holds %q", got)
	}
	if left := names(t, filepath.Dir(name)); len(left) != 1 {
		t.Errorf("directory holds %q", left)
	}
}

// If the content cannot be sought in, Copy returns that error, and the old file stays.
func TestCopyOfWhatCannotBeSought(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := Write(name, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for works := range 3 { // for the size, to compare, to copy
		content := &seeker{Reader: strings.NewReader("new"), works: works, err: broken}
		if err := (Writer{}.Copy(name, content, 0o644)); !errors.Is(err, broken) {
			t.Errorf("after %d: error %v", works, err)
		}
		if got, _ := os.ReadFile(name); string(got) != "old" {
			t.Errorf("after %d: file holds %q", works, got)
		}
	}
}

// seeker fails once, after some calls.
type seeker struct {
	*strings.Reader
	works int
	err   error
}

func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	if s.works--; s.works == -1 {
		return 0, s.err
	}
	return s.Reader.Seek(offset, whence)
}

// Files are written and linked in a directory that is writable but not readable.
func TestUnreadableDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if err := Write(filepath.Join(dir, "f"), []byte("x"), 0o644); err != nil {
		t.Error(err)
	}
	if err := (Writer{}.Link(filepath.Join(dir, "link"), "f")); err != nil {
		t.Error(err)
	}
	closed := open(t, t.TempDir())
	closed.dir.Close()
	if err := syncDir(closed.dir); err == nil {
		t.Error("no error for a closed directory")
	}
}

func TestLinked(t *testing.T) {
	f, lock, err := open(t, t.TempDir()).create()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	defer f.Close()
	if !linked(lock) {
		t.Error("a new file has a name")
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	if linked(lock) {
		t.Error("a file that was removed has none")
	}
}

// create makes another temporary file if another writer sweeps the first before it is locked.
func TestCreateWhileOthersSweep(t *testing.T) {
	dir := t.TempDir()
	target := open(t, dir)
	done := make(chan struct{})
	var sweeper sync.WaitGroup
	defer sweeper.Wait()
	defer close(done)
	sweeper.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				target.sweep()
			}
		}
	})
	for range 500 {
		f, lock, err := target.create()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(f.Name()); err != nil {
			t.Fatal(err)
		}
		os.Remove(f.Name())
		f.Close()
		lock.Close()
	}
}

func TestLink(t *testing.T) {
	dir := t.TempDir()
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	for range 2 {
		if err := (Writer{}.Link(link, "file")); err != nil {
			t.Fatal(err)
		}
	}
	if target, err := os.Readlink(link); target != "file" {
		t.Errorf("leads to %q, %v", target, err)
	}
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (Writer{}.Link(link, "elsewhere")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a link to something else was replaced: %v", err)
	}
	if err := (Writer{}.Link(file, "elsewhere")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file was replaced: %v", err)
	}
}
