package worktree

import (
	"errors"

	"golang.org/x/sys/unix"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// refuse is the error about what is in the repository, which stays so. What of its
// arguments comes from there has to be printable already.
func refuse(format string, args ...any) error {
	return poll.Permanent(failure.New(failure.Unexpected, format, args...))
}

// printable makes a path fit for a message.
func printable(path string) string { return failure.Printable(path) }

func (e *Entry) printable() string {
	if e.in == nil {
		return "the top folder"
	}
	return printable(e.Path())
}

func (f *folder) printable() string { return f.entry.printable() }

// local is the error of a system call about a file of the tree.
func local(doing string, e *Entry, err error) error {
	f := failure.New(failure.Local, "%s %s: %v", doing, e.printable(), err)
	f.Err = err
	switch {
	case failure.NoSpace(err):
		f.Class = failure.DiskFull
		f.Hint = "the volume is too small, or has no free inodes (df -i), or a quota ends there"
	case errors.Is(err, unix.EEXIST):
		f.Text = doing + " " + e.printable() + ": it collides with what is there already"
		f.Hint = "does the file system ignore the case of names? this repository has names that it takes for the same"
		return poll.Permanent(f)
	case errors.Is(err, unix.EILSEQ), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENAMETOOLONG):
		f.Hint = "the file system does not take this name; Linux's own (ext4, xfs, tmpfs) do"
	case errors.Is(err, unix.EROFS):
		f.Hint = "the volume is mounted read-only: is readOnly set in volumeMounts?"
	case errors.Is(err, unix.EACCES):
		f.Hint = "the user that the container runs as may not write there: set fsGroup in the Pod's securityContext"
	}
	return f
}
