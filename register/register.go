// Package register announces a Pod to a remote server: once in effect, however
// often it runs, and until it leaves.
//
// What a registry is told, is asked, and is told at the end are the calls of a
// [Preset], or of a [Custom] protocol for servers of one's own. A state file
// remembers, across restarts of the container, what was told to whom.
package register

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"initbox/internal/atomicfile"
	"initbox/internal/httpclient"
	"initbox/internal/resolver"
)

// Options says what to register, where and how.
type Options struct {
	Server   Server
	Protocol Protocol
	Entry    Entry
	Pod      string // tells this Pod from all others, also later ones of its name: its UID

	State          string // the file that remembers; "" for none
	IdempotencyKey bool   // send the header Idempotency-Key with what registers
	Output         string // the file for the answer, mode 0600; "" for none
	Extract        string // the JSON Pointer (RFC 6901) of the value in the answer to take in its place

	Success httpclient.Statuses // besides 2xx, for the call that registers
	Again   httpclient.Statuses // besides the usual ones: to be tried again

	AttemptTimeout time.Duration
	Spread         time.Duration // see httpclient.Retry
	RetryTLS       bool          // an untrusted certificate may be replaced
	Seed           uint64        // of the jitter
	Every          time.Duration // between heartbeats; 0 for the protocol's own pace
	Resolver       *resolver.Resolver
	Getenv         func(string) string // for ${env:NAME} in URLs
	Secrets        []string            // what the protocol's body holds and must not be shown
	Log            *slog.Logger        // nil for none
}

// Result is what became of a registration.
type Result struct {
	Before bool   // it was there already, and nothing was sent that registers
	Answer []byte // the registry's, or what Extract takes of it; nil if none came
}

// Register makes the registry hold the entry, unless the state says that it was
// done before and the registry confirms it. It tries again what may heal until ctx
// ends; the error wraps a [*poll.Error] then.
func (r *Registration) Register(ctx context.Context) (Result, error) {
	identity, err := r.identity()
	if err != nil {
		return Result{}, err
	}
	old, err := readState(r.o.State)
	if err != nil {
		return Result{}, err
	}
	if old != nil && old.Identity == identity && old.Phase == registered {
		result, known, err := r.stillThere(ctx, old)
		if known || err != nil {
			return result, err
		}
	}
	if old != nil && old.Identity != identity && old.Phase != left {
		r.leaveOld(ctx, old)
	}
	now := r.state(identity, registering)
	if old != nil {
		now.Round = old.Round
		if old.Phase != registering || old.Identity != identity {
			now.Round++
		}
	}
	r.round = now.Round
	if err := now.write(r.o.State); err != nil {
		return Result{}, err
	}
	answer, err := r.announce(ctx, identity)
	if err != nil {
		return Result{}, err
	}
	result, err := r.result(answer)
	if err != nil {
		return Result{}, err
	}
	now.Phase, now.Kept = registered, r.kept
	if r.o.Output != "" || r.o.Extract != "" {
		now.Answer = result.Answer
	}
	if err := now.write(r.o.State); err != nil {
		return Result{}, err
	}
	r.log.Info(fmt.Sprintf("%s: registered %s", r.place(), r.entry.shown()))
	return result, r.writeAnswer(result.Answer)
}

// stillThere asks the registry for what the state says to be registered. A
// registry that cannot be asked is believed to have kept it.
func (r *Registration) stillThere(ctx context.Context, old *state) (result Result, known bool, err error) {
	r.kept = old.Kept
	result = Result{Before: true, Answer: old.Answer}
	if r.protocol.ask == nil {
		r.log.Info(fmt.Sprintf("%s: registered before, as %s says; there is no way to ask the server", r.place(), r.o.State))
		return result, true, r.writeAnswer(result.Answer)
	}
	found, _, err := r.do(ctx, r.protocol.ask, "ask for "+r.entry.shown())
	switch {
	case err != nil:
		return result, false, err
	case found == gone:
		r.log.Info(fmt.Sprintf("%s: has forgotten %s", r.place(), r.entry.shown()))
		r.kept = nil
		return result, false, nil
	}
	r.log.Info(fmt.Sprintf("%s: %s is registered already", r.place(), r.entry.shown()))
	return result, true, r.writeAnswer(result.Answer)
}

// announce sends the calls that register. The answer is the last one'r.
func (r *Registration) announce(ctx context.Context, identity string) (answer *httpclient.Answer, err error) {
	if r.o.IdempotencyKey {
		r.key = idempotencyKey(identity, r.round)
		defer func() { r.key = "" }()
	}
	doing := "register " + r.entry.shown()
	for restarts := 0; ; restarts++ {
		found := there
		for i := range r.protocol.register {
			c := &r.protocol.register[i]
			if c.when != nil && !c.when(&r.entry) {
				continue
			}
			if found, answer, err = r.do(ctx, c, doing); err != nil || found == gone {
				break
			}
		}
		if err != nil || found != gone {
			return answer, err
		}
		if restarts == maxRestarts {
			return nil, r.refusal(doing, answer)
		}
	}
}

// maxRestarts is how often a registration of several calls begins anew because what
// one of them has made, such as a lease, is gone at the next.
const maxRestarts = 3

// leaveOld takes away what an earlier run registered otherwise than this one
// will, such as at the Pod's former address, unless this one takes its place. It
// is tried once: the new entry must not wait for the old one's server.
func (r *Registration) leaveOld(ctx context.Context, old *state) {
	o := r.o
	o.Server, o.Protocol, o.Entry = old.Server, old.Protocol, old.Entry
	before, err := Open(o)
	if err != nil {
		r.log.Warn(fmt.Sprintf("what was registered before stays: %v", err))
		return
	}
	before.kept = old.Kept
	if before.leavesLike(r) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveOldWithin)
	defer cancel()
	if err := before.leave(ctx); err != nil && !errors.Is(err, ErrCannotLeave) {
		r.log.Warn(fmt.Sprintf("%s: what was registered before, %s, stays: %v", before.place(), before.entry.shown(), err))
	}
}

const leaveOldWithin = 5 * time.Second

// result takes from the answer what the options ask for.
func (r *Registration) result(a *httpclient.Answer) (Result, error) {
	if r.o.Extract == "" {
		return Result{Answer: a.Body}, nil
	}
	value, err := pointer(a.Body, r.o.Extract)
	if err != nil {
		return Result{}, fmt.Errorf("%s: the answer: %w", r.place(), err)
	}
	return Result{Answer: []byte(value)}, nil
}

func (r *Registration) writeAnswer(answer []byte) error {
	if r.o.Output == "" {
		return nil
	}
	if err := atomicfile.Write(r.o.Output, answer, 0o600); err != nil {
		return hintedError{fmt.Errorf("write the answer to %s: %w", r.o.Output, err), volumeHint}
	}
	return nil
}

// volumeHint is what to do if a file cannot be written.
const volumeHint = "is the volume mounted, writable for this user and not full?"

// hintedError is an error with the way to mend it.
type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }
func (e hintedError) Hint() string  { return e.hint }
