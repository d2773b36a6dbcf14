package command

import (
	"context"
	"io"
	"log/slog"
	"syscall"
	"testing"
	"time"
)

// TestChecksBeforeWork pins that the command line of every subcommand can be checked before an earlier step has run.
func TestChecksBeforeWork(t *testing.T) {
	for _, s := range subcommands() {
		e := new(env)
		if e.newApp(s.name); !e.checked && s.name != rbacName {
			t.Errorf("%s: its Action is not one of env.action, so a mistake in it is only found when the steps before have run", s.name)
		}
	}
}

// newTestStep returns the n-th step of a chain, which does work.
func newTestStep(n int, timeout time.Duration, work work) *env {
	return &env{
		step:      step{number: n, name: "test", work: work},
		timeout:   timeout,
		log:       slog.New(slog.DiscardHandler),
		stderr:    io.Discard,
		endWrites: func(error) {},
	}
}

// TestSignalBetweenSteps pins that a signal which came while a step ended keeps the next one from starting.
func TestSignalBetweenSteps(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped{syscall.SIGTERM})
	err := newTestStep(2, 0, func(context.Context) error {
		t.Error("the step was started")
		return nil
	}).run(ctx)
	if status(err) != 143 || err.Error() != "not started: stopped by signal: terminated" {
		t.Errorf("%v, want the signal", err)
	}
}

// TestDeadlineOfOneStep pins that a deadline which passes as a step succeeds does not end the writes of the next ones.
func TestDeadlineOfOneStep(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a second")
	}
	t.Parallel()
	ended := make(chan error, 1)
	e := newTestStep(1, time.Nanosecond, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	e.endWrites = func(cause error) { ended <- cause }
	if err := e.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Errorf("writes were ended: %v", err)
	case <-time.After(deadlineGrace + 200*time.Millisecond):
	}
}
