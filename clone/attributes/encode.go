package attributes

import (
	"encoding/binary"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// encoding is a target of conversions from UTF-8.
type encoding struct {
	mark string            // at the beginning
	fits func(r rune) bool // nil for all
	put  func(to []byte, r rune) []byte
}

// encodings are the encodings that a repository is likely to name, by their names in iconv and git. As in the C library
// of Linux, UTF-16 and UTF-32 without a byte order are little-endian, with a mark.
var encodings = map[string]*encoding{
	"UTF-16":       {"\xff\xfe", nil, put16(binary.LittleEndian)},
	"UTF-16LE":     {"", nil, put16(binary.LittleEndian)},
	"UTF-16BE":     {"", nil, put16(binary.BigEndian)},
	"UTF-16LE-BOM": {"\xff\xfe", nil, put16(binary.LittleEndian)},
	"UTF-16BE-BOM": {"\xfe\xff", nil, put16(binary.BigEndian)},
	"UTF-32":       {"\xff\xfe\x00\x00", nil, put32(binary.LittleEndian)},
	"UTF-32LE":     {"", nil, put32(binary.LittleEndian)},
	"UTF-32BE":     {"", nil, put32(binary.BigEndian)},
	"ISO-8859-1":   latin1,
	"ISO8859-1":    latin1,
	"ISO_8859-1":   latin1,
	"LATIN1":       latin1,
	"LATIN-1":      latin1, // git's own fallback
	"L1":           latin1,
	"US-ASCII":     ascii,
	"ASCII":        ascii,
}

var (
	latin1 = &encoding{"", func(r rune) bool { return r < 0x100 }, put8}
	ascii  = &encoding{"", func(r rune) bool { return r < 0x80 }, put8}
)

func put8(to []byte, r rune) []byte { return append(to, byte(r)) }

func put16(order binary.AppendByteOrder) func([]byte, rune) []byte {
	return func(to []byte, r rune) []byte {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			return order.AppendUint16(order.AppendUint16(to, uint16(high)), uint16(low))
		}
		return order.AppendUint16(to, uint16(r))
	}
}

func put32(order binary.AppendByteOrder) func([]byte, rune) []byte {
	return func(to []byte, r rune) []byte { return order.AppendUint32(to, uint32(r)) }
}

func isUTF8(name string) bool {
	return name == "" || strings.EqualFold(name, "utf-8") || strings.EqualFold(name, "utf8")
}

// runes calls each for every character of data, the first of which may begin in partial. It returns the incomplete
// character at the end, or false if data is not UTF-8.
func runes(partial, data []byte, each func(rune)) ([]byte, bool) {
	for len(partial) > 0 && len(data) > 0 {
		partial = append(partial, data[0])
		data = data[1:]
		if utf8.FullRune(partial) {
			r, size := utf8.DecodeRune(partial)
			if r == utf8.RuneError && size <= 1 {
				return nil, false
			}
			each(r)
			partial = partial[:0]
		}
	}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size <= 1 {
			if utf8.FullRune(data) {
				return nil, false
			}
			return append(partial, data...), true
		}
		each(r)
		data = data[size:]
	}
	return partial, true
}

// check finds out whether the encoding can represent the content.
func (s *inspection) check(p []byte) {
	if s.enc == nil || s.unencodable {
		return
	}
	partial, valid := runes(s.partial, p, func(r rune) {
		if s.enc.fits != nil && !s.enc.fits(r) {
			s.unencodable = true
		}
	})
	s.partial = partial
	s.unencodable = s.unencodable || !valid
}

// encoder converts checked UTF-8 to another encoding.
type encoder struct {
	encoding *encoding
	next     io.Writer
	marked   bool
	partial  []byte
	buf      []byte
}

func (w *encoder) Write(p []byte) (int, error) {
	w.buf = w.buf[:0]
	if !w.marked {
		w.marked = true
		w.buf = append(w.buf, w.encoding.mark...)
	}
	var valid bool
	w.partial, valid = runes(w.partial, p, func(r rune) { w.buf = w.encoding.put(w.buf, r) })
	if !valid {
		return 0, errChanged
	}
	if _, err := w.next.Write(w.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *encoder) close() error {
	if len(w.partial) > 0 {
		return errChanged
	}
	return nil
}
