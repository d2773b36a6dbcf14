// Package command is the program: its subcommands and their flags, and how an error becomes a message and an exit
// status. Each subcommand has a file, named after it, whose function returns a [cli.Command]; its action puts the flags
// into the options of a library and calls that.
//
//	os.Exit(command.Run("1.0", os.Args, os.Stdin, os.Stdout, os.Stderr))
package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"initbox/cmd/duration"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

// subcommands returns all subcommands, in the order of the help. A new one needs a line here and a file.
func subcommands() []subcommand {
	return []subcommand{
		{"wait-for-dns", waitForDNS},
		{waitForServiceName, waitForService},
		{"request", requestCommand},
		{"register", registerCommand},
		{"deregister", deregister},
		{"render", renderCommand},
		{"merge", mergeCommand},
		{"git-clone", gitClone},
		{"fetch", fetchCommand},
		{"copy", copyCommand},
		{"prepare", prepareCommand},
		{"sysctl", sysctlCommand},
		{kubeGetName, kubeGet},
		{"generate", generateCommand},
		{trustBundleName, trustBundle},
		{"keystore", keystoreCommand},
		{"doctor", doctor},
		{rbacName, rbac},
		{"sleep", sleep},
		{"install", install},
	}
}

// commandUsage stands at the end of what a subcommand takes; see chain.go.
const commandUsage = "[-- COMMAND ARG…]"

type subcommand struct {
	name string
	new  func(*env) *cli.Command
}

// Subcommands returns the names of all subcommands, in the order of the help.
func Subcommands() []string {
	return words.Each(subcommands(), func(s subcommand) string { return s.name })
}

func isSubcommand(name string) bool { return slices.Contains(Subcommands(), name) }

// env is what a subcommand gets from the program around it.
type env struct {
	version string // of the program

	stdin          io.Reader
	stdout, stderr io.Writer

	command string // as typed, for messages

	inspecting bool // the command line is that of a container elsewhere; see inspect.go

	step // what follows is of one step of a chain; see chain.go

	untilStopped context.Context // ends when a signal comes, but not at the deadline

	endWrites      context.CancelCauseFunc // see outlet
	releaseSignals func() error            // see withSignals

	// The values of the common flags.
	timeout        time.Duration
	logFormat      string // see setReporting
	logLevel       string
	terminationLog string // likewise
	log            *slog.Logger
}

const defaultTimeout = 5 * time.Minute

// Run runs the subcommand that args[0], the name of a link to the program, or else args[1] names. It reports a failure
// on stderr and in the Pod's termination message, and returns the exit status.
func Run(version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	log.SetOutput(io.Discard) // net/http logs there what a server sends unasked
	ctx, release := withSignals(context.Background())
	defer release()
	outliveReaders()
	end, endWrites := context.WithCancelCause(context.Background())
	defer afterGrace(ctx, signalGrace, endWrites)()
	out := &outlet{name: "stdout", w: stdout, end: end}
	messages := &outlet{name: "stderr", w: stderr, end: end}
	e := &env{
		version: version,
		stdin:   stdin, stdout: out, stderr: messages,
		command:        "initbox",
		untilStopped:   ctx,
		endWrites:      endWrites,
		releaseSignals: release,
		timeout:        defaultTimeout,
		logFormat:      "text",
		terminationLog: kubeletTerminationLog,
	}
	last, err := e.main(ctx, args)
	return last.report(cmp.Or(err, out.failure(), messages.failure()))
}

// main runs what the command line asks for. It returns the part of it that ended it, which is to report err.
func (e *env) main(ctx context.Context, args []string) (*env, error) {
	if name := filepath.Base(args[0]); isSubcommand(name) {
		args = append([]string{"initbox", name}, args[1:]...) // a link to the binary
	}
	if len(args) > 1 && isSubcommand(args[1]) {
		return e.chain(ctx, args[1:])
	}
	flags := e.commonFlags("")
	e.setReporting(args[1:], flags)
	if len(args) > 1 && slices.Contains([]string{"help", "--help", "-h"}, args[1]) {
		return e, e.help(topics(args[2:], flags))
	}
	app := e.newApp("")
	for _, cmd := range app.Commands {
		cmd.Action = func(*cli.Context) error { return usagef("flags stand after the subcommand") }
	}
	if err := app.RunContext(ctx, args); err != nil {
		return e, usageError{err}
	}
	return e, nil
}

// deadlinePassed is the cause of a context ended by --timeout.
type deadlinePassed duration.Value

func (d deadlinePassed) Error() string {
	return fmt.Sprintf("the deadline of %v passed", duration.Value(d))
}
func (d deadlinePassed) Unwrap() error { return context.DeadlineExceeded }

// newApp returns the program with the named subcommand, or with all of them if named is empty:
// making their flags and help takes a while.
func (e *env) newApp(named string) *cli.App {
	app := &cli.App{
		Name:                      "initbox",
		Usage:                     "the small programs that a Kubernetes init container needs",
		Version:                   e.version,
		Reader:                    e.stdin,
		Writer:                    e.stdout,
		ErrWriter:                 e.stderr,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,                         // headers and expressions hold commas
		ExitErrHandler:            func(*cli.Context, error) {}, // report decides, not the library
		OnUsageError:              onUsageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "list", Usage: "print the names of the subcommands, for links to the binary"},
			&cli.StringFlag{Name: "format", Usage: "`text|json`: with --list, print only the names, or also the flags and the kinds of targets", Value: "text"},
		},
		Action: func(c *cli.Context) error {
			switch {
			case c.Bool("list"):
				return printList(e.stdout, c.App, c.String("format"))
			case c.IsSet("format"):
				return usagef("--format: only with --list")
			case c.Args().Present():
				return noSuchCommand(c)
			}
			return e.help(nil)
		},
	}
	for _, s := range subcommands() {
		cmd := &cli.Command{Name: s.name}
		if named == "" || named == s.name {
			cmd = s.new(e)
			cmd.Name = s.name
			if cmd.Name != rbacName { // which reads the command of a manifest
				cmd.ArgsUsage = strings.TrimSpace(cmd.ArgsUsage + " " + commandUsage)
			}
			cmd.OnUsageError = onUsageError
			cmd.HideHelpCommand = true
			cmd.Flags = append(cmd.Flags, e.commonFlags(cmd.Name)...)
		}
		app.Commands = append(app.Commands, cmd)
	}
	setUp(app)
	return app
}

// setUp sets app up as the library does at each start, but without the flags: it would describe each flag of each
// subcommand for a help that is never printed.
func setUp(app *cli.App) {
	flags := map[*cli.Command][]cli.Flag{}
	for _, cmd := range app.Commands {
		flags[cmd], cmd.Flags = cmd.Flags, nil
	}
	app.Setup()
	for cmd := range flags {
		cmd.Flags = flags[cmd]
	}
}

// commandNames returns the names of the subcommands.
func commandNames(app *cli.App) []string {
	return words.Each(app.Commands, func(cmd *cli.Command) string { return cmd.Name })
}

func noSuchCommand(c *cli.Context) error {
	name := c.Args().First()
	meant := suggest.Question(name, commandNames(c.App), "")
	if own := otherPrograms[name]; own != "" {
		meant = "initbox " + strings.ReplaceAll(own, " ", " or initbox ") + " does what " + name + " is used for in init containers; "
	}
	return usagef("no such subcommand: %s", name).hint(meant + "run initbox --help for the list")
}

// stopped is the cause of a context ended by a signal.
type stopped struct{ syscall.Signal }

func (s stopped) Error() string { return "stopped by signal: " + s.Signal.String() }

// outliveReaders keeps SIGPIPE from ending the program: it does its work without a reader of its log, and a result that
// has no reader is an error of the write, see [outlet]. The command after -- gets the default effect back.
func outliveReaders() {
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

// withSignals returns a context that a signal ends. The kernel delivers to PID 1, which a container's process is, only
// the signals that it handles. release restores their default effect; it returns the cause of the context if a signal
// arrived before, so that none is lost.
func withSignals(parent context.Context) (ctx context.Context, release func() error) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) { // it stays ignored, as under nohup
			signal.Notify(ch, sig)
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for sig := range ch {
			cancel(stopped{sig.(syscall.Signal)})
		}
	}()
	return ctx, sync.OnceValue(func() error {
		signal.Stop(ch)
		close(ch)
		<-drained
		return context.Cause(ctx)
	})
}
