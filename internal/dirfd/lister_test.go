package dirfd

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A Lister lists what is there, also more than its buffer holds, and keeps the names of an earlier directory.
func TestLister(t *testing.T) {
	var l Lister
	var kept []string
	for _, files := range []int{3, 2000, 0, 5} {
		top := t.TempDir()
		want := []string{}
		for i := range files {
			name := fmt.Sprintf("%d-%s", i, strings.Repeat("n", i%200))
			if err := os.WriteFile(top+"/"+name, make([]byte, i), 0o600); err != nil {
				t.Fatal(err)
			}
			want = append(want, name)
		}
		dir, err := OpenFD(FD(unix.AT_FDCWD), top, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		all, err := l.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, e := range all {
			var s unix.Stat_t
			number, _, _ := strings.Cut(e.Name, "-")
			if err := e.Lstat(dir, &s); err != nil || fmt.Sprint(s.Size) != number || e.Kind != unix.DT_REG && e.Kind != unix.DT_UNKNOWN {
				t.Errorf("%s: kind %d, %d bytes, %v", e.Name, e.Kind, s.Size, err)
			}
			got = append(got, e.Name)
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%d of %d names: %.200q", len(got), files, got)
		}
		if kept == nil {
			kept = got
		}
		if len(all) > 0 {
			os.Remove(top + "/" + all[0].Name)
			if err := all[0].Lstat(dir, new(unix.Stat_t)); !errors.Is(err, unix.ENOENT) {
				t.Errorf("a file that is gone: %v", err)
			}
		}
	}
	if slices.Sort(kept); !slices.Equal(kept, []string{"0-", "1-n", "2-nn"}) {
		t.Errorf("names of the first directory are now %q", kept)
	}
	if _, err := l.List(FD(-1)); err == nil {
		t.Error("no error without a directory")
	}
}
