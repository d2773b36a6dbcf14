package attributes

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// encoding is a target of conversions from UTF-8.
type encoding struct {
	mark string            // at the beginning
	fits func(r rune) bool // nil for all
	put  func(to []byte, r rune) []byte

	// apart means that the C library also decomposes characters that fits rejects, such as accented letters.
	apart bool
}

// Encodings lists the values of working-tree-encoding to which [Convert] converts.
const Encodings = "UTF-16 and UTF-32 (also with LE or BE), ISO-8859-1 to -10 and -13 to -16, windows-874 and windows-1250 to -1258, US-ASCII"

// encodingOf returns the encoding of a name in iconv and git, or nil.
func encodingOf(name string) *encoding {
	name = strings.ToUpper(name)
	if e := encodings[name]; e != nil {
		return e
	}
	m, iso := charmapOf(strings.NewReplacer("ISO8859-", "ISO-8859-", "ISO_8859-", "ISO-8859-", "CP", "WINDOWS-").Replace(name))
	if m == nil {
		return nil
	}
	encode := func(r rune) (byte, bool) {
		if iso && r >= 0x80 && r < 0xa0 { // control characters, which package charmap does not have
			return byte(r), true
		}
		return m.EncodeRune(r)
	}
	return &encoding{
		fits: func(r rune) bool {
			_, ok := encode(r)
			return ok
		},
		put: func(to []byte, r rune) []byte {
			b, _ := encode(r)
			return append(to, b)
		},
		apart: m == charmap.Windows1255 || m == charmap.Windows1258,
	}
}

// charmapOf returns the tables of an encoding, and whether it is an ISO-8859.
func charmapOf(name string) (m *charmap.Charmap, iso bool) {
	for _, t := range []struct {
		names string
		m     *charmap.Charmap
	}{
		{"ISO-8859-2 LATIN2 L2", charmap.ISO8859_2},
		{"ISO-8859-3 LATIN3 L3", charmap.ISO8859_3},
		{"ISO-8859-4 LATIN4 L4", charmap.ISO8859_4},
		{"ISO-8859-5", charmap.ISO8859_5},
		{"ISO-8859-6", charmap.ISO8859_6},
		{"ISO-8859-7", charmap.ISO8859_7},
		{"ISO-8859-8", charmap.ISO8859_8},
		{"ISO-8859-9 LATIN5 L5", charmap.ISO8859_9},
		{"ISO-8859-10 LATIN6 L6", charmap.ISO8859_10},
		{"ISO-8859-13 LATIN7 L7", charmap.ISO8859_13},
		{"ISO-8859-14 LATIN8 L8", charmap.ISO8859_14},
		{"ISO-8859-15 LATIN-9", charmap.ISO8859_15},
		{"ISO-8859-16 LATIN10 L10", charmap.ISO8859_16},
		{"WINDOWS-874", charmap.Windows874},
		{"WINDOWS-1250", charmap.Windows1250},
		{"WINDOWS-1251", charmap.Windows1251},
		{"WINDOWS-1252", charmap.Windows1252},
		{"WINDOWS-1253", charmap.Windows1253},
		{"WINDOWS-1254", charmap.Windows1254},
		{"WINDOWS-1255", charmap.Windows1255},
		{"WINDOWS-1256", charmap.Windows1256},
		{"WINDOWS-1257", charmap.Windows1257},
		{"WINDOWS-1258", charmap.Windows1258},
	} {
		if slices.Contains(strings.Fields(t.names), name) {
			return t.m, strings.HasPrefix(t.names, "ISO")
		}
	}
	return nil, false
}

// encodings are the encodings without tables. As in the C library of Linux, UTF-16 and UTF-32 without a byte order are
// little-endian, with a mark.
var encodings = map[string]*encoding{
	"UTF-16":       {mark: "\xff\xfe", put: put16(binary.LittleEndian)},
	"UTF-16LE":     {put: put16(binary.LittleEndian)},
	"UTF-16BE":     {put: put16(binary.BigEndian)},
	"UTF-16LE-BOM": {mark: "\xff\xfe", put: put16(binary.LittleEndian)},
	"UTF-16BE-BOM": {mark: "\xfe\xff", put: put16(binary.BigEndian)},
	"UTF-32":       {mark: "\xff\xfe\x00\x00", put: put32(binary.LittleEndian)},
	"UTF-32LE":     {put: put32(binary.LittleEndian)},
	"UTF-32BE":     {put: put32(binary.BigEndian)},
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
	latin1 = &encoding{fits: func(r rune) bool { return r < 0x100 }, put: put8}
	ascii  = &encoding{fits: func(r rune) bool { return r < 0x80 }, put: put8}
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
