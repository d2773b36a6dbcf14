// Package file waits for files: file:///PATH.
//
// A file is ready when it exists; with the setting min-size, when it is long enough; with contains, when it contains a
// text or a match of a regular expression. Where possible, the kernel reports changes.
package file

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"

	"initbox/internal/failure"
	"initbox/internal/inotify"
	"initbox/waitfor/expect"
	"initbox/waitfor/target"
)

// Kind is the kind of targets with the scheme file.
var Kind = target.Kind{
	Schemes: []string{"file"},
	Usage:   "file:///PATH",
	Ready:   "exists",
	Settings: []target.Setting{
		{Name: "min-size", Value: "BYTES", Usage: "the file is at least this long"},
		{Name: "contains", Value: "TEXT|/REGEX/", Usage: "the file contains the text, or a match"},
	},
	File:    true,
	Without: "user query",
	Parse:   parse,
}

type check struct {
	*target.Target
	path     string
	minSize  int64
	contains *regexp.Regexp // nil: anything
}

func parse(t *target.Target) (target.Check, error) {
	path, err := target.Path(t)
	if err != nil {
		return nil, err
	}
	c := check{Target: t, path: path}
	if c.minSize, err = t.Settings.Count("min-size", 0); err != nil {
		return nil, err
	}
	if t.Settings.On("contains") {
		m, err := expect.ParseMatcher(t.Settings.Get("contains"))
		if err != nil {
			return nil, fmt.Errorf("contains: %w", err)
		}
		if m.Regexp == nil {
			m.Regexp = regexp.MustCompile(regexp.QuoteMeta(m.Text))
		}
		c.contains = m.Regexp
	}
	return c, nil
}

// Watch reports changes to the file.
func (c check) Watch(ctx context.Context) <-chan struct{} { return inotify.WatchFile(ctx, c.path) }

func (c check) Check(ctx context.Context) error {
	stat, err := os.Stat(c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &failure.Failure{Class: failure.Missing, Text: "no such file", Err: target.ErrNotThere, Hint: failure.Beside(err) + "is the volume mounted here, and is the program that writes the file running?"}
	case errors.Is(err, fs.ErrPermission):
		return &failure.Failure{Class: failure.Local, Text: "permission denied", Err: err, Hint: "may this user search every directory in the path of the file?"}
	case err != nil:
		return err
	}
	if stat.Size() < c.minSize {
		f := failure.New(failure.Unexpected, "shorter than %d bytes", c.minSize)
		f.Note = fmt.Sprintf("%d so far", stat.Size())
		return f
	}
	if c.contains == nil {
		return nil
	}
	if !stat.Mode().IsRegular() {
		return failure.New(failure.Unexpected, "not a regular file, so it cannot be searched")
	}
	f, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer f.Close()
	// Matching while reading keeps a large file out of memory.
	r := bufio.NewReader(contextReader{ctx, f})
	if found := c.contains.MatchReader(r); ctx.Err() != nil {
		return ctx.Err()
	} else if !found {
		return failure.New(failure.Unexpected, "does not contain %s", expect.Shorten(c.Settings.Get("contains")))
	}
	return nil
}

// contextReader fails when its context ends, so that the search of a large file can be stopped.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
