package target

import (
	"context"
	"log/slog"
	"time"

	"initbox/internal/resolver"
)

// A Check is one thing to wait for.
type Check interface {
	// Check makes one attempt; nil means ready. An error is a [failure.Failure], or made one by [All]; [poll.Permanent]
	// marks one that no other attempt can mend. Several attempts may run at once.
	Check(ctx context.Context) error

	// String is the target as a person would write it, without credentials.
	String() string
}

// A Watcher is a [Check] that is told when another attempt may find something new, and need not be asked often.
type Watcher interface {
	Check
	// Watch returns a channel that gets a value after each change, until ctx ends, or nil if that cannot be had. It is
	// an aid: the check is repeated now and then all the same.
	Watch(ctx context.Context) <-chan struct{}
}

// Options configures [Parse] and [All]. The zero value waits for every target, without an end and without a word.
type Options struct {
	Settings Settings                 // of every target that knows them, unless it says otherwise
	Gone     bool                     // wait until targets do not answer any more
	Resolver *resolver.Resolver       // of the targets' host names; that of the system if nil
	Getenv   func(name string) string // for ${env:NAME} in targets; no variables if nil

	Need           int           // so many targets ready are enough; all if zero
	AttemptTimeout time.Duration // limit of one attempt; none if zero
	StableFor      time.Duration // how long a target must be ready without interruption
	Seed           uint64        // tells this Pod's pauses from those of others
	Log            *slog.Logger  // discards if nil
}

// A Sharer is a [Check] that shares something with the other checks of a wait. Share is called once, before the first
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

// A Part is what several checks of a wait share. Run is called when every check has joined, and ends with ctx.
type Part interface{ Run(ctx context.Context) }

// NewShared returns what the checks of a wait with the options may share.
func NewShared(o Options) *Shared { return &Shared{Options: o, parts: map[any]Part{}} }

// Part returns the part with the key, which it makes with create if there is none yet.
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
