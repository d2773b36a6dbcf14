package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"initbox/cmd/help"
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
			help.Categories(&text, flags)
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
		if strings.Contains(strings.ToLower(help.Category(f)), word) {
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
	help.Flags(w, app.VisibleFlags())
	fmt.Fprintf(w, "\n%s", exitHelp)
}

// printCommandHelp prints the help on a subcommand; if short, without the settings of targets.
func printCommandHelp(w io.Writer, cmd *cli.Command, short bool) {
	fmt.Fprintf(w, "initbox %s: %s\n\nUsage:\n  initbox %s\n\n%s\n", cmd.Name, cmd.Usage, strings.TrimSpace(cmd.Name+" [FLAGS] "+cmd.ArgsUsage), strings.TrimSpace(cmd.Description))
	help.Categories(w, slices.DeleteFunc(append(slices.Clone(cmd.Flags), cli.HelpFlag), func(f cli.Flag) bool {
		return short && strings.HasPrefix(help.Category(f), categoryTargets)
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
	for _, line := range help.Wrap(k.Usage, help.Width-2) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintf(w, "\nReady:\n")
	for _, line := range help.Wrap(k.Ready, help.Width-2) {
		fmt.Fprintf(w, "  %s\n", line)
	}
	fmt.Fprintf(w, "\nSettings, as flags of wait-for-service or in the fragment of the target:\n")
	help.Flags(w, settingFlags(k))
	for _, s := range target.Common {
		fmt.Fprintf(w, "  %-*s  %s\n", help.NameWidth, "#"+s.Name, s.Usage)
	}
}
