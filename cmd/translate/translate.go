// Package translate turns the command lines of other tools into those of initbox. A translation depends on nothing but
// the arguments and the [Environment] that it is given, so it can also be made elsewhere than in the Pod:
//
//	line, err := translate.K8sWaitFor([]string{"job", "migrate"}, env)
//	fmt.Println("initbox wait-for-service" + line.String()) // initbox wait-for-service 'k8s:job/migrate'
//
// Each tool has a file. An error names the flag or variable that cannot be translated, and has a hint where there is
// another way to the same end.
package translate

import (
	"strings"
	"time"

	"initbox/internal/secret"
)

// Environment is what the other tool finds around it.
type Environment struct {
	Lookup   func(variable string) (value string, set bool) // as os.LookupEnv
	ReadFile func(name string) ([]byte, error)
	Exists   func(name string) bool // whether there is a file of that name
}

// get returns the value of a variable, or "".
func (e Environment) get(variable string) string {
	value, _ := e.Lookup(variable)
	return value
}

// Line is a command line of initbox, from the name of the subcommand on.
type Line struct {
	Flags     []Flag
	Arguments []string // the targets of wait-for-service, or URL and DIR of git-clone
	Command   []string // to run after the wait
	Warnings  []string // what the other tool does, and initbox does not

	Timeout   *time.Duration // what --timeout should be, 0 for none; nil if the other tool has no deadline
	ErrorFile string         // of git-sync, which has no flag here
	CallOnce  bool           // of git-sync: a webhook that fails is not called again; no flag, either
	Body      string         // of k8s-sidecar's request, for --webhook-body; it may be secret, so String omits it

	// Of git-sync, without flags: how often a server may refuse the login or the repository, 0 for any number, and how
	// long to wait after that.
	Refusals     int
	RefusalPause time.Duration
}

// Flag is a flag of initbox, without its dashes, and its value.
type Flag struct{ Name, Value string }

// String returns the line as one would type it in a shell, with a space before each word, but without secrets: URLs as
// [secret.Word] returns them, and of the command only the program.
func (l Line) String() string {
	var b strings.Builder
	for _, f := range l.Flags {
		b.WriteString(" --" + f.Name + "=" + quote(secret.Word(f.Value)))
	}
	for _, argument := range l.Arguments {
		b.WriteString(" " + quote(secret.Word(argument)))
	}
	if len(l.Command) > 0 {
		b.WriteString(" -- " + quote(l.Command[0]))
	}
	if len(l.Command) > 1 {
		b.WriteString(" …")
	}
	return b.String()
}

// quote quotes a word for a shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
