package pack

import (
	"context"
	"crypto/sha1"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"

	"initbox/internal/failure"
	"initbox/internal/poll"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	chunkSize   = 64 << 10
	chunksAhead = 16 // received but not parsed
	joinSize    = 8 * chunkSize
	headerSize  = 12 // of a pack: PACK, version, number of objects
)

// receiver copies a pack from its source to the spool and, in chunks, to a stream.
type receiver struct {
	src      io.Reader
	spool    *os.File
	max      int64
	progress *Progress

	chunks chan []byte
	free   chan []byte
	size   int64
	sum    hash.Hash // of all but the trailer; like the fields below, valid once chunks is closed
	tail   []byte    // the last 20 bytes
	err    error     // why chunks was closed; nil at the end of the source
}

func newReceiver(src io.Reader, o Options) *receiver {
	return &receiver{
		src: src, spool: o.Spool, max: o.MaxSize, progress: o.Progress,
		chunks: make(chan []byte, chunksAhead),
		free:   make(chan []byte, chunksAhead),
		sum:    sha1.New(),
	}
}

// run receives until the source or ctx ends.
func (r *receiver) run(ctx context.Context) {
	defer close(r.chunks)
	for r.err == nil {
		buf, err := r.fill()
		if len(buf) > 0 {
			r.err = r.keep(buf)
		}
		if r.err != nil {
			return
		}
		select { // at the end, buf may be empty
		case r.chunks <- buf:
		case <-ctx.Done():
			r.err = context.Cause(ctx)
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			r.err = fmt.Errorf("receiving the pack, after %d bytes: %w", r.size, err)
		}
	}
}

// fill returns the next bytes of the source: what has arrived if the parser waits for it, or else a whole chunk.
func (r *receiver) fill() (buf []byte, err error) {
	select {
	case buf = <-r.free:
	default:
	}
	if buf = buf[:0]; cap(buf) == 0 {
		buf = make([]byte, 0, chunkSize)
	}
	for err == nil && len(buf) < cap(buf) && (len(buf) == 0 || len(r.chunks) > 0) {
		var n int
		n, err = r.src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		r.progress.Bytes.Add(int64(n))
	}
	return buf, err
}

func (r *receiver) keep(buf []byte) error {
	r.size += int64(len(buf))
	if r.max > 0 && r.size > r.max {
		f := failure.New(failure.Unexpected, "the pack is larger than the allowed %d bytes", r.max)
		f.Hint = "allow more, or clone less of the repository: use a smaller depth, or a sparse checkout with a filter"
		return poll.Permanent(f)
	}
	if _, err := r.spool.Write(buf); err != nil {
		return writing("the pack", err)
	}
	r.hash(buf)
	return nil
}

// hash adds all but the last 20 bytes to the checksum: at the end, these are the checksum itself.
func (r *receiver) hash(buf []byte) {
	if rest := len(buf) - len(plumbing.ZeroHash); rest >= 0 {
		r.sum.Write(r.tail)
		r.sum.Write(buf[:rest])
		r.tail = append(r.tail[:0], buf[rest:]...)
		return
	}
	r.tail = append(r.tail, buf...)
	if old := len(r.tail) - len(plumbing.ZeroHash); old > 0 {
		r.sum.Write(r.tail[:old])
		r.tail = append(r.tail[:0], r.tail[old:]...)
	}
}

// stream is a pack as it arrives, for the goroutine that parses it.
type stream struct {
	from *receiver
	buf  []byte // received bytes: chunk, or joined
	pos  int    // how many bytes of buf have been read
	done int64  // bytes before buf
	err  error  // why receiving failed; nil at the end of the source

	chunk  []byte // to give back
	joined []byte // the unread rest of a chunk, and the next chunk

	crc  uint32 // of the entry, up to mark
	mark int
}

// offset returns how many bytes have been read.
func (s *stream) offset() int64 { return s.done + int64(s.pos) }

// begin starts the CRC of an entry, and sum returns it, as in an index.
func (s *stream) begin() { s.crc, s.mark = 0, s.pos }

func (s *stream) sum() uint32 {
	s.crc = crc32.Update(s.crc, crc32.IEEETable, s.buf[s.mark:s.pos])
	s.mark = s.pos
	return s.crc
}

// ReadByte implements io.ByteReader.
func (s *stream) ReadByte() (byte, error) {
	if s.pos == len(s.buf) {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	b := s.buf[s.pos]
	s.pos++
	return b, nil
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if s.pos == len(s.buf) {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.buf[s.pos:])
	s.pos += n
	return n, nil
}

func (s *stream) ahead() []byte { return s.buf[s.pos:] }

func (s *stream) skip(n int) { s.pos += n }

// more appends the next chunk to the unread bytes, if there is room for both.
func (s *stream) more() bool {
	unread := s.buf[s.pos:]
	if len(unread)+chunkSize > joinSize {
		return false
	}
	chunk, err := s.receive()
	if err != nil {
		return false // next will return the error
	}
	s.sum()
	if s.joined == nil {
		s.joined = make([]byte, 0, joinSize)
	}
	s.joined = append(append(s.joined[:0], unread...), chunk...)
	s.giveBack()
	s.chunk = chunk
	s.giveBack()
	s.done += int64(s.pos)
	s.buf, s.pos, s.mark = s.joined, 0, 0
	return true
}

// next waits for the next chunk, when all bytes have been read.
func (s *stream) next() error {
	chunk, err := s.receive()
	if err != nil {
		return err
	}
	s.sum()
	s.giveBack()
	s.done += int64(len(s.buf))
	s.chunk, s.buf, s.pos, s.mark = chunk, chunk, 0, 0
	return nil
}

// receive waits for a chunk that is not empty.
func (s *stream) receive() ([]byte, error) {
	for {
		chunk, ok := <-s.from.chunks
		if !ok {
			if s.err = s.from.err; s.err != nil {
				return nil, s.err
			}
			return nil, io.EOF
		}
		if len(chunk) > 0 {
			return chunk, nil
		}
	}
}

// giveBack returns the chunk, if any, to the receiver.
func (s *stream) giveBack() {
	if s.chunk == nil {
		return
	}
	select {
	case s.from.free <- s.chunk:
	default:
	}
	s.chunk = nil
}

// finish reads and verifies the checksum at the end of the pack.
func (s *stream) finish() (checksum plumbing.Hash, err error) {
	n, err := io.ReadFull(s, checksum[:])
	if err != nil {
		return checksum, cut(err, fmt.Sprintf("the pack lacks %d of the 20 bytes of its checksum", len(checksum)-n))
	}
	if _, err := s.ReadByte(); err == nil {
		return checksum, corrupt("more bytes follow the checksum at the end of the pack")
	} else if err != io.EOF {
		return checksum, err
	}
	if plumbing.Hash(s.from.sum.Sum(nil)) != checksum {
		return checksum, corrupt("the checksum of the pack is wrong: it was damaged in transit")
	}
	return checksum, nil
}
