package pack

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// again is the hint for what a server sent and should not have.
const again = "try again: if it stays so, run git fsck in the repository on the server"

// corrupt says what is wrong with a pack.
func corrupt(format string, args ...any) error {
	f := failure.New(failure.Unexpected, format, args...)
	f.Hint = again
	return f
}

// errCollision is of an object that no server sends by accident.
func errCollision() error {
	f := failure.New(failure.Unexpected, "%v", object.ErrCollision)
	f.Err, f.Hint = object.ErrCollision, "somebody has put it there to deceive: look at who may push to the repository"
	return poll.Permanent(f)
}

// tooLarge is of what has to be in memory whole.
func tooLarge(kind plumbing.ObjectType, size, limit int64) error {
	return poll.Permanent(failure.New(failure.Unexpected, "it is a %s of %d bytes: %d are allowed", kind, size, limit))
}

// thin is of a pack with deltas on what is not in it.
func thin(objects int, at int64, base plumbing.Hash) error {
	f := failure.New(failure.Unexpected, "%s of the pack cannot be made: the one at byte %d is a delta of %s, which is not there, or of itself", words.Plural(objects, "object"), at, base)
	f.Hint = "the server sent a thin pack, that is for somebody who has more of the repository: is it a Git server?"
	return f
}

// within says where in the pack an error is, and keeps its class and hint.
func within(err error, format string, args ...any) error {
	where := fmt.Sprintf(format, args...)
	var known *failure.Failure
	if !errors.As(err, &known) {
		return fmt.Errorf("%s: %w", where, err)
	}
	f := *known
	f.Text, f.Err = where+": "+known.Text, err
	return &f
}

// writing says what has become of a file of ours.
func writing(f *os.File, err error) error {
	if failure.NoSpace(err) {
		full := failure.New(failure.DiskFull, "no space is left for %s", f.Name())
		full.Err, full.Hint = err, "make the volume larger: it has to hold what is packed, the files, and what they were before"
		return full
	}
	return err
}

// cut is the error of a pack, or of an object, that ends too early. One of the source
// stays what it is, even if it wraps such an end: that of a connection.
func cut(err error, what string) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	f := failure.New(failure.Unexpected, "%s", what)
	f.Err, f.Hint = io.ErrUnexpectedEOF, again
	return f
}
