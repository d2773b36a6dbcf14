package attributes

import (
	"bytes"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxIdent bounds what is held back of an expanded $Id: …$, in bytes. Git knows no
// bound, but what is longer, without a blank, is no id.
const maxIdent = 64 << 10

// identifier replaces $Id$ and $Id: HEX $ by $Id: ID $, as git does where it has
// the whole content in memory (ident_to_worktree).
type identifier struct {
	id    plumbing.Hash
	next  io.Writer
	held  []byte // begins with a dollar that may begin an id
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

// replacer returns what replaces ids in a file with these attributes.
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

// replace writes data up to where an id may begin that more data decides upon; at
// the end, all.
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

// identAt returns the length of the id at the beginning of data, 0 if there is
// none; open means that more data decides.
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
	// A blank other than the first and the last is of another system's id.
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

// streamer replaces ids as git does where it converts a file piece by piece
// (ident_filter_fn), which is everywhere but where the whole content decides. It
// differs from [identifier] in what begins like an id and is none, down to a
// mistake: of $Idx$Id: … $ the beginning is lost.
type streamer struct {
	id    plumbing.Hash
	next  io.Writer
	left  []byte // what is held back
	state int    // how much of head was seen, or one of those below
	count int
	out   []byte
}

const (
	skipping = -1 - iota // up to a dollar or a line feed
	passing              // the same, of what is too long for an id
)

const head = "$Id\x00" // git compares with the end of the string too

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

// put takes the next byte.
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

// skip takes a byte of what may be an expanded id.
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

// foreign reports whether what was skipped is the id of another system: one with a
// blank before its end (is_foreign_ident).
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
