package wire

import (
	"context"
	"errors"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/resolver"
	"initbox/waitfor/target"
)

// Any returns nil as soon as ask succeeds for one of the server's addresses, otherwise the most informative error.
func Any(ctx context.Context, s Server, ask func(ctx context.Context, addr string) error) error {
	if len(s.Addrs) == 1 {
		return ask(ctx, s.Addrs[0])
	}
	winner, outcomes := poll.Race(ctx, len(s.Addrs), hostDelay, false, func(ctx context.Context, i int) (struct{}, error) {
		err := ask(ctx, s.Addrs[i])
		if err != nil && telling(err) == 0 {
			poll.Meanwhile(ctx, failure.At(s.Addrs[i], err)) // this host may hang after others have answered
		}
		return struct{}{}, err
	})
	if winner >= 0 {
		return nil
	}
	return mostTelling(s.Addrs, outcomes)
}

// Every returns nil when ask succeeds for each of the server's addresses. A server is gone when none is left.
func Every(ctx context.Context, s Server, ask func(ctx context.Context, addr string) error) error {
	if s.Gone {
		return Any(ctx, s, ask)
	}
	for _, addr := range s.Addrs {
		if err := ask(ctx, addr); err != nil && len(s.Addrs) > 1 {
			return failure.At(addr, err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// hostDelay is the pause before the next of several hosts is tried beside the others.
const hostDelay = 250 * time.Millisecond

// mostTelling returns the most informative error of several servers: what one of them reported, rather than that
// another is down or hangs.
func mostTelling(addrs []string, outcomes []poll.Outcome[struct{}]) error {
	worst, at := error(nil), ""
	hangs := false
	for i, o := range outcomes {
		switch {
		case !o.Finished:
			hangs = true
		case worst == nil || telling(o.Err) < telling(worst):
			worst, at = o.Err, addrs[i]
		}
	}
	if hangs && (worst == nil || telling(worst) > 0) {
		return context.DeadlineExceeded
	}
	return failure.At(at, worst)
}

// telling is 0 for what a server reported itself, and higher for less informative errors. That one server is down says
// nothing about the others, so it ranks last.
func telling(err error) int {
	var lookup *resolver.Failure
	switch f := failure.Of(err); {
	case f.Elsewhere, f.Class == failure.Unexpected, f.Class == failure.Authentication:
		return 0
	case f.Class == failure.Refused, f.Err == target.ErrNotThere, errors.As(err, &lookup) && lookup.Gone():
		return 2
	}
	return 1
}
