package poll

import (
	"context"
	"sync/atomic"
)

// progress is what an attempt, or a runner of a [Race] in it, is doing.
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

// Doing records what the attempt that owns ctx is about to do, such as "TLS handshake",
// for the message if that never ends.
func Doing(ctx context.Context, what string) { progressOf(ctx).does(&what) }

func (p *progress) does(what *string) {
	for ; p != nil && !p.over.Load(); p = p.parent {
		p.doing.Store(what)
	}
}

// Meanwhile records what the attempt that owns ctx has found of a part of its target, such
// as one of several servers. If the rest hangs, that becomes the attempt's error.
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

// end makes the parts that still run record nothing more.
func end(parts []*progress) {
	for _, part := range parts {
		if part != nil {
			part.over.Store(true)
		}
	}
}

// resume records what the first of the remaining parts is doing, once another has ended:
// if the attempt hangs, that part does.
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
