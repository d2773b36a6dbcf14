package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"initbox/internal/httpclient"
)

// herdHost is the first of the hosts of serviceNet for the herds' servers.
const herdHost = 60_010

// A stampede is the size of the two herds.
type stampede struct {
	pods, podCapacity          int
	processes, processCapacity int
	spread                     time.Duration // 0 for initbox's own
	limit                      time.Duration // of the processes' time
}

var (
	fullStampede  = stampede{5000, 200, 300, 12, 0, 100 * time.Second}
	quickStampede = stampede{500, 100, 30, 6, 4 * time.Second, 12 * time.Second}
)

// gatherWithin is how long all clients may take to be there.
const gatherWithin = time.Minute

// herd measures what a server sees that many clients register with at the same
// moment, and that can answer only a part of them each second.
func herd(ctx context.Context, b *bench) (*section, error) {
	size := fullStampede
	if b.quick {
		size = quickStampede
	}
	pods, err := b.podHerd(ctx, size)
	if err != nil {
		return nil, err
	}
	mine, theirs, err := b.processHerds(ctx, size)
	if err != nil {
		return nil, err
	}
	return herdReport(size, pods, mine, theirs), nil
}

// podHerd is a herd within this process, with the client that initbox register has.
func (b *bench) podHerd(ctx context.Context, size stampede) (tally, error) {
	// Both ends of each connection are here.
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil && files.Cur < uint64(2*size.pods+500) {
		return tally{}, fmt.Errorf("%w: %d open files are allowed, and %d connections have two ends each", errSkipped, files.Cur, size.pods)
	}
	c, err := b.crowded(herdHost, size.pods, size.podCapacity)
	if err != nil {
		return tally{}, err
	}
	defer c.listener.Close()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var pods sync.WaitGroup
	failures := make([]error, size.pods)
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	for i := range size.pods {
		pods.Go(func() {
			r := &httpclient.Retry{Spread: size.spread, Seed: uint64(i), AttemptTimeout: gatherWithin}
			r.Dial, r.NoProxy = new(net.Dialer).DialContext, true
			_, failures[i] = r.Do(ctx, http.MethodPost, c.url(), header, []byte("instance=pod-"+strconv.Itoa(i)))
		})
	}
	pods.Wait()
	for _, err := range failures {
		if err != nil {
			return c.tally(), err // the others' are like it
		}
	}
	return c.tally(), nil
}

// processHerds runs two herds of processes at the same time, each with a server of
// its own. The second tally is empty without curl.
func (b *bench) processHerds(ctx context.Context, size stampede) (mine, theirs tally, err error) {
	args := []string{"register", "--url", "{url}", "--field", "instance=pod-{n}", "--attempt-timeout", "60s", "--log-level", "error"}
	if size.spread > 0 {
		args = append(args, "--spread", size.spread.String())
	}
	clients := []waiter{
		initbox(ours, args...),
		{name: "curl --retry 10", tool: "curl", args: command([]string{"-sS", "-o", "/dev/null", "--noproxy", "*", "--retry", "10", "-d", "instance=pod-{n}", "{url}"})},
	}
	tallies := make([]tally, len(clients))
	gates := make([]*gate, 0, len(clients))
	clients = b.present(clients)
	for i := range clients {
		c, err := b.crowded(herdHost+1+i, size.processes, size.processCapacity)
		if err != nil {
			return mine, theirs, err
		}
		defer c.listener.Close()
		gates = append(gates, c)
	}
	procs, err := b.startAll(ctx, clients, gates, size.processes)
	defer func() {
		for _, p := range procs {
			p.stop()
		}
	}()
	if err != nil {
		return mine, theirs, err
	}
	err = watch(ctx, gates, procs, size.limit)
	for i, c := range gates {
		tallies[i] = c.tally()
	}
	return tallies[0], tallies[1], err
}

// startAll starts so many processes of each client, by turns.
func (b *bench) startAll(ctx context.Context, clients []waiter, gates []*gate, count int) (procs []*proc, err error) {
	for n := range count {
		for i, w := range clients {
			argv := w.argv(b.tools[w.tool].path, map[string]string{"url": gates[i].url(), "n": strconv.Itoa(n)})
			p, err := b.start(ctx, argv, func(c *exec.Cmd) {
				c.Env = append(os.Environ(), "POD_NAME=pod-"+strconv.Itoa(n)) // of which the jitter is made
			})
			if err != nil {
				return procs, err
			}
			procs = append(procs, p)
		}
	}
	return procs, nil
}

// watch returns when all processes have ended, or limit after their clients were all there.
func watch(ctx context.Context, gates []*gate, procs []*proc, limit time.Duration) error {
	gathered := time.After(gatherWithin)
	for _, c := range gates {
		select {
		case <-c.full:
		case <-gathered:
			return fmt.Errorf("not all of %d processes have sent a request within %v", c.size, gatherWithin)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	enough := time.After(limit)
	for _, p := range procs {
		select {
		case <-p.done:
			if p.err != nil && p.cmd.Args[1] == "register" {
				return p.err
			}
		case <-enough:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func herdReport(size stampede, pods, mine, theirs tally) *section {
	s := &section{
		title: "A herd",
		about: fmt.Sprintf("Many clients register with a server at the same moment. It answers 200 to a fixed number of requests a second and 503 to the others. "+
			"Least is the time that such a server needs to answer all. First %d clients send the requests of initbox register from one process, then %d processes each "+
			"of initbox register and curl run at the same time, with a server each, for %.0f s at most.", size.pods, size.processes, size.limit.Seconds()),
	}
	t := table{{"clients", "answered a second", "registered", "most requests in a second after the first", "× what is answered", "last one registered", "× least", "requests for each"}}
	add := func(name string, h tally) {
		if h.size == 0 {
			return
		}
		last, least := human(h.last), ratio(float64(h.last), float64(h.ideal()))
		if !h.all() {
			last, least = fmt.Sprintf("not within %.0f s", h.took.Seconds()), "–"
		}
		t = append(t, []string{name, strconv.Itoa(h.capacity), fmt.Sprintf("%d of %d", h.registered, h.size), strconv.Itoa(h.most),
			ratio(float64(h.most), float64(h.capacity)), last, least, fmt.Sprintf("%.1f", float64(h.requests)/float64(h.size))})
	}
	add(fmt.Sprintf("%d × initbox, in one process", pods.size), pods)
	add(fmt.Sprintf("%d × initbox register", mine.size), mine)
	add(fmt.Sprintf("%d × curl --retry 10", theirs.size), theirs)
	s.tables = append(s.tables, t)
	longest := pods.ideal() * 3 / 2
	what := fmt.Sprintf("herd of %d, %d answered a second: ", pods.size, pods.capacity)
	s.targets = []target{
		{what + "registered", strconv.Itoa(pods.size), strconv.Itoa(pods.registered), pods.all()},
		{what + "requests in a second after the first", strconv.Itoa(2 * pods.capacity), strconv.Itoa(pods.most), pods.most <= 2*pods.capacity},
		{what + "the last one", human(longest), human(pods.last), pods.all() && pods.last <= longest},
		{fmt.Sprintf("herd of %d processes: registered", mine.size), strconv.Itoa(mine.size), strconv.Itoa(mine.registered), mine.all()},
	}
	if theirs.size > 0 {
		s.pictures = map[string]string{"herd.svg": herdPicture(mine, theirs)}
	}
	return s
}
