package pack

import (
	"encoding/binary"
	"io"
)

// instructions is a delta: the lengths of its base and of its result, and then instructions to copy or to insert.
type instructions interface {
	io.Reader
	io.ByteReader
}

// deltaSizes reads the lengths at the beginning of a delta.
func deltaSizes(in io.ByteReader) (base, result int64, err error) {
	if base, err = deltaSize(in); err == nil {
		result, err = deltaSize(in)
	}
	return base, result, err
}

func deltaSize(in io.ByteReader) (int64, error) {
	n, err := binary.ReadUvarint(in)
	if err == nil && n > 1<<60 || err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return 0, corrupt("its delta has an impossible length")
	}
	return int64(n), cut(err, "its delta ends in the middle of a length")
}

// target receives the result of a delta.
type target interface {
	copy(base *content, off, n int64) error // n bytes of the base
	insert(in io.Reader, n int64) error     // the next n bytes of the delta
}

// applyDelta executes the instructions that follow the lengths, which must produce size bytes.
func applyDelta(in instructions, base *content, size int64, to target) error {
	for {
		op, err := in.ReadByte()
		switch {
		case err == io.EOF && size == 0:
			return nil
		case err != nil:
			return cut(err, "its delta produces too few bytes")
		case op == 0:
			return corrupt("its delta has a reserved instruction")
		}
		n := int64(op)
		var off int64
		if op&0x80 != 0 {
			if off, n, err = copyRange(in, op); err != nil {
				return err
			}
			if off+n > base.size {
				return corrupt("its delta copies from beyond its base")
			}
		}
		if n > size {
			return corrupt("its delta produces too many bytes")
		}
		if op&0x80 != 0 {
			err = to.copy(base, off, n)
		} else {
			err = to.insert(in, n)
		}
		if err != nil {
			return cut(err, "its delta ends in the middle of an instruction")
		}
		size -= n
	}
}

// copyRange reads the operands of the copy instruction op. Each bit of op says that a byte of the offset or the length
// follows, low bytes first; the others are zero.
func copyRange(in io.ByteReader, op byte) (off, n int64, err error) {
	var number [7]byte
	for i := range number {
		if op&(1<<i) == 0 {
			continue
		}
		if number[i], err = in.ReadByte(); err != nil {
			return 0, 0, cut(err, "its delta ends in the middle of an instruction")
		}
	}
	off = int64(binary.LittleEndian.Uint32(number[:]))
	n = int64(number[4]) | int64(number[5])<<8 | int64(number[6])<<16
	if n == 0 {
		n = 0x10000
	}
	return off, n, nil
}

// inMemory is a target in memory.
type inMemory struct{ left []byte }

func (m *inMemory) copy(base *content, off, n int64) error {
	_, err := base.ReadAt(m.left[:n], off)
	m.left = m.left[n:]
	return err
}

func (m *inMemory) insert(in io.Reader, n int64) error {
	_, err := io.ReadFull(in, m.left[:n])
	m.left = m.left[n:]
	return err
}

// toWriter is a target that writes to a writer.
type toWriter struct {
	io.Writer
	cause func() error // why to stop, or nil
	buf   []byte
}

func (w *toWriter) copy(base *content, off, n int64) error {
	return w.insert(io.NewSectionReader(base, off, n), n)
}

// insert writes the next n bytes of in.
func (w *toWriter) insert(in io.Reader, n int64) error {
	for n > 0 {
		if err := w.cause(); err != nil {
			return err
		}
		p := w.buf[:min(n, int64(len(w.buf)))]
		if _, err := io.ReadFull(in, p); err != nil {
			return err
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		n -= int64(len(p))
	}
	return nil
}
