// Package ahead has one goroutine use what another one reads, which is some chunks ahead: neither waits for a short
// pause of the other.
//
//	p := ahead.Start(func(content io.Reader) error { return unpack(content) })
//	err := p.Fill(connection) // and once more, with the rest, if the connection breaks
//	err = p.End(err)
package ahead

import (
	"errors"
	"io"
)

// The memory of a Pipe: chunks are large enough that handing them over costs nothing.
const (
	chunkSize = 64 << 10
	chunks    = 16
)

// Pipe is what is read, on its way to where it is used.
type Pipe struct {
	free, full chan []byte
	used       chan struct{} // closed when the user has returned
	err        error         // of the user, after used
	ended      bool
	cause      error // for the user, instead of io.EOF; set before full is closed
}

// Start calls use in a goroutine. If it returns no error before the end of the content, the rest is read for it.
func Start(use func(io.Reader) error) *Pipe {
	p := &Pipe{free: make(chan []byte, chunks), full: make(chan []byte, chunks), used: make(chan struct{})}
	for range chunks {
		p.free <- make([]byte, chunkSize)
	}
	go func() {
		defer close(p.used)
		content := &reader{Pipe: p}
		if p.err = use(content); p.err == nil {
			_, p.err = io.Copy(io.Discard, content)
		}
	}()
	return p
}

// ErrUnused is the error of Fill when the user has returned before the end; End returns why.
var ErrUnused = errors.New("not all was used")

// Fill reads r to its end. All that it has read before an error is used.
func (p *Pipe) Fill(r io.Reader) error {
	for {
		var buf []byte
		select {
		case buf = <-p.free:
		case <-p.used:
			return ErrUnused
		}
		n, err := 0, error(nil)
		for n < len(buf) && err == nil {
			more := 0
			more, err = r.Read(buf[n:])
			n += more
		}
		p.full <- buf[:n] // there is room for all
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// End tells the user that the content has ended, or with cause why there will be no more of it, and returns its error
// when it has returned.
func (p *Pipe) End(cause error) error {
	if !p.ended {
		p.ended, p.cause = true, cause
		close(p.full)
	}
	<-p.used
	return p.err
}

// reader is what the user reads.
type reader struct {
	*Pipe
	now, rest []byte
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.now != nil {
			r.free <- r.now[:chunkSize]
		}
		var ok bool
		if r.now, ok = <-r.full; !ok {
			if r.cause != nil {
				return 0, r.cause
			}
			return 0, io.EOF
		}
		r.rest = r.now
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
