package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"initbox/internal/poll"
)

// Heartbeats of Pods that started together must not come together.
const beatJitter = 0.1

// Keep keeps the entry alive until ctx ends, at the pace that the registry wants,
// and registers again what the registry has forgotten. It does nothing while the
// state says that somebody else has taken the entry away, as [Load] and Leave do in
// a preStop hook; if the Pod goes on, with a new container, another Register has the
// state say otherwise.
func (r *Registration) Keep(ctx context.Context) {
	beat := r.heartbeat()
	if beat == nil || r.pace() <= 0 {
		<-ctx.Done()
		return
	}
	random := rand.New(rand.NewPCG(r.o.Seed, 1))
	first, told := true, ""
	_ = poll.Until(ctx, poll.Policy{}, func(ctx context.Context) error {
		var err error
		switch {
		case first:
			first = false
		case r.leftByOther():
		default:
			err = r.beat(ctx, beat)
		}
		switch {
		case err == nil && told != "":
			told = ""
			r.log.Info(fmt.Sprintf("%s: heartbeat of %s: answered again", r.place(), r.entry.shown()))
		case err != nil && ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			r.log.Error(told)
		}
		pause := r.pace()
		return poll.After(pause+time.Duration((2*random.Float64()-1)*beatJitter*float64(pause)), errors.New("kept alive"))
	})
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
	if err != nil || found != gone || r.leftByOther() {
		return err
	}
	r.log.Warn(fmt.Sprintf("%s: has forgotten %s, registering again", r.place(), r.entry.shown()))
	identity, err := r.identity()
	if err != nil {
		return err
	}
	r.round++
	stopped, err := r.tell(ctx, identity, (*state).writeUnlessLeft)
	if stopped {
		return r.leave(ctx) // it may have been registered again after it was taken away
	}
	return err
}

// leftByOther reports whether the state says that the entry was taken away.
func (r *Registration) leftByOther() bool {
	st, err := readState(r.o.State)
	return err == nil && st != nil && st.Phase == left
}
