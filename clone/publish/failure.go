package publish

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/poll"
)

// refuse returns a permanent error: another attempt would fail in the same way.
func refuse(format string, args ...any) error {
	f := failure.New(failure.Local, format, args...)
	f.Hint = "name a directory that may be replaced by the tree, such as a subdirectory of a volume"
	return poll.Permanent(f)
}

// notLink refuses a link whose name something else has.
func notLink(path string) error {
	return poll.Permanent(failure.New(failure.Local, "%s is not a symbolic link", path).
		WithHint("it is not replaced, not even with --replace: remove it, or give --link another name"))
}

// refuseLink refuses an Options.Link at whose path there can be no link.
func refuseLink(format string, args ...any) error {
	return poll.Permanent(failure.New(failure.Local, format, args...).
		WithHint("give --link a name in DIR, such as current, or a path outside of the trees"))
}

// ErrLink is in the chain of an error about the directory of the link, which may be in another volume than Dir.
var ErrLink = errors.New("of the directory of the link")

// linkFailed explains why nothing can be written in that directory.
func (t *Target) linkFailed(err error) error {
	link := t.options.linkPath()
	if !failure.NoSpace(err) {
		return explain("make the link "+link, err)
	}
	f := failure.New(failure.DiskFull, "no space left for the link %s", link)
	f.Hint, f.Err = "make room in the volume of "+t.links.Name()+", or make it larger: the link needs a few kB", errors.Join(ErrLink, err)
	return f
}

// explain returns err as a failure that names the operation, the reason and a hint.
func explain(doing string, err error) error {
	var known *failure.Failure
	if err == nil || errors.As(err, &known) {
		return err
	}
	var path *fs.PathError
	class, hint := failure.Local, ""
	permanent := false
	switch {
	case failure.NoSpace(err):
		class, hint = failure.DiskFull, "the old tree and the new one exist at the same time for a moment: raise the volume's size, or its sizeLimit"
	case errors.Is(err, unix.EROFS):
		permanent, hint = true, "is a volume mounted there, and without readOnly?"
	case errors.Is(err, fs.ErrPermission):
		permanent, hint = true, "set fsGroup in the Pod's securityContext, so that this user may write to the volume, or run as the user whose files are there"
	}
	reason := err.Error()
	if errors.As(err, &path) {
		reason = path.Err.Error() + " (" + path.Path + ")"
		hint = mounts.WriteHint(err, path.Path, hint)
	}
	f := failure.New(class, "%s: %s", doing, reason)
	f.Hint, f.Err = hint, err
	if permanent {
		return poll.Permanent(f)
	}
	return f
}
