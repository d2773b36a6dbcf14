package pack

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/binary"
	"hash/adler32"
	"io"
	"math/rand/v2"
	"testing"
)

// plainZlib inflates the beginning of src with the standard library.
func plainZlib(src []byte, size int) (content []byte, used int, ok bool) {
	r := bytes.NewReader(src)
	z, err := zlib.NewReader(r)
	if err != nil {
		return nil, 0, false
	}
	content = make([]byte, size)
	if _, err := io.ReadFull(z, content); err != nil {
		return nil, 0, false
	}
	n, err := z.Read(make([]byte, 1))
	return content, len(src) - r.Len(), n == 0 && err == io.EOF
}

// sameAsZlib inflates src in both ways.
func sameAsZlib(t *testing.T, q *quick, src []byte, size int) bool {
	t.Helper()
	want, used, ok := plainZlib(src, size)
	got := make([]byte, size, size+100)
	n, gotOK := q.inflate(src, got)
	if gotOK != ok || ok && (n != used || !bytes.Equal(got, want)) {
		t.Fatalf("%d bytes to %d: %t, %d bytes used; want %t, %d", len(src), size, gotOK, n, ok, used)
	}
	if rest := got[size:cap(got)]; !bytes.Equal(rest, make([]byte, 100)) {
		t.Fatal("something is written beyond the end")
	}
	return ok
}

// texts returns n texts of all kinds, each longer than the one before; some compress well.
func texts(n int) (all [][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		text := make([]byte, r.IntN(1+i*i))
		letters := 1 + r.IntN(255)
		for j := range text {
			text[j] = byte(r.IntN(letters))
			if j > 50 && r.IntN(8) == 0 {
				copy(text[j:], text[r.IntN(j):j])
			}
		}
		all = append(all, text)
	}
	return all
}

// TestQuick compares with the standard library: data compressed in all ways, cut, and damaged.
func TestQuick(t *testing.T) {
	q := new(quick)
	r := rand.New(rand.NewPCG(3, 4))
	for i, text := range texts(250) {
		var b bytes.Buffer
		z, _ := zlib.NewWriterLevel(&b, []int{zlib.NoCompression, zlib.BestSpeed, 6, zlib.BestCompression, zlib.HuffmanOnly}[i%5])
		z.Write(text)
		z.Close()
		size := b.Len()
		b.WriteString("what follows in the pack")
		if !sameAsZlib(t, q, b.Bytes(), len(text)) {
			t.Fatal("not inflated")
		}
		if !sameAsZlib(t, q, b.Bytes()[:size], len(text)) {
			t.Fatal("not inflated if nothing follows")
		}
		sameAsZlib(t, q, b.Bytes()[:r.IntN(size)], len(text))
		sameAsZlib(t, q, b.Bytes(), len(text)+1)
		sameAsZlib(t, q, b.Bytes(), max(0, len(text)-1))
		b.Bytes()[r.IntN(size)] ^= 1 << r.IntN(8)
		sameAsZlib(t, q, b.Bytes(), len(text))
	}
}

// FuzzQuick compares with the standard library on any data, also with its checksum corrected.
func FuzzQuick(f *testing.F) {
	for i, text := range texts(40) {
		var b bytes.Buffer
		z, _ := zlib.NewWriterLevel(&b, []int{zlib.NoCompression, zlib.BestSpeed, 6, zlib.BestCompression, zlib.HuffmanOnly}[i%5])
		z.Write(text)
		z.Close()
		f.Add(b.Bytes()[2:b.Len()-4], uint16(len(text)))
	}
	f.Fuzz(func(t *testing.T, deflated []byte, size uint16) {
		q := new(quick)
		src := append([]byte{0x78, 0x9c}, deflated...)
		sameAsZlib(t, q, src, int(size))
		r := bytes.NewReader(deflated)
		content, err := io.ReadAll(io.LimitReader(flate.NewReader(r), 1<<20))
		if err != nil || len(content) == 1<<20 {
			return
		}
		used := 2 + len(deflated) - r.Len()
		src = binary.BigEndian.AppendUint32(src[:used:used], adler32.Checksum(content))
		if !sameAsZlib(t, q, append(src, 1, 2, 3), len(content)) {
			t.Fatal("not inflated")
		}
	})
}
