package pack

import (
	"compress/flate"
	"compress/zlib"
	"errors"
	"io"
	"os"
)

// source is compressed data. It is read byte by byte, so that nothing behind it is consumed.
type source interface {
	io.Reader
	io.ByteReader
	ahead() []byte // the unread bytes in memory
	skip(n int)    // consumes n bytes of those
	more() bool    // reads more into memory; false if there is no more, or no room
}

// inflater inflates one object after another, each of a known length. Its zero value is ready for reset.
type inflater struct {
	quick quick
	z     io.ReadCloser
	left  int64
	next  [1]byte
}

// reset starts to inflate data that inflates to size bytes.
func (f *inflater) reset(src source, size int64) (err error) {
	f.left = size
	if f.z == nil {
		f.z, err = zlib.NewReader(src)
	} else {
		err = f.z.(zlib.Resetter).Reset(src, nil)
	}
	return inflating(err)
}

// Read implements io.Reader. It returns io.EOF only if the length and the checksum of the data are right.
func (f *inflater) Read(p []byte) (int, error) {
	if f.left == 0 {
		n, err := f.z.Read(f.next[:])
		if n > 0 {
			return 0, corrupt("it inflates to more bytes than its header says")
		}
		return 0, inflating(err)
	}
	n, err := f.z.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	if err == io.EOF && f.left > 0 {
		return n, corrupt("it inflates to fewer bytes than its header says")
	}
	return n, inflating(err)
}

// all inflates data of len(dst) bytes.
func (f *inflater) all(src source, dst []byte) error {
	need := len(dst) / 4 // at first
	for range 3 {
		for len(src.ahead()) < need && src.more() {
		}
		if used, ok := f.quick.inflate(src.ahead(), dst); ok {
			src.skip(used)
			return nil
		}
		need = f.quick.missing(len(src.ahead()), len(dst))
		if need == 0 || !src.more() {
			break
		}
	}
	if err := f.reset(src, int64(len(dst))); err != nil {
		return err
	}
	if _, err := io.ReadFull(f, dst); err != nil {
		return err // of Read, which knows the length
	}
	return f.end()
}

// end checks that no more data follows, and the checksum.
func (f *inflater) end() error {
	if _, err := f.Read(nil); err != io.EOF {
		return err
	}
	return nil
}

func inflating(err error) error {
	var flaw flate.CorruptInputError
	switch {
	case errors.As(err, &flaw), err == zlib.ErrHeader, err == zlib.ErrChecksum, err == zlib.ErrDictionary:
		return corrupt("it cannot be inflated (%v)", err)
	case err == io.ErrUnexpectedEOF:
		return cut(err, "the pack ends in the middle of it")
	}
	return err
}

// spooled is a source that reads the spool from an offset on.
type spooled struct {
	file *os.File
	at   int64 // offset of the byte after buf
	buf  []byte
	room [64 << 10]byte
}

const few = 4 << 10 // bytes: enough for most objects

func (s *spooled) seek(offset int64) { s.at, s.buf = offset, nil }

// ReadByte implements io.ByteReader.
func (s *spooled) ReadByte() (byte, error) {
	if err := s.fill(); err != nil {
		return 0, err
	}
	b := s.buf[0]
	s.buf = s.buf[1:]
	return b, nil
}

// Read implements io.Reader.
func (s *spooled) Read(p []byte) (int, error) {
	if err := s.fill(); err != nil {
		return 0, err
	}
	n := copy(p, s.buf)
	s.buf = s.buf[n:]
	return n, nil
}

func (s *spooled) ahead() []byte { return s.buf }

func (s *spooled) skip(n int) { s.buf = s.buf[n:] }

func (s *spooled) fill() error {
	if len(s.buf) > 0 {
		return nil
	}
	n, err := s.file.ReadAt(s.room[:few], s.at)
	if n == 0 {
		return err
	}
	s.at, s.buf = s.at+int64(n), s.room[:n]
	return nil
}

func (s *spooled) more() bool {
	if len(s.buf) > few {
		return false
	}
	rest := copy(s.room[:], s.buf)
	n, _ := s.file.ReadAt(s.room[rest:], s.at)
	s.at, s.buf = s.at+int64(n), s.room[:rest+n]
	return n > 0
}
