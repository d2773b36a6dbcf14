package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	oneTrial  = time.Minute     // no wait here takes longer than ten seconds
	firstWait = time.Second / 5 // when a service appears, at the earliest
)

// A trial is one waiter waiting for one service.
type trial struct {
	kind   kind
	waiter waiter
	delay  time.Duration // until the service appears
	number int           // of all trials: gives the service its address
}

// An outcome is what one trial measured.
type outcome struct {
	waited   time.Duration // from the waiter's start until the service was there
	reaction time.Duration // from then until the waiter's exit
	cpu      time.Duration // user and system, with those of its children
	resident int64         // the peak of its own process until then, in KiB, without children
	err      error         // it failed, or exited too early
}

func reaction(ctx context.Context, b *bench) (*section, error) {
	names, err := newAuthority(loopback(serviceNet, 0), b.port, zone, 30)
	if err != nil {
		return nil, err
	}
	defer names.close()
	all := kinds(names)
	busy := load()
	outcomes := b.runTrials(ctx, b.plan(all))
	s := reactionReport(b, all, outcomes)
	s.notes = append(s.notes, busy())
	return s, firstFailure(outcomes)
}

// plan puts every waiter of every kind to every delay, the same delays for all,
// interleaved: what disturbs the machine for a while disturbs all of them.
func (b *bench) plan(all []kind) []trial {
	random := rand.New(rand.NewPCG(1, 2)) // the same delays in every run
	span := 4800 * time.Millisecond
	if b.quick {
		span = 1800 * time.Millisecond
	}
	var plan []trial
	for _, delay := range delays(random, b.trials, firstWait, firstWait+span) {
		var round []trial
		for _, k := range all {
			for _, w := range b.present(k.waiters) {
				round = append(round, trial{kind: k, waiter: w, delay: delay})
			}
		}
		random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		plan = append(plan, round...)
	}
	for i := range plan {
		plan[i].number = i + 1
	}
	return plan
}

// delays returns n random delays, one from each n-th of the range and in random order: independent ones would leave
// gaps, and a loop that sleeps whole seconds would look better or worse by the luck of the seed.
func delays(random *rand.Rand, n int, from, to time.Duration) []time.Duration {
	part := (to - from) / time.Duration(n)
	ds := make([]time.Duration, n)
	for i, place := range random.Perm(n) {
		ds[i] = from + time.Duration(place)*part + time.Duration(random.Int64N(int64(part)))
	}
	return ds
}

// series names the outcomes of one waiter for one kind.
type series struct{ kind, waiter string }

func (b *bench) runTrials(ctx context.Context, plan []trial) map[series][]outcome {
	var (
		mu       sync.Mutex
		outcomes = map[series][]outcome{}
		queue    = make(chan trial)
		wg       sync.WaitGroup
	)
	for i := range b.atOnce {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * 50 * time.Millisecond) // not all in step
			for t := range queue {
				o := b.runTrial(ctx, t)
				mu.Lock()
				key := series{t.kind.name, t.waiter.name}
				outcomes[key] = append(outcomes[key], o)
				mu.Unlock()
			}
		})
	}
	for _, t := range plan {
		if ctx.Err() != nil {
			break
		}
		queue <- t
	}
	close(queue)
	wg.Wait()
	return outcomes
}

func (b *bench) runTrial(ctx context.Context, t trial) outcome {
	s, err := t.kind.serve(b, t.number)
	if err != nil {
		return outcome{err: err}
	}
	defer s.close()
	o := b.await(ctx, t.waiter.argv(b.tools[t.waiter.tool].path, s.vars), max(t.delay-s.early, 0), s.open)
	if s.took != nil && o.err == nil {
		o.waited, o.reaction = o.waited+s.took(), o.reaction-s.took()
		if o.reaction < -seenWithin {
			o.err = errEarly
		}
	}
	return o
}

// seenWithin is how much later than a waiter the harness may see that a service is there.
const seenWithin = 200 * time.Millisecond

// await starts a waiter, makes its service appear after the delay, and waits for the exit.
func (b *bench) await(ctx context.Context, argv []string, delay time.Duration, open func() error) outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, oneTrial+delay, fmt.Errorf("%s: still not done", argv[0]))
	defer cancel()
	p, err := b.start(ctx, argv)
	if err != nil {
		return outcome{err: err}
	}
	defer p.stop()
	if err := p.pause(ctx, delay); err != nil {
		return outcome{err: err}
	}
	resident := p.kibibytes("VmHWM") // not that of rusage, in which this program counts until the exec
	ready := time.Now()              // before open: a waiter cannot be faster than it is
	if err := open(); err != nil {
		return outcome{err: err}
	}
	<-p.done
	return outcome{waited: ready.Sub(p.started), reaction: p.exited.Sub(ready), cpu: p.cpu(), resident: resident, err: p.err}
}

// firstFailure returns the error of a trial of initbox, if one failed. Failures of others are counted in the tables.
func firstFailure(outcomes map[series][]outcome) error {
	for key, some := range outcomes {
		for _, o := range some {
			if key.waiter == ours && o.err != nil {
				return fmt.Errorf("%s: %w", key.kind, o.err)
			}
		}
	}
	return nil
}

// reactions returns the reaction times of the trials that did not fail.
func reactions(some []outcome) sample {
	var s sample
	for _, o := range some {
		if o.err == nil {
			s = append(s, o.reaction)
		}
	}
	return s
}

// over returns by how much each reaction was longer than 6 % of its wait.
func over(some []outcome) sample {
	var s sample
	for _, o := range some {
		if o.err == nil {
			s = append(s, o.reaction-o.waited*6/100)
		}
	}
	return s
}
