package remote

import (
	"context"
	"errors"
	"io/fs"

	"initbox/clone/local"
	"initbox/internal/failure"
)

// directory is a repository on this machine.
type directory struct{ *local.Repository }

// openDir opens the repository at the path of a file URL.
func openDir(u *URL, _ Options) (Repository, error) {
	r, err := local.Open(u.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.New(failure.NoRepository, "no such repository: there is nothing at that path").
			WithHint("is the path right, as this container sees it, and the volume mounted?")
	}
	if err != nil {
		return nil, dirFailure(err)
	}
	return directory{r}, nil
}

// Refs implements [Repository].
func (d directory) Refs(ctx context.Context, prefixes ...string) ([]Ref, error) {
	found, err := d.Repository.Refs(prefixes...)
	if err != nil {
		return nil, dirFailure(err)
	}
	refs := make([]Ref, len(found))
	for i, r := range found {
		refs[i] = Ref(r)
	}
	return refs, ctx.Err()
}

// Fetch implements [Repository].
func (d directory) Fetch(ctx context.Context, r Request) (*Answer, error) {
	pack, shallow, err := d.Pack(ctx, local.Request{Wants: r.Wants, Depth: r.Depth, Filter: r.Filter})
	if err != nil {
		return nil, dirFailure(err)
	}
	return &Answer{Pack: pack, Shallow: shallow}, nil
}

// Capable implements [Repository]: a directory has all features.
func (directory) Capable(string) bool { return true }

// dirFailure explains an error of a repository on this machine.
func dirFailure(err error) error {
	var f *failure.Failure
	var file *fs.PathError
	switch missing := new(local.MissingError); {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, local.ErrFormat):
		return never("convert the repository, or clone it with git", "%s", failure.Printable(err.Error()))
	case errors.Is(err, local.ErrNone):
		f = absent("there is no repository at that path")
		f.Hint = "is the path right? it must be that of a bare repository, or of a directory with .git"
	case errors.As(err, &missing) && !missing.Wanted:
		return never("is it a partial clone, or damaged? what does git fsck report there?", "%s", failure.Printable(err.Error()))
	case errors.As(err, &missing):
		f = failure.New(failure.NoRevision, "%s", failure.Printable(err.Error()))
		f.Hint = "is it the id of a commit of this repository? was the branch moved meanwhile?"
		f.Err = ErrMoved
		return f
	case errors.Is(err, fs.ErrPermission) && errors.As(err, &file):
		f = failure.New(failure.Local, "%s: permission denied", failure.Printable(file.Path))
		f.Hint = "this user must be able to read the repository: check the owner and the mode of that file, and securityContext"
	default:
		f = failure.New(failure.Unexpected, "%s", failure.Printable(err.Error()))
		f.Hint = "is the repository intact? what does git fsck report there?"
	}
	f.Err = err
	return f
}
