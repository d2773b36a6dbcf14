package remote

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"initbox/clone/pktline"
)

// How a pack is sent.
const (
	raw   = iota // as it is, to the end of the connection
	bands        // in packets, each of which begins with a byte that says what it is
)

// The bands (gitprotocol-pack(5), "Packfile Data").
const (
	bandPack     = 1
	bandProgress = 2
	bandError    = 3
)

// packReader reads the pack in a server's answer, in one goroutine. Any other may close it meanwhile, which ends a Read
// that is waiting.
type packReader struct {
	s    *server
	r    *reply
	raw  io.Reader // of a server without bands, else nil
	rest []byte    // of the last packet
	err  error     // why the reply ended

	over   sync.Once // the reply
	closed atomic.Bool
}

// end finishes a reply that has been read to its end.
func (p *packReader) end() { p.over.Do(p.r.end) }

// fail abandons the reply, and explains err.
func (p *packReader) fail(err error) error {
	p.over.Do(func() { err = p.r.fail(err) })
	return err
}

// broken abandons a reply that violates the protocol.
func (p *packReader) broken() error {
	p.fail(nil)
	return unexpected("the server's answer is malformed in the middle of the pack")
}

func (s *server) newPack(r *reply, how int) io.ReadCloser {
	p := &packReader{s: s, r: r}
	if how == raw {
		p.raw = r.Rest()
	}
	return p
}

func (p *packReader) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	if p.closed.Load() {
		return 0, io.ErrClosedPipe
	}
	if p.raw != nil {
		return p.readRaw(b)
	}
	for len(p.rest) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.rest, p.err = p.packet()
	}
	n = copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// WriteTo implements [io.WriterTo]: the content of a packet is copied only once.
func (p *packReader) WriteTo(w io.Writer) (n int64, err error) {
	if p.raw != nil {
		return io.Copy(w, struct{ io.Reader }{p})
	}
	for {
		if p.closed.Load() {
			return n, io.ErrClosedPipe
		}
		if len(p.rest) > 0 {
			written, err := w.Write(p.rest)
			n += int64(written)
			p.rest = p.rest[written:]
			if err != nil {
				return n, err
			}
		}
		if p.err == io.EOF {
			return n, nil
		}
		if p.err != nil {
			return n, p.err
		}
		p.rest, p.err = p.packet()
	}
}

// packet returns the pack's part of the next packet, which may be empty.
func (p *packReader) packet() ([]byte, error) {
	kind, line, err := p.r.Next()
	switch {
	case err == pktline.ErrMalformed:
		return nil, p.broken()
	case err == io.EOF: // without a flush packet: the answer was cut off
		return nil, p.fail(io.ErrUnexpectedEOF)
	case err != nil:
		return nil, p.fail(err)
	case kind == pktline.Flush:
		p.end()
		return nil, io.EOF
	case kind != pktline.Data || len(line) == 0:
		return nil, p.broken()
	}
	band, content := line[0], line[1:]
	switch band {
	case bandPack:
		return content, nil
	case bandProgress:
		p.s.progress(content)
		return nil, nil
	case bandError:
		p.fail(nil)
		return nil, p.s.said(string(content))
	}
	if text, isError := strings.CutPrefix(string(line), "ERR "); isError {
		p.fail(nil)
		return nil, p.s.said(text)
	}
	return nil, p.broken()
}

func (p *packReader) readRaw(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.raw.Read(b)
	switch {
	case err == io.EOF:
		p.end()
		p.err = err
	case err != nil:
		p.err = p.fail(err)
	}
	return n, p.err
}

// Close abandons the rest of the pack.
func (p *packReader) Close() error {
	p.closed.Store(true)
	p.fail(nil)
	return nil
}

// progress logs the server's progress messages.
func (s *server) progress(text []byte) {
	if !s.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	for line := range strings.FieldsFuncSeq(string(text), func(r rune) bool { return r == '\r' || r == '\n' }) {
		s.log.Debug(s.url.String() + ": the server reported: " + s.quote(line))
	}
}
