package command

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"initbox/test/registries"
)

// serveRegistry returns the server of kind r; the script command registry has it fail.
func serveRegistry(kind func() registries.Registry) func(*server, net.Listener) {
	return func(s *server, l net.Listener) {
		s.mu.Lock()
		if s.registry == nil { // it outlives a break
			s.registry = &registries.Faults{Registry: kind()}
		}
		registry := s.registry
		s.mu.Unlock()
		httpServer(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.record("%s", requestLine(r, nil))
			registry.ServeHTTP(w, r)
		}))
	}
}

// registry NAME FAULT [N] makes a registry lose the next N answers, or be busy for
// as many requests, forget everything, or hold requests forever.
func cmdRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: registry NAME lose N|busy N|refuse N STATUS|forget|hang")
	}
	r := scriptOf(ts).registry(ts, args[0])
	var numbers []int
	for _, text := range args[2:] {
		n, err := strconv.Atoi(text)
		ts.Check(err)
		numbers = append(numbers, n)
	}
	switch args[1] {
	case "lose":
		r.LoseAnswers(numbers[0])
	case "busy":
		r.Busy(numbers[0])
	case "refuse":
		r.Refuse(numbers[0], numbers[1], -1)
	case "forget":
		r.Forget()
	case "hang":
		r.Hang()
	default:
		ts.Fatalf("no such fault: %s", args[1])
	}
}

// entries NAME [ID…] waits until a registry holds these entries, and no others.
func cmdEntries(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: entries NAME [ID…]")
	}
	r := scriptOf(ts).registry(ts, args[0])
	want := slices.Sorted(slices.Values(args[1:]))
	for range 3000 {
		if slices.Equal(r.Entries(), want) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s has %q, want %q; it was asked\n%s", args[0], r.Entries(), want, strings.Join(r.Seen(), "\n"))
}

func (s *script) registry(ts *testscript.TestScript, name string) *registries.Faults {
	server := s.server(ts, name)
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.registry == nil {
		ts.Fatalf("%s is no registry, or was not opened", name)
	}
	return server.registry
}
