package pack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
)

// errFar means that reconstructing an object takes more deltas than the limit.
var errFar = errors.New("delta chain too long to resolve now")

// rereader reconstructs objects from the spool.
type rereader struct {
	inflater
	in spooled
}

// reread returns a rereader, which must be put back into p.rereaders.
func (p *Pack) reread() *rereader {
	r, ok := p.rereaders.Get().(*rereader)
	if !ok {
		r = &rereader{in: spooled{file: p.o.Spool}}
	}
	return r
}

// entry reads the header of an object; its data follows.
func (r *rereader) entry(o *Object) (Entry, error) {
	r.in.seek(o.Offset)
	return ReadEntry(&r.in, o.Offset)
}

// baseOf returns the base of a delta, or false if that is not known.
func (p *Pack) baseOf(o *Object, e Entry) (*Object, bool) {
	var i uint32
	var ok bool
	if e.Kind == plumbing.OFSDeltaObject {
		i, ok = p.find(o.Offset - e.Back)
	} else {
		i, ok = p.refDeltas.of(p, o)
	}
	if !ok {
		return nil, false
	}
	return p.at(i), true
}

// load reconstructs the content of an object from the spool, and from the sink if there is one, applying at most limit
// deltas (-1 for any number).
func (p *Pack) load(o *Object, sink Sink, limit int) (c *content, err error) {
	r := p.reread()
	defer p.rereaders.Put(r)
	var deltas []*Object
	for at := o; c == nil; {
		if c = p.fromSink(at, sink); c != nil {
			break
		}
		e, err := r.entry(at)
		if err != nil {
			return nil, err
		}
		if !e.Kind.IsDelta() {
			if c, err = p.inflate(&r.inflater, &r.in, e); err != nil {
				return nil, err
			}
			break
		}
		if len(deltas) == limit {
			return nil, errFar
		}
		deltas = append(deltas, at)
		next, ok := p.baseOf(at, e)
		if !ok {
			return nil, corrupt("it is a delta of an object that is not in the pack")
		}
		at = next
	}
	for i := len(deltas) - 1; i >= 0; i-- {
		next, err := p.derive(r, deltas[i], c, o.Kind)
		c.release()
		if err != nil {
			return nil, err
		}
		c = next
	}
	return c, nil
}

// fromSink returns the content that the sink has, or nil.
func (p *Pack) fromSink(o *Object, sink Sink) *content {
	if sink == nil || o.Size > p.o.Large || o.Placed.Load() == 0 {
		return nil
	}
	c := p.buffers.content(int(o.Size) + 1) // room for one more, by which the sink sees that a file does not end
	c.size = o.Size
	b, ok := sink.Base(o, c.bytes)
	if !ok || int64(len(b)) != o.Size {
		c.release()
		return nil
	}
	c.bytes = b
	return c
}

// isLarge reports whether content goes through a file. For anything but a blob, which must fit in memory, it returns an
// error if it is too large. The error is permanent only once the checksum at the end of the pack has proved the size
// genuine.
func (p *Pack) isLarge(kind plumbing.ObjectType, size int64) (bool, error) {
	if kind == plumbing.BlobObject {
		return size > p.o.Large, nil
	}
	if size <= p.o.MaxObject {
		return false, nil
	}
	err := tooLarge(kind, size, p.o.MaxObject)
	if p.Checksum.IsZero() {
		return false, corrupt("%v", err)
	}
	return false, err
}

// inflate reads an object that is not a delta.
func (p *Pack) inflate(f *inflater, src source, e Entry) (*content, error) {
	large, err := p.isLarge(e.Kind, e.Size)
	if err != nil {
		return nil, err
	}
	if !large {
		c := p.buffers.content(int(e.Size))
		if err := f.all(src, c.bytes); err != nil {
			c.release()
			return nil, err
		}
		return c, nil
	}
	if err := f.reset(src, e.Size); err != nil {
		return nil, err
	}
	return p.toFile(e.Size, func(w *toWriter) error {
		if err := w.insert(f, e.Size); err != nil {
			return err
		}
		return f.end()
	})
}

// cause returns why Read must stop, if it is running.
func (p *Pack) cause() error {
	if p.finished.Load() {
		return nil
	}
	return context.Cause(p.ctx)
}

// toFile makes a temporary file with the content that write writes.
func (p *Pack) toFile(size int64, write func(*toWriter) error) (*content, error) {
	file, err := p.o.Temp()
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(file, chunkSize)
	err = write(&toWriter{Writer: buffered, cause: p.cause, buf: make([]byte, 32<<10)})
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		file.Close()
		return nil, writing("an object of the pack", err)
	}
	return newFileContent(file, size), nil
}

// derive applies the delta o of that kind to the content of its base.
func (p *Pack) derive(r *rereader, o *Object, base *content, kind plumbing.ObjectType) (*content, error) {
	e, err := r.entry(o)
	if err != nil {
		return nil, err
	}
	if e.Size > p.o.Large {
		if err := r.reset(&r.in, e.Size); err != nil {
			return nil, err
		}
		return p.apply(bufio.NewReaderSize(r, chunkSize), base, kind)
	}
	delta := p.buffers.content(int(e.Size))
	defer delta.release()
	if err := r.all(&r.in, delta.bytes); err != nil {
		return nil, err
	}
	return p.apply(bytes.NewReader(delta.bytes), base, kind)
}

// apply returns the result of a delta, which is of that kind.
func (p *Pack) apply(delta instructions, base *content, kind plumbing.ObjectType) (*content, error) {
	of, size, err := deltaSizes(delta)
	if err != nil {
		return nil, err
	}
	if of != base.size {
		return nil, corrupt("it is a delta of %d bytes, but its base has %d", of, base.size)
	}
	large, err := p.isLarge(kind, size)
	if err != nil {
		return nil, err
	}
	if large {
		return p.toFile(size, func(w *toWriter) error { return applyDelta(delta, base, size, w) })
	}
	c := p.buffers.content(int(size))
	if err := applyDelta(delta, base, size, &inMemory{c.bytes}); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// Content returns the content of an object that has been added, in buf if that is large enough. Any goroutine may call
// it, during Read, and afterwards as long as the spool is open. It fails for blobs larger than Large; see
// [Object.CopyTo].
func (o *Object) Content(buf []byte) ([]byte, error) {
	if large, err := o.pack.isLarge(o.Kind, o.Size); large || err != nil {
		return nil, errors.Join(err, within(tooLarge(o.Kind, o.Size, o.pack.o.Large), "object %s", o.ID))
	}
	c, err := o.pack.load(o, nil, -1)
	if err != nil {
		return nil, within(err, "object %s", o.ID)
	}
	defer c.release()
	return append(buf[:0], c.bytes...), nil
}

// Load returns the content of an object that has been added, from what has been read last, from the sink, or from the
// pack. It may be called whenever Content may, and fails for the same blobs. The caller releases it.
func (o *Object) Load(sink Sink) (Content, error) {
	if c := o.pack.cache.get(o.Offset); c != nil {
		return c.loaned(), nil
	}
	if large, err := o.pack.isLarge(o.Kind, o.Size); large || err != nil {
		return Content{}, errors.Join(err, within(tooLarge(o.Kind, o.Size, o.pack.o.Large), "object %s", o.ID))
	}
	c, err := o.pack.load(o, sink, -1)
	if err != nil {
		return Content{}, within(err, "object %s", o.ID)
	}
	o.pack.cache.put(o.Offset, c)
	return c.loaned(), nil
}

// CopyTo writes the content of an object that has been added, of any size. It may be called whenever Content may.
func (o *Object) CopyTo(w io.Writer) error {
	c, err := o.pack.load(o, nil, -1)
	if err != nil {
		return within(err, "object %s", o.ID)
	}
	defer c.release()
	_, err = io.Copy(w, c.reader())
	return err
}
