package pack

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

// seeds are packs of all kinds of entries.
func seeds() [][]byte {
	text := strings.Repeat("some text, ", 30)
	plain, offset, id, later, twice := new(builder), new(builder), new(builder), new(builder), new(builder)
	plain.whole(plumbing.CommitObject, "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n")
	plain.whole(plumbing.TreeObject, "")
	plain.whole(plumbing.TagObject, "object 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n")
	plain.whole(blob, text)

	at, name := offset.whole(blob, text)
	shorter := delta(len(text), 10, copyOf(0, 10))
	offset.on(offset.on(at, shorter), delta(10, 8, copyOf(2, 5), insert("abc")))
	id.whole(blob, text)
	id.onID(name, shorter)
	later.onID(plumbing.ComputeHash(blob, []byte(text[:10])), delta(10, 8, copyOf(2, 5), insert("abc")))
	later.onID(name, shorter)
	later.whole(blob, text)
	at, _ = twice.whole(blob, text)
	twice.whole(blob, text)
	twice.on(at, shorter)
	twice.onID(name, shorter)
	return [][]byte{new(builder).pack(), plain.pack(), offset.pack(), id.pack(), later.pack(), twice.pack()}
}

// FuzzRead compares with go-git's parser, on packs with a valid header and a valid checksum.
func FuzzRead(f *testing.F) {
	for _, pack := range seeds() {
		f.Add(pack[8:len(pack)-20], uint8(1), false)
		f.Add(pack[8:len(pack)-20], uint8(200), false)
	}
	f.Add([]byte("\x0f\x10\x00abcdefghijklmno\x05\x10\x00\x0f\x03\x83\x02\x03\x04\x05\x06\x08\x07\x01\x0f\x03\x83\x02\x03"), uint8(4), true)
	dir := f.TempDir()
	temp := func() (*os.File, error) { return unnamed(dir) }
	f.Fuzz(func(t *testing.T, body []byte, large uint8, described bool) {
		if described {
			pack := describe(body)
			body = pack[8 : len(pack)-20]
		}
		pack := append([]byte("PACK\x00\x00\x00\x02"), body...)
		sum := sha1.Sum(pack)
		pack = append(pack, sum[:]...)
		spool, err := temp()
		if err != nil {
			t.Fatal(err)
		}
		defer spool.Close()
		m := new(memorySink)
		o := Options{Spool: spool, Sink: m, Temp: temp, Large: int64(large), MaxObject: 1 << 20, Workers: 2}
		p, err := Read(t.Context(), bytes.NewReader(pack), o)
		if large := strings.Contains(text(err), "are allowed"); large {
			return // go-git has no such limit
		}
		theirs, theirErr := byGoGit(pack)
		if err != nil {
			if theirErr == nil && !lenient(err) {
				t.Fatalf("go-git finds %d objects, we refuse: %v", len(theirs), err)
			}
			return
		}
		ids := make(map[plumbing.Hash]bool)
		for o := range p.Objects() {
			ids[o.ID] = true
		}
		if len(ids) < p.Len() || len(p.refDeltas.deltas) > 0 && theirErr != nil {
			return // go-git refuses objects that are in a pack twice, and deltas of objects that follow
		}
		if theirErr != nil {
			t.Fatalf("go-git refuses: %v, we find %d objects", theirErr, p.Len())
		}
		for o := range p.Objects() {
			if o.Kind != theirs[o.ID] {
				t.Fatalf("%s %s: a %s of go-git's", o.Kind, o.ID, theirs[o.ID])
			}
			var copied bytes.Buffer
			if err := o.CopyTo(&copied); err != nil || !bytes.Equal(copied.Bytes(), m.ids[o.ID]) {
				t.Fatalf("%s: %v", o.ID, err)
			}
			delete(theirs, o.ID)
		}
		if len(theirs) > 0 {
			t.Fatalf("only go-git finds %v", theirs)
		}
		if err := p.WriteIndex(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}

// describe makes a pack of the objects that data describes: for each object a byte with its kind and the length of its
// content or delta, a byte that selects its base among the objects before it, and the content.
func describe(data []byte) []byte {
	b := new(builder)
	var offsets []int64
	ids := []plumbing.Hash{{}, plumbing.ComputeHash(blob, nil)}
	var sizes []int
	for len(data) > 2 {
		sort, length, which := data[0]&7, int(data[0]>>3), int(data[1])
		data = data[2:]
		content := data[:min(length, len(data))]
		data = data[len(content):]
		switch {
		case sort < 3 || len(offsets) == 0:
			at, id := b.whole(blob, string(content))
			offsets, ids, sizes = append(offsets, at), append(ids, id), append(sizes, len(content))
		case sort == 3: // a tree, of any content
			at, id := b.whole(plumbing.TreeObject, string(content))
			offsets, ids, sizes = append(offsets, at), append(ids, id), append(sizes, len(content))
		case sort == 4:
			b.onID(ids[which%len(ids)], content)
		case sort == 5: // a delta of an earlier object, with instructions that may be valid
			base := which % len(offsets)
			d := delta(sizes[base], length+1, content)
			if of, ok := plainly(bytes.Repeat([]byte{'a'}, sizes[base]), d); ok {
				ids = append(ids, plumbing.ComputeHash(blob, of))
			}
			b.on(offsets[base], d)
		case sort == 6:
			base := which % len(offsets)
			b.onID(ids[base+2], delta(sizes[base], length, content))
		default: // with a wrong length
			b.begin(blob, length)
			b.deflate(append(content[:len(content):len(content)], make([]byte, which%2)...))
		}
	}
	return b.pack()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// lenient reports whether an error is one that go-git does not report.
func lenient(err error) bool {
	for _, what := range []string{
		"more bytes follow",
	} {
		if strings.Contains(err.Error(), what) {
			return true
		}
	}
	return false
}

// byGoGit returns what go-git finds in a pack.
func byGoGit(pack []byte) (found map[plumbing.Hash]plumbing.ObjectType, err error) {
	s := memory.NewStorage()
	parser, err := packfile.NewParserWithStorage(packfile.NewScanner(bytes.NewReader(pack)), s)
	if err != nil {
		return nil, err
	}
	if _, err := parser.Parse(); err != nil {
		return nil, err
	}
	found = make(map[plumbing.Hash]plumbing.ObjectType)
	for id, o := range s.Objects {
		found[id] = o.Type()
	}
	return found, nil
}

// FuzzDelta applies a delta in memory and through files, and compares with a simple implementation.
func FuzzDelta(f *testing.F) {
	base := strings.Repeat("0123456789", 10)
	for _, d := range [][]byte{
		delta(100, 10, copyOf(5, 10)), delta(100, 3, insert("abc")), delta(100, 13, insert("abc"), copyOf(90, 10)),
		delta(100, 100, []byte{0x90, 100}), delta(100, 5, copyOf(96, 5)), delta(100, 3, []byte{0}), nil,
	} {
		f.Add([]byte(base), d)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, base, d []byte) {
		want, ok := plainly(base, d)
		for _, large := range []int64{0, 1 << 20} {
			p := &Pack{o: Options{Large: large, MaxObject: 1 << 20, Temp: func() (*os.File, error) { return unnamed(dir) }}}
			p.finished.Store(true)
			c, err := p.apply(bytes.NewReader(d), &content{bytes: base, size: int64(len(base))}, blob)
			if !ok {
				if err == nil {
					t.Fatal("no error")
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(c.reader())
			c.release()
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("got %q, %v, want %q", got, err, want)
			}
		}
	})
}

// plainly applies a delta whose result has less than 1 MiB.
func plainly(base, d []byte) (result []byte, ok bool) {
	number := func() uint64 {
		n, used := binary.Uvarint(d)
		if used <= 0 {
			panic(errDelta)
		}
		d = d[used:]
		return n
	}
	take := func() int {
		b := d[0]
		d = d[1:]
		return int(b)
	}
	defer func() {
		if recover() != nil { // whatever is out of range
			result, ok = nil, false
		}
	}()
	if number() != uint64(len(base)) {
		return nil, false
	}
	size := number()
	for len(d) > 0 {
		op := take()
		if op == 0 {
			return nil, false
		}
		if op < 0x80 {
			result = append(result, d[:op:len(d)]...)
			d = d[op:]
			continue
		}
		var off, n int
		for i := range 4 {
			if op>>i&1 == 1 {
				off |= take() << (8 * i)
			}
		}
		for i := range 3 {
			if op>>(4+i)&1 == 1 {
				n |= take() << (8 * i)
			}
		}
		if n == 0 {
			n = 0x10000
		}
		result = append(result, base[off:off+n:len(base)]...)
	}
	return result, uint64(len(result)) == size
}

var errDelta = errors.New("delta")
