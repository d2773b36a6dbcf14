package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// dnsWaiters wait for a name through a cache. initbox asks for A and AAAA, as
// nslookup does; dig and wait4x ask for A only, so it is measured that way too.
var dnsWaiters = []waiter{
	initbox(ours, "wait-for-dns", "{name}.", "--server", "{addr}"),
	initbox(oursA, "wait-for-dns", "{name}.", "--server", "{addr}", "--type", "A"),
	wait4x("dns", "A", "{name}.", "-n", "{addr}"),
	loop("dig", "dig", `test -n "$({tool} +short -p {port} @{host} {name})"`, 1),
	loop("busybox", "busybox nslookup", "{tool} nslookup {name} {addr}", 1),
	loop("busybox", "busybox nslookup", "{tool} nslookup {name} {addr}", 2),
}

const oursA = "initbox, A only"

// Hosts of 127.77.0.0/16 that no trial's number leads to.
const (
	cacheHost     = 60_000
	authorityHost = 60_001
	firstCounter  = 40_000
)

// A cacheOutcome is what one wait through the cache measured.
type cacheOutcome struct {
	waited  time.Duration
	late    time.Duration // exit − the moment from which the cache could give the answer
	queries int64
	err     error
}

func dnsCache(ctx context.Context, b *bench) (*section, error) {
	minimum, trials := uint32(30), min(max(b.trials/10, 2), 20) // all at the same time
	if b.quick {
		minimum, trials = 5, 2
	}
	a, err := newAuthority(loopback(serviceNet, authorityHost), b.port, zone, minimum)
	if err != nil {
		return nil, err
	}
	defer a.close()
	cache, err := b.startUnbound(ctx, a)
	if err != nil {
		return nil, err
	}
	defer cache.stop()
	outcomes := b.waitThroughCache(ctx, a, trials)
	return cacheReport(b, minimum, trials, outcomes), cacheFailure(outcomes)
}

// unboundConf makes unbound a plain cache in front of the authority. allow_snoop lets it answer questions that forbid
// recursion from its cache alone, by which a negative entry can be watched without being renewed.
const unboundConf = `server:
  directory: %q
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  do-ip6: no
  num-threads: 1
  interface: %s
  port: %d
  access-control: 127.0.0.0/8 allow_snoop
  do-not-query-localhost: no
  module-config: "iterator"
  qname-minimisation: no
remote-control:
  control-enable: no
stub-zone:
  name: %q
  stub-addr: %s@%d
`

func (b *bench) startUnbound(ctx context.Context, a *authority) (*proc, error) {
	unbound, ok := b.tools["unbound"]
	if !ok {
		return nil, fmt.Errorf("%w: unbound is not installed", errSkipped)
	}
	host := loopback(serviceNet, cacheHost)
	conf := filepath.Join(b.dir, "unbound.conf")
	text := fmt.Sprintf(unboundConf, b.dir, host, b.port, a.zone, a.host, a.port)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	p, err := b.start(ctx, []string{unbound.path, "-c", conf})
	if err != nil {
		return nil, err
	}
	for range 100 {
		if _, err = ask(b.cacheAddr(), "up."+a.zone, true); err == nil {
			return p, nil
		}
		if err := p.pause(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	p.stop()
	return nil, fmt.Errorf("unbound does not answer: %w", err)
}

func (b *bench) cacheAddr() string {
	return net.JoinHostPort(loopback(serviceNet, cacheHost), strconv.Itoa(b.port))
}

// ask returns the status of the answer to a question for name's A records.
func ask(server, name string, recurse bool) (rcode int, err error) {
	q := new(dns.Msg).SetQuestion(name, dns.TypeA)
	q.RecursionDesired = recurse
	client := dns.Client{Timeout: 500 * time.Millisecond}
	answer, _, err := client.Exchange(q, server)
	if err != nil {
		return 0, err
	}
	return answer.Rcode, nil
}

// waitThroughCache runs all trials at the same time, each with a name of its own,
// since a trial takes up to two lives of a negative entry.
func (b *bench) waitThroughCache(ctx context.Context, a *authority, trials int) map[string][]cacheOutcome {
	var (
		mu       sync.Mutex
		wg       sync.WaitGroup
		outcomes = map[string][]cacheOutcome{}
		random   = rand.New(rand.NewPCG(3, 4))
		life     = time.Duration(a.minimum) * time.Second
		number   int
	)
	// From the first second to far into the entry's second life.
	for _, delay := range delays(random, trials, time.Second, life*17/10) {
		for _, w := range b.present(dnsWaiters) {
			number++
			n, begin := firstCounter+number, time.Duration(random.Int64N(int64(2*time.Second)))
			wg.Go(func() {
				time.Sleep(begin)
				o := b.waitForName(ctx, a, w, n, delay)
				mu.Lock()
				outcomes[w.name] = append(outcomes[w.name], o)
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	return outcomes
}

func (b *bench) waitForName(ctx context.Context, a *authority, w waiter, n int, delay time.Duration) cacheOutcome {
	count := &counter{upstream: b.cacheAddr()}
	host := loopback(serviceNet, n)
	stop, err := serveDNS(host, b.port, count)
	if err != nil {
		return cacheOutcome{err: err}
	}
	defer stop()
	name := nameOf(n)
	vars := b.vars(host)
	vars["name"] = name[:len(name)-1]

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := watchEntry(ctx, a, b.cacheAddr(), name)
	o := b.await(ctx, w.argv(b.tools[w.tool].path, vars), delay, func() error { a.publish(name); return nil })
	exited := time.Now()
	cancel()
	if o.err != nil {
		return cacheOutcome{err: o.err}
	}
	published := exited.Add(-o.reaction)
	possible := published
	if negative := <-watch; negative.After(possible) {
		possible = negative
	}
	return cacheOutcome{waited: o.waited + o.reaction, late: exited.Sub(possible), queries: count.queries.Load()}
}

// watchEntry looks at the cache's negative entry for name around the time of its expiry, every 5 ms and without
// renewing it. What it sends, once ctx is done, is when the entry was last seen.
func watchEntry(ctx context.Context, a *authority, cache, name string) <-chan time.Time {
	seen := make(chan time.Time, 1)
	life := time.Duration(a.minimum) * time.Second
	go func() {
		var last time.Time
		for ctx.Err() == nil {
			pause := 5 * time.Millisecond
			denied, published := a.lastDenied(name)
			// Entries live for whole seconds of the cache's clock: up to 1 s longer.
			switch early := time.Until(denied.Add(life - 200*time.Millisecond)); {
			case denied.IsZero():
			case early > 0:
				pause = min(early, time.Second)
			default:
				at := time.Now()
				rcode, err := ask(cache, name, false)
				if err == nil && rcode == dns.RcodeNameError {
					last = at
				} else if err == nil && published {
					pause = time.Second // over: no other entry can follow
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		seen <- last
	}()
	return seen
}

func cacheFailure(outcomes map[string][]cacheOutcome) error {
	var errs []error
	for _, name := range []string{ours, oursA} {
		for _, o := range outcomes[name] {
			if o.err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, o.err))
			}
		}
	}
	return errors.Join(errs...)
}

// summary adds the outcomes of one waiter up.
func summary(some []cacheOutcome) (late sample, queries int64, failed int) {
	for _, o := range some {
		if o.err != nil {
			failed++
			continue
		}
		late = append(late, o.late)
		queries += o.queries
	}
	return late, queries, failed
}

func cacheReport(b *bench, minimum uint32, trials int, outcomes map[string][]cacheOutcome) *section {
	s := &section{
		title: "DNS through a caching server",
		about: fmt.Sprintf("Behind unbound, a name appears at a random time in its own zone, whose SOA lets caches repeat NXDOMAIN for %d s. "+
			"There are %d waits each, all at the same time. Late is the time from when the negative entry was last seen in the cache "+
			"(or from when the name appeared, if later) until the waiter had exited. Queries are those that reached the cache, in all waits together.", minimum, trials),
	}
	_, perLoop, _ := summary(outcomes["dig loop, sleep 1"])
	t := table{{"waiter", "late: median", "late: max", "queries", "queries / dig loop's", "failed"}}
	for _, w := range b.present(dnsWaiters) {
		late, queries, failed := summary(outcomes[w.name])
		t = append(t, []string{w.name, human(late.median()), human(late.max()), strconv.FormatInt(queries, 10),
			ratio(float64(queries), float64(perLoop)), strconv.Itoa(failed)})
	}
	s.tables = append(s.tables, t)
	s.targets = cacheTargets(outcomes)
	return s
}

// cacheTargets compares waiters that ask the same questions: initbox, which asks
// for A and AAAA, with nslookup, which does as well; for A alone with dig.
func cacheTargets(outcomes map[string][]cacheOutcome) []target {
	late, _, _ := summary(outcomes[ours])
	ts := []target{{"DNS: exit after the negative entry's end, max", "150 ms", human(late.max()), len(late) > 0 && late.max() <= 150*time.Millisecond}}
	for _, pair := range [][2]string{{ours, "busybox nslookup loop, sleep 1"}, {oursA, "dig loop, sleep 1"}} {
		_, mine, _ := summary(outcomes[pair[0]])
		_, theirs, _ := summary(outcomes[pair[1]])
		if mine > 0 && theirs > 0 {
			ts = append(ts, target{
				what:  "DNS: queries, " + pair[0],
				limit: "1/5 of " + pair[1],
				got:   ratio(float64(mine), float64(theirs)),
				met:   5*mine <= theirs,
			})
		}
	}
	return ts
}
