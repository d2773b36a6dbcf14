package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/suggest"
)

// step is what belongs to one subcommand of a chain, such as
//
//	initbox prepare /data -- wait-for-service tcp://db:5432 -- /app/server
//
// The subcommands of a chain run one after the other in this process, each with its own flags and its own deadline.
// Another program can only be the last, since it replaces the process.
type step struct {
	number int      // from 1; 0 if there is only one
	name   string   // of the subcommand
	args   []string // as typed, without what follows --
	next   []string // what follows --

	app     *cli.App
	line    []string     // args as [permute] returns them
	context *cli.Context // set by check
	checked bool         // the action is one of [env.action]
	work    work         // what is left to do when the command line has been checked
	listed  []string     // the targets in [variableTargets], if the step takes them from there
	once    string       // the file of --once; "" without it
	inParts bool         // --once records the parts of the work too, in parts
	parts   *once        // set while work runs; nil without --once

	targetsRead []Target // set by its check

	needs []kube.Permission  // what the step does at the API server, for rbac; set by its check
	found *[]kube.Permission // where rbac, if this is not nil, puts what this step and the next ones need
}

const stepsHelp = `Steps: what follows -- runs when a subcommand has succeeded

  initbox SUBCOMMAND … -- SUBCOMMAND … -- COMMAND ARG…

COMMAND is a program, which replaces initbox: it gets the signals and gives the exit
status. The bare name of a subcommand is that subcommand, in the same process; a program
of the same name is run by its path, as in -- /bin/sleep 5. Each subcommand ends at the
next --.

All command lines are checked before the first step does anything. Each step has its own
flags, --timeout, --once and log flags included. The first one that fails ends the chain
with its exit status, and is named in its message. Each restart of the container begins
with the first step; --once FILE skips one that has succeeded in this Pod. A step cannot
have --hold (of register), --watch, or flags such as --dry-run, with which nothing changes.

Example:
  initbox prepare /data#owner=1000 -- wait-for-service tcp://db:5432 --timeout 2m -- /app/server
`

// work is what a subcommand does once its command line is known to be right. ctx ends at the deadline of the step.
type work func(ctx context.Context) error

// action returns the action of a subcommand whose command line can be checked before the step in front of it has run:
// check reads nothing but its flags and arguments, and returns what is to be done.
func (e *env) action(check func(c *cli.Context) (work, error)) cli.ActionFunc {
	e.checked = true
	return func(c *cli.Context) (err error) {
		e.work, err = check(c)
		return err
	}
}

// chain runs the subcommand that words begin with, and then what follows "--". The command lines of all steps are
// checked before the first one does anything. It returns the step that ended it.
func (e *env) chain(ctx context.Context, words []string) (*env, error) {
	var steps []*env
	for {
		s := e.newStep(len(steps)+1, words[0])
		steps = append(steps, s)
		if err := s.read(words[1:]); err != nil {
			return s, err
		}
		if words = s.next; s.name == rbacName || len(words) == 0 || !isSubcommand(words[0]) {
			break
		}
	}
	for _, s := range steps {
		if s.line[0] == "--help" {
			return s, s.commandHelp(s.app.Command(s.name), s.line[1:])
		}
		if err := s.check(ctx); err != nil {
			return s, err
		}
	}
	for _, s := range steps {
		if err := s.run(ctx); err != nil {
			return s, err
		}
	}
	last := steps[len(steps)-1]
	if last.name == rbacName || len(last.next) == 0 {
		return last, nil
	}
	return last, last.replaceProcess(last.next)
}

// newStep returns what the subcommand called name gets as the n-th step.
func (e *env) newStep(n int, name string) *env {
	s := *e
	s.step = step{name: name}
	if n > 1 {
		s.number = n
	}
	s.command += " " + name
	return &s
}

// read finds out which of the words are the step's, and which follow it.
func (e *env) read(words []string) (err error) {
	e.args = words // for rbac, whose flags depend on them
	e.app = e.newApp(e.name)
	flags := e.app.Command(e.name).Flags
	e.setReporting(words, flags)
	line, next, err := permute(words, flags)
	if err != nil {
		return failure.WithHint(err, helpHint(e.command))
	}
	e.line, e.next = line, next
	if next == nil {
		return nil
	}
	switch {
	case len(next) == 0 || next[0] == "--":
		return usagef("no command after --")
	case next[0] == "":
		return usagef("the command after -- is empty").hint("is a variable not set?")
	case next[0][0] == '-':
		return usagef("want a command after --, got %s", next[0]).hint("flags stand before --; a program of this name is run as ./" + next[0])
	}
	e.args = words[:len(words)-len(next)-1]
	if e.number == 0 && isSubcommand(next[0]) && e.name != rbacName {
		e.number = 1
	}
	return nil
}

// check has the library read the flags of the step, and its action check them and the arguments.
func (e *env) check(ctx context.Context) error {
	cmd := e.app.Command(e.name)
	action, flags := cmd.Action, cmd.Flags
	started := false
	cmd.Before = func(*cli.Context) error {
		cmd.Flags = nil // else the library looks for actions of flags, which none has
		return nil
	}
	cmd.Action = func(c *cli.Context) error {
		started, cmd.Flags, e.context = true, flags, c
		return e.begin(c, action)
	}
	err := e.app.RunContext(ctx, append([]string{"initbox", e.name}, e.line...))
	if err != nil && !started {
		return usageError{err} // of the library: flags and variables that it could not read
	}
	return err
}

// begin checks the common flags, and then those of the subcommand.
func (e *env) begin(c *cli.Context, action cli.ActionFunc) (err error) {
	if e.log, err = newLogger(e.stderr, e.logFormat, e.logLevel, &e.step); err != nil {
		return err
	}
	if e.name == "sleep" && !isSet(c, "timeout") {
		e.timeout = 0 // its argument says how long it takes
	}
	if err := e.checkOnce(c); err != nil {
		return err
	}
	if err := e.checkChained(c); err != nil {
		return err
	}
	if !e.checked {
		e.work = func(ctx context.Context) error {
			c.Context = ctx
			return action(c)
		}
		return nil
	}
	err = action(c)
	if errors.As(err, new(usageError)) && c.NArg() == 0 && e.listed == nil && len(e.next) > 0 && !strings.Contains(failure.Hint(err), "before --") {
		hint := "what stands after -- is a command to run next"
		if old := failure.Hint(err); old != "" {
			hint = old + "; " + hint
		}
		return failure.WithHint(err, hint)
	}
	return err
}

// looks returns the flag with which a subcommand changes nothing, or "".
func looks(c *cli.Context) string {
	for _, name := range []string{"dry-run", "diff", "list-inputs", "explain"} {
		if c.Bool(name) || c.String(name) != "" && c.String(name) != "false" {
			return "--" + name
		}
	}
	return ""
}

// staysRunning returns the flag with which a subcommand does not end, or "".
func staysRunning(c *cli.Context) string {
	switch {
	case c.Command.Name == "register" && c.Bool("hold"): // --hold of a wait is a duration
		return "--hold"
	case slices.Contains([]string{"git-clone", "keystore", kubeGetName, "render"}, c.Command.Name) && isSet(c, "watch"):
		return "--watch"
	}
	return ""
}

// chained reports whether something follows the step, or comes before it.
func (e *env) chained() bool { return e.number > 1 || len(e.next) > 0 && e.name != rbacName }

// checkChained refuses a step that cannot be one of several.
func (e *env) checkChained(c *cli.Context) error {
	if !e.chained() {
		return nil
	}
	if flag := staysRunning(c); flag != "" {
		return errStays(flag)
	}
	if flag := looks(c); flag != "" {
		return usagef("with %s nothing is changed, and other commands in the chain would not find what they need", flag).hint("run this command alone")
	}
	if e.name == rbacName {
		return usagef("rbac prints the Role for a chain, and cannot be part of one").hint("put rbac before the whole chain: initbox rbac prepare … -- wait-for-service k8s:job/migrate")
	}
	return nil
}

func errStays(flag string) error {
	return usagef("with %s it keeps running, so it can be neither followed nor preceded by another command", flag).
		hint("give it a container of its own, a sidecar: an init container with restartPolicy: Always")
}

// run does the work of the step, within its deadline.
func (e *env) run(ctx context.Context) error {
	if e.number > 1 {
		debug.FreeOSMemory() // what the steps before needed
		if stop := context.Cause(ctx); stop != nil {
			return fmt.Errorf("not started: %w", stop)
		}
		e.log.Info("started" + e.notProgram())
	}
	var succeeded atomic.Bool // the next step writes, too
	if e.timeout > 0 {
		deadline, cancel := context.WithTimeoutCause(ctx, e.timeout, deadlinePassed(e.timeout))
		defer cancel()
		defer afterGrace(deadline, deadlineGrace, func(cause error) {
			if !succeeded.Load() {
				e.endWrites(cause)
			}
		})()
		ctx = deadline
	}
	err := e.doOnce(func() error { return e.work(ctx) })
	succeeded.Store(err == nil)
	return err
}

// notProgram returns a note for the log if an image has a program of the subcommand's name.
func (e *env) notProgram() string {
	path, err := exec.LookPath(e.name)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": the subcommand of initbox, and not %s, which would be run by its path", path)
}

// replaceProcess runs command in place of this process (execve), so that it gets the signals and gives the exit status.
// It returns only if that fails, or if a signal came after the work: it was meant for this process.
func (e *env) replaceProcess(command []string) error {
	path, err := exec.LookPath(command[0])
	if err == nil {
		e.log.Info("running " + path)
		environment := os.Environ()
		if stop := e.releaseSignals(); stop != nil {
			return fmt.Errorf("not running %s: %w", command[0], stop)
		}
		// Nothing else is done in between: a signal that arrives now makes the runtime of PID 1 exit with status 2.
		err = syscall.Exec(path, command, environment)
	}
	hint := "the image of initbox has no other program: is the command on a volume, or in the image that initbox was copied into?"
	if !strings.Contains(command[0], "/") {
		hint = suggest.Question(command[0], commandNames(e.newApp("")), "") + hint
	}
	return failure.WithHint(fmt.Errorf("run %s: %w", command[0], err), hint)
}

// String names the step in front of its messages; it is empty if there is only one.
func (s *step) String() string {
	if s.number == 0 {
		return ""
	}
	return fmt.Sprintf("step %d, %s: ", s.number, s.name)
}

// attrs returns what names the step in JSON.
func (s *step) attrs() []any {
	if s.number == 0 {
		return nil
	}
	return []any{"step", s.number, "subcommand", s.name}
}
