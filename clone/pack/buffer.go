package pack

import (
	"io"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
)

// content is the content of an object, in memory or in a file. It is freed when its last user releases it.
type content struct {
	bytes []byte
	file  *os.File // nil if the content is in bytes
	at    int64    // where it begins in the file
	lent  bool     // the file belongs to another owner
	size  int64
	users atomic.Int32
	home  *buffers // of bytes; may be nil
}

// buffers keeps content that has been released for other objects, in classes of about the same size, four for each
// power of two. A sync.Pool would lose it at each garbage collection, of which a clone has many. A nil *buffers keeps
// nothing.
type buffers struct {
	mu   sync.Mutex
	free [4 * 64][]*content
	size int
	done bool // nothing is kept from now on
}

const (
	buffersSize = 4 << 20  // limit for the bytes of free buffers
	classSize   = 64 << 10 // and of each class, but two may be kept of any, so that small ones leave room for large ones
)

// class returns the class of buffers of at least n bytes, and their size.
func class(n int) (number, size int) {
	n = max(n, 64)
	shift := bits.Len(uint(n-1)) - 3
	quarters := (n-1)>>shift + 1 // 5 to 8
	return 4*shift + quarters - 5, quarters << shift
}

// content returns content in memory, of that size, for the caller to fill.
func (b *buffers) content(size int) *content {
	number, room := class(size)
	c := b.take(number)
	if c == nil {
		c, _ = overflow[number].Get().(*content)
	}
	if c == nil {
		c = &content{bytes: make([]byte, room)}
	}
	c.home = b
	c.bytes, c.size = c.bytes[:size], int64(size)
	c.users.Store(1)
	return c
}

// take returns a free buffer of that class or, so that few stay unused, of one of the next, less than twice as large.
func (b *buffers) take(number int) *content {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := number; i < min(number+4, len(b.free)); i++ {
		if last := len(b.free[i]) - 1; last >= 0 {
			c := b.free[i][last]
			b.free[i][last] = nil
			b.free[i] = b.free[i][:last]
			b.size -= cap(c.bytes)
			return c
		}
	}
	return nil
}

func (b *buffers) put(c *content) {
	number, room := class(cap(c.bytes))
	if b == nil || room != cap(c.bytes) { // a Sink has grown it
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.done && b.size+room <= buffersSize && len(b.free[number]) < max(2, classSize/room) {
		b.free[number] = append(b.free[number], c)
		b.size += room
		return
	}
	c.home = nil
	overflow[number].Put(c)
}

// overflow has the buffers that are free until the next garbage collection.
var overflow [4 * 64]sync.Pool

// drop frees the memory.
func (b *buffers) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free, b.size, b.done = [4 * 64][]*content{}, 0, true
}

// newFileContent returns content that is a whole file, and owns the file.
func newFileContent(f *os.File, size int64) *content {
	c := &content{file: f, size: size}
	c.users.Store(1)
	return c
}

// use adds a user.
func (c *content) use() *content {
	c.users.Add(1)
	return c
}

func (c *content) release() {
	switch {
	case c.users.Add(-1) > 0:
	case c.lent:
	case c.file != nil:
		c.file.Close()
	default:
		c.home.put(c)
	}
}

// loaned is the content for a Sink, or for a caller of Load.
func (c *content) loaned() Content {
	return Content{Bytes: c.bytes, File: c.file, Size: c.size, from: c}
}

// cost is the memory that the content takes, in bytes. An open file counts as 1 MiB, because few may be open.
func (c *content) cost() int {
	if c.file != nil {
		return 1 << 20
	}
	return cap(c.bytes)
}

// reader returns a reader of the whole content.
func (c *content) reader() io.Reader { return io.NewSectionReader(c, 0, c.size) }

// ReadAt implements io.ReaderAt.
func (c *content) ReadAt(p []byte, off int64) (n int, err error) {
	if c.file != nil {
		return c.file.ReadAt(p, c.at+off)
	}
	if off >= int64(len(c.bytes)) {
		return 0, io.EOF
	}
	if n = copy(p, c.bytes[off:]); n < len(p) {
		err = io.EOF
	}
	return n, err
}

// gate limits how much content is with the workers at a time.
type gate struct {
	mu     sync.Mutex
	freed  sync.Cond
	inside int
	limit  int
}

func newGate(limit int) *gate {
	g := &gate{limit: limit}
	g.freed.L = &g.mu
	return g
}

// enter waits until there is room, or nothing else inside.
func (g *gate) enter(cost int) {
	g.mu.Lock()
	for g.inside > 0 && g.inside+cost > g.limit {
		g.freed.Wait()
	}
	g.inside += cost
	g.mu.Unlock()
}

func (g *gate) leave(cost int) {
	g.mu.Lock()
	g.inside -= cost
	g.mu.Unlock()
	g.freed.Signal()
}
