package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"
)

const idSize = len(plumbing.ZeroHash)

// packFile is a pack and its index (gitformat-pack(5)). Both are held open, so that the
// pack can be read to the end though git gc removes it meanwhile.
type packFile struct {
	name  string // of the pack's file
	index []byte // mapped
	count int    // objects
	file  *os.File
	end   int64 // where the checksum that ends the pack begins

	names, stride int // where the ids begin in the index, and how far they are apart
	offsets       int // where the offsets begin
	large         int // where the offsets of 8 bytes begin; 0 in version 1
}

var errIndex = errors.New("the index is malformed")

// openPack opens the pack of an index.
func openPack(index string) (p *packFile, err error) {
	p = &packFile{name: strings.TrimSuffix(index, ".idx") + ".pack"}
	if p.file, err = openFile(p.name); err != nil {
		return nil, err
	}
	if err = p.open(index); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *packFile) open(index string) error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	p.end = info.Size() - int64(idSize)
	f, err := openFile(index)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return err
	}
	if size := info.Size(); size < 256*4 || size != int64(int(size)) {
		return &fs.PathError{Op: "read", Path: index, Err: errIndex}
	}
	if p.index, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return &fs.PathError{Op: "map", Path: index, Err: err}
	}
	if err := p.layout(); err != nil {
		return &fs.PathError{Op: "read", Path: index, Err: err}
	}
	return nil
}

// layout finds the tables of an index of version 1 or 2.
func (p *packFile) layout() error {
	size := len(p.index)
	fanout := 0
	two := bytes.HasPrefix(p.index, []byte("\xfftOc"))
	if two {
		if binary.BigEndian.Uint32(p.index[4:]) != 2 || size < 8+256*4 {
			return errors.New("an index of an unsupported version")
		}
		fanout = 8
	}
	p.names = fanout + 256*4
	p.count = int(p.first(256, fanout))
	for i := range 256 {
		if p.first(i, fanout) > p.first(i+1, fanout) {
			return errIndex
		}
	}
	entry := 4 + idSize // an offset and the id
	if two {
		entry += 4 // the checksum
	}
	if p.count > (size-p.names-2*idSize)/entry {
		return errIndex
	}
	if !two {
		p.offsets, p.names, p.stride = p.names, p.names+4, entry
		return nil
	}
	p.stride = idSize
	p.offsets = p.names + p.count*(idSize+4)
	p.large = p.offsets + p.count*4
	return nil
}

// first returns how many objects have ids that begin with a byte below b.
func (p *packFile) first(b, fanout int) uint32 {
	if b == 0 {
		return 0
	}
	return binary.BigEndian.Uint32(p.index[fanout+4*(b-1):])
}

func (p *packFile) close() {
	if p.index != nil {
		unix.Munmap(p.index)
	}
	p.file.Close()
}

// id returns the id of the object at a place in the index.
func (p *packFile) id(at int) []byte {
	from := p.names + at*p.stride
	return p.index[from : from+idSize]
}

// find returns the place of an object in the index.
func (p *packFile) find(id plumbing.Hash) (at int, found bool) {
	fanout := 0
	if p.large > 0 {
		fanout = 8
	}
	from, to := int(p.first(int(id[0]), fanout)), int(p.first(int(id[0])+1, fanout))
	at = from + sort.Search(to-from, func(i int) bool { return bytes.Compare(p.id(from+i), id[:]) >= 0 })
	return at, at < to && bytes.Equal(p.id(at), id[:])
}

// offset returns where the object at a place in the index is in the pack; 0 if the index is malformed.
func (p *packFile) offset(at int) int64 {
	if p.large == 0 {
		return int64(binary.BigEndian.Uint32(p.index[p.offsets+at*p.stride:]))
	}
	offset := binary.BigEndian.Uint32(p.index[p.offsets+at*4:])
	if offset>>31 == 0 {
		return int64(offset)
	}
	from := p.large + int(offset&(1<<31-1))*8
	if from+8 > len(p.index)-2*idSize {
		return 0
	}
	return int64(binary.BigEndian.Uint64(p.index[from:]) & (1<<63 - 1))
}
