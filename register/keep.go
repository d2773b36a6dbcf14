package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"initbox/internal/poll"
)

// A registry that has forgotten the entry again and again is told less and less
// often: probably it is asked at the wrong place, and has more entries each time.
const maxDoublings = 6

// Heartbeats of Pods that started together must not come together.
const beatJitter = 0.1

// Keep keeps the entry alive until ctx ends, at the pace that the registry wants,
// and registers again what the registry has forgotten. It does nothing while the
// state says that another process has deregistered the entry, as [Load] and Leave do in
// a preStop hook; if the Pod goes on, with a new container, another Register has the
// state say otherwise.
func (r *Registration) Keep(ctx context.Context) {
	beat := r.heartbeat()
	if beat == nil || r.pace() <= 0 {
		<-ctx.Done()
		return
	}
	random := rand.New(rand.NewPCG(r.o.Seed, 1))
	told := ""        // of the last heartbeat, if it failed
	soon := r.resumed // for a while nobody kept it alive
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
		case err == nil && told != "":
			told = ""
			r.log.Info(fmt.Sprintf("%s: heartbeat of %s: answered again", r.place(), r.entry.shown()))
		case err != nil && ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			r.log.Error(told)
		}
	}
}

// heartbeat is the call that keeps the entry alive; nil if there is none.
func (r *Registration) heartbeat() *call {
	if r.protocol.beat != nil {
		return r.protocol.beat
	}
	return r.protocol.ask
}

// pace is the time between two heartbeats.
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
	err = r.tell(ctx, identity, func(st *state, name string) error {
		err := st.writeUnlessLeft(name)
		if err == nil || errors.Is(err, errLeft) {
			return err
		}
		r.log.Warn(err.Error()) // a full disk is no reason not to be found any more
		return nil
	})
	if errors.Is(err, errLeft) {
		_, err = r.leave(ctx) // it may have been registered again after it was taken away
	}
	return err
}

// answerWithin is how long who is told to stop waits for the answer to what
// registers: it may name what is needed to leave, and a server that has not answered
// yet might register after it was told to deregister.
const answerWithin = time.Second

// outlast returns a context that ends so long after ctx.
func outlast(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if poll.Sleep(longer, by) == nil {
			cancel(context.Cause(ctx))
		}
	})
	return longer, func() { stop(); cancel(nil) }
}

// leftByOther reports whether the state says that the entry was taken away.
func (r *Registration) leftByOther() bool {
	st, err := readState(r.o.State)
	return err == nil && st != nil && st.Phase == left
}
