package register

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"initbox/internal/failure"
)

// leaveBefore deregisters the different entries of earlier runs, such as one with the Pod's
// former address, unless this run's entry replaces them. Those that could not be deregistered
// stay in r.before, and so in the state, for the next attempt.
func (r *Registration) leaveBefore(ctx context.Context, replaced bool) {
	for p := &r.before; *p != nil; {
		if r.leaveOld(ctx, *p, replaced) {
			*p = (*p).Before
		} else {
			p = &(*p).Before
		}
	}
}

// leaveOld deregisters the entry of an earlier state, and reports whether nothing remains to be done about it.
func (r *Registration) leaveOld(ctx context.Context, old *state, replaced bool) (done bool) {
	o := r.o
	o.Server, o.Protocol, o.Entry = old.Server, old.Protocol, old.Entry
	before, err := Open(o)
	if err != nil {
		r.log.Warn(fmt.Sprintf("the earlier registration remains: %v", err))
		return true
	}
	before.kept = old.Kept
	if replaced && before.leavesLike(r) {
		return true
	}
	if old.Server.URL != r.o.Server.URL { // else registering waits for that server anyway
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, leaveOldWithin, errNoMoreTime)
		defer cancel()
	}
	_, err = before.leave(ctx)
	if errors.Is(err, ErrCannotLeave) {
		before.log.Warn(fmt.Sprintf("%s: the earlier, different registration remains: %v", before.place(), err))
		return true
	}
	if err != nil {
		before.log.Warn(fmt.Sprintf("%s: the earlier registration %s remains: %v", before.place(), before.entry.shown(), err), failure.Fields("", 0, err))
		return false
	}
	return true
}

// replaces reports whether registering replaces an entry that is deregistered by the same
// requests. A POST to a custom server has to be assumed to add one.
func (r *Registration) replaces() bool {
	return r.o.Protocol.Custom == nil || r.o.Protocol.Custom.Method == http.MethodPut
}

// leaveBeforeAgain repeats [Registration.leaveBefore] now that the entry is registered, and
// records in the state what is gone.
func (r *Registration) leaveBeforeAgain(ctx context.Context, identity string) error {
	if r.before == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leaveOldWithin, errNoMoreTime)
	defer cancel()
	r.leaveBefore(ctx, true)
	return r.state(identity, registered).write(r.o.State)
}

const leaveOldWithin = 5 * time.Second

var errNoMoreTime = fmt.Errorf("gave up after %v", leaveOldWithin)
