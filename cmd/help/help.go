// Package help prints the flags of a command in the form that the help of both programs has, and finds in the errors of
// the flag library what is wrong with a command line.
package help

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// Common is the category of the flags that belong to every command.
const Common = "Common"

// Categories prints flags under the names of their categories.
func Categories(w io.Writer, flags []cli.Flag) {
	var categories []string
	byCategory := map[string][]cli.Flag{}
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
		category := Category(f)
		if byCategory[category] == nil {
			categories = append(categories, category)
		}
		byCategory[category] = append(byCategory[category], f)
	}
	for _, category := range categories {
		fmt.Fprintf(w, "\n%s:\n", strings.Join(Wrap(category, Width-1), "\n"))
		Flags(w, byCategory[category])
	}
}

// Category returns the category of a flag, or Flags.
func Category(f cli.Flag) string {
	if f == cli.HelpFlag {
		return Common // the library's, which has none
	}
	if c, ok := f.(cli.CategorizableFlag); ok && c.GetCategory() != "" {
		return c.GetCategory()
	}
	return "Flags"
}

// Flags prints flags, each with what it is for.
func Flags(w io.Writer, flags []cli.Flag) {
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		value, usage := Usage(f)
		name := "--" + f.Names()[0]
		if names := f.Names(); len(names) > 1 && len(names[1]) == 1 && f != cli.HelpFlag && f != cli.VersionFlag {
			name = "-" + names[1] + ", " + name
		}
		switch {
		case ValueOptional(f):
			name += "[=" + value + "]"
		case value != "":
			name += " " + value
		}
		if def := Default(f); def != "" {
			usage += " (default " + def + ")"
		}
		if env := d.GetEnvVars(); len(env) > 0 {
			usage += " [$" + env[0] + "]"
		}
		if len(name) > NameWidth {
			fmt.Fprintf(w, "  %s\n", name)
			name = ""
		}
		for _, line := range Wrap(usage, Width-NameWidth-4) {
			fmt.Fprintf(w, "  %-*s  %s\n", NameWidth, name, line)
			name = ""
		}
	}
}

// Default returns the value that a flag has if it is not given, or "" for that of its type.
func Default(f cli.Flag) string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok || !d.TakesValue() {
		return ""
	}
	switch def := strings.Trim(d.GetDefaultText(), `"`); def {
	case "0", "0s":
		return ""
	default:
		return def
	}
}

// The columns of the help.
const (
	NameWidth = 24
	Width     = 100
)

// Wrap breaks text between words into lines of at most width characters.
func Wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// Usage returns the form of a flag's value, which is empty for a switch, and what the flag is for.
func Usage(f cli.Flag) (value, usage string) {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return "", ""
	}
	value, usage = unquoteUsage(d.GetUsage())
	if d.TakesValue() && value == "" {
		value = "VALUE"
		if _, ok := f.(*cli.GenericFlag); ok {
			value = "DURATION"
		}
	}
	return value, usage
}

// unquoteUsage takes the form of the value, which stands in back quotes, out of a flag's usage.
func unquoteUsage(usage string) (value, rest string) {
	before, quoted, ok := strings.Cut(usage, "`")
	value, after, closed := strings.Cut(quoted, "`")
	if !ok || !closed {
		return "", usage
	}
	if before == "" && strings.HasPrefix(after, ": ") {
		return value, after[2:]
	}
	return value, before + value + after
}

// WrongValue finds in an error of the library which flag or variable has a wrong value, and returns one in the form of
// our own errors. It returns other errors as they are.
func WrongValue(err error, flags []cli.Flag) error {
	const quoted = `("(?:[^"\\]|\\.)*")`
	text := err.Error()
	if m := regexp.MustCompile(`(?s)^could not parse ` + quoted + ` from environment variable "([^"]+)" as value for flag [^:]+: (.*)$`).FindStringSubmatch(text); m != nil {
		return fmt.Errorf("$%s: %s, got %s", m[2], m[3], m[1])
	}
	m := regexp.MustCompile(`(?s)^invalid (?:boolean )?value ` + quoted + ` for (?:flag )?-([^:]+): (.*)$`).FindStringSubmatch(text)
	if m == nil {
		return err
	}
	value, name, reason := m[1], m[2], m[3]
	for _, f := range flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		switch f.(type) {
		case *cli.IntFlag:
			reason = "want a whole number"
		case *cli.BoolFlag:
			reason = "want true, false or no value"
		}
	}
	return fmt.Errorf("--%s: %s, got %s", name, reason, value)
}

// ValueOptional reports whether a flag is written --NAME or --NAME=VALUE.
func ValueOptional(f cli.Flag) bool {
	generic, ok := f.(*cli.GenericFlag)
	if !ok {
		return false
	}
	optional, ok := generic.Value.(interface{ IsBoolFlag() bool })
	return ok && optional.IsBoolFlag()
}
