package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	holeNet   = "10.99.0.0/24" // every address of it is a black hole until assigned
	holeOwner = "10.99.255.1"  // where connections come from
)

func holeAddr(n int) string { return fmt.Sprintf("10.99.0.%d", n) }

var blackHoleWaiters = []waiter{
	initbox(ours, "wait-for-service", "tcp://{addr}"),
	wait4x("tcp", "{addr}"),
	dockerize("tcp://{addr}"),
	loop("nc", "nc", "{tool} -z -w 2 {host} {port}", 1),
	loop("busybox", "busybox nc", "{tool} nc -w 2 {host} {port} </dev/null", 1),
}

// blackHole measures waits for an address to which packets vanish at first, as
// behind a network policy or a node that is still coming up.
func blackHole(ctx context.Context, b *bench) (*section, error) {
	ns, err := newNamespace(ctx, b)
	if err != nil {
		return nil, err
	}
	defer ns.close()
	trials, longest := min(max(b.trials/5, 2), 40), 8*time.Second
	if b.quick {
		trials, longest = 3, 4*time.Second
	}
	l, err := ns.listen(net.JoinHostPort("0.0.0.0", strconv.Itoa(b.port)))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	go hold(l)
	outcomes := b.waitAtHole(ctx, ns, trials, longest)
	return blackHoleReport(b, trials, longest, outcomes), firstFailure(outcomes)
}

func (b *bench) waitAtHole(ctx context.Context, ns *namespace, trials int, longest time.Duration) map[series][]outcome {
	var (
		mu       sync.Mutex
		wg       sync.WaitGroup
		outcomes = map[series][]outcome{}
		random   = rand.New(rand.NewPCG(5, 6))
		number   int
	)
	at := *b
	at.inside = ns
	for _, delay := range delays(random, trials, time.Second, longest) {
		for _, w := range b.present(blackHoleWaiters) {
			number++
			host, begin := holeAddr(number), time.Duration(random.Int64N(int64(time.Second)))
			wg.Go(func() {
				time.Sleep(begin)
				o := at.await(ctx, w.argv(b.tools[w.tool].path, b.vars(host)), delay, func() error {
					return ns.ip(ctx, "address", "add", host+"/32", "dev", "lo")
				})
				mu.Lock()
				defer mu.Unlock()
				key := series{"tcp", w.name}
				outcomes[key] = append(outcomes[key], o)
			})
		}
	}
	wg.Wait()
	return outcomes
}

func blackHoleReport(b *bench, trials int, longest time.Duration, outcomes map[series][]outcome) *section {
	s := &section{
		title: "A black hole that opens",
		about: fmt.Sprintf("In a network namespace, packets to a port are dropped for 1 to %.0f s, then the port answers. There are %d waits each, "+
			"measured from just before the port opens until the waiter has exited. An earlier connection attempt is answered at the kernel's next retransmission.",
			longest.Seconds(), trials),
	}
	mine := reactions(outcomes[series{"tcp", ours}])
	t := table{{"waiter", "median", "max", "× initbox", "failed"}}
	for _, w := range b.present(blackHoleWaiters) {
		some := outcomes[series{"tcp", w.name}]
		r := reactions(some)
		t = append(t, []string{w.name, human(r.median()), human(r.max()),
			ratio(float64(r.median()), float64(mine.median())), strconv.Itoa(len(some) - len(r))})
	}
	s.tables = append(s.tables, t)
	s.targets = []target{{"black hole: exit after it opens, max", "1.2 s", human(mine.max()), len(mine) > 0 && mine.max() <= 1200*time.Millisecond}}
	return s
}
