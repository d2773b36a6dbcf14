package render

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"initbox/internal/stage"
)

// open opens an item's source, whatever it is.
func (it *item) open() (*os.File, error) {
	f, err := it.root.OpenFile(it.name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer would block
	if err != nil {
		return nil, &sourceError{fmt.Errorf("read %s: %w", it.shown, cause(linkAway(err)))}
	}
	return f, nil
}

// content returns the source of a file that is copied, as a content that is read piece by piece. Reading fails with the
// error of ended.
func (it *item) content(ended func() error) stage.Content {
	return func() (io.ReadCloser, int64, error) {
		f, err := it.open()
		if err != nil {
			return nil, 0, err
		}
		stat, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, 0, &sourceError{fmt.Errorf("read %s: %w", it.shown, cause(err))}
		}
		return &original{f, stat, it.shown, ended}, stat.Size(), nil
	}
}

// ended returns a function that returns why ctx has ended, until results are put in place: a file that is written in
// place is better written to its end.
func (r *run) ended(ctx context.Context) func() error {
	return func() error {
		if r.committing.Load() {
			return nil
		}
		return context.Cause(ctx)
	}
}

// original is the source of a file that is copied, while it is read.
type original struct {
	file  *os.File
	stat  fs.FileInfo // when it was opened
	shown string
	ended func() error
}

func (o *original) Read(p []byte) (int, error) {
	if err := o.ended(); err != nil {
		return 0, &sourceError{fmt.Errorf("copy %s: %w", o.shown, err)}
	}
	n, err := o.file.Read(p)
	if err == io.EOF && o.changed() {
		err = errors.New("another program has changed it meanwhile")
	}
	if err != nil && err != io.EOF {
		err = &sourceError{fmt.Errorf("read %s: %w", o.shown, cause(err))}
	}
	return n, err
}

// changed returns whether the file has been written to since it was opened, so that what was read may be a mixture.
func (o *original) changed() bool {
	now, err := o.file.Stat()
	return err == nil && now.Mode().IsRegular() && (now.Size() != o.stat.Size() || !now.ModTime().Equal(o.stat.ModTime()))
}

func (o *original) Close() error { return o.file.Close() }

// cause returns the error without the name of the file below its root.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// sourceError is an error that concerns the source of a file, although it occurs while the result is written.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }
