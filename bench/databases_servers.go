package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"initbox/test/servers"
)

func startPostgres(t testing.TB) map[string]string {
	p := servers.StartPostgres(t, servers.PostgresOptions{})
	return map[string]string{"backend": p.Addr, "user": "app", "password": p.Password, "database": "app"}
}

func startMariaDB(t testing.TB) map[string]string {
	m := servers.StartMariaDB(t, servers.MariaDBOptions{})
	return map[string]string{"backend": m.Addr, "user": "app", "password": m.Password}
}

func startRedis(t testing.TB) map[string]string {
	return map[string]string{"backend": servers.StartRedis(t, servers.RedisOptions{}).Addr}
}

// A stage stands for the test where a server of package servers is started without one.
type stage struct {
	testing.TB  // nil: only the methods below are called
	dir         string
	log         io.Writer
	directories int
	after       []func()
}

// A stageFailure is what a server that does not start panics with.
type stageFailure struct{ error }

// try starts a server. A program that is not installed is an [errSkipped].
func (s *stage) try(start func(testing.TB)) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stageFailure:
			err = r.error
		default:
			panic(r)
		}
	}()
	start(s)
	return nil
}

// end stops what was started, the last first.
func (s *stage) end() {
	for len(s.after) > 0 {
		last := s.after[len(s.after)-1]
		s.after = s.after[:len(s.after)-1]
		last()
	}
}

func (s *stage) Helper()                           {}
func (s *stage) Failed() bool                      { return false }
func (s *stage) Name() string                      { return "bench" }
func (s *stage) Cleanup(f func())                  { s.after = append(s.after, f) }
func (s *stage) Logf(format string, args ...any)   { fmt.Fprintf(s.log, "bench: "+format+"\n", args...) }
func (s *stage) Fatal(args ...any)                 { panic(stageFailure{errors.New(fmt.Sprint(args...))}) }
func (s *stage) Fatalf(format string, args ...any) { panic(stageFailure{fmt.Errorf(format, args...)}) }
func (s *stage) Skipf(format string, args ...any) {
	panic(stageFailure{fmt.Errorf("%w: %s", errSkipped, fmt.Sprintf(format, args...))})
}

func (s *stage) TempDir() string {
	s.directories++
	dir := filepath.Join(s.dir, fmt.Sprintf("server-%d", s.directories))
	if err := os.Mkdir(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	return dir
}
