package pack

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// again is the hint for a damaged pack.
const again = "try again; if it fails again, run git fsck in the repository on the server"

// corrupt returns the failure for a damaged pack.
func corrupt(format string, args ...any) error {
	return failure.New(failure.Unexpected, format, args...).WithHint(again)
}

// errCollision returns the failure for an object made to collide with another: no accident.
func errCollision() error {
	f := failure.New(failure.Unexpected, "%v", object.ErrCollision)
	f.Err, f.Hint = object.ErrCollision, "this is an attack: check who may push to the repository"
	return poll.Permanent(f)
}

// tooLarge returns the failure for an object that must fit in memory.
func tooLarge(kind plumbing.ObjectType, size, limit int64) error {
	return poll.Permanent(failure.New(failure.Unexpected, "it is a %s of %d bytes; %d are allowed", kind, size, limit))
}

// thin returns the failure for a pack with deltas of objects that it does not contain.
func thin(objects int, at int64, base plumbing.Hash) error {
	return failure.New(failure.Unexpected, "%s of the pack cannot be reconstructed: the one at byte %d is a delta of %s, which is missing or depends on it", words.Plural(objects, "object"), at, base).
		WithHint("the server sent a thin pack, which assumes that the client has parts of the repository: is it a Git server?")
}

// within adds to an error where in the pack it occurred, and keeps its class and hint.
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

// writing explains an error of writing the pack, or a part of it, into a file.
func writing(what string, err error) error {
	if failure.NoSpace(err) {
		full := failure.New(failure.DiskFull, "write %s: no space left on device", what)
		full.Err, full.Hint = err, "make the volume larger: it must hold the pack, the new files and the old files at the same time"
		return full
	}
	return err
}

// cut returns the failure for a pack or an object that ends too early. An error of the source stays as it is, even if
// it wraps io.EOF, as that of a connection may.
func cut(err error, what string) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	f := failure.New(failure.Unexpected, "%s", what)
	f.Err, f.Hint = io.ErrUnexpectedEOF, again
	return f
}
