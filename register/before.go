package register

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// leaveBefore takes away what earlier runs registered otherwise than this one
// does, such as at the Pod's former address, unless this one's is in its place, or
// will be. What could not be taken away stays in r.before, and so in the state, to be
// tried again.
func (r *Registration) leaveBefore(ctx context.Context, replaced bool) {
	for p := &r.before; *p != nil; {
		if r.leaveOld(ctx, *p, replaced) {
			*p = (*p).Before
		} else {
			p = &(*p).Before
		}
	}
}

// leaveOld takes away what old tells of, and reports whether nothing remains to be
// done about it.
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
		r.log.Warn(fmt.Sprintf("%s: the earlier, different registration remains: %v", before.place(), err))
		return true
	}
	if err != nil {
		r.log.Warn(fmt.Sprintf("%s: the earlier registration %s remains: %v", before.place(), before.entry.shown(), err))
		return false
	}
	return true
}

// replaces reports whether what registers puts the new entry in the place of one that
// is taken away alike. A POST to a server of one's own makes one more, as far as
// anybody knows.
func (r *Registration) replaces() bool {
	return r.o.Protocol.Custom == nil || r.o.Protocol.Custom.Method == http.MethodPut
}

// leaveBeforeAgain tries again, now that the entry is registered, and has the state
// forget what is gone.
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
