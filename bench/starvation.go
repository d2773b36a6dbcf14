package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// A throng is a thousand HTTP targets in one process of initbox.
type throng struct {
	name string
	args []string                // beside the targets
	here func(i, count int) bool // whether the i-th target will answer
}

const throngSize = 1000

var throngs = []throng{
	{"--any, the first answers, 999 hang", []string{"--any"}, func(i, _ int) bool { return i == 0 }},
	{"--any, the middle one answers, 999 hang", []string{"--any"}, func(i, count int) bool { return i == count/2 }},
	{"--any, the last answers, 999 hang", []string{"--any"}, func(i, count int) bool { return i == count-1 }},
	{"all answer", nil, func(int, int) bool { return true }},
}

// starvation asks whether one target among a thousand is noticed in time. Only
// initbox can wait for any of several, so nothing stands beside it.
func starvation(ctx context.Context, b *bench) (*section, error) {
	const delay = 2 * time.Second
	s := &section{
		title: "A thousand targets: none starved",
		about: fmt.Sprintf("%d http targets in one process. Those that hang accept the connection and never answer; "+
			"the others refuse for %.0f s, then answer 200. The time is measured from just before they do until initbox has exited.", throngSize, delay.Seconds()),
	}
	silent, err := net.Listen("tcp", net.JoinHostPort(loopback(serviceNet, 1), fmt.Sprint(b.port)))
	if err != nil {
		return nil, err
	}
	defer silent.Close()
	go hold(silent)
	t := table{{"targets", "reaction", "cpu"}}
	limit := delay*6/100 + 80*time.Millisecond
	for n, th := range throngs {
		o := b.waitInThrong(ctx, th, n+2, delay)
		if o.err != nil {
			return s, fmt.Errorf("%s: %w", th.name, o.err)
		}
		t = append(t, []string{th.name, human(o.reaction), human(o.cpu)})
		s.targets = append(s.targets, target{"1 000 targets, " + th.name, human(limit), human(o.reaction), o.reaction <= limit})
	}
	s.tables = append(s.tables, t)
	return s, nil
}

func (b *bench) waitInThrong(ctx context.Context, th throng, n int, delay time.Duration) outcome {
	answering := b.listening(n, serveHTTP(func(http.ResponseWriter, *http.Request) {}))
	defer answering.close()
	hanging := b.vars(loopback(serviceNet, 1))["addr"]
	args := append([]string{"wait-for-service"}, th.args...)
	for i := range throngSize {
		addr := hanging
		if th.here(i, throngSize) {
			addr = answering.vars["addr"]
		}
		args = append(args, fmt.Sprintf("http://%s/%d", addr, i))
	}
	return b.await(ctx, initbox(ours, args...).argv(b.tools[ours].path, nil), delay, answering.open)
}
