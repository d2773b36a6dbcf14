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
}

// classes are pools of buffers of about the same size, four for each power of two.
var classes [4 * 64]sync.Pool

// class returns the pool of buffers of at least n bytes, and their size.
func class(n int) (pool, size int) {
	n = max(n, 64)
	shift := bits.Len(uint(n-1)) - 3
	quarters := (n-1)>>shift + 1 // 5 to 8
	return 4*shift + quarters - 5, quarters << shift
}

// newContent returns content in memory, of that size, for the caller to fill.
func newContent(size int) *content {
	pool, room := class(size)
	c, ok := classes[pool].Get().(*content)
	if !ok {
		c = &content{bytes: make([]byte, room)}
	}
	c.bytes, c.size = c.bytes[:size], int64(size)
	c.users.Store(1)
	return c
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
		pool, room := class(cap(c.bytes))
		if room == cap(c.bytes) { // unless a Sink has grown it
			classes[pool].Put(c)
		}
	}
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
