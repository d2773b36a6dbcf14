// Package pack reads a pack of Git objects as it arrives from a server, once: it
// keeps a copy, resolves deltas, names every object and hands it on at once. Packs
// and their indexes are documented in gitformat-pack(5).
//
// What arrives is not trusted: lengths are checked before they are believed, and
// memory does not grow with the size of objects, only with their number.
package pack

import (
	"context"
	"iter"
	"os"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
)

// Options of [Read].
type Options struct {
	// Spool is an empty file. The pack is written there as it arrives, byte for
	// byte, and read again for what is needed later.
	Spool *os.File

	// Sink takes the objects.
	Sink Sink

	// Temp makes an empty temporary file, without a name or with one that the maker
	// removes, for blobs that are Large. Read closes it.
	Temp func() (*os.File, error)

	Workers   int       // goroutines that call Add; 0 for as many as there are processors
	MaxSize   int64     // bytes of the pack; 0 for any
	MaxObject int64     // bytes of a tree, a commit or a tag, which have to be in memory whole; 0 for 32 MiB
	Large     int64     // blobs of more bytes go through temporary files; 0 for 4 MiB
	Progress  *Progress // may be nil
}

// Progress says how far Read has come, while it runs.
type Progress struct {
	Bytes   atomic.Int64 // received
	Objects atomic.Int64 // handed to the Sink
	Total   atomic.Int64 // objects in the pack; 0 until that is known
}

// Sink takes the objects of a pack as they become known.
type Sink interface {
	// Add takes an object. It is called once for each, in any order, from several
	// goroutines at once, each with a number of its own, 0 ≤ worker < Workers. An
	// error ends Read, which returns it. A pack may hold the same object twice, as
	// git allows: then it is called twice, at the same time perhaps.
	Add(worker int, o *Object, c Content) error

	// Base returns the content of an object that is Placed, in buf if that is large
	// enough, or false: then it is read from the spool instead. It is asked for
	// objects that are not Large, while Add runs for others.
	Base(o *Object, buf []byte) ([]byte, bool)
}

// Object is one object of a pack. Its fields are set when Add is called for it.
type Object struct {
	ID     plumbing.Hash
	CRC    uint32 // of its bytes in the pack
	Offset int64  // in the pack
	Size   int64  // of its content, in bytes

	pack *Pack

	// Placed is for the Sink: where it has put the object. It is 0 at first, and as
	// long as Base cannot return the content.
	Placed atomic.Uint32

	Kind  plumbing.ObjectType // commit, tree, blob or tag
	flags uint8               // of the goroutine that reads
}

const (
	isDeferred = 1 << iota // its content is not known yet
	isNeeded               // another one's content depends on it; see resolve
)

// Content of an object: Bytes, or File if the object is a blob that is Large.
type Content struct {
	Bytes []byte   // not to be kept or changed after Add has returned
	File  *os.File // from Options.Temp, holds the content alone; to be read by ReadAt, or to be linked. Nil if Bytes are meant
	Size  int64
}

// Pack is what has been read.
type Pack struct {
	Checksum plumbing.Hash // the last 20 bytes of the pack
	Size     int64         // bytes

	objects
	refDeltas refDeltas

	o         Options
	ctx       context.Context // of Read, which is over when finished
	finished  atomic.Bool
	rereaders sync.Pool
}

// Len returns how many objects there are.
func (p *Pack) Len() int { return p.len() }

// Objects returns all objects, in the order of the pack.
func (p *Pack) Objects() iter.Seq[*Object] { return p.all() }

// Find returns the object of that id, or nil.
func (p *Pack) Find(id plumbing.Hash) *Object {
	if i, ok := p.lookup(id); ok {
		return p.at(i)
	}
	return nil
}
