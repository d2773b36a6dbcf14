package pack

import (
	"io"

	"github.com/go-git/go-git/v5/plumbing"
)

// entry is what precedes the compressed data of an object in a pack.
type entry struct {
	kind plumbing.ObjectType
	size int64         // inflated: of the content, or of the delta
	back int64         // OFSDeltaObject: how many bytes before this entry its base begins
	base plumbing.Hash // REFDeltaObject: the id of its base
}

func (e entry) isDelta() bool { return e.kind.IsDelta() }

// readEntry reads what begins at the offset at of the pack.
func readEntry(r io.ByteReader, at int64) (e entry, err error) {
	b, err := r.ReadByte()
	if err != nil {
		return e, err
	}
	e.kind = plumbing.ObjectType(b >> 4 & 7)
	e.size = int64(b & 15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if shift > 60-7 { // 1 EiB
			return e, corrupt("its length is a number of too many digits")
		}
		if b, err = r.ReadByte(); err != nil {
			return e, err
		}
		e.size |= int64(b&0x7f) << shift
	}
	switch e.kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	case plumbing.OFSDeltaObject:
		e.back, err = readBack(r)
		if err == nil && (e.back <= 0 || e.back > at-headerSize) {
			err = corrupt("it is a delta of something %d bytes before it", e.back)
		}
	case plumbing.REFDeltaObject:
		for i := range e.base {
			if e.base[i], err = r.ReadByte(); err != nil {
				break
			}
		}
	default:
		err = corrupt("there is no kind of object %d", e.kind)
	}
	return e, err
}

// readBack reads the distance of a base. Each byte but the last adds one, so that
// there is one way only to write a number.
func readBack(r io.ByteReader) (n int64, err error) {
	b, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	n = int64(b & 0x7f)
	for b&0x80 != 0 {
		if n > 1<<54 {
			return 0, corrupt("the distance of its base is a number of too many digits")
		}
		if b, err = r.ReadByte(); err != nil {
			return 0, err
		}
		n = (n+1)<<7 | int64(b&0x7f)
	}
	return n, nil
}
