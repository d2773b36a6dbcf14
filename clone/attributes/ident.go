package attributes

import (
	"bytes"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxIdent limits how much of an expanded $Id: …$ is held back, in bytes. Git has no limit, but no ID is that long.
const maxIdent = 64 << 10

// identifier replaces $Id$ and $Id: HEX $ by $Id: ID $, like git if it has the whole content in memory
// (ident_to_worktree).
type identifier struct {
	id    plumbing.Hash
	next  io.Writer
	held  []byte // starts with a dollar that may start an $Id$
	count int
}

// replacer is an identifier or a streamer.
type replacer interface {
	io.Writer
	close() error // writes what was held back
	replaced() int
}

func (w *identifier) replaced() int { return w.count }
func (w *streamer) replaced() int   { return w.count }

// replacer returns a writer that replaces $Id$ in a file with these attributes.
func (a Attributes) replacer(id plumbing.Hash, next io.Writer) replacer {
	if a.EOL == AutoCRLF || a.Encoding != "" {
		return &identifier{id: id, next: next}
	}
	return &streamer{id: id, next: next}
}

func (w *identifier) Write(p []byte) (int, error) {
	data := p
	if len(w.held) > 0 {
		data = append(w.held, p...)
	}
	rest, err := w.replace(data, false)
	if err != nil {
		return 0, err
	}
	w.held = append([]byte(nil), rest...)
	return len(p), nil
}

func (w *identifier) close() error {
	_, err := w.replace(w.held, true)
	w.held = nil
	return err
}

// replace writes data up to a possible $Id$ that cannot be decided without more data; at the end it writes everything.
func (w *identifier) replace(data []byte, end bool) (rest []byte, err error) {
	for len(data) > 0 {
		dollar := bytes.IndexByte(data, '$')
		if dollar < 0 {
			_, err := w.next.Write(data)
			return nil, err
		}
		if _, err := w.next.Write(data[:dollar]); err != nil {
			return nil, err
		}
		data = data[dollar:]
		length, open := identAt(data)
		if open && !end && len(data) < maxIdent {
			return data, nil
		}
		if length == 0 || open {
			if _, err := w.next.Write(data[:1]); err != nil {
				return nil, err
			}
			data = data[1:]
			continue
		}
		w.count++
		if _, err := io.WriteString(w.next, "$Id: "+w.id.String()+" $"); err != nil {
			return nil, err
		}
		data = data[length:]
	}
	return nil, nil
}

// identAt returns the length of the $Id$ at the beginning of data, or 0; open means that more data is needed.
func identAt(data []byte) (length int, open bool) {
	const begin = "$Id"
	if len(data) < len(begin)+1 {
		return 0, bytes.HasPrefix([]byte(begin), data) || string(data) == begin
	}
	if string(data[:len(begin)]) != begin {
		return 0, false
	}
	switch data[len(begin)] {
	case '$':
		return len(begin) + 1, false
	case ':':
	default:
		return 0, false
	}
	body := data[len(begin)+1:]
	end := bytes.IndexAny(body, "$\n")
	inside := body
	if end >= 0 {
		inside = body[:end]
	}
	// A blank other than the first and the last belongs to the ID of another system.
	if len(inside) > 1 {
		if blank := bytes.IndexByte(inside[1:], ' '); blank >= 0 && blank+2 < len(inside) {
			return 0, false
		}
	}
	switch {
	case end < 0:
		return 0, true
	case body[end] == '\n', len(begin)+1+end+1 > maxIdent:
		return 0, false
	}
	return len(begin) + 1 + end + 1, false
}

// streamer replaces $Id$ like git when it converts a file in pieces (ident_filter_fn), which it does unless a
// conversion needs the whole content. It differs from [identifier] for text that only looks like $Id$, and has a bug of
// git: the beginning of $Idx$Id: … $ is lost.
type streamer struct {
	id    plumbing.Hash
	next  io.Writer
	left  []byte // held back
	state int    // how much of head has been seen, or one of the states below
	count int
	out   []byte
}

const (
	skipping = -1 - iota // up to a dollar or a line feed
	passing              // the same, in text that is too long for an $Id$
)

const head = "$Id\x00" // git compares the terminating NUL, too

func (w *streamer) Write(p []byte) (int, error) {
	w.out = w.out[:0]
	for _, c := range p {
		w.put(c)
	}
	if _, err := w.next.Write(w.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// put processes the next byte.
func (w *streamer) put(c byte) {
	switch {
	case w.state == passing:
		if w.out = append(w.out, c); c == '\n' || c == '$' {
			w.state = 0
		}
	case w.state == skipping:
		w.skip(c)
	case w.state < len(head) && head[w.state] == c:
		w.state++
	default:
		w.left = append(w.left, head[:w.state]...)
		switch {
		case w.state != len("$Id"):
			w.left = append(w.left, c)
			w.drain()
		case c == ':':
			w.left = append(w.left, c)
			w.state = skipping
		case c == '$':
			w.expand()
		default:
			w.left = append(w.left, c)
			w.state = 0
		}
	}
}

// skip processes a byte of a possible expanded $Id$.
func (w *streamer) skip(c byte) {
	w.left = append(w.left, c)
	switch {
	case c == '$' && !foreign(w.left):
		w.left = w.left[:len("$Id")]
		w.expand()
	case c == '$', c == '\n':
		w.drain()
	case len(w.left) > maxIdent:
		w.drain()
		w.state = passing
	}
}

func (w *streamer) expand() {
	w.count++
	w.left = append(append(append(w.left, ": "...), w.id.String()...), " $"...)
	w.drain()
}

func (w *streamer) drain() {
	w.out = append(w.out, w.left...)
	w.left, w.state = w.left[:0], 0
}

// foreign reports whether the skipped text is the ID of another system: one with a blank before its end
// (is_foreign_ident).
func foreign(left []byte) bool {
	text, ok := bytes.CutPrefix(left, []byte("$Id: "))
	if !ok {
		return false
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	for i, c := range text {
		if bytes.IndexByte([]byte(" \t\n\r"), c) >= 0 && (i+1 == len(text) || text[i+1] != '$') {
			return true
		}
	}
	return false
}

func (w *streamer) close() error {
	if w.state > 0 {
		w.left = append(w.left, head[:w.state]...)
	}
	w.out = w.out[:0]
	w.drain()
	_, err := w.next.Write(w.out)
	return err
}
