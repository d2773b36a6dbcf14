package pack

import (
	"io"

	"github.com/go-git/go-git/v5/plumbing"
)

// Entry is the header of an object in a pack, before its compressed data.
type Entry struct {
	Kind plumbing.ObjectType
	Size int64         // of the inflated content or delta
	Back int64         // OFSDeltaObject: how many bytes before this entry its base begins
	Base plumbing.Hash // REFDeltaObject: the ID of its base
}

// ReadEntry reads the entry at the offset at of the pack.
func ReadEntry(r io.ByteReader, at int64) (e Entry, err error) {
	b, err := r.ReadByte()
	if err != nil {
		return e, err
	}
	e.Kind = plumbing.ObjectType(b >> 4 & 7)
	e.Size = int64(b & 15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if shift > 60-7 { // 1 EiB
			return e, corrupt("its length has too many digits")
		}
		if b, err = r.ReadByte(); err != nil {
			return e, err
		}
		e.Size |= int64(b&0x7f) << shift
	}
	switch e.Kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	case plumbing.OFSDeltaObject:
		e.Back, err = readBack(r)
		if err == nil && (e.Back <= 0 || e.Back > at-headerSize) {
			err = corrupt("it is a delta of an object %d bytes before it", e.Back)
		}
	case plumbing.REFDeltaObject:
		for i := range e.Base {
			if e.Base[i], err = r.ReadByte(); err != nil {
				break
			}
		}
	default:
		err = corrupt("its kind is %d, which does not exist", e.Kind)
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
