package waitfor

import (
	"context"
	"os"
	"slices"
	"testing"

	"initbox/internal/failure"
	"initbox/internal/resolver"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// TestGoneOfSeveral pins that servers are gone when each of them is: one that refuses says nothing about the others.
func TestGoneOfSeveral(t *testing.T) {
	refused := failure.New(failure.Refused, "connection refused")
	elsewhere := &failure.Failure{Class: failure.Refused, Text: "broker 2: connection refused", Elsewhere: true}
	for _, test := range []struct {
		errs []error
		gone bool
	}{
		{[]error{refused, refused}, true},
		{[]error{refused, failure.New(failure.Unreachable, "no route to the host")}, false},
		{[]error{refused, failure.New(failure.TLS, "TLS: no")}, false},
		{[]error{refused, failure.New(failure.Reset, "reset")}, false},
		{[]error{refused, &resolver.Failure{Tried: []*resolver.Error{{Name: "b", Kind: resolver.ServerFailure}}}}, false},
		{[]error{refused, &resolver.Failure{Tried: []*resolver.Error{{Name: "b", Kind: resolver.NoSuchName}}}}, true},
		{[]error{refused, elsewhere}, false},
	} {
		s := wire.Server{Addrs: []string{"a:1", "b:1"}}
		check := target.Gone(checkFunc{"", func(ctx context.Context) error {
			return wire.Any(ctx, s, func(_ context.Context, addr string) error { return test.errs[slices.Index(s.Addrs, addr)] })
		}})
		if err := check.Check(t.Context()); (err == nil) != test.gone {
			t.Errorf("%v: %v, gone is %t", test.errs, err, test.gone)
		}
	}
}

// TestGoneProvesIt pins which failures prove that a target does not exist.
func TestGoneProvesIt(t *testing.T) {
	for _, test := range []struct {
		err  error
		gone bool
	}{
		{nil, false},
		{failure.New(failure.Refused, "connection refused"), true},
		{&resolver.Failure{Tried: []*resolver.Error{{Kind: resolver.NoSuchName}, {Kind: resolver.NoData}}}, true},
		{&resolver.Failure{Tried: []*resolver.Error{{Kind: resolver.NoSuchName}, {Kind: resolver.ServerFailure}}}, false},
		{&failure.Failure{Class: failure.Refused, Text: "the proxy: connection refused", Elsewhere: true}, false},
		{&failure.Failure{Class: failure.Missing, Text: "no such file", Err: target.ErrNotThere}, true},
		{&failure.Failure{Class: failure.Missing, Text: "cannot read secret file", Err: os.ErrNotExist}, false},
		{failure.New(failure.ServerFailure, "SERVFAIL"), false},
		{failure.New(failure.TimedOut, "no answer"), false},
		{failure.New(failure.Unreachable, "no route"), false},
		{failure.New(failure.Reset, "reset"), false},
		{failure.New(failure.TLS, "certificate"), false},
		{failure.New(failure.Unexpected, "status 500"), false},
		{failure.New(failure.Authentication, "status 401"), false},
		{failure.New(failure.Local, "permission denied"), false},
	} {
		g := target.Gone(checkFunc{"x", func(context.Context) error { return test.err }})
		if err := g.Check(t.Context()); (err == nil) != test.gone {
			t.Errorf("%v: %v, want gone %t", test.err, err, test.gone)
		}
	}
}
