package archive

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
)

// maxDirectory is how many bytes a zip's directory may have, which is kept in memory.
const maxDirectory = 64 << 20

// zip writes the entries of a zip.
func (t *Tree) zip(ctx context.Context, content io.Reader) error {
	f, err := t.spool(content)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	limited := &directoryLimit{ReaderAt: f, left: maxDirectory}
	r, err := zip.NewReader(limited, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // which put refuses
		return ofZip(err)
	}
	limited.left = -1
	r.RegisterDecompressor(zip.Deflate, flate.NewReader)
	if err := overlap(r.File); err != nil {
		return err
	}
	for _, file := range r.File {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := t.zipEntry(ctx, file); err != nil {
			return ofZip(err)
		}
	}
	return nil
}

// spool copies a zip to a file that has no name.
func (t *Tree) spool(content io.Reader) (*os.File, error) {
	f, err := dirfd.Temp(t.at.Root)
	if err != nil {
		return nil, t.failed("make", "a file for the zip", err)
	}
	if t.o.MaxSize > 0 {
		content = io.LimitReader(content, t.o.MaxSize+1)
	}
	size, err := io.CopyBuffer(struct{ io.Writer }{f}, content, t.buf)
	if err == nil && t.o.MaxSize > 0 && size > t.o.MaxSize {
		err = limit("the zip has more than %d bytes", "max-size", t.o.MaxSize)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// directoryLimit is a zip of which not more than its directory is read while left is not negative.
type directoryLimit struct {
	io.ReaderAt
	left int
}

func (d *directoryLimit) ReadAt(p []byte, at int64) (int, error) {
	if d.left >= 0 {
		if d.left -= len(p); d.left < 0 {
			d.left = 0
			return 0, permanent("the directory of the zip has more than %d MiB", maxDirectory>>20)
		}
	}
	return d.ReaderAt.ReadAt(p, at)
}

// overlap returns an error if two entries share their bytes, as in archives that become large from little, or that are
// not the same for every program.
func overlap(files []*zip.File) error {
	type span struct {
		from, to int64
		name     string
	}
	spans := make([]span, 0, len(files))
	for _, f := range files {
		from, err := f.DataOffset()
		if err != nil {
			return ofZip(err)
		}
		if size := int64(f.CompressedSize64); size != 0 {
			spans = append(spans, span{from, from + size, f.Name})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := range spans[:max(len(spans)-1, 0)] {
		if a, b := spans[i], spans[i+1]; a.to > b.from || a.to < a.from {
			return permanent("the zip's entries %s and %s overlap", printable(a.name), printable(b.name))
		}
	}
	return nil
}

// zipEntry writes one entry.
func (t *Tree) zipEntry(ctx context.Context, file *zip.File) error {
	name := file.Name
	if dos := file.CreatorVersion>>8 == 0; dos && !strings.Contains(name, "/") {
		name = strings.ReplaceAll(name, `\`, "/") // as old programs for Windows write it
	}
	full, stripped, err := t.o.nameOf(name)
	if err != nil || stripped == "" || !t.o.selects(full) {
		t.passed = true
		return err
	}
	const encrypted = 1
	if file.Flags&encrypted != 0 {
		return permanent("%s is encrypted, which is not supported", printable(name))
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(file.UncompressedSize64), ModTime: file.Modified, Mode: zipMode(file)}
	switch kind := file.Mode(); {
	case strings.HasSuffix(name, "/"):
		h.Typeflag = tar.TypeDir
		return t.Put(h, nil)
	case kind&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeIrregular) != 0:
		h.Typeflag = tar.TypeFifo
		return t.Put(h, nil)
	case kind&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
	}
	content, err := file.Open()
	if err != nil {
		return zipFailed(name, err)
	}
	defer content.Close()
	if h.Typeflag == tar.TypeSymlink {
		target, err := io.ReadAll(io.LimitReader(content, maxName))
		if err != nil {
			return zipFailed(name, err)
		}
		h.Linkname = string(target)
	}
	return zipFailed(name, t.Put(h, until{ctx, content}))
}

// until reads until ctx ends: a small zip can have large files.
type until struct {
	ctx context.Context
	io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.Reader.Read(p)
}

// zipMode returns the permissions of an entry. Programs that know none leave them out.
func zipMode(file *zip.File) int64 {
	const unixes, macOS = 3, 19
	by := file.CreatorVersion >> 8
	if mode := file.Mode().Perm(); mode != 0 && (by == unixes || by == macOS) {
		return int64(mode)
	}
	if strings.HasSuffix(file.Name, "/") {
		return 0o755
	}
	return 0o644
}

// zipFailed says which entry an error of the library is about.
func zipFailed(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zip.ErrAlgorithm):
		return permanent("%s is compressed by a method that is not supported: deflate is", printable(name))
	case errors.Is(err, zip.ErrFormat), errors.Is(err, zip.ErrChecksum), errors.As(err, new(flate.CorruptInputError)),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return permanent("zip: %s does not have the content that the directory says: %s", printable(name), failure.Printable(err.Error()))
	}
	return err
}

// ofZip says that an error comes from the format.
func ofZip(err error) error {
	if errors.Is(err, zip.ErrFormat) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return permanent("it begins as a zip and is not a whole one: %s", failure.Printable(err.Error()))
	}
	return err
}
