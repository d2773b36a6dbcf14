package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

func (b *bench) databaseWaits(ctx context.Context, all []kind) (*section, error) {
	s := &section{
		title: "Databases",
		about: "Real servers, and the loops of charts around their own clients. In front of each server is a gate, which refuses connections until 0.2 to 5 s after the waiter was started, " +
			"the same times for every waiter. The time is measured from just before the gate opens until the waiter has exited. *redis, starting* is a separate Redis that is started a second earlier, and answers LOADING for that second: " +
			"its time is measured from its first PONG. cpu is user and system time of the whole wait with all its children.",
	}
	busy := load()
	few := *b
	few.trials, few.atOnce = max(b.trials*2/5, 2), 8 // psql and mysqladmin need a processor
	outcomes := few.runTrials(ctx, few.plan(all))
	s.tables = append(s.tables, costTable(b, all, outcomes, 0.95))
	s.notes = append(s.notes, busy())
	for _, k := range all {
		s.targets = append(s.targets, databaseTargets(k, outcomes)...)
	}
	if err := firstFailure(outcomes); err != nil {
		return s, err
	}
	t := table{{"one attempt", "waiter", "ready: start to exit", "ready: cpu", "refused: cpu", "× initbox", "resident"}}
	for n, k := range all {
		rows, err := few.attempts(ctx, k, attemptHost+n)
		if err != nil {
			return s, fmt.Errorf("%s: %w", k.name, err)
		}
		t = append(t, rows...)
	}
	s.tables = append(s.tables, t)
	return s, nil
}

// databaseTargets holds one kind against what the project promises.
func databaseTargets(k kind, outcomes map[series][]outcome) []target {
	rival, name := fastestRival(k, outcomes)
	if name == "" {
		return nil
	}
	median := reactions(outcomes[series{k.name, ours}]).median()
	return []target{{
		what:  "reaction, " + k.name + ", median",
		limit: fmt.Sprintf("1/5 of %s (%s)", name, human(rival)),
		got:   human(median),
		met:   median > 0 && median <= rival/5,
	}}
}

// attemptHost is the first host of serviceNet whose services serve single attempts.
const attemptHost = 62_000

// An attempt is what one took of each waiter: with its process, if it has one of its own.
type attempt struct {
	cost
	refused sample // cpu
	peak    int64  // resident, in KiB
	bound   bool   // it is at most that
}

// attempts returns the rows of a kind whose service can be there before its waiters.
func (b *bench) attempts(ctx context.Context, k kind, n int) (rows [][]string, err error) {
	s, err := k.serve(b, n)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if s.took != nil {
		return nil, nil
	}
	waiters := b.present(k.waiters)
	took := make([]attempt, len(waiters))
	for range b.trials {
		for i, w := range waiters {
			if err := b.refused(ctx, w, s.vars, &took[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	for range b.trials {
		for i, w := range waiters {
			if err := b.ready(ctx, w, s.vars, &took[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	mine := took[0].refused.median()
	for i, w := range waiters {
		resident := mebibytes(took[i].peak)
		if took[i].bound {
			resident = "≤ " + resident
		}
		refused, times := "–", "–" // of a program that tells neither how often it tries nor tries once
		if median := took[i].refused.median(); len(took[i].refused) > 0 {
			refused, times = human(median), ratio(float64(median), float64(mine))
		}
		rows = append(rows, []string{k.name, w.name, human(took[i].wall.median()), human(took[i].cpu.median()), refused, times, resident})
	}
	return rows, nil
}

// refused measures attempts to reach a service that is not there: of a loop one run of its probe, of initbox, which
// makes all attempts in one process, the average of a wait with the start of its process.
func (b *bench) refused(ctx context.Context, w waiter, vars map[string]string, sum *attempt) error {
	args := w.once
	if w.tool == ours {
		if len(sum.refused) == refusedWaits {
			return nil
		}
		args = append(w.args[:len(w.args):len(w.args)], "--timeout", refusedFor)
	}
	if args == nil {
		return nil
	}
	p, err := b.start(ctx, filled(args, b.tools[w.tool].path, vars))
	if err != nil {
		return err
	}
	if <-p.done; p.err == nil {
		return errEarly
	}
	count := 1
	if w.tool == ours {
		m := regexp.MustCompile(`(\d+) attempts`).FindStringSubmatch(p.err.Error())
		if m == nil {
			return fmt.Errorf("no number of attempts in: %w", p.err)
		}
		count, _ = strconv.Atoi(m[1])
	}
	sum.refused = append(sum.refused, p.cpu()/time.Duration(max(count, 1)))
	return nil
}

// So many waits of initbox are refused, each for so long.
const (
	refusedWaits = 5
	refusedFor   = "2s"
)

// ready measures a wait for a service that is there: one attempt, with the process.
func (b *bench) ready(ctx context.Context, w waiter, vars map[string]string, sum *attempt) error {
	shrink()
	p, err := b.start(ctx, w.argv(b.tools[w.tool].path, vars))
	if err != nil {
		return err
	}
	if <-p.done; p.err != nil {
		return p.err
	}
	sum.wall, sum.cpu = append(sum.wall, p.exited.Sub(p.started)), append(sum.cpu, p.cpu())
	if peak, bound := p.peak(); peak > sum.peak {
		sum.peak, sum.bound = peak, bound
	}
	return nil
}
