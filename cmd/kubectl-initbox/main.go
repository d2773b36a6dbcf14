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
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/cmd/help"
	"initbox/internal/failure"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

// version is set by the linker.
var version = "devel"

func main() {
	// A signal ends it as it ends any program: nothing that it does is left half done.
	os.Exit(run(context.Background(), os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// streams are what a subcommand reads and writes.
type streams struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// subcommands returns all subcommands, in the order of the help. Each has a file, named after it.
func (s *streams) subcommands() []*cli.Command {
	return []*cli.Command{
		s.lint(),
		s.convert(),
		s.doctorCommand(),
		s.rbac(),
		s.completion(),
	}
}

// errFound ends a subcommand that did what it was asked to and found something, with status 1. What it found is
// printed.
var errFound = errors.New("something was found")

// usageError is a wrong command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run returns the exit status: 0, 1 if something was found or failed, 2 for a wrong command line.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &streams{stdin: stdin, stdout: stdout, stderr: stderr}
	err := s.main(ctx, args[1:])
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFound):
		return 1
	}
	fmt.Fprintln(stderr, "error:", failure.Lines(err.Error()))
	if hint := failure.Hint(err); hint != "" {
		fmt.Fprintln(stderr, "hint:", failure.Lines(hint))
	}
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

// name is how the plugin is called in messages.
const name = "kubectl initbox"

func (s *streams) main(ctx context.Context, args []string) error {
	app := &cli.App{
		Name:                      name,
		Usage:                     "check, convert and explain init containers",
		Writer:                    s.stdout,
		ErrWriter:                 io.Discard, // errors are printed by run
		Commands:                  s.subcommands(),
		DisableSliceFlagSeparator: true, // names of files hold commas
		HideHelpCommand:           true,
		HideHelp:                  true,
		ExitErrHandler:            func(*cli.Context, error) {}, // run decides, not the library
	}
	for _, cmd := range app.Commands {
		cmd.OnUsageError, cmd.HideHelp = onUsageError, true
	}
	first := append(args, "help")[0]
	switch {
	case slices.Contains([]string{"help", "--help", "-h"}, first):
		return s.help(app, args[min(1, len(args)):])
	case slices.Contains([]string{"version", "--version"}, first):
		_, err := fmt.Fprintln(s.stdout, name, "version", version)
		return err
	case first == completeCommand:
		return s.complete(args[1:])
	case strings.HasPrefix(first, "-"):
		return failure.WithHint(usagef("flags go after the subcommand: %s", first), "run "+name+" --help for the list of subcommands")
	}
	cmd := app.Command(first)
	if cmd == nil {
		return noSuch("subcommand", first, app)
	}
	line, wantsHelp := permute(args[1:], cmd.Flags)
	if wantsHelp {
		return s.help(app, args[:1])
	}
	return app.RunContext(ctx, append([]string{name, first}, line...))
}

func noSuch(what, word string, app *cli.App) error {
	known := words.Each(app.Commands, func(cmd *cli.Command) string { return cmd.Name })
	return failure.WithHint(usagef("no such %s: %s", what, word), suggest.Question(word, known, "")+"run "+name+" --help for the list")
}

// onUsageError replaces the messages of the flag library by the plugin's own.
func onUsageError(c *cli.Context, err error, _ bool) error {
	hint := "run " + name + " " + c.Command.Name + " --help for the flags"
	if c.Command.Name == "convert" {
		hint += "; " + commandHint
	}
	unknown, undefined := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !undefined {
		return failure.WithHint(usageError{help.WrongValue(err, c.Command.Flags)}, hint)
	}
	unknown = strings.TrimLeft(unknown, "-")
	var known []string
	for _, f := range c.Command.Flags {
		known = append(known, f.Names()...)
	}
	dashes := "--"
	if len(unknown) == 1 {
		dashes = "-"
	}
	return failure.WithHint(usagef("no such flag: %s%s", dashes, unknown), suggest.Question(unknown, known, "--")+hint)
}

// permute moves the flags before the arguments, since the library stops reading them at the first argument, and splits
// -nshop, as kubectl does. What follows "--" stays as it is, and so does that word, if arguments stand before it.
// wantsHelp reports whether --help is among the flags.
func permute(args []string, flags []cli.Flag) (line []string, wantsHelp bool) {
	var options, arguments []string
	for len(args) > 0 && args[0] != "--" {
		word := args[0]
		args = args[1:]
		if len(word) < 2 || word[0] != '-' { // "-" is stdin
			arguments = append(arguments, word)
			continue
		}
		if word == "--help" || word == "-h" {
			return nil, true
		}
		flag, valued := flagOf(word, flags)
		if flag == nil && word[1] != '-' && len(word) > 2 { // -nshop, or -An shop
			if flag, _ = flagOf(word[:2], flags); flag != nil {
				rest := word[2:]
				if _, isSwitch := flag.(*cli.BoolFlag); isSwitch {
					rest = "-" + rest
				}
				args, word = append([]string{rest}, args...), word[:2]
			}
		}
		options = append(options, word)
		if _, isSwitch := flag.(*cli.BoolFlag); flag != nil && !valued && !isSwitch && len(args) > 0 {
			options, args = append(options, args[0]), args[1:]
		}
	}
	if len(arguments) == 0 {
		return append(options, args...), false
	}
	return slices.Concat(options, []string{"--"}, arguments, args), false
}

// flagOf returns the flag that a word of the command line gives, or nil, and whether its value is in the same word.
func flagOf(word string, flags []cli.Flag) (flag cli.Flag, valued bool) {
	name, _, valued := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }); i >= 0 {
		return flags[i], valued
	}
	return nil, valued
}

// help prints the help on a subcommand or, if there are no words, on the plugin.
func (s *streams) help(app *cli.App, about []string) error {
	var text strings.Builder
	if len(about) == 0 {
		fmt.Fprintf(&text, "%s: %s\n\nUsage:\n  %s SUBCOMMAND …\n  %s help SUBCOMMAND\n\nSubcommands:\n", name, app.Usage, name, name)
		for _, cmd := range app.VisibleCommands() {
			fmt.Fprintf(&text, "  %-18s  %s\n", cmd.Name, cmd.Usage)
		}
		fmt.Fprintf(&text, "  %-18s  %s\n", "version", "print the version")
	} else {
		cmd := app.Command(about[0])
		if cmd == nil {
			return noSuch("subcommand", about[0], app)
		}
		fmt.Fprintf(&text, "%s %s: %s\n\nUsage:\n  %s %s\n\n%s\n", name, cmd.Name, cmd.Usage,
			name, strings.TrimSpace(cmd.Name+" [FLAGS] "+cmd.ArgsUsage), strings.TrimSpace(cmd.Description))
		help.Categories(&text, cmd.Flags)
	}
	text.WriteString("\n" + exitHelp)
	_, err := io.WriteString(s.stdout, text.String())
	return err
}

const exitHelp = `Exit status:
  0      nothing was found, or it is done
  1      something was found, or it failed
  2      the command line is wrong
`
