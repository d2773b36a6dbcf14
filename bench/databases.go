package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// databases measures waits for real database servers: initbox beside the loops of
// charts, around the clients of Debian's packages.
func databases(ctx context.Context, b *bench) (*section, error) {
	s := &stage{dir: b.dir, log: b.log}
	defer s.end()
	var all []kind
	var absent []string
	for _, d := range databaseServers {
		var vars map[string]string
		err := s.try(func(t testing.TB) { vars = d.start(t) })
		if errors.Is(err, errSkipped) {
			absent = append(absent, fmt.Sprintf("Not measured, %s: %v.", d.name, err))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.name, err)
		}
		for _, k := range d.waits {
			if k.serve == nil {
				k.serve = func(b *bench, n int) (*service, error) { return b.gate(n, vars), nil }
			}
			all = append(all, k)
		}
	}
	report, err := b.databaseWaits(ctx, all)
	report.notes = append(report.notes, absent...)
	return report, err
}

// A databaseServer is a real server, and the waits for it. Each wait has a gate of its
// own before the server, unless its kind serves in another way.
type databaseServer struct {
	name  string
	start func(testing.TB) map[string]string // "backend", its HOST:PORT, and what else its waiters want to know
	waits []kind
}

// databaseServers lists them as the report does. The probes and pauses are those of charts in use: pg_isready of
// dependency-track (2 s) and of flyte (0.1 s), mysqladmin of WordPress images and of FIWARE's charts, psql and
// redis-cli with the shortest that is common.
var databaseServers = []databaseServer{
	{"postgres", startPostgres, []kind{
		{name: "postgres, accepts connections", waiters: []waiter{
			initbox(ours, "wait-for-service", "postgres://{addr}"),
			usual(loop("pg_isready", "pg_isready", "{tool} -h {host} -p {port}", 2)),
			loop("pg_isready", "pg_isready", "{tool} -h {host} -p {port}", 0.1),
		}},
		{name: "postgres, select 1", waiters: []waiter{
			initbox(ours, "wait-for-service", "postgres://{user}:{password}@{addr}/{database}#query=select%201"),
			wait4x("postgresql", "postgres://{user}:{password}@{addr}/{database}?sslmode=disable"),
			loop("psql", "psql", "PGPASSWORD={password} {tool} -h {host} -p {port} -U {user} -d {database} -c 'select 1'", 1),
		}},
	}},
	{"mysql", startMariaDB, []kind{
		{name: "mysql", waiters: []waiter{
			initbox(ours, "wait-for-service", "mysql://{user}:{password}@{addr}"),
			wait4x("mysql", "{user}:{password}@tcp({addr})/"),
			usual(loop("mysqladmin", "mysqladmin ping", "{tool} ping -h {host} -P {port} -u {user} -p{password} --silent", 2)),
		}},
	}},
	{"redis", startRedis, []kind{
		{name: "redis", waiters: redisWaiters},
		{name: "redis, starting", serve: (*bench).loadingRedis, waiters: append(redisWaiters[:len(redisWaiters):len(redisWaiters)],
			// What is done where there is no client in the image.
			loop("nc", "nc", "{tool} -z -w 2 {host} {port}", 1))},
	}},
}

var redisWaiters = []waiter{
	initbox(ours, "wait-for-service", "redis://{addr}"),
	wait4x("redis", "redis://{addr}"),
	loop("redis-cli", "redis-cli ping", "{tool} -h {host} -p {port} ping | grep PONG", 1),
}

// usual marks the pause that most charts have around a probe.
func usual(w waiter) waiter {
	w.rival = true
	return w
}

// gate returns a service that is not there, then passes connections on to a real server: the same moment for every
// waiter, to the microsecond, where starting the server would take longer than most reactions.
func (b *bench) gate(n int, vars map[string]string) *service {
	s := b.listening(n, func(l net.Listener) { forward(l, vars["backend"]) })
	maps.Copy(s.vars, vars)
	return s
}

func forward(l net.Listener, backend string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer c.Close()
			to, err := net.Dial("tcp", backend)
			if err != nil {
				return
			}
			defer to.Close()
			go func() {
				// Either side may end without a word; Close ends the other.
				_, _ = io.Copy(to, c)
				to.(*net.TCPConn).CloseWrite()
			}()
			_, _ = io.Copy(c, to)
		}()
	}
}

// A Redis that loads for about so long listens from the start, and says LOADING. It
// has a thousand keys, with a pause after each (redis.conf, key-load-delay).
const (
	redisKeys      = 1000
	redisKeyPauses = time.Second / redisKeys
)

// loadingRedis returns a Redis that is started when the service is opened. It is there
// when it has loaded its keys, which the harness sees by asking every millisecond.
func (b *bench) loadingRedis(n int) (*service, error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("redis-%d", n))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "dump.rdb"), dump(redisKeys), 0o644); err != nil {
		return nil, err
	}
	server, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	vars := b.vars(loopback(serviceNet, n))
	argv := []string{server, "--bind", vars["host"], "--port", vars["port"], "--dir", dir, "--save", "", "--logfile", "/dev/null",
		"--key-load-delay", fmt.Sprint(redisKeyPauses.Microseconds()), "--loading-process-events-interval-bytes", "1024"}
	var p *proc
	var took time.Duration
	return &service{
		vars: vars,
		open: func() (err error) {
			began := time.Now()
			if p, err = b.start(context.Background(), argv); err != nil {
				return err
			}
			err = p.awaitPong(vars["addr"])
			took = time.Since(began)
			return err
		},
		early: redisKeys * redisKeyPauses,
		took:  func() time.Duration { return took },
		close: func() error {
			if p != nil {
				p.stop()
			}
			return os.RemoveAll(dir)
		},
	}, nil
}

// dump returns a file of Redis' with so many short keys: a header, the number of the
// database, each key with its value, the end, and no checksum
// (https://rdb.fnordig.de/file_format.html).
func dump(keys int) []byte {
	file := bytes.NewBufferString("REDIS0009\xfe\x00")
	for i := range keys {
		key, value := fmt.Sprintf("key:%04d", i), fmt.Sprintf("%060d", i)
		fmt.Fprintf(file, "\x00%c%s%c%s", len(key), key, len(value), value) // lengths below 64 are one byte
	}
	file.WriteString("\xff" + strings.Repeat("\x00", 8))
	return file.Bytes()
}

// awaitPong returns when the Redis at addr, which p is, answers PING with PONG.
func (p *proc) awaitPong(addr string) error {
	for giveUp := time.Now().Add(oneTrial); time.Now().Before(giveUp); {
		if ping(addr) {
			return nil
		}
		if err := p.pause(context.Background(), time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("no PONG from Redis after %v", oneTrial)
}

func ping(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return false
	}
	answer := make([]byte, len("+PONG"))
	_, err = io.ReadFull(c, answer)
	return err == nil && string(answer) == "+PONG"
}
