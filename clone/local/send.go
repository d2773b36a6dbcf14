package local

import (
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"io/fs"
	"math/bits"
	"slices"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
)

// sender writes a pack of selected objects. It copies deflated data from packs unchanged, including deltas whose base
// is sent too; it deflates only other objects again.
type sender struct {
	*selection
	out      *output
	deflater *zlib.Writer
	win      window
}

// entry is an object of a pack that is sent.
type entry struct {
	from, to int64 // in that pack
	sent     int64 // where it begins in the pack that is written; 0 if it has not been sent
}

func (s *sender) run(w io.Writer) error {
	if uint64(s.count) > 1<<32-1 {
		return errors.New("more objects than a pack may have")
	}
	s.out = &output{w: w, sum: sha1.New(), buf: make([]byte, 0, outputSize)}
	s.out.Write([]byte("PACK\x00\x00\x00\x02"))
	s.out.Write(binary.BigEndian.AppendUint32(nil, uint32(s.count)))
	for _, p := range s.packs {
		if err := s.pack(p); err != nil {
			return err
		}
	}
	for _, id := range s.files {
		if err := s.file(id); err != nil {
			return err
		}
	}
	return s.out.finish()
}

// pack sends the selected objects of a pack, in the order of that pack: bases come before
// their deltas, and objects that are used together are close.
func (s *sender) pack(p *packFile) error {
	entries, err := s.entries(p)
	if err != nil {
		return err
	}
	s.win.reset(p)
	for i := range entries {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if err := s.entry(p, entries, i); err != nil {
			return err
		}
		if s.out.err != nil {
			return s.out.err
		}
	}
	return nil
}

// entries finds where the selected objects of a pack are. An entry ends where the next one
// begins, selected or not, so all offsets are needed.
func (s *sender) entries(p *packFile) ([]entry, error) {
	var entries []entry
	for word, set := range s.packed[p] {
		for ; set != 0; set &= set - 1 {
			entries = append(entries, entry{from: p.offset(word*64 + bits.TrailingZeros64(set)), to: p.end})
		}
	}
	if len(entries) == 0 {
		return nil, nil
	}
	slices.SortFunc(entries, func(a, b entry) int { return int(min(1, max(-1, a.from-b.from))) })
	first := entries[0].from
	for i, e := range entries {
		if e.from < 12 || e.from >= p.end || i > 0 && e.from == entries[i-1].from {
			return nil, corrupt(p.name, errIndex)
		}
	}
	for at := range p.count {
		offset := p.offset(at)
		if offset <= first || offset > p.end {
			continue
		}
		if i := before(entries, offset); offset < entries[i].to {
			entries[i].to = offset
		}
	}
	return entries, nil
}

// before returns the last entry that begins before the offset. There is one.
func before(entries []entry, offset int64) int {
	return sort.Search(len(entries), func(i int) bool { return entries[i].from >= offset }) - 1
}

// entry sends one object of a pack.
func (s *sender) entry(p *packFile, entries []entry, i int) error {
	e := &entries[i]
	raw, err := s.win.bytes(entries[i:])
	if err != nil {
		return err
	}
	h, ok := parseHeader(raw, e.from)
	if !ok || h.data > e.to {
		return corrupt(p.name, nil)
	}
	e.sent = s.out.n
	skip := 0
	if h.Kind.IsDelta() {
		at, err := p.baseOf(h)
		if err != nil {
			return err
		}
		base := before(entries, at+1)
		switch sent := base >= 0 && entries[base].from == at; {
		case !sent:
			return s.whole(p, e.from)
		case entries[base].sent > 0 && base != i:
			skip = int(h.data - e.from)
			s.out.header(plumbing.OFSDeltaObject, h.Size)
			s.out.back(e.sent - entries[base].sent)
		} // else a REF delta whose base follows
	}
	s.out.Write(raw[skip:])
	if rest := e.from + int64(len(raw)); rest < e.to {
		return s.out.copy(p, rest, e.to)
	}
	return nil
}

// whole sends an object, not a delta.
func (s *sender) whole(p *packFile, offset int64) error {
	kind, content, err := s.object(p, offset, maxWhole)
	if err != nil {
		return err
	}
	s.out.header(kind, int64(len(content)))
	w, err := s.deflate()
	if err != nil {
		return err
	}
	w.Write(content) // output remembers an error
	return w.Close()
}

// maxWhole is the size of the largest object that is assembled from deltas, which takes memory for the object and its
// base. Git does not store larger blobs as deltas (core.bigFileThreshold).
const maxWhole = 512 << 20

// file sends a loose object.
func (s *sender) file(id plumbing.Hash) error {
	where, err := s.find(id)
	if err != nil {
		return err
	}
	if where.pack != nil { // it has been packed since it was selected
		return s.whole(where.pack, where.pack.offset(where.at))
	}
	l, err := s.openLoose(where.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s.file(id) // it has been packed this moment
	}
	if err != nil {
		return err
	}
	defer l.Close()
	s.out.header(l.kind, l.size)
	w, err := s.deflate()
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, l); err != nil {
		return err
	}
	return w.Close()
}

// deflate begins to deflate. The reader is on this machine, so speed matters more than size.
func (s *sender) deflate() (*zlib.Writer, error) {
	if s.deflater != nil {
		s.deflater.Reset(s.out)
		return s.deflater, nil
	}
	w, err := zlib.NewWriterLevel(s.out, zlib.BestSpeed)
	s.deflater = w
	return w, err
}

const (
	outputSize = 256 << 10
	windowSize = 256 << 10
	windowGap  = 16 << 10 // bytes that are read and dropped rather than reading twice
)

// window reads a pack ahead.
type window struct {
	pack *packFile
	buf  []byte
	from int64 // of buf in the pack
}

func (w *window) reset(p *packFile) { w.pack, w.buf, w.from = p, w.buf[:0], 0 }

// bytes returns the first of the entries, or as much of it as fits. It also reads the entries that follow closely.
func (w *window) bytes(entries []entry) ([]byte, error) {
	from, to := entries[0].from, min(entries[0].to, entries[0].from+windowSize)
	if from < w.from || to > w.from+int64(len(w.buf)) {
		end := to
		for _, e := range entries[1:] {
			if e.from > end+windowGap || e.to > from+windowSize {
				break
			}
			end = e.to
		}
		if w.buf == nil {
			w.buf = make([]byte, windowSize)
		}
		w.buf, w.from = w.buf[:end-from], from
		if _, err := w.pack.file.ReadAt(w.buf, from); err != nil {
			w.buf = w.buf[:0]
			return nil, corrupt(w.pack.name, err)
		}
	}
	return w.buf[from-w.from : to-w.from], nil
}

// output is the pack that is written. It remembers the first error.
type output struct {
	w   io.Writer
	sum hash.Hash
	buf []byte
	n   int64
	err error
}

func (o *output) Write(b []byte) (int, error) {
	o.n += int64(len(b))
	for rest := b; len(rest) > 0; {
		n := min(len(rest), cap(o.buf)-len(o.buf))
		o.buf = append(o.buf, rest[:n]...)
		if rest = rest[n:]; len(o.buf) == cap(o.buf) {
			o.flush()
		}
	}
	return len(b), o.err
}

func (o *output) flush() {
	o.sum.Write(o.buf)
	o.send()
}

func (o *output) send() {
	if o.err == nil && len(o.buf) > 0 {
		_, o.err = o.w.Write(o.buf)
	}
	o.buf = o.buf[:0]
}

// finish writes the checksum.
func (o *output) finish() error {
	o.flush()
	o.buf = o.sum.Sum(o.buf)
	o.send()
	return o.err
}

// copy writes a part of a pack.
func (o *output) copy(p *packFile, from, to int64) error {
	_, err := io.Copy(struct{ io.Writer }{o}, io.NewSectionReader(p.file, from, to-from))
	return err
}

// header writes the kind and the size of an entry.
func (o *output) header(kind plumbing.ObjectType, size int64) {
	var b [maxHeader]byte
	n := 0
	b[0] = byte(kind)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b[n] |= 0x80
		n++
		b[n] = byte(size & 0x7f)
	}
	o.Write(b[:n+1])
}

// back writes how far the base of a delta is before it.
func (o *output) back(distance int64) {
	var b [maxHeader]byte
	n := len(b) - 1
	b[n] = byte(distance & 0x7f)
	for distance >>= 7; distance > 0; distance >>= 7 {
		distance--
		n--
		b[n] = 0x80 | byte(distance&0x7f)
	}
	o.Write(b[n:])
}
