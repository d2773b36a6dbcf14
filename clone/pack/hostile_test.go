package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

const blob = plumbing.BlobObject

// TestHostile pins the errors for malformed packs, which say what is wrong and where.
func TestHostile(t *testing.T) {
	absent := plumbing.Hash{1}
	for _, tt := range []struct {
		name  string
		build func(b *builder)
		want  string
	}{
		{"kind 0", func(b *builder) { b.begin(0, 1) }, "object 1 of 1, at byte 12 of the pack: its kind is 0, which does not exist"},
		{"kind 5", func(b *builder) { b.whole(blob, ""); b.begin(5, 1) }, "object 2 of 2, at byte 24 of the pack: its kind is 5, which does not exist"},
		{"endless length", func(b *builder) { b.begin(blob, 0); b.Truncate(headerSize); b.WriteString(strings.Repeat("\xb0", 99)) }, "too many digits"},
		{"long length", func(b *builder) { b.begin(blob, math.MaxInt64); b.deflate(nil) }, "too many digits"},
		{"not compressed", func(b *builder) { b.begin(blob, 3); b.WriteString("abc") }, "cannot be inflated (zlib: invalid header)"},
		{"bad compression", func(b *builder) { b.begin(blob, 3); b.WriteString("x\x9cabcabcabc") }, "cannot be inflated (flate: corrupt input"},
		{"bad checksum", func(b *builder) { b.whole(blob, "abc"); b.Bytes()[b.Len()-1]++ }, "cannot be inflated (zlib: invalid checksum)"},
		{"dictionary", func(b *builder) { b.begin(blob, 3); b.WriteString("\x78\xbb\x00\x00\x00\x02abc") }, "cannot be inflated (zlib: invalid dictionary)"},
		{"too short", func(b *builder) { b.begin(blob, 4); b.deflate([]byte("abc")) }, "it inflates to fewer bytes than its header says"},
		{"too long", func(b *builder) { b.begin(blob, 2); b.deflate([]byte("abc")) }, "it inflates to more bytes than its header says"},
		{"not empty", func(b *builder) { b.begin(blob, 0); b.deflate([]byte("abc")) }, "it inflates to more bytes than its header says"},
		{"large, too short", func(b *builder) { b.begin(blob, 5<<20); b.deflate([]byte("abc")) }, "it inflates to fewer bytes than its header says"},
		{"large, too long", func(b *builder) { b.begin(blob, 5<<20); b.deflate(make([]byte, 5<<20+1)) }, "it inflates to more bytes than its header says"},
		{"fewer objects", func(b *builder) { b.whole(blob, "abc"); b.objects++ }, "object 2 of 2, at byte 28 of the pack: "},
		{"more objects", func(b *builder) { b.whole(blob, "abc"); b.whole(blob, "abc"); b.objects-- }, "more bytes follow"},
		{"huge tree", func(b *builder) { b.begin(plumbing.TreeObject, 32<<20+1) }, "it is a tree of 33554433 bytes; 33554432 are allowed"},
		{"huge commit", func(b *builder) { b.begin(plumbing.CommitObject, 1<<58) }, "it is a commit of"},

		{"base is itself", func(b *builder) { b.on(headerSize, delta(0, 1, insert("a"))) }, "it is a delta of an object 0 bytes before it"},
		{"base before all", func(b *builder) { b.on(headerSize-1, delta(0, 1, insert("a"))) }, "it is a delta of an object 1 bytes before it"},
		{"base between objects", func(b *builder) { at, _ := b.whole(blob, "abc"); b.on(at+1, delta(3, 3, copyOf(0, 3))) }, "a delta of byte 13, where no object begins"},
		{"endless distance", func(b *builder) {
			b.whole(blob, "abc")
			b.begin(plumbing.OFSDeltaObject, 3)
			b.WriteString(strings.Repeat("\xff", 99))
		}, "the distance of its base has too many digits"},
		{"thin", func(b *builder) { b.onID(absent, delta(3, 3, copyOf(0, 3))) }, "the one at byte 12 is a delta of 0100000000000000000000000000000000000000, which is missing"},
		{"on a thin one", func(b *builder) { b.on(b.onID(absent, delta(3, 3, copyOf(0, 3))), delta(3, 3, copyOf(0, 3))) }, "2 objects of the pack cannot be reconstructed"},
		{"a circle", func(b *builder) {
			b.onID(plumbing.ComputeHash(blob, []byte("abc")), delta(3, 3, insert("xyz")))
			b.onID(plumbing.ComputeHash(blob, []byte("xyz")), delta(3, 3, insert("abc")))
		}, "2 objects of the pack cannot be reconstructed"},
		{"other base", func(b *builder) { at, _ := b.whole(blob, "abc"); b.on(at, delta(4, 3, copyOf(0, 3))) }, "it is a delta of 4 bytes, but its base has 3"},
		{"other base by id", func(b *builder) { _, id := b.whole(blob, "abc"); b.onID(id, delta(4, 3, copyOf(0, 3))) }, "the object at byte 28 of the pack: it is a delta of 4 bytes, but its base has 3"},
		{"tree grows huge", func(b *builder) {
			_, id := b.whole(plumbing.TreeObject, "abc")
			b.onID(id, delta(3, 33<<20, copyOf(0, 3)))
		}, "the object at byte 28 of the pack: it is a tree of 34603008 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := new(builder)
			tt.build(b)
			refused(t, b.pack(), tt.want)
		})
	}
}

// TestTooLarge refuses a tree that is too large for memory. Another attempt can help unless the pack is known to be
// undamaged: a flipped bit, or the checksum taken for an object because the number of objects is wrong, reads as a
// size, too.
func TestTooLarge(t *testing.T) {
	whole, late := new(builder), new(builder)
	whole.begin(plumbing.TreeObject, 33<<20)
	_, id := late.whole(plumbing.TreeObject, "abc")
	late.onID(id, delta(3, 33<<20, copyOf(0, 3)))
	for _, tt := range []struct {
		name      string
		pack      []byte
		permanent bool
	}{{"before the checksum", whole.pack(), false}, {"after the checksum", late.pack(), true}} {
		_, _, err := read(t, tt.pack)
		if err == nil || !strings.Contains(err.Error(), "are allowed") || poll.IsPermanent(err) != tt.permanent {
			t.Errorf("%s: %v, permanent %t, want %t", tt.name, err, poll.IsPermanent(err), tt.permanent)
		}
	}
}

// TestLimits reads objects that are as large as the limits allow, and by one byte larger.
func TestLimits(t *testing.T) {
	const limit = 1000
	for _, tt := range []struct {
		kind     plumbing.ObjectType
		size     int
		ok, file bool
	}{
		{plumbing.TreeObject, limit, true, false},
		{plumbing.TreeObject, limit + 1, false, false},
		{plumbing.CommitObject, limit + 1, false, false},
		{blob, limit, true, false},
		{blob, limit + 1, true, true},
	} {
		b := new(builder)
		b.whole(tt.kind, strings.Repeat("x", tt.size))
		inFile := false
		m := &memorySink{each: func(_ *Object, c Content) error { inFile = c.File != nil; return nil }}
		o := options(t, m)
		o.MaxObject, o.Large = limit, limit
		if _, err := Read(t.Context(), bytes.NewReader(b.pack()), o); (err == nil) != tt.ok || inFile != tt.file {
			t.Errorf("%s of %d bytes: %v, in a file %t", tt.kind, tt.size, err, inFile)
		}
	}
}

// refused checks that a pack is refused with an error that contains want.
func refused(t *testing.T, pack []byte, want string) {
	t.Helper()
	_, _, err := read(t, pack)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v\nwant %s", err, want)
	} else if f := failure.Of(err); f.Class != failure.Unexpected || f.Text != err.Error() || f.Hint == "" && !poll.IsPermanent(err) {
		t.Errorf("%v is of class %s, with the hint %q", err, f.Class, f.Hint)
	}
}

// TestBadDelta pins the errors for malformed deltas, in memory and through files.
func TestBadDelta(t *testing.T) {
	for _, tt := range []struct {
		name  string
		delta []byte
		want  string
	}{
		{"empty", nil, "its delta ends in the middle of a length"},
		{"no result", []byte{3}, "its delta ends in the middle of a length"},
		{"endless length", bytes.Repeat([]byte{0xff}, 20), "its delta has an impossible length"},
		{"huge length", binary.AppendUvarint(nil, math.MaxUint64), "its delta has an impossible length"},
		{"reserved", delta(3, 3, []byte{0}), "its delta has a reserved instruction"},
		{"copy beyond", delta(3, 3, copyOf(1, 3)), "its delta copies from beyond its base"},
		{"copy from beyond", delta(3, 3, copyOf(math.MaxUint32, 3)), "its delta copies from beyond its base"},
		{"copy 64 KiB", delta(3, 3, []byte{0x80}), "its delta copies from beyond its base"},
		{"copy cut", delta(3, 3, []byte{0x91, 0}), "its delta ends in the middle of an instruction"},
		{"insert cut", delta(3, 3, []byte{3, 'a'}), "its delta ends in the middle of an instruction"},
		{"less", delta(3, 3, copyOf(0, 2)), "its delta produces too few bytes"},
		{"more", delta(3, 3, copyOf(0, 2), insert("ab")), "its delta produces too many bytes"},
		{"too many", delta(3, 3, copyOf(0, 3), insert("a")), "its delta produces too many bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := new(builder)
			at, id := b.whole(blob, "abc")
			b.on(at, tt.delta)
			refused(t, b.pack(), "object 2 of 2, at byte 28 of the pack: "+tt.want)
			b = new(builder)
			b.whole(blob, "abc")
			b.onID(id, tt.delta)
			refused(t, b.pack(), "the object at byte 28 of the pack: "+tt.want)
			m := new(memorySink)
			o := options(t, m)
			o.Large = 1 // through files
			if _, err := Read(t.Context(), bytes.NewReader(b.pack()), o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("by files: got %v\nwant %s", err, tt.want)
			}
		})
	}
}

// TestCut pins that a pack is refused if it is cut or damaged at any byte.
func TestCut(t *testing.T) {
	b := new(builder)
	at, id := b.whole(blob, strings.Repeat("abc", 50))
	b.on(at, delta(150, 3, copyOf(0, 3)))
	b.onID(id, delta(150, 4, copyOf(1, 4)))
	b.whole(plumbing.TreeObject, "")
	pack := b.pack()
	for n := range pack {
		_, _, err := read(t, pack[:n])
		if !errors.Is(err, io.ErrUnexpectedEOF) || failure.Of(err).Class != failure.Unexpected {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
		damaged := bytes.Clone(pack)
		damaged[n] ^= 0x10
		if n == 7 { // version 18
			damaged[n] = 4
		}
		if _, _, err := read(t, damaged); err == nil {
			t.Errorf("byte %d is another: no error", n)
		}
	}
	refused(t, append(pack, 0), "more bytes follow")
	refused(t, append([]byte("ERR access denied"), pack...), "something other than a pack")
	refused(t, nil, "the pack ends within its header")
	pack[len(pack)-1]++
	refused(t, pack, "the checksum of the pack is wrong")
}

// TestLarge reads a blob of 64 MiB, and deltas with such a base or result, with little memory.
func TestLarge(t *testing.T) {
	const size = 64 << 20
	b := new(builder)
	at := b.begin(blob, size)
	b.deflate(make([]byte, size))
	large := b.on(at, delta(size, size+1, bytes.Join([][]byte{
		bytes.Repeat(copyOf(0, 8<<20), size/(8<<20)-1), copyOf(12345, 8<<20), insert("x")}, nil)))
	b.on(large, delta(size+1, 4, copyOf(size-3, 4)))
	small, _ := b.whole(blob, "abc")
	b.on(small, delta(3, 5<<20, bytes.Repeat(insert("0123456789abcdef"), 5<<16)))
	pack := b.pack()
	sizes := make(map[int64]bool)
	sink := sinkFunc(func(o *Object, c Content) error {
		if (c.File != nil) != (c.Size > 4<<20) {
			return errors.New("not through a file, or needlessly")
		}
		sizes[c.Size] = true
		return nil
	})
	o := options(t, sink)
	o.Workers = 1
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := Read(t.Context(), bytes.NewReader(pack), o)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if len(sizes) != 5 || !sizes[size] || !sizes[size+1] || !sizes[4] {
		t.Error(sizes)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 {
		t.Errorf("%d MiB of memory", used>>20)
	}
	var copied counter
	for o := range p.Objects() {
		if err := o.CopyTo(&copied); err != nil {
			t.Error(err)
		}
	}
	if copied != 2*size+1+4+3+5<<20 {
		t.Errorf("%d bytes copied", copied)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// sinkFunc is a Sink that has one worker.
type sinkFunc func(*Object, Content) error

func (s sinkFunc) Add(_ int, o *Object, c Content) error { return s(o, c) }
func (sinkFunc) Base(*Object, []byte) ([]byte, bool)     { return nil, false }

// TestFarOffsets writes an index of a pack of more than 2 GiB.
func TestFarOffsets(t *testing.T) {
	p := new(Pack)
	offsets := []int64{12, 1<<31 - 1, 1 << 31, 1<<32 + 5, 1 << 40}
	for i, offset := range offsets {
		o := p.add(p, offset)
		o.ID, o.CRC = plumbing.Hash{byte(31 * i), 5}, uint32(i)
	}
	p.sort(func(*Object) bool { return false })
	var index bytes.Buffer
	if err := p.WriteIndex(&index); err != nil {
		t.Fatal(err)
	}
	read := idxfile.NewMemoryIndex()
	if err := idxfile.NewDecoder(&index).Decode(read); err != nil {
		t.Fatal(err)
	}
	for i, want := range offsets {
		id := plumbing.Hash{byte(31 * i), 5}
		if got, err := read.FindOffset(id); got != want || err != nil {
			t.Errorf("%s: at %d, want %d (%v)", id, got, want, err)
		}
		if crc, err := read.FindCRC32(id); crc != uint32(i) || err != nil {
			t.Errorf("%s: CRC %d (%v)", id, crc, err)
		}
	}
}
