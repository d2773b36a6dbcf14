package archive

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"

	"initbox/internal/failure"
	"initbox/volume/fetch/ahead"
)

// compressions are recognised by their first bytes.
var compressions = []struct {
	name, magic string
	open        func(*bufio.Reader) (io.ReadCloser, error)
}{
	{"gzip", "\x1f\x8b\x08", openGzip},
	{"xz", "\xfd7zXZ\x00", openXZ},
	{"zstd", "\x28\xb5\x2f\xfd", openZstd},
	{"bzip2", "BZh", func(r *bufio.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil }},
}

// compressedBuffer is how much is read at once of what is compressed.
const compressedBuffer = 64 << 10

// Decompress calls use with what is compressed in r by gzip, xz, zstd or bzip2, and with the name of that, or with r
// itself and "". It decompresses while use, in another goroutine, reads what it has. After use, it reads both to their
// ends, so that checksums at the end are checked, and nothing but zeros may follow.
func Decompress(ctx context.Context, r io.Reader, use func(compression string, content io.Reader) error) error {
	in := bufio.NewReaderSize(r, compressedBuffer)
	for _, c := range compressions {
		if magic, _ := in.Peek(len(c.magic)); string(magic) != c.magic {
			continue
		}
		from, err := c.open(in)
		if err == nil {
			defer from.Close()
			p := ahead.Start(func(content io.Reader) error { return use(c.name, content) })
			err = p.Fill(until{ctx, from})
			if err != nil && ctx.Err() == nil {
				err = formatError{err}
			}
			err = p.End(err)
		}
		if err == nil {
			err = padding(in)
		}
		return ofCompression(c.name, err)
	}
	err := use("", in)
	if err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	return err
}

// formatError is an error of what is compressed.
type formatError struct{ error }

func (e formatError) Unwrap() error { return e.error }

// ofCompression says which compression an error comes from.
func ofCompression(name string, err error) error {
	var format formatError
	if !errors.As(err, &format) {
		return err
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, xz.ErrBuf):
		return permanent("%s ends too early: the file is not whole", name)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, xz.ErrMemlimit):
		return permanent("%s needs a window of more than %d MiB", name, maxWindow>>20)
	}
	return permanent("%s: %s", name, failure.Printable(strings.TrimPrefix(format.Error(), name+": ")))
}

// gzipReader reads one member after another. The library would take what follows the last one for a broken member.
type gzipReader struct {
	*gzip.Reader
	in *bufio.Reader
}

func openGzip(in *bufio.Reader) (io.ReadCloser, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, formatError{err}
	}
	z.Multistream(false)
	return &gzipReader{z, in}, nil
}

func (g *gzipReader) Read(p []byte) (int, error) {
	for {
		n, err := g.Reader.Read(p)
		if n > 0 && err == io.EOF {
			err = nil
		}
		if n > 0 || err != io.EOF {
			return n, err
		}
		if magic, _ := g.in.Peek(2); string(magic) != "\x1f\x8b" {
			return 0, io.EOF
		}
		if err := g.Reset(g.in); err != nil {
			return 0, err
		}
		g.Multistream(false)
	}
}

// maxWindow is how far back compressed data may refer, and so how much memory it takes: that of zstd --long, and twice
// that of xz -9.
const maxWindow = 128 << 20

func openZstd(in *bufio.Reader) (io.ReadCloser, error) {
	z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, formatError{err}
	}
	return z.IOReadCloser(), nil
}

func openXZ(in *bufio.Reader) (io.ReadCloser, error) {
	z, err := xz.NewReader(in, maxWindow) // of each block
	if err != nil {
		return nil, formatError{err}
	}
	return io.NopCloser(z), nil
}

// padding reads what follows compressed data: zeros, as on tapes, or nothing.
func padding(in *bufio.Reader) error {
	for {
		if _, err := in.Peek(1); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		next, _ := in.Peek(in.Buffered())
		if len(bytes.Trim(next, "\x00")) > 0 {
			return formatError{errors.New("something else follows the compressed data")}
		}
		in.Discard(len(next))
	}
}

const blockSize = 512 // of a tar

// kindOf returns tar, zip, or "", for content that begins with these bytes.
func kindOf(first []byte) string {
	switch {
	case bytes.HasPrefix(first, []byte("PK\x03\x04")), bytes.HasPrefix(first, []byte("PK\x05\x06")):
		return "zip"
	case len(first) == blockSize && isTar(first):
		return "tar"
	}
	return ""
}

// isTar returns whether a block is the header of a tar, by its checksum, or the end of an empty tar, which is zeros.
func isTar(block []byte) bool {
	if len(bytes.Trim(block, "\x00")) == 0 {
		return true
	}
	want, err := strconv.ParseInt(strings.Trim(string(block[148:156]), " \x00"), 8, 64)
	if err != nil {
		return false
	}
	var unsigned, signed int64 // old programs added signed bytes
	for i, c := range block {
		if i >= 148 && i < 156 {
			c = ' '
		}
		unsigned += int64(c)
		signed += int64(int8(c))
	}
	return want == unsigned || want == signed
}

// notAnArchive returns an error that says what it is instead, if that is obvious.
func notAnArchive(first []byte) error {
	for _, known := range []struct{ magic, name string }{
		{"7z\xbc\xaf\x27\x1c", "7z, which is not supported"}, {"Rar!", "RAR, which is not supported"},
		{"\x1f\x9d", "compress (.Z), which is not supported"}, {"!<arch>\n", "ar, as in a .deb, which is not supported"},
		{"\x7fELF", "a program"}, {"<", "HTML or XML, perhaps the page of an error or a login"}, {"{", "JSON"},
	} {
		if bytes.HasPrefix(bytes.TrimLeft(first, " \t\r\n\ufeff"), []byte(known.magic)) {
			return permanent("it is not a tar or zip: it looks like %s", known.name)
		}
	}
	if len(first) == 0 {
		return permanent("it is empty, and not a tar or zip")
	}
	return permanent("it is not a tar or zip: it begins with %s", failure.Printable(strconv.QuoteToASCII(string(first[:min(len(first), 16)]))))
}
