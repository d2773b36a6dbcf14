package wait

import (
	"context"
	"sync/atomic"
	"time"

	"initbox/internal/poll"
)

// Attempts a second that all checks make together at most, not counting those that a change starts. Only waits for more
// than [fewChecks] are slower for it.
const (
	brisk = 4000
	calm  = 1000 // while more than fewChecks are missing that are all needed, and nothing happens
)

// fewChecks is up to how many checks each is tried as often as if it were alone.
const fewChecks = 200

// pace is how often each of many checks is tried. A wait that needs all of them cannot end before the last is ready, so
// each may be tried seldom, unless they become ready together, as when a route or a name server appears. Therefore,
// whenever one has become ready, all others are tried soon, at the brisk pace.
type pace struct {
	start   time.Time
	missing atomic.Int64    // of the checks, those that attempts are made for
	stirred chan struct{}   // has a value when a check has become ready
	wake    []chan struct{} // of each check; none if the pace is always brisk
}

func newPace(checks, need int) *pace {
	p := &pace{start: time.Now(), stirred: make(chan struct{}, 1)}
	p.missing.Store(int64(checks))
	if checks > fewChecks && need == checks {
		p.wake = make([]chan struct{}, checks)
		for i := range p.wake {
			p.wake[i] = make(chan struct{}, 1)
		}
	}
	return p
}

// set makes the policy of the i-th check keep the pace.
func (p *pace) set(policy *poll.Policy, i int) {
	policy.MinPause, policy.Align = p.pause, p.align
	if p.wake != nil {
		policy.Wake = p.wake[i]
	}
}

// pause returns the shortest pause after a failure.
func (p *pace) pause() time.Duration {
	missing := p.missing.Load()
	if p.wake != nil && missing > fewChecks {
		return max(min(perSecond(missing, calm), time.Second), perSecond(missing, brisk))
	}
	return perSecond(missing, brisk)
}

// align makes a pause a little longer, so that the next attempt starts together with others: to wake a processor for
// each of a thousand takes more time than the attempts.
func (p *pace) align(pause time.Duration) time.Duration {
	const period = 20 * time.Millisecond
	if p.missing.Load() <= fewChecks {
		return pause
	}
	return pause + period - (time.Since(p.start)+pause)%period
}

// perSecond returns how long n attempts take at the rate.
func perSecond(n, rate int64) time.Duration {
	return time.Duration(n) * time.Second / time.Duration(rate)
}

// stir says that a check has become ready.
func (p *pace) stir() {
	select {
	case p.stirred <- struct{}{}:
	default: // it was not noticed yet
	}
}

// run tries all checks soon whenever one has become ready, until ctx ends.
func (p *pace) run(ctx context.Context) {
	const period = 10 * time.Millisecond
	for ctx.Err() == nil && p.wake != nil {
		select {
		case <-p.stirred:
		case <-ctx.Done():
		}
		woken := 0
		for _, wake := range p.wake {
			select {
			case wake <- struct{}{}:
				woken++
			default: // it is to be tried anyway, or ready
			}
			if woken == int(brisk*period/time.Second) {
				woken = 0
				if poll.Sleep(ctx, period) != nil {
					return
				}
			}
		}
	}
}
