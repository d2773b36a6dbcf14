package poll

import (
	"context"
	"sync/atomic"
)

// progress is how far an attempt has come, or a runner of a [Race] in it.
type progress struct {
	doing  atomic.Pointer[string]
	found  atomic.Pointer[error] // of the attempt
	parent *progress             // nil: that of the attempt
	over   atomic.Bool           // its race has ended, perhaps without it
}

type progressKey struct{}

func progressOf(ctx context.Context) *progress {
	p, _ := ctx.Value(progressKey{}).(*progress)
	return p
}

// Doing notes on the attempt that owns ctx what it is about to do, such as
// "TLS handshake", for the message if that never ends.
func Doing(ctx context.Context, what string) { progressOf(ctx).does(&what) }

func (p *progress) does(what *string) {
	for ; p != nil && !p.over.Load(); p = p.parent {
		p.doing.Store(what)
	}
}

// Meanwhile notes on the attempt that owns ctx what it has found of a part of what it
// asks, such as one of several servers. If the rest hangs, that is what is told.
func Meanwhile(ctx context.Context, err error) {
	for p := progressOf(ctx); p != nil && !p.over.Load(); p = p.parent {
		p.found.Store(&err)
	}
}

// part returns the context of a runner.
func (p *progress) part(ctx context.Context) (context.Context, *progress) {
	if p == nil {
		return ctx, nil
	}
	part := &progress{parent: p}
	return context.WithValue(ctx, progressKey{}, part), part
}

// end lets the parts that still run have no say any more.
func end(parts []*progress) {
	for _, part := range parts {
		if part != nil {
			part.over.Store(true)
		}
	}
}

// resume notes what the first of the parts that are left is doing, once another has
// ended: it is that one which hangs, if any does.
func (p *progress) resume(parts []*progress) {
	for _, part := range parts {
		if part == nil {
			continue
		}
		if what := part.doing.Load(); what != nil {
			p.does(what)
			return
		}
	}
}
