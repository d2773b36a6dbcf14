package worktree

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// TestLocal pins what is reported for what a volume does not allow, and that only what cannot heal is permanent.
func TestLocal(t *testing.T) {
	e := &Entry{name: "a\nb", in: &directory{entry: &Entry{}}}
	for _, test := range []struct {
		err       error
		class     failure.Class
		hint      string
		permanent bool
	}{
		{unix.ENOSPC, failure.DiskFull, "too small", false},
		{fmt.Errorf("copy: %w", unix.EDQUOT), failure.DiskFull, "quota", false},
		{unix.EROFS, failure.Local, "read-only", false},
		{unix.EACCES, failure.Local, "fsGroup", false},
		{unix.EILSEQ, failure.Local, "does not allow this name", false},
		{unix.EEXIST, failure.Local, "ignore the case", true},
		{unix.EIO, failure.Local, "", false},
	} {
		err := local("write", e, test.err)
		f := failure.Of(err)
		if f.Class != test.class || !strings.Contains(f.Hint, test.hint) || poll.IsPermanent(err) != test.permanent || !errors.Is(err, test.err) {
			t.Errorf("%v: %s, %q, permanent %t", err, f.Class, f.Hint, poll.IsPermanent(err))
		}
		if !strings.HasPrefix(f.Text, `write a\nb: `) {
			t.Errorf("%q", f.Text)
		}
	}
}
