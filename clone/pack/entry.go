package pack

import (
	"io"

	"github.com/go-git/go-git/v5/plumbing"
)

// entry is the header of an object in a pack, before its compressed data.
type entry struct {
	kind plumbing.ObjectType
	size int64         // of the inflated content or delta
	back int64         // OFSDeltaObject: how many bytes before this entry its base begins
	base plumbing.Hash // REFDeltaObject: the ID of its base
}

func (e entry) isDelta() bool { return e.kind.IsDelta() }

// readEntry reads the entry at the offset at of the pack.
func readEntry(r io.ByteReader, at int64) (e entry, err error) {
	b, err := r.ReadByte()
	if err != nil {
		return e, err
	}
	e.kind = plumbing.ObjectType(b >> 4 & 7)
	e.size = int64(b & 15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if shift > 60-7 { // 1 EiB
			return e, corrupt("its length has too many digits")
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
			err = corrupt("it is a delta of an object %d bytes before it", e.back)
		}
	case plumbing.REFDeltaObject:
		for i := range e.base {
			if e.base[i], err = r.ReadByte(); err != nil {
				break
			}
		}
	default:
		err = corrupt("its kind is %d, which does not exist", e.kind)
	}
	return e, err
}

// readBack reads the distance of a base. Each byte but the last adds one, so that every number has a single encoding.
func readBack(r io.ByteReader) (n int64, err error) {
	b, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	n = int64(b & 0x7f)
	for b&0x80 != 0 {
		if n > 1<<54 {
			return 0, corrupt("the distance of its base has too many digits")
		}
		if b, err = r.ReadByte(); err != nil {
			return 0, err
		}
		n = (n+1)<<7 | int64(b&0x7f)
	}
	return n, nil
}
