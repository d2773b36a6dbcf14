package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A crowd is a number of targets in one process, none of which is ever ready.
type crowd struct {
	scheme string
	count  int
}

var crowds = []crowd{{"tcp", 1}, {"tcp", 100}, {"tcp", 1000}, {"http", 1000}}

// A footprint is what a waiting process took.
type footprint struct {
	peak, now int64 // resident, in KiB
	cpu       time.Duration
}

// memory looks at processes that have been waiting for a while, one at a time: a
// thousand targets keep a processor busy, and that is measured as well.
func memory(ctx context.Context, b *bench) (*section, error) {
	after := 5 * time.Second
	if b.quick {
		after = time.Second
	}
	s := &section{
		title: "Memory while waiting",
		about: fmt.Sprintf("Resident memory after %.0f s of waiting for targets that all refuse connections, and the user and system time used until then.", after.Seconds()),
	}
	t := table{{"targets", "waiter", "VmHWM", "VmRSS", "cpu", "VmHWM × initbox"}}
	for _, c := range crowds {
		var mine int64
		for _, w := range b.present(c.waiters(b)) {
			f, err := b.footprint(ctx, w.argv(b.tools[w.tool].path, b.vars(loopback(deadNet, 0))), after)
			if err != nil {
				return nil, fmt.Errorf("%d %s targets, %s: %w", c.count, c.scheme, w.name, err)
			}
			if w.name == ours {
				mine = f.peak
				s.targets = append(s.targets, memoryTarget(c, f))
			}
			t = append(t, []string{fmt.Sprintf("%d %s", c.count, c.scheme), w.name, mebibytes(f.peak), mebibytes(f.now),
				human(f.cpu), ratio(float64(f.peak), float64(mine))})
		}
	}
	s.tables = append(s.tables, t)
	return s, nil
}

// waiters returns the commands that wait for the whole crowd in one process.
func (c crowd) waiters(b *bench) []waiter {
	var urls, addrs []string
	for i := range c.count {
		addr := b.vars(loopback(deadNet, i))["addr"]
		url := c.scheme + "://" + addr
		urls = append(urls, url)
		if c.scheme == "http" {
			addr = url
		}
		addrs = append(addrs, addr)
	}
	ws := []waiter{
		initbox(ours, append([]string{"wait-for-service"}, urls...)...),
		wait4x(append([]string{c.scheme}, addrs...)...),
		dockerize(urls...),
	}
	if c.count == 1 {
		ws = append(ws, loop("busybox", "busybox nc", "{tool} nc -w 2 {host} {port} </dev/null", 1))
	}
	return ws
}

func (b *bench) footprint(ctx context.Context, argv []string, after time.Duration) (footprint, error) {
	p, err := b.start(ctx, argv)
	if err != nil {
		return footprint{}, err
	}
	defer p.stop()
	if err := p.pause(ctx, after); err != nil {
		return footprint{}, err
	}
	f := footprint{peak: p.kibibytes("VmHWM"), now: p.kibibytes("VmRSS")}
	p.stop()
	f.cpu = p.cpu()
	return f, nil
}

// kibibytes reads a field of the running process's status.
func (p *proc) kibibytes(key string) int64 {
	return kibibytesOf(strconv.Itoa(p.cmd.Process.Pid), key)
}

func kibibytesOf(pid, key string) int64 {
	number, _, _ := strings.Cut(field("/proc/"+pid+"/status", key), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func mebibytes(kib int64) string { return fmt.Sprintf("%.1f MiB", float64(kib)/1024) }

// memoryTarget compares a footprint of initbox with its limit: 16 MiB with few
// targets, as in an init container, and 64 MiB with a thousand.
func memoryTarget(c crowd, f footprint) target {
	limit := int64(16)
	if c.count >= 1000 {
		limit = 64
	}
	return target{
		what:  fmt.Sprintf("resident, %d %s", c.count, c.scheme),
		limit: fmt.Sprintf("%d MiB", limit),
		got:   mebibytes(f.peak),
		met:   f.peak > 0 && f.peak <= limit<<10,
	}
}
