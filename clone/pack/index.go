package pack

import (
	"bufio"
	"crypto/sha1"
	"encoding/binary"
	"io"
)

// WriteIndex writes the index of the pack, in version 2, exactly like git index-pack.
func (p *Pack) WriteIndex(w io.Writer) error {
	sum := sha1.New()
	x := &indexWriter{Writer: bufio.NewWriterSize(io.MultiWriter(w, sum), chunkSize)}
	x.WriteString("\xfftOc")
	x.uint32(2)
	for _, n := range p.fanout[1:] {
		x.uint32(n)
	}
	for _, i := range p.byID {
		x.Write(p.at(i).ID[:])
	}
	for _, i := range p.byID {
		x.uint32(p.at(i).CRC)
	}
	var far []int64 // offsets that need more than 31 bits
	for _, i := range p.byID {
		offset := p.at(i).Offset
		if offset > 1<<31-1 {
			far = append(far, offset)
			offset = 1<<31 | int64(len(far)-1)
		}
		x.uint32(uint32(offset))
	}
	for _, offset := range far {
		x.uint32(uint32(offset >> 32))
		x.uint32(uint32(offset))
	}
	x.Write(p.Checksum[:])
	if err := x.Flush(); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// indexWriter keeps the first error until Flush, as bufio.Writer does.
type indexWriter struct{ *bufio.Writer }

func (w *indexWriter) uint32(n uint32) {
	w.Write(binary.BigEndian.AppendUint32(w.AvailableBuffer(), n))
}
