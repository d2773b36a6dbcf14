package pack

import (
	"encoding/binary"
	"hash/adler32"
	"math/bits"
)

// quick inflates data that is in memory completely, with its result: that is most objects, in half the time of
// compress/flate, which dominates the time of a clone. It gives up on invalid data, and leaves it to compress/zlib to
// report the error. A fuzz test compares the two. The formats are those of RFC 1950 (zlib) and RFC 1951 (deflate).
type quick struct {
	src []byte
	pos int    // in src; may be beyond its end, where zeros are read
	acc uint64 // bits read from src, the next one lowest
	n   uint   // how many bits are in acc

	dst []byte
	out int // in dst

	short bool // src ended too early

	lit, dist           huffman // of the block
	lengths             huffman // of the code lengths of these
	fixedLit, fixedDist huffman // of blocks with fixed codes; built when needed
}

// A huffman is a table of codes with an entry for each value of the next bits. Longer codes continue in a second table.
// See build.
type huffman []uint32

const (
	litBits  = 10
	distBits = 8
	lenBits  = 7
	maxBits  = 15

	// An entry consists of the length of the code in bits, the number of extra bits that are added to the value, a
	// kind, and the value, which of a literal is a byte. 0 means that there is no such code.
	codeBits   = 0xf
	extraShift = 4
	literal    = 1 << 31 // the only kind with this bit, the sign, which is tested fastest
	length     = 2 << 8  // or distance
	blockEnd   = 3 << 8
	goesOn     = 4 << 8 // the code continues; the value says where
	kindBits   = 7 << 8
	valueShift = 16
)

// Entries of the symbols, without the lengths of their codes.
var (
	litSymbols  = symbols(257, 286, 3, 4)
	distSymbols = symbols(0, 30, 1, 2)
)

// symbols returns the entries of literals, of the end of a block, and of lengths or distances, from first up to last.
// Each length stands for as many values as its extra bits can distinguish; each group of symbols has one extra bit
// more.
func symbols(first, last, value, group int) (s [288]uint32) {
	for i := range first {
		s[i] = literal | uint32(i)<<valueShift
	}
	if first > 256 {
		s[256] = blockEnd
	}
	for i := first; i < last; i++ {
		extra := max(0, (i-first)/group-1)
		if i == 285 { // the greatest length has its own code
			value, extra = 258, 0
		}
		s[i] = length | uint32(extra)<<extraShift | uint32(value)<<valueShift
		value += 1 << extra
	}
	return s
}

// inflate inflates the beginning of src, which must yield all of dst, and returns how many bytes of src that takes.
func (q *quick) inflate(src, dst []byte) (used int, ok bool) {
	if len(src) < 2 || src[0]&0x8f != 8 || binary.BigEndian.Uint16(src)%31 != 0 || src[1]&0x20 != 0 {
		return 0, false
	}
	q.src, q.dst, q.pos, q.acc, q.n, q.out, q.short = src, dst, 2, 0, 0, 0, false
	defer func() { q.src, q.dst = nil, nil }()
	for last := false; !last; {
		last = q.take(1) == 1
		if !q.block(q.take(2)) {
			return 0, false
		}
	}
	q.align()
	if q.short = q.pos+4 > len(src); q.short || q.out < len(dst) || binary.BigEndian.Uint32(src[q.pos:]) != adler32.Checksum(dst) {
		return 0, false
	}
	return q.pos + 4, true
}

// missing estimates how many bytes of input the failed inflate needs; 0 if it would fail with more, too.
func (q *quick) missing(had, size int) int {
	if !q.short {
		return 0
	}
	return had + had/8 + int(float64(had)*float64(size-q.out)/float64(q.out+1)) + 256
}

func (q *quick) block(kind uint) bool {
	switch kind {
	case 0:
		return q.stored()
	case 1:
		if q.fixedLit == nil {
			q.fixed()
		}
		return q.compressed(q.fixedLit, q.fixedDist)
	case 2:
		return q.tables() && q.compressed(q.lit, q.dist)
	}
	return false
}

// fill makes sure that acc has at least 48 bits: no length with its distance takes more.
func (q *quick) fill() {
	if q.n >= 48 {
		return
	}
	if len(q.src)-q.pos >= 8 {
		q.acc |= binary.LittleEndian.Uint64(q.src[q.pos:]) << q.n
		more := (63 - q.n) / 8
		q.pos += int(more)
		q.n += 8 * more
		return
	}
	for ; q.n <= 56; q.n += 8 {
		if q.pos < len(q.src) {
			q.acc |= uint64(q.src[q.pos]) << q.n
		}
		q.pos++
	}
	q.short = q.short || q.pos-int(q.n/8) > len(q.src)
}

// take returns the next n bits, at most 16.
func (q *quick) take(n uint) uint {
	q.fill()
	v := uint(q.acc) & (1<<n - 1)
	q.acc >>= n
	q.n -= n
	return v
}

// align skips to the end of the byte.
func (q *quick) align() {
	q.pos -= int(q.n / 8)
	q.acc, q.n = 0, 0
}

// stored copies an uncompressed block.
func (q *quick) stored() bool {
	q.align()
	if len(q.src)-q.pos < 4 {
		q.short = true
		return false
	}
	n := int(binary.LittleEndian.Uint16(q.src[q.pos:]))
	if n != int(^binary.LittleEndian.Uint16(q.src[q.pos+2:])) {
		return false
	}
	q.pos += 4
	if n > len(q.dst)-q.out {
		return false
	}
	if n > len(q.src)-q.pos {
		q.short = true
		return false
	}
	q.out += copy(q.dst[q.out:], q.src[q.pos:q.pos+n])
	q.pos += n
	return true
}

// fixed builds the codes of RFC 1951, section 3.2.6.
func (q *quick) fixed() {
	var lens [288]uint8
	for i := range lens {
		switch {
		case i < 144, i >= 280:
			lens[i] = 8
		case i < 256:
			lens[i] = 9
		default:
			lens[i] = 7
		}
	}
	q.fixedLit.build(litBits, lens[:], &litSymbols)
	q.fixedDist.build(distBits, []uint8{5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5}, &distSymbols)
}

// tables reads the codes of a block.
func (q *quick) tables() bool {
	lits, dists, n := q.take(5)+257, q.take(5)+1, q.take(4)+4
	if lits > 286 || dists > 30 {
		return false
	}
	order := [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	var codes [19]uint8
	for _, i := range order[:n] {
		codes[i] = uint8(q.take(3))
	}
	if !q.lengths.build(lenBits, codes[:], &litSymbols) {
		return false
	}
	var lens [286 + 30]uint8
	all := lens[:lits+dists]
	for i := 0; i < len(all); {
		symbol, ok := q.symbol()
		if !ok {
			return false
		}
		times, value := 1, uint8(symbol)
		switch symbol {
		case 16:
			if i == 0 {
				return false
			}
			times, value = 3+int(q.take(2)), all[i-1]
		case 17:
			times, value = 3+int(q.take(3)), 0
		case 18:
			times, value = 11+int(q.take(7)), 0
		}
		if times > len(all)-i {
			return false
		}
		for range times {
			all[i] = value
			i++
		}
	}
	return q.lit.build(litBits, all[:lits], &litSymbols) && q.dist.build(distBits, all[lits:], &distSymbols)
}

// symbol returns the next symbol of the code lengths.
func (q *quick) symbol() (uint32, bool) {
	q.fill()
	e := q.lengths[q.acc&(1<<lenBits-1)]
	q.acc >>= e & codeBits
	q.n -= uint(e & codeBits)
	return e >> valueShift & 0xff, e != 0
}

// build fills a table with codes of the given lengths, each for the symbol of its index; see RFC 1951, section 3.2.2.
// It refuses codes that are ambiguous or incomplete, but accepts a single code, and none at all if it is not used.
func (h *huffman) build(first uint, lens []uint8, symbols *[288]uint32) bool {
	var count, at [maxBits + 2]int
	for _, l := range lens {
		count[l&0xf]++
	}
	count[0] = 0
	left, total := 1, 0
	for l := 1; l <= maxBits; l++ {
		left = left<<1 - count[l]
		total += count[l]
		at[l+1] = total
		if left < 0 {
			return false
		}
	}
	if *h == nil {
		*h = make(huffman, 1<<first, 6<<first)
	}
	t := (*h)[:1<<first]
	if left > 0 {
		if total > 1 || total == 1 && count[1] != 1 {
			return false
		}
		clear(t)
		for symbol, l := range lens {
			for i := 0; l == 1 && i < len(t); i += 2 {
				t[i] = symbols[symbol] | 1
			}
		}
		return true
	}
	var sorted [288]uint16 // by length
	for symbol, l := range lens {
		if l > 0 {
			sorted[at[l&0xf]] = uint16(symbol)
			at[l&0xf]++
		}
	}
	*h = t.fill(first, sorted[:total], lens, symbols)
	return true
}

// fill fills a table with a complete code, of whose symbols the shortest come first. Where the next code is longer, the
// table so far is repeated for the value of each further bit.
func (t huffman) fill(first uint, sorted []uint16, lens []uint8, symbols *[288]uint32) huffman {
	code, size := uint(0), uint(0) // the code begins with its lowest bit; the table has 1<<size entries so far
	rest, prefix := huffman(nil), ^uint(0)
	for _, symbol := range sorted {
		l := uint(lens[symbol])
		for ; size < min(l, first); size++ {
			copy(t[1<<size:2<<size], t[:1<<size])
		}
		if l <= first {
			t[code] = symbols[symbol] | uint32(l)
		} else {
			if from := code & (1<<first - 1); from != prefix {
				prefix = from
				t[from] = goesOn | uint32(len(t))<<valueShift | uint32(first)
				t = append(t, make(huffman, 1<<(maxBits-first))...)
				rest = t[len(t)-1<<(maxBits-first):]
			}
			for i := code >> first; i < uint(len(rest)); i += 1 << (l - first) {
				rest[i] = symbols[symbol] | uint32(l-first)
			}
		}
		zeros := code ^ (1<<l - 1)
		if zeros == 0 { // the last code
			break
		}
		// To the next code of this length: the highest zero becomes a one, and the ones above it become zeros.
		bit := uint(1) << (bits.Len(zeros) - 1)
		code = code&(bit-1) | bit
	}
	for ; size < first; size++ {
		copy(t[1<<size:2<<size], t[:1<<size])
	}
	return t
}

// compressed inflates the rest of a block. It copies the fields of q to variables, which stay in registers.
func (q *quick) compressed(lit, dist huffman) bool {
	litFirst, distFirst := (*[1 << litBits]uint32)(lit), (*[1 << distBits]uint32)(dist)
	src, pos, acc, n := q.src, q.pos, q.acc, q.n
	dst, out := q.dst, q.out
	for {
		if n < 48 { // like fill
			if len(src)-pos >= 8 {
				acc |= binary.LittleEndian.Uint64(src[pos:]) << (n & 63)
				pos += int((63 - n) / 8)
				n |= 56
			} else {
				q.pos, q.acc, q.n, q.out = pos, acc, n, out
				if q.fill(); q.short {
					return false
				}
				pos, acc, n = q.pos, q.acc, q.n
			}
		}
		e := litFirst[acc&(1<<litBits-1)]
		if int32(e) < 0 && len(dst)-out >= 2 { // mostly, another literal follows
			acc >>= e & codeBits
			n -= uint(e & codeBits)
			dst[out] = byte(e >> valueShift)
			out++
			e = litFirst[acc&(1<<litBits-1)]
			if int32(e) < 0 {
				acc >>= e & codeBits
				n -= uint(e & codeBits)
				dst[out] = byte(e >> valueShift)
				out++
				continue
			}
			if n < 48 {
				continue
			}
		}
		if e&kindBits == goesOn {
			acc >>= litBits
			n -= litBits
			e = lit[e>>valueShift+uint32(acc)&(1<<(maxBits-litBits)-1)]
		}
		acc >>= e & codeBits
		n -= uint(e & codeBits)
		if int32(e) < 0 {
			if out >= len(dst) {
				return false
			}
			dst[out] = byte(e >> valueShift)
			out++
			continue
		}
		if e&kindBits != length {
			q.pos, q.acc, q.n, q.out = pos, acc, n, out
			return e&kindBits == blockEnd
		}
		extra := e >> extraShift & 0xf
		times := int(e>>valueShift) + int(acc&(1<<extra-1))
		acc >>= extra
		n -= uint(extra)

		e = distFirst[acc&(1<<distBits-1)]
		if e&kindBits == goesOn {
			acc >>= distBits
			n -= distBits
			e = dist[e>>valueShift+uint32(acc)&(1<<(maxBits-distBits)-1)]
		}
		acc >>= e & codeBits
		extra = e >> extraShift & 0xf
		back := int(e>>valueShift) + int(acc&(1<<extra-1))
		acc >>= extra
		n -= uint(e&codeBits + extra)
		if e&kindBits != length || back > out || times > len(dst)-out {
			return false
		}
		if back >= 8 && len(dst)-out >= times+16 { // eight at a time, possibly too many
			to, from := dst[out:], dst[out-back:]
			out += times
			binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(from))
			binary.LittleEndian.PutUint64(to[8:], binary.LittleEndian.Uint64(from[8:]))
			for i := 16; i < times; i += 8 {
				binary.LittleEndian.PutUint64(to[i:], binary.LittleEndian.Uint64(from[i:]))
			}
			continue
		}
		for end := out + times; out < end; out++ {
			dst[out] = dst[out-back]
		}
	}
}
