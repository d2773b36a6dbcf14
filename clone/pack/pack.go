// Package pack reads a pack of Git objects in one pass, while it arrives from a server. It keeps a copy, applies
// deltas, computes the ID of every object, and passes the objects to a [Sink] as soon as they are known:
//
//	p, err := pack.Read(ctx, answer.Pack, pack.Options{Spool: file, Sink: sink, Temp: temp})
//	...
//	err = p.WriteIndex(index)
//	content, err := p.Find(id).Content(nil)
//
// gitformat-pack(5) documents packs and their indexes.
//
// The input is not trusted: lengths are checked before they are used, and memory does not grow with the size of
// objects, only with their number.
package pack

import (
	"bytes"
	"context"
	"iter"
	"os"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
)

// Options of [Read].
type Options struct {
	// Spool is an empty file, to which the pack is copied as it arrives, and from which parts of it are read again.
	Spool *os.File

	// Sink receives the objects.
	Sink Sink

	// Temp creates an empty temporary file for blobs larger than Large. It is unnamed, or its creator removes it. Read
	// closes it.
	Temp func() (*os.File, error)

	Workers   int       // goroutines that call Add; 0 for as many as there are processors
	MaxSize   int64     // of the pack, in bytes; 0 for any
	MaxObject int64     // of a tree, a commit or a tag, which must fit in memory, in bytes; 0 for 32 MiB
	Large     int64     // blobs of more bytes go through temporary files; 0 for 4 MiB
	Progress  *Progress // may be nil
}

// Progress shows the progress of Read while it runs.
type Progress struct {
	Bytes   atomic.Int64 // received
	Objects atomic.Int64 // passed to the Sink
	Total   atomic.Int64 // objects in the pack; 0 as long as that is unknown
}

// Sink receives the objects of a pack as they become known.
type Sink interface {
	// Add receives an object. It is called once for each, in any order, by several goroutines at a time, each with its
	// own number worker, 0 ≤ worker < Workers. Read returns its error. A pack may contain an object twice, as in git:
	// then Add is called twice, possibly at the same time.
	Add(worker int, o *Object, c Content) error

	// Base returns the content of an object that is Placed, in buf if that is large enough. If it returns false, the
	// object is read from the spool. It is called only for objects that are not Large, possibly while Add runs for
	// others.
	Base(o *Object, buf []byte) ([]byte, bool)
}

// Object is an object of a pack. Its fields are set before Add is called for it.
type Object struct {
	ID     plumbing.Hash
	CRC    uint32 // CRC-32 of its bytes in the pack
	Offset int64  // in the pack
	Size   int64  // of its content, in bytes

	pack *Pack

	// Placed is set by the Sink to say where it put the object. As long as it is 0, Base is not called for the object.
	Placed atomic.Uint32

	Kind  plumbing.ObjectType // commit, tree, blob or tag
	flags uint8               // used by the reading goroutine
}

const (
	isDeferred = 1 << iota // its content is not known yet
	isNeeded               // the content of another object depends on it; see resolve
)

// Content is the content of an object: Bytes, or File if the object is a blob larger than Large.
type Content struct {
	Bytes []byte   // must not be changed, nor used after Add has returned, see Keep
	File  *os.File // from Options.Temp, with nothing but the content; may be linked, or read with ReadAt. Nil if Bytes is set
	Size  int64

	from *content // see Keep
}

// Keep returns Bytes that remain after Add has returned, until Release.
func (c Content) Keep() Content {
	if c.from == nil {
		c.Bytes = bytes.Clone(c.Bytes)
	} else {
		c.from.use()
	}
	return c
}

// Release says that the content of Keep or of [Object.Load] is no longer used.
func (c Content) Release() {
	if c.from != nil {
		c.from.release()
	}
}

// Pack is a pack that has been read.
type Pack struct {
	Checksum plumbing.Hash // the last 20 bytes of the pack
	Size     int64         // in bytes

	objects
	refDeltas refDeltas

	o         Options
	ctx       context.Context // of Read, until finished
	finished  atomic.Bool
	rereaders sync.Pool
	buffers   *buffers
	cache     cache
}

// Len returns the number of objects.
func (p *Pack) Len() int { return p.len() }

// Objects returns all objects, in the order of the pack.
func (p *Pack) Objects() iter.Seq[*Object] { return p.all() }

// Find returns the object with that ID, or nil.
func (p *Pack) Find(id plumbing.Hash) *Object {
	if i, ok := p.lookup(id); ok {
		return p.at(i)
	}
	return nil
}
