package command

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// printHelp writes the help of the program or of a subcommand. It replaces the library's templates.
func printHelp(w io.Writer, _ string, data any) {
	switch data := data.(type) {
	case *cli.Command:
		printCommandHelp(w, data)
	case *cli.App:
		printAppHelp(w, data)
	}
}

func printAppHelp(w io.Writer, app *cli.App) {
	fmt.Fprintf(w, "%s: %s\n\nUsage:\n  initbox SUBCOMMAND …\n  SUBCOMMAND …          through a link of that name to the binary\n\nSubcommands:\n", app.Name, app.Usage)
	for _, cmd := range app.VisibleCommands() {
		fmt.Fprintf(w, "  %-18s  %s\n", cmd.Name, cmd.Usage)
	}
	fmt.Fprintf(w, "\nFlags:\n")
	printFlags(w, app.VisibleFlags())
	fmt.Fprintf(w, "\n%s", exitHelp)
}

func printCommandHelp(w io.Writer, cmd *cli.Command) {
	fmt.Fprintf(w, "initbox %s: %s\n\nUsage:\n  initbox %s\n\n%s\n", cmd.Name, cmd.Usage, strings.TrimSpace(cmd.Name+" [FLAGS] "+cmd.ArgsUsage), strings.TrimSpace(cmd.Description))
	var categories []string
	byCategory := map[string][]cli.Flag{}
	for _, f := range cmd.Flags {
		category := categoryOf(f)
		if byCategory[category] == nil {
			categories = append(categories, category)
		}
		byCategory[category] = append(byCategory[category], f)
	}
	for _, category := range categories {
		fmt.Fprintf(w, "\n%s:\n", strings.Join(wrap(orFlags(category), helpWidth-1), "\n"))
		printFlags(w, byCategory[category])
	}
	fmt.Fprintf(w, "\n%s", exitHelp)
}

func categoryOf(f cli.Flag) string {
	c, ok := f.(cli.CategorizableFlag)
	switch {
	case f == cli.HelpFlag:
		return categoryCommon // the library's, which has none
	case ok:
		return c.GetCategory()
	}
	return ""
}

func orFlags(category string) string {
	if category == "" {
		return "Flags"
	}
	return category
}

func printFlags(w io.Writer, flags []cli.Flag) {
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		value, usage := flagUsage(f)
		name := "--" + f.Names()[0]
		if value != "" {
			name += " " + value
		}
		if def := flagDefault(f); def != "" {
			usage += " (default " + def + ")"
		}
		if env := d.GetEnvVars(); len(env) > 0 {
			usage += " [$" + env[0] + "]"
		}
		if len(name) > nameWidth {
			fmt.Fprintf(w, "  %s\n", name)
			name = ""
		}
		for _, line := range wrap(usage, helpWidth-nameWidth-4) {
			fmt.Fprintf(w, "  %-*s  %s\n", nameWidth, name, line)
			name = ""
		}
	}
}

// flagDefault returns the value that a flag has if it is not given, or "" for that of its type.
func flagDefault(f cli.Flag) string {
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
	nameWidth = 24
	helpWidth = 100
)

// wrap breaks text between words into lines of at most width characters.
func wrap(text string, width int) (lines []string) {
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

// flagUsage returns the form of a flag's value, which is empty for a switch, and what the flag is for.
func flagUsage(f cli.Flag) (value, usage string) {
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
