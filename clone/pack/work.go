package pack

import (
	"context"
	"errors"
	"io"
	"sync"

	"initbox/clone/object"
)

const (
	batchObjects = 32        // limit for the objects of a batch
	batchBytes   = 256 << 10 // limit for the bytes of a batch
	ahead        = 2 << 20   // limit for the bytes of all batches, unless one object is larger
)

// job is an object for the Sink.
type job struct {
	object  *Object
	content *content
	named   bool // the object has its ID already
}

type batch struct {
	jobs []job
	cost int
}

// workers compute the IDs of objects that do not have one yet, and call the Sink.
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

// emit adds a job to the next batch, and passes that on when it is full.
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

// wait waits until the Sink has received all objects.
func (w *workers) wait() {
	w.flush()
	w.handed.Wait()
}

// work is one worker. After a failure it only releases what it gets.
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
	return w.sink.Add(number, j.object, j.content.loaned())
}

// name computes the ID of an object.
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
