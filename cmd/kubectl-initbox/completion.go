package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/cmd/command"
	"initbox/cmd/help"
	"initbox/internal/completion"
	"initbox/internal/failure"
	"initbox/internal/suggest"
	"initbox/internal/words"
)

// The programs that completions are written for.
const (
	plugin  = "kubectl-initbox"
	initbox = "initbox"
)

// completeCommand is called by [forKubectl] with what stands after kubectl initbox.
const completeCommand = "__complete"

// forKubectl is the program that kubectl runs to complete what stands after kubectl initbox: see kubectl plugin --help.
const forKubectl = `#!/bin/sh
# kubectl_complete-initbox: put it into a directory of $PATH, and make it executable.
exec ` + plugin + " " + completeCommand + ` "$@"
`

func (s *streams) completion() *cli.Command {
	var of string
	shells := words.Each(completion.Shells(), func(shell completion.Shell) string { return shell.Name })
	forms := append(shells, "kubectl")
	return &cli.Command{
		Name:      "completion",
		Usage:     "print completions for a shell",
		ArgsUsage: strings.Join(forms, "|"),
		Description: `Prints the completions of kubectl-initbox for bash, zsh or fish, or, with --for initbox,
those of initbox. With kubectl it prints the program by which kubectl completes what
stands after "kubectl initbox", in all shells that have kubectl's own completions.

Examples:
  kubectl initbox completion kubectl >~/.local/bin/kubectl_complete-initbox
  chmod +x ~/.local/bin/kubectl_complete-initbox    # in a directory of $PATH
  kubectl initbox completion bash --for initbox >~/.local/share/bash-completion/completions/initbox`,
		Flags: []cli.Flag{&cli.StringFlag{Name: "for", Usage: "`kubectl-initbox|initbox`: the program", Value: plugin, Destination: &of}},
		Action: func(c *cli.Context) error {
			shell := c.Args().First()
			i := slices.Index(forms, shell)
			switch {
			case c.NArg() != 1:
				return usagef("want one shell: %s", c.Command.ArgsUsage)
			case i < 0:
				return failure.WithHint(usagef("no completions for %s: want one of %s", shell, c.Command.ArgsUsage), suggest.Question(shell, forms, "")+"echo $SHELL prints the path of yours")
			case of != plugin && of != initbox:
				return usagef("--for: want %s or %s, got %s", plugin, initbox, of)
			case shell == "kubectl":
				if of != plugin {
					return usagef("--for %s: kubectl completes its plugins only", of)
				}
				_, err := io.WriteString(s.stdout, forKubectl)
				return err
			}
			described, err := s.described(of)
			if err != nil {
				return err
			}
			return described.Write(s.stdout, completion.Shells()[i])
		},
	}
}

// described returns the command line of a program.
func (s *streams) described(of string) (*completion.Program, error) {
	var table bytes.Buffer
	if of == initbox {
		var messages strings.Builder
		if status := command.Run("", []string{initbox, "--list", "--format", "json"}, nil, &table, &messages); status != 0 {
			return nil, fmt.Errorf("describe the command line of initbox: %s", &messages)
		}
	} else if err := json.NewEncoder(&table).Encode(describe(s.subcommands())); err != nil {
		return nil, err
	}
	return completion.Read(of, &table)
}

// What [completion.Read] takes of a subcommand.
type (
	subcommand struct {
		Name, Usage, Arguments string
		Flags                  []flagForm
	}
	flagForm struct {
		Name, Type, Value, Usage string
		Aliases                  []string
	}
)

func describe(commands []*cli.Command) any {
	var all []subcommand
	for _, cmd := range commands {
		described := subcommand{Name: cmd.Name, Usage: cmd.Usage, Arguments: cmd.ArgsUsage}
		for _, f := range append(slices.Clone(cmd.Flags), cli.HelpFlag) {
			form := flagForm{Name: f.Names()[0], Aliases: f.Names()[1:]}
			form.Value, form.Usage = help.Usage(f)
			if _, isSwitch := f.(*cli.BoolFlag); isSwitch {
				form.Type = "bool"
			}
			described.Flags = append(described.Flags, form)
		}
		all = append(all, described)
	}
	return map[string]any{"subcommands": all}
}

// complete prints what may stand in place of the last word, in the form that kubectl reads: the words, and at the end
// what else the shell is to offer.
func (s *streams) complete(words []string) error {
	described, err := s.described(plugin)
	if err != nil {
		return err
	}
	// The directives of github.com/spf13/cobra.
	const withFiles, withoutFiles = 0, 4
	offers, paths := described.Complete(words)
	directive := withoutFiles
	if paths {
		directive = withFiles
	}
	_, err = fmt.Fprintf(s.stdout, "%s\n:%d\n", strings.Join(offers, "\n"), directive)
	return err
}
