package pack

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxFar is how many deltas are applied again to reconstruct a base while the pack arrives. Longer chains are resolved
// after the whole pack has arrived, when each delta is applied once.
const maxFar = 8

// reader is the state of a running Read.
type reader struct {
	*Pack
	in       stream
	inflater inflater // of in
	out      *workers
	deferred int // objects whose content is not known yet
}

// Read reads a pack to its end, and calls the Sink for every object in it. It wraps an error of src. If src is an
// io.Closer, Read closes it when ctx ends or an error occurs, so that it does not wait for the server.
func Read(ctx context.Context, src io.Reader, o Options) (*Pack, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c, ok := src.(io.Closer); ok {
		stop := context.AfterFunc(ctx, func() { c.Close() })
		defer stop()
	}
	o = o.withDefaults()
	from := newReceiver(src, o)
	r := &reader{Pack: &Pack{o: o, ctx: ctx, buffers: new(buffers)}, in: stream{from: from}, out: newWorkers(o, cancel)}
	var running sync.WaitGroup
	running.Go(func() { from.run(ctx) })
	for i := range o.Workers {
		running.Go(func() { r.out.work(ctx, i) })
	}
	err := r.read()
	if err != nil {
		cancel(err)
	}
	close(r.out.batches)
	running.Wait()
	r.cache.close()
	r.buffers.drop()
	if context.Cause(ctx) != nil { // the first failure of any goroutine
		return nil, context.Cause(ctx)
	}
	r.finished.Store(true)
	return r.Pack, nil
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.MaxObject <= 0 {
		o.MaxObject = 32 << 20
	}
	if o.Large <= 0 {
		o.Large = 4 << 20
	}
	if o.Progress == nil {
		o.Progress = new(Progress)
	}
	return o
}

// More than manyObjects objects of fewBytes each, on average, can only be an attempt to fill the memory: more is kept
// of each object than it occupies in the pack. In real repositories an object takes some hundred bytes.
const (
	manyObjects = 1 << 20
	fewBytes    = 24
)

// read reads the whole pack.
func (r *reader) read() error {
	total, err := r.header()
	if err != nil {
		return err
	}
	r.o.Progress.Total.Store(total)
	for i := range total {
		at := r.in.offset()
		err := r.object()
		switch {
		case r.cause() != nil:
			return r.cause()
		case r.in.err != nil:
			return r.in.err // not the pack's fault
		case i >= manyObjects && at/i < fewBytes:
			return corrupt("%d objects in %d bytes cannot be a repository", i, at)
		case err != nil:
			return within(err, "object %d of %d, at byte %d of the pack", i+1, total, at)
		}
	}
	if r.Checksum, err = r.in.finish(); err != nil {
		return err
	}
	r.Size = r.in.offset()
	if r.deferred > 0 {
		if err := r.resolve(); err != nil {
			return err
		}
	}
	r.out.wait()
	r.sort(func(*Object) bool { return false })
	return nil
}

// header reads the header of the pack, and returns the number of objects.
func (r *reader) header() (objects int64, err error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(&r.in, h[:]); err != nil {
		return 0, cut(err, "the pack ends within its header")
	}
	if string(h[:4]) != "PACK" {
		return 0, corrupt("the server sent something other than a pack")
	}
	if v := binary.BigEndian.Uint32(h[4:]); v != 2 && v != 3 { // as in git: 3 is the same
		return 0, corrupt("the pack has the unknown version %d", v)
	}
	return int64(binary.BigEndian.Uint32(h[8:])), nil
}

// object reads the next object of the stream.
func (r *reader) object() error {
	at := r.in.offset()
	r.in.begin()
	e, err := ReadEntry(&r.in, at)
	if err != nil {
		return cut(err, "the pack ends in the middle of it")
	}
	o := r.add(r.Pack, at)
	var c *content
	if e.Kind.IsDelta() {
		c, err = r.delta(o, e)
	} else {
		o.Kind, o.Size = e.Kind, e.Size
		c, err = r.inflate(&r.inflater, &r.in, e)
	}
	if err != nil {
		return err
	}
	o.CRC = r.in.sum()
	if c == nil {
		o.flags |= isDeferred
		r.deferred++
		return nil
	}
	r.cache.put(o.Offset, c)
	r.out.emit(job{object: o, content: c})
	return nil
}

// delta reads the next delta and applies it. It returns nil if the delta is deferred: until IDs are known, or because
// its base or its result is large.
func (r *reader) delta(o *Object, e Entry) (*content, error) {
	var base *Object
	if e.Kind == plumbing.OFSDeltaObject {
		i, ok := r.find(o.Offset - e.Back)
		if !ok {
			return nil, corrupt("it is a delta of byte %d, where no object begins", o.Offset-e.Back)
		}
		base = r.at(i)
	}
	if base == nil || base.flags&isDeferred != 0 || max(base.Size, e.Size) > r.o.Large {
		return nil, r.skip(e.Size)
	}
	d := r.buffers.content(int(e.Size))
	defer d.release()
	if err := r.inflater.all(&r.in, d.bytes); err != nil {
		return nil, err
	}
	delta := bytes.NewReader(d.bytes)
	if _, size, err := deltaSizes(delta); err != nil || size > r.o.Large && base.Kind == plumbing.BlobObject {
		return nil, err
	}
	from, err := r.base(base)
	if err == errFar {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer from.release()
	delta.Seek(0, io.SeekStart)
	c, err := r.apply(delta, from, base.Kind)
	if err == nil {
		o.Kind, o.Size = base.Kind, c.size
	}
	return c, err
}

// skip inflates data only to find its end.
func (r *reader) skip(size int64) error {
	if size <= r.o.Large {
		c := r.buffers.content(int(size))
		defer c.release()
		return r.inflater.all(&r.in, c.bytes)
	}
	if err := r.inflater.reset(&r.in, size); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, &r.inflater)
	return err
}

// base returns the content of an object read before, or errFar.
func (r *reader) base(o *Object) (*content, error) {
	if c := r.cache.get(o.Offset); c != nil {
		return c, nil
	}
	c, err := r.load(o, r.o.Sink, maxFar)
	if err != nil {
		if !errors.Is(err, errFar) {
			err = within(err, "its base, at byte %d", o.Offset)
		}
		return nil, err
	}
	r.cache.put(o.Offset, c)
	return c, nil
}
