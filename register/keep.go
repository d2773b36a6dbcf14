package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"initbox/internal/poll"
)

// maxDoublings limits how far the pause grows while the registry loses the entry again and
// again: probably the wrong URL is asked, and each registration adds an entry.
const maxDoublings = 6

// beatJitter keeps the heartbeats of Pods that started together apart.
const beatJitter = 0.1

// Pause returns the time until the next [Registration.Beat]: about the interval that the registry wants, or 0 if the
// entry needs no heartbeats.
func (r *Registration) Pause() time.Duration {
	if r.heartbeat() == nil || r.pace() <= 0 {
		return 0
	}
	if r.resumed { // for a while, no heartbeats were sent
		r.resumed = false
		return time.Nanosecond
	}
	pause := r.pace() << min(max(0, r.forgotten-1), maxDoublings)
	return pause + time.Duration((2*r.random.Float64()-1)*beatJitter*float64(pause))
}

// beatLimit is how long Beat tries, so that a sidecar can tell that it is alive.
const beatLimit = 30 * time.Minute

// Beat sends a heartbeat, and registers again if the registry has lost the entry. It tries for half an hour at most. It
// does nothing while the state says that another process has deregistered, as a preStop hook does with [Load] and
// Leave. If the Pod goes on, its new container's Register ends that.
func (r *Registration) Beat(ctx context.Context) error {
	if r.leftByOther() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, beatLimit)
	defer cancel()
	err := r.beat(ctx, r.heartbeat())
	r.unsure = r.leftByOther()
	return err
}

// heartbeat returns the call that keeps the entry alive, or nil.
func (r *Registration) heartbeat() *call {
	if r.protocol.beat != nil {
		return r.protocol.beat
	}
	return r.protocol.ask
}

// pace returns the time between two heartbeats.
func (r *Registration) pace() time.Duration {
	if r.o.Every > 0 {
		return r.o.Every
	}
	if r.protocol.beatEvery != nil {
		return r.protocol.beatEvery(&r.entry)
	}
	return r.entry.TTL / 3
}

func (r *Registration) beat(ctx context.Context, c *call) error {
	found, _, err := r.do(ctx, c, "heartbeat of "+r.entry.shown())
	if err == nil && found == there && r.protocol.beatAsks {
		found, _, err = r.do(ctx, r.protocol.ask, "ask for "+r.entry.shown())
	}
	if err == nil && found != gone {
		r.forgotten = 0
	}
	if err != nil || found != gone || r.leftByOther() {
		return err
	}
	r.forgotten++
	r.log.Warn(fmt.Sprintf("%s: has forgotten %s, registering again", r.place(), r.entry.shown()))
	if r.forgotten > 1 && r.o.Protocol.Custom != nil {
		r.log.Warn(fmt.Sprintf("%s: %d times in a row: do --check-url and --heartbeat-url ask for the entry that was registered?", r.place(), r.forgotten))
	}
	identity, err := r.identity()
	if err != nil {
		return err
	}
	r.round++
	ctx, cancel := outlast(ctx, r.answerWithin)
	defer cancel()
	err = r.enter(ctx, identity, func(st *state, name string) error {
		err := st.writeUnlessLeft(name)
		if err == nil || errors.Is(err, errLeft) {
			return err
		}
		r.log.Warn(err.Error()) // a full disk must not end the registration
		return nil
	})
	if errors.Is(err, errLeft) {
		_, err = r.leave(ctx) // this run may have registered after the other deregistered
	}
	return err
}

// answerWithin is how long a stopped Beat waits for the answer to a registering request: the answer may name what Leave
// needs, and a server that has not answered might process the request after the one that deregisters.
const answerWithin = time.Second

// outlast returns a context that ends later than ctx by that long, with the same cause.
func outlast(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if poll.Sleep(longer, by) == nil {
			cancel(context.Cause(ctx))
		}
	})
	return longer, func() { stop(); cancel(nil) }
}

// leftByOther reports whether the state says that the entry was deregistered.
func (r *Registration) leftByOther() bool {
	st, err := readState(r.o.State)
	return err == nil && st != nil && st.Phase == left
}
