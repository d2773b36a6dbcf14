package worktree

import (
	"errors"

	"golang.org/x/sys/unix"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

// refuse returns a permanent error about the content of the repository. Arguments that come
// from there have to be printable already.
func refuse(format string, args ...any) error {
	return poll.Permanent(failure.New(failure.Unexpected, format, args...))
}

// tooMuch returns a permanent error for a tree that exceeds a limit.
func tooMuch(hint, format string, args ...any) error {
	return poll.Permanent(failure.New(failure.Unexpected, format, args...).WithHint(hint))
}

// printable returns a path in a form for messages.
func printable(path string) string { return failure.Printable(path) }

func (e *Entry) printable() string {
	if e.in == nil {
		return "the top directory"
	}
	return printable(e.Path())
}

func (d *directory) printable() string { return d.entry.printable() }

// local returns the error of a system call for a file of the tree.
func local(doing string, e *Entry, err error) error {
	f := failure.New(failure.Local, "%s %s: %v", doing, e.printable(), err)
	f.Err = err
	switch {
	case failure.NoSpace(err):
		f.Class = failure.DiskFull
		f.Hint = "the volume is too small, or has no free inodes (df -i), or a quota is used up"
	case errors.Is(err, unix.EEXIST):
		f.Text = doing + " " + e.printable() + ": it collides with an existing file"
		f.Hint = "does the file system ignore the case of names? this repository has names that differ only in case"
		return poll.Permanent(f)
	case errors.Is(err, unix.EILSEQ), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENAMETOOLONG):
		f.Hint = "the file system does not allow this name; Linux's own (ext4, xfs, tmpfs) do"
	case errors.Is(err, unix.EROFS):
		f.Hint = "the volume is mounted read-only: is readOnly set in volumeMounts?"
	case errors.Is(err, unix.EACCES):
		f.Hint = "the user that the container runs as may not write there: set fsGroup in the Pod's securityContext"
	}
	return f
}
