package copy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
)

type buffer = [small]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// noSharing remembers file systems that do not share blocks, or do not copy within the kernel.
type noSharing struct{ clone, within sync.Map }

// pairOf identifies the file systems of two files.
type pairOf struct{ from, to uint64 }

const (
	small    = 256 << 10 // up to this, reading and writing takes fewer calls than copying within the kernel
	piece    = 32 << 20  // is copied or written back in one call
	direct   = 64 << 10  // sparse files are at least that long
	perBlock = 512       // bytes, see stat(2)
)

// fill makes dst, a new file on the file system dev, hold what src does, which has the stat s.
func (r *run) fill(dst, src dirfd.FD, s unix.Stat_t, dev uint64) error {
	c := copier{ctx: r.ctx, run: r, dst: dst, src: src, fs: pairOf{uint64(s.Dev), dev}}
	if s.Size > 0 {
		if _, never := r.noClone.clone.Load(c.fs); !never {
			err := dirfd.Clone(src, dst)
			if err == nil {
				return nil
			}
			r.noClone.clone.Store(c.fs, true)
		}
	}
	switch {
	case s.Size == 0: // also a file of the kernel, which does not say how long it is
		for {
			if n, err := c.some(small); n == 0 || err != nil {
				return err
			}
		}
	case s.Size < direct || s.Blocks*perBlock >= s.Size:
		return c.copy(0, s.Size)
	}
	for at := int64(0); at < s.Size; {
		start, end, err := dirfd.NextData(src, at)
		if err == unix.ENXIO { // only holes are left
			break
		}
		if err != nil { // not supported
			start, end = at, s.Size
		}
		err = dirfd.Seek(src, start)
		if err == nil {
			err = dirfd.Seek(dst, start)
		}
		if err == nil {
			err = c.copy(start, end-start)
		}
		if err != nil {
			return err
		}
		at = end
	}
	return dst.Truncate(s.Size)
}

// copier copies one file.
type copier struct {
	ctx      context.Context
	run      *run
	dst, src dirfd.FD
	fs       pairOf
}

// copy copies size bytes, or to the end of a file whose end comes before, from the position at in both files.
func (c *copier) copy(at, size int64) error {
	for begun, end := at, at+size; at < end; {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		n, err := c.some(min(end-at, piece))
		if err != nil || n == 0 {
			return err
		}
		at += n
		if at-begun >= piece { // the page cache counts as the container's memory
			if begun >= piece {
				dirfd.WriteBack(c.dst, begun-piece, piece, true)
			}
			dirfd.WriteBack(c.dst, begun, at-begun, false)
			begun = at
		}
	}
	return nil
}

// some copies at most size bytes, and returns 0 at the end of the file.
func (c *copier) some(size int64) (int64, error) {
	if size > small {
		if _, never := c.run.noClone.within.Load(c.fs); !never {
			n, err := dirfd.CopyRange(c.src, c.dst, int(size))
			if err == nil {
				return int64(n), nil
			}
			if err == unix.ENOSPC || err == unix.EDQUOT || err == unix.EIO || err == unix.EFBIG {
				return 0, err
			}
			c.run.noClone.within.Store(c.fs, true)
		}
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	n, err := c.src.Read(b[:min(size, small)])
	if err == io.EOF {
		return 0, nil
	}
	if err == nil {
		_, err = c.dst.Write(b[:n])
	}
	return int64(n), err
}

// sameContent returns whether two open files hold the same, of which r is read from its position.
func (r *run) sameContent(old dirfd.FD, content io.Reader) (bool, error) {
	x, y := buffers.Get().(*buffer), buffers.Get().(*buffer)
	defer buffers.Put(x)
	defer buffers.Put(y)
	for {
		if err := context.Cause(r.ctx); err != nil {
			return false, err
		}
		n, err := io.ReadFull(content, x[:])
		m, other := io.ReadFull(old, y[:])
		for _, err := range []error{err, other} {
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return false, err
			}
		}
		if same := bytes.Equal(x[:n], y[:m]); !same || n < len(x) {
			return same, nil
		}
	}
}

// unpackedName returns the name of what unpack makes of a file, or "" if that is the file itself.
func unpackedName(name string) string {
	rest := name
	for {
		ext := path.Ext(rest)
		if ext == rest || !strings.Contains(" .gz .zst .b64 .base64 ", " "+ext+" ") || ext == "" {
			break
		}
		rest = strings.TrimSuffix(rest, ext)
	}
	if rest == name {
		return ""
	}
	return rest
}

// budget is how much may still be unpacked.
type budget struct{ left atomic.Int64 }

// errTooLarge means that more would be unpacked than Options.MaxSize.
var errTooLarge = errors.New("it unpacks to more than --max-size allows")

// notPacked is the hint for a file that its name promises to be packed.
const notPacked = "the name says how it is compressed or encoded, and the content is something else, or damaged: leave it out with exclude"

// unpack returns what a file holds whose name says how it is packed. The caller closes it.
func (r *run) unpack(name string, packed io.Reader) (io.ReadCloser, error) {
	var closers []func()
	if unpackedName(name) == "" {
		return io.NopCloser(packed), nil
	}
	for rest := unpackedName(name); name != rest; name = strings.TrimSuffix(name, path.Ext(name)) {
		in := bufio.NewReaderSize(packed, 64<<10)
		magic, _ := in.Peek(6)
		packed = in
		if b64 := map[string]string{".gz": "H4sI", ".zst": "KLUv/"}[path.Ext(name)]; b64 != "" && bytes.HasPrefix(magic, []byte(b64)) {
			packed = base64.NewDecoder(base64.StdEncoding, in) // which ignores line breaks
		}
		switch path.Ext(name) {
		case ".gz":
			z, err := gzip.NewReader(packed)
			if err != nil {
				return nil, failure.WithHint(fmt.Errorf("unpack as gzip: %w", err), notPacked)
			}
			packed = z
		case ".zst":
			z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20), zstd.WithDecoderLowmem(true))
			if err != nil {
				return nil, failure.WithHint(fmt.Errorf("unpack as zstd: %w", err), notPacked)
			}
			closers = append(closers, z.Close)
			packed = z
		default:
			packed = base64.NewDecoder(base64.StdEncoding, in)
		}
	}
	return &unpacking{packed, closers}, nil
}

// unpacking reads what is unpacked.
type unpacking struct {
	io.Reader
	closers []func()
}

func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = failure.WithHint(fmt.Errorf("unpack: %w", err), notPacked)
	}
	return n, err
}

func (u *unpacking) Close() error {
	for _, c := range u.closers {
		c()
	}
	return nil
}

// spend is a writer of what is unpacked, within the budget.
type spend struct {
	run *run
	dst dirfd.FD
}

func (s spend) Write(p []byte) (int, error) {
	if s.run.unpacked.left.Add(-int64(len(p))) < 0 {
		return 0, errTooLarge
	}
	if err := context.Cause(s.run.ctx); err != nil {
		return 0, err
	}
	return s.dst.Write(p)
}
