package command

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"initbox/internal/suggest"
	"initbox/waitfor"
	"initbox/waitfor/target"
)

// Topics of the help besides subcommands, kinds of target and sections of flags.
const (
	topicAll        = "all"         // all that wait-for-service takes
	topicExitStatus = "exit-status" // the same for every subcommand
	topicSteps      = "steps"       // likewise
)

// help prints the help on a subcommand, with topics of its own after it, on kinds of target, or on the program.
func (e *env) help(words []string) error {
	switch {
	case len(words) == 0:
		printAppHelp(e.stdout, e.newApp(""))
		return nil
	case words[0] == topicExitStatus || words[0] == "exit":
		_, err := io.WriteString(e.stdout, exitHelp)
		return err
	case words[0] == topicSteps:
		_, err := io.WriteString(e.stdout, stepsHelp)
		return err
	case isSubcommand(words[0]):
		return e.commandHelp(e.newApp(words[0]).Command(words[0]), words[1:])
	case words[0] == topicAll || kindOf(words[0]) != nil:
		return e.commandHelp(e.newApp(waitForServiceName).Command(waitForServiceName), words)
	}
	known := append(commandNames(e.newApp("")), topicExitStatus, topicSteps)
	for _, k := range waitfor.Kinds() {
		known = append(known, k.Schemes...)
	}
	return usagef("no help on %s", words[0]).hint(suggest.Question(words[0], known, "") +
		"the topics are the subcommands, the kinds of target (postgres, http, k8s, …), " + topicExitStatus + " and " + topicSteps)
}

// waitForServiceName is the subcommand whose help is too long to be printed as a whole.
const waitForServiceName = "wait-for-service"

// kindOf returns the kind of target that a word names, which may be a whole target, or nil.
func kindOf(word string) *waitfor.Kind {
	scheme, _, _ := strings.Cut(word, ":")
	return waitfor.KindOf(strings.ToLower(scheme))
}

// commandHelp prints the help on a subcommand or, if there are words, what they name: kinds of its targets, sections of
// its flags, or single flags.
func (e *env) commandHelp(cmd *cli.Command, words []string) error {
	short := cmd.Name == waitForServiceName
	if short && slices.Equal(words, []string{topicAll}) {
		cmd.Description = describeTargets(true)
		short, words = false, nil
	}
	if len(words) == 0 {
		printCommandHelp(e.stdout, cmd, short)
		return nil
	}
	var text strings.Builder
	for _, word := range words {
		kind := kindOf(word)
		flags := flagsAbout(cmd.Flags, word)
		switch {
		case kind != nil && cmd.Name == waitForServiceName:
			printKindHelp(&text, kind)
		case len(flags) > 0:
			printCategories(&text, flags)
		default:
			topics := "the topics are sections of the flags, and flags; "
			if short {
				topics = "the topics are kinds of target (postgres, http, k8s, …), sections of the flags, and flags; "
			}
			return usagef("no help on %s", word).hint(topics + helpHint("initbox "+cmd.Name))
		}
	}
	_, err := fmt.Fprintf(e.stdout, "%s\nThe rest: initbox %s --help\n", strings.TrimLeft(text.String(), "\n"), cmd.Name)
	return err
}

// flagsAbout returns the flag called word, or else those in the categories with word in their names.
func flagsAbout(flags []cli.Flag, word string) []cli.Flag {
	word = strings.ToLower(strings.TrimLeft(word, "-"))
	var found []cli.Flag
	for _, f := range flags {
		if slices.Contains(f.Names(), word) {
			return []cli.Flag{f}
		}
		if strings.Contains(strings.ToLower(orFlags(categoryOf(f))), word) {
			found = append(found, f)
		}
	}
	return found
}

func printAppHelp(w io.Writer, app *cli.App) {
	fmt.Fprintf(w, "%s: %s\n\nUsage:\n  initbox SUBCOMMAND …\n  SUBCOMMAND …          through a link of that name to the binary\n  initbox help TOPIC    a subcommand, a kind of target such as postgres, %s or %s\n\nSubcommands:\n", app.Name, app.Usage, topicExitStatus, topicSteps)
	for _, cmd := range app.VisibleCommands() {
		fmt.Fprintf(w, "  %-18s  %s\n", cmd.Name, cmd.Usage)
	}
	fmt.Fprintf(w, "\nFlags:\n")
	printFlags(w, app.VisibleFlags())
	fmt.Fprintf(w, "\n%s", exitHelp)
}

// printCommandHelp prints the help on a subcommand; if short, without the settings of targets.
func printCommandHelp(w io.Writer, cmd *cli.Command, short bool) {
	fmt.Fprintf(w, "initbox %s: %s\n\nUsage:\n  initbox %s\n\n%s\n", cmd.Name, cmd.Usage, strings.TrimSpace(cmd.Name+" [FLAGS] "+cmd.ArgsUsage), strings.TrimSpace(cmd.Description))
	printCategories(w, slices.DeleteFunc(append(slices.Clone(cmd.Flags), cli.HelpFlag), func(f cli.Flag) bool {
		return short && strings.HasPrefix(categoryOf(f), categoryTargets)
	}))
	if strings.HasSuffix(cmd.ArgsUsage, commandUsage) {
		fmt.Fprintf(w, "\nCOMMAND runs at the end, in place of initbox, or is another subcommand: initbox help %s\n", topicSteps)
	}
	fmt.Fprintf(w, "\n%s", exitHelp)
}

// printKindHelp prints the help on a kind of target.
func printKindHelp(w io.Writer, k *waitfor.Kind) {
	schemes := ""
	if len(k.Schemes) > 1 {
		schemes = " (" + strings.Join(k.Schemes[1:], ", ") + ")"
	}
	fmt.Fprintf(w, "\nTarget %s%s:\n", k.Schemes[0], schemes)
	for _, line := range wrap(k.Usage, helpWidth-2) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintf(w, "\nReady:\n")
	for _, line := range wrap(k.Ready, helpWidth-2) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintf(w, "\nSettings, as flags of wait-for-service or in the fragment of the target:\n")
	printFlags(w, settingFlags(k))
	for _, s := range target.Common {
		fmt.Fprintf(w, "  %-*s  %s\n", nameWidth, "#"+s.Name, s.Usage)
	}
}

// printCategories prints flags under the names of their categories.
func printCategories(w io.Writer, flags []cli.Flag) {
	var categories []string
	byCategory := map[string][]cli.Flag{}
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() {
			continue
		}
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
		switch {
		case valueOptional(f):
			name += "[=" + value + "]"
		case value != "":
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
