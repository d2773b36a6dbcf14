package fetch

import (
	"errors"
	"hash"
	"io"
	"sync/atomic"
)

// sink takes the bytes of one download: what is written, and the checksums, each in a goroutine of its own. It outlives
// the connections that the bytes come over.
type sink struct {
	size int64 // bytes so far

	free       chan *chunk
	write, sum chan *chunk // nil elements never; closed by end
	hashes     []hash.Hash
	summed     chan struct{}
	consumed   chan struct{} // closed when the consumer has returned
	err        error         // of the consumer, after consumed
	cause      error         // for the consumer, instead of io.EOF; set before end closes write
	current    *chunk        // of the consumer
	rest       []byte        // of current
	ended      bool
}

// chunk is a part of the content, which goes to the consumer and to the hashes.
type chunk struct {
	data []byte
	refs atomic.Int32
	buf  [chunkSize]byte
}

// The memory of a download: chunks are large enough that handing them over costs nothing, and enough of them are on
// their way that neither side waits for a short pause of the other.
const (
	chunkSize = 64 << 10
	chunks    = 16
)

// newSink starts the consumer, which reads the content to its end, and hashes.
func newSink(consume func(io.Reader) error, hashes ...hash.Hash) *sink {
	s := &sink{
		free: make(chan *chunk, chunks), write: make(chan *chunk, chunks), sum: make(chan *chunk, chunks),
		hashes: hashes, summed: make(chan struct{}), consumed: make(chan struct{}),
	}
	for range chunks {
		s.free <- new(chunk)
	}
	go func() {
		defer close(s.summed)
		for c := range s.sum {
			for _, h := range s.hashes {
				h.Write(c.data)
			}
			s.done(c)
		}
	}()
	go func() {
		defer close(s.consumed)
		if s.err = consume(s); s.err == nil {
			_, s.err = io.Copy(io.Discard, s)
		}
	}()
	return s
}

func (s *sink) done(c *chunk) {
	if c.refs.Add(-1) == 0 {
		s.free <- c
	}
}

// Read is for the consumer.
func (s *sink) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.current != nil {
			s.done(s.current)
			s.current = nil
		}
		c, ok := <-s.write
		if !ok {
			if s.cause != nil {
				return 0, s.cause
			}
			return 0, io.EOF
		}
		s.current, s.rest = c, c.data
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// errConsumer is the error of fill when the consumer has failed; end returns why.
var errConsumer = errors.New("the content cannot be written")

// errTooLong is the error of content that is longer than the limit.
var errTooLong = errors.New("longer than the limit")

// fill reads r to its end, which is at most at limit bytes of the whole content.
func (s *sink) fill(r io.Reader, limit int64) error {
	for {
		var c *chunk
		select {
		case c = <-s.free:
		case <-s.consumed:
			return errConsumer
		}
		n, err := r.Read(c.buf[:])
		if s.size += int64(n); s.size > limit {
			s.free <- c
			return errTooLong
		}
		if n == 0 {
			s.free <- c
		} else {
			c.data = c.buf[:n]
			c.refs.Store(2)
			s.sum <- c
			s.write <- c
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// end tells the consumer that the content has ended, or with cause why there will be no more of it, and returns its
// error when it has returned. After that, the hashes are complete.
func (s *sink) end(cause error) error {
	if !s.ended {
		s.ended, s.cause = true, cause
		close(s.sum)
		close(s.write)
	}
	<-s.summed
	<-s.consumed
	return s.err
}
