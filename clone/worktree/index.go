package worktree

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sys/unix"
)

// stat is the part of lstat(2) that the index stores, each field cut to 32 bits as Git does.
// By it, Git sees that a file has not changed without reading it.
type stat struct {
	ctime, ctimeNano, mtime, mtimeNano, dev, ino, uid, gid, size uint32
}

func statOf(s unix.Stat_t) stat {
	return stat{
		uint32(s.Ctim.Sec), uint32(s.Ctim.Nsec), uint32(s.Mtim.Sec), uint32(s.Mtim.Nsec),
		uint32(s.Dev), uint32(s.Ino), s.Uid, s.Gid, uint32(s.Size),
	}
}

// Flags of an entry, see gitformat-index(5).
const (
	flagExtended     = 0x4000
	maskLength       = 0x0fff
	flagSkipWorktree = 0x4000 // of the extended ones
)

// WriteIndex writes the index of the tree after Finish: version 2, or 3 if entries are skipped. It includes the ids of
// the trees (extension TREE), so that git status need not compute them. It needs Options.Stat.
func (t *Tree) WriteIndex(w io.Writer) error {
	x := &indexWriter{w: w, sum: sha1.New()}
	version, count := uint32(2), uint32(0)
	for e := range t.Entries() {
		count++
		if e.Skipped {
			version = 3
		}
	}
	x.header(version, count)
	for e := range t.Entries() {
		x.entry(e)
	}
	if t.top != nil && t.top.sub != nil {
		x.trees(t.top.sub)
	}
	x.flush()
	if x.err == nil {
		_, x.err = w.Write(x.sum.Sum(nil))
	}
	if x.err != nil {
		return fmt.Errorf("write the index: %w", x.err)
	}
	return nil
}

// indexChunk is from how many bytes on the index is written. Smaller pieces would take longer to hash.
const indexChunk = 32 << 10

type indexWriter struct {
	w   io.Writer
	sum hash.Hash
	buf []byte // not yet written
	err error
}

func (x *indexWriter) header(version, count uint32) {
	x.buf = append(x.buf, "DIRC"...)
	x.buf = binary.BigEndian.AppendUint32(x.buf, version)
	x.buf = binary.BigEndian.AppendUint32(x.buf, count)
}

func (x *indexWriter) entry(e *Entry) {
	start := len(x.buf)
	s := &e.stat
	for _, field := range [...]uint32{
		s.ctime, s.ctimeNano, s.mtime, s.mtimeNano, s.dev, s.ino, uint32(e.Mode), s.uid, s.gid, s.size,
	} {
		x.buf = binary.BigEndian.AppendUint32(x.buf, field)
	}
	x.buf = append(x.buf, e.ID[:]...)
	length := e.in.length + len(e.name)
	flags := uint16(min(length, maskLength))
	if e.Skipped {
		flags |= flagExtended
	}
	x.buf = binary.BigEndian.AppendUint16(x.buf, flags)
	if e.Skipped {
		x.buf = binary.BigEndian.AppendUint16(x.buf, flagSkipWorktree)
	}
	x.buf = e.appendPath(x.buf)
	x.buf = append(x.buf, "\x00\x00\x00\x00\x00\x00\x00\x00"[:8-(len(x.buf)-start)%8]...) // at least one
	if len(x.buf) >= indexChunk {
		x.flush()
	}
}

// trees writes the extension TREE: for each directory its name, its numbers of entries and of directories, and its id.
func (x *indexWriter) trees(top *directory) {
	var body bytes.Buffer
	if _, empty := appendTree(&body, top); empty && top.entry.ID != emptyTree {
		return // an index cannot represent an empty tree in a tree
	}
	x.buf = append(x.buf, "TREE"...)
	x.buf = binary.BigEndian.AppendUint32(x.buf, uint32(body.Len()))
	x.buf = append(x.buf, body.Bytes()...)
}

// appendTree returns how many entries d has at any depth, and whether it, or a directory in it, has none.
func appendTree(body *bytes.Buffer, d *directory) (entries int, empty bool) {
	var below bytes.Buffer
	directories := 0
	for i := range d.entries {
		sub := d.entries[i].sub
		if sub == nil {
			entries++
			continue
		}
		directories++
		n, e := appendTree(&below, sub)
		entries, empty = entries+n, empty || e
	}
	if d.entry.in != nil {
		body.WriteString(d.entry.name)
	}
	fmt.Fprintf(body, "\x00%d %d\n", entries, directories)
	body.Write(d.entry.ID[:])
	body.Write(below.Bytes())
	return entries, empty || entries == 0
}

func (x *indexWriter) flush() {
	if x.err == nil {
		_, x.err = x.w.Write(x.buf)
	}
	x.sum.Write(x.buf)
	x.buf = x.buf[:0]
}

func compareIDs(a, b plumbing.Hash) int { return bytes.Compare(a[:], b[:]) }
