package attributes

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/internal/failure"
)

// Convert returns the content that git would write for a blob with that ID and these attributes, or nil for the
// unchanged blob. It reads src once or twice from its beginning; reading the returned content reads it once more, in
// pieces.
//
// The warning, which does not stop git either, says that the content cannot be converted to the encoding, and stays in
// UTF-8. An encoding that only git knows is an error.
func Convert(src io.ReadSeeker, a Attributes, id plumbing.Hash) (content io.Reader, warning string, err error) {
	if !a.Converts() {
		return nil, "", nil
	}
	enc := encodingOf(a.Encoding)
	if a.Encoding != "" && enc == nil {
		return nil, "", errEncoding(a.Encoding, "is not supported")
	}
	seen := inspection{enc: enc}
	identified := a.replacer(id, io.Discard)
	if err := reread(src, io.MultiWriter(&seen, identified)); err != nil {
		return nil, "", err
	}
	seen.end()
	if err := identified.close(); err != nil {
		return nil, "", err
	}
	if enc != nil && seen.unencodable {
		if enc.apart {
			return nil, "", errEncoding(a.Encoding, "is not supported for characters that consist of several in it")
		}
		enc, warning = nil, leftAs(a.Encoding, "which cannot represent the content")
	}
	// The last step comes first.
	p := &pipe{src: src}
	var step io.Writer = &p.out
	changes := false
	if enc != nil && seen.size > 0 {
		p.enc = &encoder{encoding: enc, next: step}
		step, changes = p.enc, true
	}
	if a.EOL == CRLF && seen.lf > 0 || a.EOL == AutoCRLF && seen.lf > 0 && seen.cr+seen.crlf == 0 && !seen.binary() {
		step, changes = &liner{next: step}, true
	}
	if a.Ident && identified.replaced() > 0 {
		p.ident = a.replacer(id, step)
		step, changes = p.ident, true
	}
	if !changes {
		return nil, warning, nil
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return nil, "", err
	}
	p.first = step
	return p, warning, nil
}

// errEncoding returns the error for an encoding that git may be able to convert to.
func errEncoding(encoding, why string) error {
	return failure.New(failure.Local, "its working-tree-encoding, %s, %s", failure.Printable(encoding), why).
		WithHint("supported are " + Encodings + "; to do without the file, leave it out with --sparse-pattern '/*' --sparse-pattern '!FILE'")
}

func leftAs(encoding, why string) string {
	return "left in UTF-8, not converted to the encoding " + failure.Printable(encoding) + ", " + why
}

func reread(src io.ReadSeeker, dst io.Writer) error {
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.CopyBuffer(dst, struct{ io.Reader }{src}, make([]byte, chunk))
	return err
}

// errChanged means that the source has changed since it was inspected.
var errChanged = errors.New("the content changed while it was being converted")

// chunk is how much is read at a time, in bytes.
const chunk = 64 << 10

// pipe reads the output of the steps to which its source is written.
type pipe struct {
	src   io.Reader
	first io.Writer
	ident replacer
	enc   *encoder
	out   bytes.Buffer
	buf   []byte
	err   error
}

func (p *pipe) Read(b []byte) (int, error) {
	for p.out.Len() == 0 && p.err == nil {
		if p.buf == nil {
			p.buf = make([]byte, chunk)
		}
		var n int
		n, p.err = p.src.Read(p.buf)
		if _, err := p.first.Write(p.buf[:n]); err != nil {
			p.err = err
		}
		if p.err == io.EOF {
			p.end()
		}
	}
	if p.out.Len() > 0 {
		return p.out.Read(b)
	}
	return 0, p.err
}

// end makes the steps write what they hold back.
func (p *pipe) end() {
	if p.ident != nil {
		if err := p.ident.close(); err != nil {
			p.err = err
		}
	}
	if p.enc != nil {
		if err := p.enc.close(); err != nil {
			p.err = err
		}
	}
}

// inspection counts characters like git's gather_stats.
type inspection struct {
	enc         *encoding
	unencodable bool
	partial     []byte // of a character

	size              int64
	lf, cr, crlf      int64 // those alone, and those together
	printable, others int64
	nul               int64
	last              byte
	pendingCR         bool
}

func (s *inspection) Write(p []byte) (int, error) {
	for _, c := range p {
		if s.pendingCR {
			s.pendingCR = false
			if c == '\n' {
				s.crlf++
				s.last = c
				continue
			}
			s.cr++
		}
		s.last = c
		switch {
		case c == '\r':
			s.pendingCR = true
		case c == '\n':
			s.lf++
		case c == 0:
			s.nul++
			s.others++
		case c == 0x7f, c < ' ' && c != '\b' && c != '\t' && c != 0x1b && c != '\f':
			s.others++
		default:
			s.printable++
		}
	}
	s.size += int64(len(p))
	s.check(p)
	return len(p), nil
}

// end counts what could not be decided before the end.
func (s *inspection) end() {
	if s.pendingCR {
		s.cr++
	}
	if s.last == 0x1a { // the end-of-file mark of DOS
		s.others--
	}
	s.unencodable = s.unencodable || len(s.partial) > 0
}

// binary implements git's convert_is_binary.
func (s *inspection) binary() bool {
	return s.cr > 0 || s.nul > 0 || s.printable>>7 < s.others
}

// liner inserts a carriage return before every line feed without one.
type liner struct {
	next io.Writer
	last byte
}

func (l *liner) Write(p []byte) (int, error) {
	start := 0
	for i, c := range p {
		if c == '\n' && l.last != '\r' {
			if _, err := l.next.Write(p[start:i]); err != nil {
				return 0, err
			}
			if _, err := l.next.Write([]byte{'\r'}); err != nil {
				return 0, err
			}
			start = i
		}
		l.last = c
	}
	if _, err := l.next.Write(p[start:]); err != nil {
		return 0, err
	}
	return len(p), nil
}
