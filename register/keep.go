package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"initbox/internal/poll"
)

// maxDoublings limits how far the pause grows while the registry loses the entry again and
// again: probably the wrong URL is asked, and each registration adds an entry.
const maxDoublings = 6

// beatJitter keeps the heartbeats of Pods that started together apart.
const beatJitter = 0.1

// Keep sends heartbeats until ctx ends, at the interval that the registry wants, and registers again whenever the
// registry has lost the entry. It pauses while the state says that another process has deregistered, as a preStop hook
// does with [Load] and Leave. If the Pod goes on, its new container's Register ends that.
func (r *Registration) Keep(ctx context.Context) {
	beat := r.heartbeat()
	if beat == nil || r.pace() <= 0 {
		<-ctx.Done()
		return
	}
	random := rand.New(rand.NewPCG(r.o.Seed, 1))
	logged := ""      // the error of the last heartbeat, if it failed
	soon := r.resumed // for a while, no heartbeats were sent
	for {
		pause := r.pace() << min(max(0, r.forgotten-1), maxDoublings)
		pause += time.Duration((2*random.Float64() - 1) * beatJitter * float64(pause))
		if soon {
			soon, pause = false, 0
		}
		if poll.Sleep(ctx, pause) != nil {
			return
		}
		if r.leftByOther() {
			continue
		}
		err := r.beat(ctx, beat)
		r.unsure = r.leftByOther()
		switch {
		case err == nil && logged != "":
			logged = ""
			r.log.Info(fmt.Sprintf("%s: heartbeat of %s: answered again", r.place(), r.entry.shown()))
		case err != nil && ctx.Err() == nil && err.Error() != logged:
			logged = err.Error()
			r.log.Warn(logged)
		}
	}
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

// answerWithin is how long a stopped Keep waits for the answer to a registering request: the answer may name what Leave
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
