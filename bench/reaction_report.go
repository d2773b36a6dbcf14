package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

func reactionReport(b *bench, all []kind, outcomes map[series][]outcome) *section {
	s := &section{
		title: "Reaction: from ready to exited",
		about: "A service appears 0.2 to 5 s after its waiter was started, at the same times for every waiter. " +
			"The time is measured from just before the service appears until the waiter has exited. " +
			"`× initbox` is the median divided by that of initbox.",
	}
	if b.quick {
		s.notes = append(s.notes, "A quick run: services appeared after 0.2 to 2 s.")
	}
	t := table{{"", "waiter", "median", "p90", "p99", "× initbox", "failed"}}
	for _, k := range all {
		mine := reactions(outcomes[series{k.name, ours}]).median()
		for _, w := range b.present(k.waiters) {
			some := outcomes[series{k.name, w.name}]
			r := reactions(some)
			row := append([]string{k.name, w.name}, r.spread()...)
			t = append(t, append(row, ratio(float64(r.median()), float64(mine)), strconv.Itoa(len(some)-len(r))))
		}
	}
	s.tables = append(s.tables, t, overTable(all, outcomes))
	for _, k := range all {
		s.targets = append(s.targets, reactionTargets(k, outcomes)...)
	}
	return s
}

// costTable shows what waits took beside the time: the reaction's median and its
// percentiles p, and processor time and memory.
func costTable(b *bench, all []kind, outcomes map[series][]outcome, p ...float64) table {
	header := []string{"", "waiter", "median"}
	for _, p := range p {
		header = append(header, fmt.Sprintf("p%.0f", 100*p))
	}
	t := table{append(header, "× initbox", "cpu", "× initbox", "resident", "failed")}
	for _, k := range all {
		mine := outcomes[series{k.name, ours}]
		for _, w := range b.present(k.waiters) {
			some := outcomes[series{k.name, w.name}]
			r := reactions(some)
			if len(r) == 0 {
				row := append([]string{k.name, w.name}, slices.Repeat([]string{"–"}, len(t[0])-3)...)
				t = append(t, append(row, strconv.Itoa(len(some))))
				continue
			}
			row := []string{k.name, w.name, human(r.median())}
			for _, p := range p {
				row = append(row, human(r.percentile(p)))
			}
			t = append(t, append(row,
				ratio(float64(r.median()), float64(reactions(mine).median())),
				human(cpus(some).median()), ratio(float64(cpus(some).median()), float64(cpus(mine).median())),
				w.resident(resident(some)), strconv.Itoa(len(some)-len(r))))
		}
	}
	return t
}

// overTable shows the part of initbox's reaction that its policy (the next
// attempt after 5 % of the time waited) does not explain.
func overTable(all []kind, outcomes map[series][]outcome) table {
	t := table{{"initbox: reaction − 6 % of the time waited", "p99", "max"}}
	for _, k := range all {
		o := over(outcomes[series{k.name, ours}])
		t = append(t, []string{k.name, human(o.percentile(0.99)), human(o.max())})
	}
	return t
}

// reactionTargets compares one kind with what the project promises. Files have
// their own promise, as they need not be polled.
func reactionTargets(k kind, outcomes map[series][]outcome) []target {
	mine := outcomes[series{k.name, ours}]
	median := reactions(mine).median()
	if k.name == "file" {
		worst := reactions(mine).percentile(0.99)
		return []target{{"reaction, file, p99", "10 ms", human(worst), worst > 0 && worst <= 10*time.Millisecond}}
	}
	o := over(mine).percentile(0.99)
	ts := []target{{"reaction, " + k.name + ", p99 − 6 % of the wait", "80 ms", human(o), len(mine) > 0 && o <= 80*time.Millisecond}}
	rival, name := fastestRival(k, outcomes)
	if name == "" {
		return ts // none of them is installed: the header of the report says so
	}
	return append(ts, target{
		what:  "reaction, " + k.name + ", median",
		limit: fmt.Sprintf("1/4 of %s (%s)", name, human(rival)),
		got:   human(median),
		met:   median > 0 && median <= rival/4,
	})
}

// fastestRival returns the smallest median among the 1 s loops, wait4x and dockerize.
func fastestRival(k kind, outcomes map[series][]outcome) (best time.Duration, name string) {
	for _, w := range k.waiters {
		r := reactions(outcomes[series{k.name, w.name}])
		if w.rival && len(r) > 0 && r.median() > 0 && (name == "" || r.median() < best) { // else it does not wait
			best, name = r.median(), w.name
		}
	}
	return best, name
}
