package archive

import (
	"archive/tar"
	"context"
	"errors"
	"io"

	"initbox/internal/failure"
)

// tar writes the entries of a tar.
func (t *Tree) tar(ctx context.Context, content io.Reader) error {
	for r := tar.NewReader(content); ctx.Err() == nil; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // which put refuses
			return ofFormat("tar", err)
		}
		if err := t.Put(h, r); err != nil {
			return ofFormat("tar", err)
		}
	}
	return context.Cause(ctx)
}

// ofFormat says which format an error of its library comes from.
func ofFormat(name string, err error) error {
	var compressed formatError
	switch {
	case errors.As(err, &compressed):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return permanent("the %s ends too early: the file is not whole", name)
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return permanent("%s: %s", name, failure.Printable(err.Error()))
	}
	return err
}
