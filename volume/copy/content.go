package copy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
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

const (
	small    = 256 << 10 // up to this, reading and writing takes fewer calls than copying or sharing blocks within the kernel
	piece    = 32 << 20  // is copied or written back in one call
	direct   = 64 << 10  // sparse files are at least that long
	perBlock = 512       // bytes, see stat(2)
)

// copier copies the content of one file.
type copier struct {
	ctx      context.Context
	dst, src dirfd.FD
	byHand   bool // the kernel does not copy from one to the other
}

// all makes a new file hold what the source does, which has the stat s, with its holes.
func (c *copier) all(s unix.Stat_t) error {
	switch {
	case s.Size == 0: // also a file of the kernel, which does not say how long it is
		c.byHand = true
		return c.copy(0, math.MaxInt64)
	case s.Size > small && dirfd.Clone(c.src, c.dst) == nil:
		return nil
	case s.Size < direct || s.Blocks*perBlock >= s.Size:
		return c.copy(0, s.Size)
	}
	for at := int64(0); at < s.Size; {
		start, end, err := dirfd.NextData(c.src, at)
		if err == unix.ENXIO { // only holes are left
			break
		}
		if err != nil { // not supported
			start, end = at, s.Size
		}
		if err := cmp.Or(dirfd.Seek(c.src, start), dirfd.Seek(c.dst, start)); err != nil {
			return err
		}
		if err := c.copy(start, end); err != nil {
			return err
		}
		at = end
	}
	return c.dst.Truncate(s.Size)
}

// copy copies what is between two positions, or up to the end of a file whose end comes before.
func (c *copier) copy(at, end int64) error {
	for begun := at; at < end; {
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
	if size > small && !c.byHand {
		n, err := dirfd.CopyRange(c.src, c.dst, int(size))
		if err == nil || err == unix.ENOSPC || err == unix.EDQUOT || err == unix.EIO || err == unix.EFBIG {
			return int64(n), err
		}
		c.byHand = true
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

// unpackedName returns the name of what unpack makes of a file, perhaps that of the file itself.
func unpackedName(name string) string {
	for {
		ext := path.Ext(name)
		if ext == name || !slices.Contains([]string{".gz", ".zst", ".b64", ".base64"}, ext) {
			return name
		}
		name = strings.TrimSuffix(name, ext)
	}
}

// budget is how much may still be unpacked.
type budget struct{ left atomic.Int64 }

// errTooLarge means that more would be unpacked than Options.MaxSize.
var errTooLarge = errors.New("it unpacks to more than --max-size allows")

// notPacked is the hint for a file that its name promises to be packed.
const notPacked = "the name says how it is compressed or encoded, and the content is something else, or damaged: leave it out with exclude"

// content is a reader of what a file is to hold: at its end, the source must be what it was at the start.
type content struct {
	*copying
	src    dirfd.FD
	from   io.Reader // that unpacks src
	read   int64     // bytes
	closes []func()
}

// content returns what the file is to hold, and its size, or 0 if it is not known. The caller closes it, and then src.
func (c *copying) content(src dirfd.FD) (*content, int64, error) {
	r := &content{copying: c, src: src, from: src}
	if !c.packed() {
		return r, c.stat.Size, nil
	}
	for name, rest := c.name, unpackedName(c.name); name != rest; name = strings.TrimSuffix(name, path.Ext(name)) {
		if err := r.unpack(path.Ext(name)); err != nil {
			r.Close()
			err = failure.WithHint(fmt.Errorf("unpack as %s: %w", formats[path.Ext(name)], err), notPacked)
			return nil, 0, c.unread(err)
		}
	}
	return r, 0, nil
}

var formats = map[string]string{".gz": "gzip", ".zst": "zstd"}

// unpack unpacks what a file with that extension holds.
func (r *content) unpack(ext string) error {
	in := bufio.NewReaderSize(r.from, 64<<10)
	magic, _ := in.Peek(6)
	r.from = in
	if b64 := map[string]string{".gz": "H4sI", ".zst": "KLUv/"}[ext]; bytes.HasPrefix(magic, []byte(b64)) { // also of .b64
		r.from = base64.NewDecoder(base64.StdEncoding, in) // which ignores line breaks
	}
	switch ext {
	case ".gz":
		z, err := gzip.NewReader(r.from)
		r.from = z
		return err
	case ".zst":
		z, err := zstd.NewReader(r.from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20), zstd.WithDecoderLowmem(true))
		if err == nil {
			r.closes = append(r.closes, z.Close)
		}
		r.from = z
		return err
	}
	return nil
}

func (r *content) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	n, err := r.from.Read(p)
	r.read += int64(n)
	if more := r.read - r.spent; more > 0 && r.packed() {
		r.spent += more
		if r.unpacked.left.Add(-more) < 0 {
			return 0, errTooLarge
		}
	}
	switch {
	case err == io.EOF:
		if changed := r.steady(r.src); changed != nil {
			err = changed
		}
	case err != nil && r.packed():
		err = failure.WithHint(fmt.Errorf("unpack: %w", err), notPacked)
	}
	return n, err
}

func (r *content) Close() error {
	for _, c := range r.closes {
		c()
	}
	return nil
}
