package render

import (
	"errors"
	"slices"

	"initbox/internal/stage"
)

// bounded is a writer with a limit. It stores pieces: a growing buffer would copy a large result several times, and
// need more than twice the memory. A result that is longer than a few pieces goes to a draft, if there can be one.
type bounded struct {
	limit  int64
	size   int64
	pieces [][]byte // all but the last are full

	draft   func() (*stage.Draft, error) // nil without one
	spilled *stage.Draft                 // what was made by draft; pieces is then its buffer
	err     error                        // of the draft
}

// The first piece is for a small file, and the last are for large ones. A draft is written when so much has come
// together.
const firstPiece, lastPiece, drafted = 4 << 10, 4 << 20, 1 << 20

var errTooLong = errors.New("the result is longer than the limit")

func (b *bounded) Write(p []byte) (int, error) {
	if b.size+int64(len(p)) > b.limit {
		return 0, errTooLong
	}
	b.size += int64(len(p))
	for rest := p; len(rest) > 0; {
		if n := len(b.pieces); n == 0 || len(b.pieces[n-1]) == cap(b.pieces[n-1]) {
			if err := b.spill(); err != nil {
				return 0, err
			}
			if b.spilled == nil {
				b.pieces = append(b.pieces, make([]byte, 0, max(len(rest), int(min(max(b.size, firstPiece), lastPiece)))))
			}
		}
		last := &b.pieces[len(b.pieces)-1]
		n := min(len(rest), cap(*last)-len(*last))
		*last, rest = append(*last, rest[:n]...), rest[n:]
	}
	return len(p), nil
}

func (b *bounded) WriteString(s string) (int, error) { return b.Write([]byte(s)) }

// spill moves what has come together to the draft, if there is one, and keeps the last piece as a buffer.
func (b *bounded) spill() error {
	if b.size < drafted || b.draft == nil || b.err != nil {
		return b.err
	}
	if b.spilled == nil {
		if b.spilled, b.err = b.draft(); b.spilled == nil {
			b.draft = nil
			return b.err
		}
	}
	for _, piece := range b.pieces {
		if _, b.err = b.spilled.Write(piece); b.err != nil {
			return b.err
		}
	}
	b.pieces = b.pieces[len(b.pieces)-1:]
	b.pieces[0] = b.pieces[0][:0]
	return nil
}

// result returns all that was written.
func (b *bounded) result() result {
	if b.spilled == nil {
		return result{content: b.Bytes()}
	}
	draft := b.spilled
	if b.err == nil {
		_, b.err = draft.Write(b.pieces[0])
	}
	return result{draft: draft}
}

// close removes the draft if there is an error, and otherwise sets *err to that of the draft.
func (b *bounded) close(err *error) {
	if *err == nil {
		*err = b.err
	}
	if *err != nil && b.spilled != nil {
		b.spilled.Discard()
	}
}

// Bytes returns all that was written, if there is no draft.
func (b *bounded) Bytes() []byte {
	if len(b.pieces) == 1 {
		return b.pieces[0]
	}
	return slices.Concat(b.pieces...)
}
