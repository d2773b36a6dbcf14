// Command kubectl-initbox is a kubectl plugin for what one does at a desk with the manifests of init containers, and
// with Pods that are stuck. It also runs alone.
//
//	kubectl initbox lint -f web.yaml
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"initbox/internal/failure"
)

// version is set by the linker.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	status := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// streams are what a subcommand reads and writes.
type streams struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// subcommands returns all subcommands, in the order of the help. Each has a file, named after it.
func (s *streams) subcommands() []*cli.Command {
	return []*cli.Command{}
}

// errFound ends a subcommand that did what it was asked to and found something, with status 1. What it found is
// printed.
var errFound = errors.New("something was found")

// usageError is a wrong command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run returns the exit status: 0, 1 if something was found or failed, 2 for a wrong command line.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &streams{stdin: stdin, stdout: stdout, stderr: stderr}
	app := &cli.App{
		Name:     "kubectl initbox",
		Usage:    "checks, converts and explains init containers",
		Version:  version,
		Writer:   stdout,
		Commands: s.subcommands(),

		ErrWriter:      io.Discard, // errors are printed below
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return usageError{err} },
		ExitErrHandler: func(*cli.Context, error) {},
		HideVersion:    false,
	}
	err := app.RunContext(ctx, args)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFound):
		return 1
	}
	fmt.Fprintln(stderr, "error:", failure.Printable(err.Error()))
	if hint := failure.Hint(err); hint != "" {
		fmt.Fprintln(stderr, "hint:", hint)
	}
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}
