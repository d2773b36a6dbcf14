package target

import (
	"context"
	"log/slog"
	"time"

	"initbox/internal/resolver"
	"initbox/internal/wait"
)

// Check is one thing to wait for, and Watcher one that learns of changes.
type (
	Check   = wait.Check
	Watcher = wait.Watcher
)

// Options configures the parser and the wait. The zero value waits for every target, without a limit and without a log.
type Options struct {
	Settings Settings                 // defaults for every target of a kind that takes them
	Gone     bool                     // wait until targets no longer answer
	Resolver *resolver.Resolver       // for the targets' host names; the system's if nil
	Getenv   func(name string) string // for ${env:NAME} in targets; no variables if nil

	Need           int           // how many targets must be ready; all if zero
	AttemptTimeout time.Duration // limit of one attempt; none if zero
	StableFor      time.Duration // how long a target must be ready without interruption
	Seed           uint64        // makes the pauses of this Pod differ from those of others
	Log            *slog.Logger  // nil discards

	Notice func(text string, over, ready bool) // see wait.Options
}

// A Sharer is a [Check] that shares something with other checks of a wait. Share is called once, before the first
// attempt.
type Sharer interface {
	Check
	Share(*Shared)
}

// Shared holds what the checks of one wait have in common.
type Shared struct {
	Options Options
	parts   map[any]Part
}

// A Part is shared by several checks of a wait. Run is called when every check has joined, and ends with ctx.
type Part interface{ Run(ctx context.Context) }

// NewShared returns an empty Shared for a wait with the options.
func NewShared(o Options) *Shared { return &Shared{Options: o, parts: map[any]Part{}} }

// Part returns the part with the key, made by create at the first call.
func (s *Shared) Part(key any, create func() Part) Part {
	if s.parts[key] == nil {
		s.parts[key] = create()
	}
	return s.parts[key]
}

// Start runs every part until ctx ends. It does not wait for them.
func (s *Shared) Start(ctx context.Context) {
	for _, p := range s.parts {
		go p.Run(ctx)
	}
}
