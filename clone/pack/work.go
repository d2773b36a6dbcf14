package pack

import (
	"context"
	"errors"
	"io"
	"sync"

	"initbox/clone/object"
)

const (
	batchObjects = 32        // handed over at once, at most,
	batchBytes   = 256 << 10 // or so many bytes
	ahead        = 2 << 20   // bytes that wait for workers or are with them, at most, unless one object has more
)

// job is an object for the Sink.
type job struct {
	object  *Object
	content *content
	named   bool // the object has its id already
}

type batch struct {
	jobs []job
	cost int
}

// workers name objects, if that is not done yet, and call the Sink.
type workers struct {
	sink     Sink
	progress *Progress
	fail     context.CancelCauseFunc

	batches chan *batch
	free    sync.Pool
	next    *batch
	gate    *gate
	handed  sync.WaitGroup // batches
}

func newWorkers(o Options, fail context.CancelCauseFunc) *workers {
	return &workers{sink: o.Sink, progress: o.Progress, fail: fail, batches: make(chan *batch, 4*o.Workers), gate: newGate(ahead)}
}

// emit hands over a job, soon.
func (w *workers) emit(j job) {
	if w.next == nil {
		w.next, _ = w.free.Get().(*batch)
		if w.next == nil {
			w.next = &batch{jobs: make([]job, 0, batchObjects)}
		}
	}
	w.next.jobs = append(w.next.jobs, j)
	w.next.cost += j.content.cost()
	if len(w.next.jobs) == batchObjects || w.next.cost >= batchBytes {
		w.flush()
	}
}

func (w *workers) flush() {
	if w.next == nil {
		return
	}
	w.gate.enter(w.next.cost)
	w.handed.Add(1)
	w.batches <- w.next
	w.next = nil
}

// wait is over when the Sink has all that was handed over.
func (w *workers) wait() {
	w.flush()
	w.handed.Wait()
}

// work is one worker. After a failure it gives back what it gets.
func (w *workers) work(ctx context.Context, number int) {
	hasher, buf := object.NewHasher(), []byte(nil)
	for b := range w.batches {
		for i, j := range b.jobs {
			if ctx.Err() == nil {
				if j.content.file != nil && buf == nil {
					buf = make([]byte, chunkSize)
				}
				if err := w.add(number, hasher, j, buf); err != nil {
					w.fail(err)
				}
			}
			j.content.release()
			b.jobs[i] = job{}
		}
		w.gate.leave(b.cost)
		b.jobs, b.cost = b.jobs[:0], 0
		w.free.Put(b)
		w.handed.Done()
	}
}

func (w *workers) add(number int, hasher *object.Hasher, j job, buf []byte) error {
	if !j.named {
		if err := name(j.object, j.content, hasher, buf); err != nil {
			return err
		}
	}
	w.progress.Objects.Add(1)
	c := j.content
	return w.sink.Add(number, j.object, Content{Bytes: c.bytes, File: c.file, Size: c.size})
}

// name finds the id of an object.
func name(o *Object, c *content, hasher *object.Hasher, buf []byte) (err error) {
	hasher.Begin(o.Kind, c.size)
	if c.file == nil {
		hasher.Write(c.bytes)
	} else if _, err = io.CopyBuffer(hasher, c.reader(), buf); err != nil {
		return within(err, "the object at byte %d of the pack", o.Offset)
	}
	if o.ID, err = hasher.ID(); errors.Is(err, object.ErrCollision) {
		err = within(errCollision(), "the object at byte %d of the pack", o.Offset)
	}
	return err
}
