// Package waitfor blocks until the things a Pod depends on are ready: names, ports, TLS and HTTP servers, gRPC
// services, databases, brokers, sockets, files and Kubernetes objects.
//
// [Parse] turns a target such as "tcp://mydb:5432" into a [Check]; [All] waits for any number of them. The kinds of
// target and their settings are in one table: [Kinds].
package waitfor

import (
	"context"

	"initbox/internal/wait"
	"initbox/waitfor/target"
)

// NotReady is the error of a wait that failed.
type NotReady = wait.NotReady

// All waits for the checks, all at once, until every one (or [Options.Need] of them) is ready. Otherwise it returns a
// [NotReady]: when ctx ends, and then it unwraps to the cause of ctx, or, as a [poll.Permanent] error, as soon as too
// few checks can become ready.
func All(ctx context.Context, o target.Options, checks ...target.Check) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	together := target.NewShared(o)
	all := make([]wait.Check, len(checks))
	for i, c := range checks {
		if j, ok := c.(target.Sharer); ok {
			j.Share(together)
		}
		all[i] = c
	}
	together.Start(ctx)
	return wait.All(ctx, wait.Options{
		Need: o.Need, AttemptTimeout: o.AttemptTimeout, StableFor: o.StableFor, Seed: o.Seed, Goal: goal, Log: o.Log, Notice: o.Notice,
	}, all...)
}

// goal returns the state that a check waits for.
func goal(c wait.Check) string {
	if parsed := target.Of(c); parsed != nil && parsed.Gone {
		return "gone"
	}
	return "ready"
}
