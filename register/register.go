// Package register registers a Pod with a remote server, keeps the entry alive, and
// removes it in the end. To register twice has the effect of registering once.
//
// [Open] prepares a [Registration]; Register, Beat and Leave are its three phases. The requests of each are those of a
// [Preset], such as consul or eureka, or of a [Custom] protocol. A state file keeps, across restarts of the container,
// what was sent to which server, so that nothing is sent twice and [Load] can deregister in another process.
package register

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"initbox/internal/httpclient"
	"initbox/internal/resolver"
)

// Options says what to register, where and how.
type Options struct {
	Server   Server
	Protocol Protocol
	Entry    Entry
	Pod      string // distinguishes this Pod from all others, also later ones of its name: its UID

	State          string // the state file; "" for none
	IdempotencyKey bool   // send the header Idempotency-Key with what registers
	Output         string // the file for the answer, mode 0600; "" for none
	Follow         bool   // write Output through symbolic links in a volume, see [atomicfile.Writer]
	Extract        string // the JSON Pointer (RFC 6901) of the value in the answer to take in its place

	Success httpclient.Statuses // besides 2xx, for the call that registers
	Again   httpclient.Statuses // to be retried, besides the usual ones

	AttemptTimeout time.Duration
	Spread         time.Duration // see httpclient.Retry
	RetryTLS       bool          // an untrusted certificate may be replaced
	Seed           uint64        // of the jitter
	Every          time.Duration // between heartbeats; 0 for the protocol's interval
	Resolver       *resolver.Resolver
	Getenv         func(string) string // for ${env:NAME} in URLs
	Secrets        []string            // in the protocol's body; never shown
	Log            *slog.Logger        // nil for none
}

// Result is the outcome of a registration.
type Result struct {
	Already bool   // it was registered before, and no registering request was sent
	Answer  []byte // what Output or Extract take from the registry's answer; nil without them
}

// Register registers the entry, unless the state says that it is registered and the registry confirms it. It retries
// what can heal until ctx ends; then the error wraps a [*poll.Error].
func (r *Registration) Register(ctx context.Context) (Result, error) {
	identity, err := r.identity()
	if err != nil {
		return Result{}, err
	}
	if err := r.output().Check(); err != nil {
		return Result{}, err
	}
	old, err := readState(r.o.State)
	if err != nil {
		return Result{}, err
	}
	if old != nil {
		r.before = old.Before
		known, err := r.resume(ctx, old, identity)
		if known && err == nil {
			err = r.leaveBeforeAgain(ctx, identity)
		}
		if known || err != nil {
			return Result{Already: true, Answer: r.answer}, err
		}
	}
	if err = r.enter(ctx, identity, (*state).write); err == nil {
		err = r.leaveBeforeAgain(ctx, identity)
	}
	return Result{Answer: r.answer}, err
}

// resume continues from the state of an earlier run, and reports whether nothing is left to do.
func (r *Registration) resume(ctx context.Context, old *state, identity string) (known bool, err error) {
	r.round = old.Round
	switch {
	case old.Identity != identity:
		if old.Phase != left || !old.Done {
			r.before = old
		}
		r.leaveBefore(ctx, r.replaces())
	case old.Phase == left:
	case r.mayBeThere(old):
		if known, err := r.stillThere(ctx, old); known || err != nil {
			return known, err
		}
	default:
		return false, nil // sent again, unchanged
	}
	r.round++
	return false, nil
}

// enter sends what registers, and records that in the state before and after. It stops at an error of write.
func (r *Registration) enter(ctx context.Context, identity string, write func(st *state, name string) error) error {
	if err := write(r.state(identity, registering), r.o.State); err != nil {
		return err
	}
	answer, err := r.announce(ctx, identity)
	if err != nil {
		return err
	}
	if r.wantsAnswer() {
		if r.answer, err = r.extract(answer); err != nil {
			return err
		}
	}
	if err := write(r.state(identity, registered), r.o.State); err != nil {
		return err
	}
	r.log.Info(fmt.Sprintf("%s: registered %s", r.place(), r.entry.shown()))
	return r.output().Write(r.answer)
}

// mayBeThere reports whether the entry may already be registered and the state has all that the options want of the
// answer. After a run that was killed before the answer came, a preset's request is simply repeated; a custom server
// could make a second entry of it, so that it is asked first, where it can be.
func (r *Registration) mayBeThere(old *state) bool {
	if r.wantsAnswer() && (old.Answer == nil || old.Extract != r.o.Extract) {
		return false
	}
	return old.Phase == registered || r.o.Protocol.Custom != nil && r.protocol.ask != nil && len(r.protocol.register[0].keep) == 0
}

// stillThere asks whether the registry has the entry that the state names. A registry that
// cannot be asked is assumed to have it.
func (r *Registration) stillThere(ctx context.Context, old *state) (known bool, err error) {
	r.kept, r.answer, r.resumed = old.Kept, old.Answer, true
	if r.protocol.ask == nil {
		r.log.Info(fmt.Sprintf("%s: already registered according to %s, and the server cannot be asked", r.place(), r.o.State))
		return true, r.output().Write(r.answer)
	}
	found, _, err := r.do(ctx, r.protocol.ask, "ask for "+r.entry.shown())
	if err != nil {
		return false, err
	}
	if found == gone {
		r.log.Info(fmt.Sprintf("%s: does not know %s", r.place(), r.entry.shown()))
		r.kept, r.answer, r.resumed = nil, nil, false
		return false, nil
	}
	r.log.Info(fmt.Sprintf("%s: %s is already registered", r.place(), r.entry.shown()))
	if old.Phase != registered {
		old.Phase = registered
		if err := old.write(r.o.State); err != nil {
			return false, err
		}
	}
	return true, r.output().Write(r.answer)
}

// announce sends the calls that register, and returns the answer to the last one.
func (r *Registration) announce(ctx context.Context, identity string) (answer *httpclient.Answer, err error) {
	if r.o.IdempotencyKey {
		r.key = idempotencyKey(identity, r.round)
		defer func() { r.key = "" }()
	}
	doing := "register " + r.entry.shown()
	for restarts := 0; ; restarts++ {
		found := there
		var last *call
		for i := range r.protocol.register {
			c := &r.protocol.register[i]
			if c.when != nil && !c.when(&r.entry) {
				continue
			}
			last = c
			if found, answer, err = r.do(ctx, c, doing); err != nil || found == gone {
				break
			}
		}
		if err != nil || found != gone {
			return answer, err
		}
		if restarts == maxRestarts {
			return nil, r.refusal(doing, last, answer)
		}
	}
}

// maxRestarts is how often a registration of several calls starts over because what one
// of them created, such as a lease, is gone at the next.
const maxRestarts = 3
