// Package completion writes shell completions from the description of a command line that a program prints as JSON. The
// scripts have all of it in them, so completing runs no program.
//
//	program, err := completion.Read(table) // initbox --list --format json
//	err = program.Write(file, completion.Bash)
//
// They complete subcommands, also those after "--", flags, the values of flags (files, directories, enumerations), and
// arguments. A link that is named after a subcommand completes like the subcommand.
package completion

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Program is a program whose subcommands have flags.
type Program struct {
	Name     string    // of the program, as one types it
	Commands []Command // in the order of the help
	start    []string  // what may stand where a subcommand does, besides their names
	topics   []string  // of help, besides the names of the subcommands
	kinds    []kind
}

// kind is a kind of target.
type kind struct {
	schemes  []string
	settings []string // what may stand after "#" in a target, with "=" before a value, a tab, and what it is for
}

// Command is a subcommand.
type Command struct {
	Name      string
	Usage     string // what it is for, in a few words
	Flags     []Flag
	arguments []string // what an argument may be; see values.go
}

// Flag is a flag of a subcommand.
type Flag struct {
	Name     string // without dashes
	Usage    string // what it is for, in a few words
	Short    string // one letter that stands for it after one dash, or ""
	Switch   bool   // it has no value
	Optional bool   // it may be given without its value; with one, it is written --NAME=VALUE
	values   []string
}

// table is what Read needs of the JSON.
type table struct {
	Subcommands []struct {
		Name, Usage, Arguments string
		Flags                  []struct {
			Name, Type, Value, Usage string
			Aliases                  []string
			Optional                 bool
		}
	}
	Kinds []struct {
		Schemes  []string
		Usage    string
		Settings []setting
	}
	Settings []setting
}

type setting struct{ Name, Value, Usage string }

// line returns the setting as it is offered.
func (s setting) line() string {
	if s.Value != "" {
		s.Name += "="
	}
	return s.Name + "\t" + brief(s.Usage)
}

// Read returns the program called name that a table describes, in the form of initbox --list --format json. What is not
// such a table, and a name that a shell would not take as one plain word, is an error.
func Read(name string, r io.Reader) (*Program, error) {
	var t table
	if err := json.NewDecoder(r).Decode(&t); err != nil {
		return nil, fmt.Errorf("read the description of the command line: %w", err)
	}
	if len(t.Subcommands) == 0 {
		return nil, errors.New("read the description of the command line: it has no subcommands")
	}
	names := []string{name}
	p := &Program{Name: name, start: []string{"help", "version", "--help", "--version"}}
	if len(t.Kinds) > 0 {
		p.start = []string{"help", "--list", "--format", "--help", "--version"}
		p.topics = []string{"all", "exit-status", "steps"}
	}
	targets := []string{}
	for _, k := range t.Kinds {
		p.topics = append(p.topics, k.Schemes[0])
		for _, scheme := range k.Schemes {
			targets = append(targets, beginOfTarget(scheme, k.Usage))
		}
		names = append(names, k.Schemes...)
		described := kind{schemes: k.Schemes}
		for _, s := range append(slices.Clone(k.Settings), t.Settings...) {
			described.settings = append(described.settings, s.line())
			names = append(names, s.Name)
		}
		p.kinds = append(p.kinds, described)
	}
	if len(targets) > 0 {
		targets = append(targets, settings)
	}
	for _, s := range t.Subcommands {
		c := Command{Name: s.Name, Usage: brief(s.Usage), arguments: argumentsOf(s.Name, s.Arguments, targets)}
		names = append(names, s.Name)
		for _, f := range s.Flags {
			short := ""
			if len(f.Aliases) > 0 && len(f.Aliases[0]) == 1 {
				short = f.Aliases[0]
				names = append(names, short)
			}
			c.Flags = append(c.Flags, Flag{
				Name: f.Name, Short: short, Usage: brief(f.Usage), Switch: f.Type == "bool", Optional: f.Optional,
				values: valuesOf(s.Name, f.Name, f.Value),
			})
			names = append(names, f.Name)
		}
		p.Commands = append(p.Commands, c)
	}
	for _, name := range names {
		if name == "" || strings.Trim(name, wordCharacters) != "" {
			return nil, fmt.Errorf("read the description of the command line: invalid name %q", name)
		}
	}
	return p, nil
}

// wordCharacters need no quotes in any shell, in patterns either.
const wordCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+."

// Values returns what the value of a flag of a subcommand may be: words, and @files, @directories and the like for what
// only the shell knows. It is empty if there is no such flag, or nothing is known of its value.
func (p *Program) Values(command, flag string) []string {
	for _, c := range p.Commands {
		for _, f := range c.Flags {
			if c.Name == command && f.Name == flag {
				return slices.Clone(f.values)
			}
		}
	}
	return nil
}

// brief returns the beginning of a usage, which says the most, in one line.
func brief(usage string) string {
	for _, end := range []string{"; ", " (default", ", as in "} {
		usage, _, _ = strings.Cut(usage, end)
	}
	return strings.Join(strings.Fields(usage), " ")
}
