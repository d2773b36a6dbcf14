package dirfd

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"
)

// Same finds a difference of bytes and of lengths, also at the end of a piece, and returns an error of either file.
func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "", true}, {"abcd", "abcd", true}, {"abcdefgh", "abcdefgh", true}, {"abcdefg", "abcdefg", true},
		{"abcd", "abcdx", false}, {"abcdx", "abcd", false}, {"abcd", "abce", false}, {"", "a", false}, {"abcdefgh", "abcd", false},
	} {
		got, err := Same(strings.NewReader(c.a), iotest.OneByteReader(strings.NewReader(c.b)), make([]byte, 8))
		if got != c.want || err != nil {
			t.Errorf("%q and %q: %t, %v", c.a, c.b, got, err)
		}
	}
	broken, ok := iotest.ErrReader(errors.New("broken")), strings.NewReader("")
	if _, err := Same(broken, ok, make([]byte, 8)); err == nil {
		t.Error("no error of the first")
	}
	if _, err := Same(ok, broken, make([]byte, 8)); err == nil {
		t.Error("no error of the second")
	}
}

// Overwrite leaves exactly the content, in the file that is there, whether it was longer or shorter.
func TestOverwrite(t *testing.T) {
	name := t.TempDir() + "/f"
	if err := os.WriteFile(name, []byte("old and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFD(FD(unix.AT_FDCWD), name, unix.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, content := range []string{"new", "new, and longer than the old", ""} {
		for _, size := range []int64{0, int64(len(content))} {
			if err := errors.Join(Seek(f, 0), Overwrite(f, strings.NewReader(content), size)); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(name); err != nil || string(got) != content {
				t.Errorf("%q, %v, want %q", got, err, content)
			}
		}
	}
}
