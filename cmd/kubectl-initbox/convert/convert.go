// Package convert turns init containers that are shell scripts, or other tools, into containers of initbox that do the
// same. What it does not understand wholly it does not replace, and says which word stopped it.
package convert

import (
	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// Verdict says whether a container is replaced.
type Verdict string

// The verdicts.
const (
	Replaced  Verdict = "replaced"  // it does the same
	Different Verdict = "different" // it does the same but for what [Result.Differs] says
	Kept      Verdict = "kept"      // it is not replaced, for the reason in [Result.Why]
)

// Result is the conversion of a container.
type Result struct {
	Container *manifest.Container
	Verdict   Verdict
	Steps     []Step
	// Why says, in one sentence, why the steps do what the container did or, if it is kept, what stopped the conversion.
	Why string
	// Differs are what is different, one sentence each.
	Differs []string
	// Unused are the commands of the script without which it does the same, such as apk add curl.
	Unused []string
}

// Step is one subcommand of initbox with its command line. Several steps of a container become a chain.
type Step struct {
	Subcommand string
	Flags      []Flag   // in the order in which they are written
	Args       []string // as in args of a container: $(NAME) stands for a variable, and $$( for the text $(
	// Inside says that the step reads files of the original image, so that it must run there: the program is copied into
	// that container by initbox install.
	Inside bool
	// Writes says that the step writes files, whose owner is the user of the container, so that the user must stay what
	// it was; AsRoot that it changes what only root may change.
	Writes, AsRoot bool
	Differs        []string // what the step does differently
	Why            string   // why it does what the command did

	// implied says that initbox would log in, as a variable says, where the command does not, so that it must be left out:
	// a later wait for a login to the same server does it.
	implied bool

	// Of steps that change files, for [settle]:
	settle    func(k *files) ([]Step, error) // the steps instead of this one, once it is known what those before it made
	writes    string                         // the only file that it writes, if it is one whose text may still grow
	appends   func(Step) Step                // adds a text to the step that writes the same file
	instead   string                         // the step that wrote the same file, for which this one stands
	owns      []string                       // directories below which it gives everything an owner
	download  *download                      // that it makes, unless a later step does so elsewhere
	ownerless *ownerless                     // what has another owner, unless a later step owns it
}

// Flag is a flag without its dashes; a switch has no value.
type Flag struct{ Name, Value string }

// A command turns a call that a script makes for its effect into the steps that do the same. It returns an error, a
// [*shell.Error] where one word is to blame, if it is not sure of any part of the call.
type command func(call *shell.Call, c *manifest.Container) ([]Step, error)

// A probe turns a call that a loop repeats until it succeeds into the step that waits for the same.
type probe func(call *shell.Call, c *manifest.Container) (Step, error)

// A comparison turns what a loop compares until it is as wanted into the step that waits for the same.
type comparison func(m *shell.Match, c *manifest.Container) (Step, error)

// A tool turns a container that runs a tool of its own, without a shell, into the steps that do the same. The words are
// the command and args of the container, without the program.
type tool func(words []shell.Word, c *manifest.Container) ([]Step, error)

// The tables. The key of a tool is the last part of its image's path, or the name of its program; the others have the
// name of the program that is called.

func commandOf(name string) (command, bool) {
	for _, table := range []map[string]command{waitCommands, fileCommands, pkiCommands} {
		if f, found := table[name]; found {
			return f, true
		}
	}
	return nil, false
}

func toolOf(name string) (tool, bool) {
	for _, table := range []map[string]tool{waitTools, fileTools} {
		if f, found := table[name]; found {
			return f, true
		}
	}
	return nil, false
}
