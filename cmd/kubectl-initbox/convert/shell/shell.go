// Package shell finds out what the scripts of init containers do: which commands run, in which order, what happens when
// one fails, and what each loop waits for. It knows the shell's grammar and the shell's own commands, but neither
// initbox nor what nc or curl do; only in loops over files, it knows cat and keytool.
//
// A construct that is not wholly understood is an error that names the word which stopped it, never a guess.
package shell

import (
	"fmt"
	"strings"
	"time"
)

// Pos is a place in a script; both count from 1.
type Pos struct{ Line, Column int }

// Script is what a script does.
type Script struct {
	Body []Statement // in order
	// Pasted are variables whose values, which are not known, became part of the script's text before the shell read it.
	Pasted []string
}

// Statement is one thing that a script does. Exactly one of Call, Loop and If is not nil.
type Statement struct {
	Call *Call
	Loop *Loop
	If   *If

	// MayFail says that the script asks for its failure to be ignored: || true. Unchecked says that nothing looks at its
	// failure: the script goes on, if perhaps without what depends on it. Otherwise, a failure ends the script with a
	// failure.
	MayFail, Unchecked bool
}

// Pos returns where the statement begins.
func (s Statement) Pos() Pos {
	switch {
	case s.Call != nil:
		return s.Call.Pos
	case s.Loop != nil:
		return s.Loop.Pos
	}
	return s.If.Pos
}

// Call is a simple command.
type Call struct {
	Pos    Pos
	Name   string // of the program, without its directory: nc
	Path   string // as typed: /usr/bin/nc
	Args   []Word
	Set    []Assignment // A=b in front of the command: its environment alone
	Stdin  *Input       // nil if it reads nothing
	Stdout *Output      // nil if it goes to the log
	Stderr *Output      // likewise
	Pipe   *Call        // the command that reads its output; the pipeline ends with its status
	// Pipefail says that the pipeline also fails if this command does.
	Pipefail bool
	// Substituted says that it stands in $( … ) alone: its status counts, unless it prints something, which would be run.
	Substituted bool
	Limit       time.Duration // it is killed, and has failed, after this time (timeout 5 nc …); 0 without
	Dir         Word          // the working directory that cd set before; nil without
	Umask       string        // that umask set before, in octal; "" without
}

// Assignment sets a variable for one command.
type Assignment struct {
	Name  string
	Value Word
}

// Input is what a command reads: a file, or a text (a here-document, or <<<).
type Input struct {
	File Word
	Text Word
}

// Output is where what a command writes goes.
type Output struct {
	File    Word // nil if it is discarded (/dev/null) or joins the other stream
	Append  bool
	Discard bool
}

// Word is an argument after all expansions that the shell makes, except those of the variables that the container has
// and of patterns. Its parts follow one another without a gap.
type Word []Part

// FileText is what the name of a variable begins with that stands for $(cat FILE), and is followed by the path. Its
// value is uncertain, and it may be missing.
const FileText = "cat "

// Joined follows the path if each line break but the last one becomes \n, as in sed ':a;N;$!ba;s/\n/\\n/g' FILE.
const Joined = ` \n`

// Part is a piece of a [Word].
type Part struct {
	Text string // literal
	Env  string // the name of a variable of the container, whose value stands here; then Text is ""
	Glob bool   // Text is a pattern (*, ?, […]) that names files
	// Split says that Env stands without quotes, so that white space in its value would make several words.
	Split bool
	// Default stands here if the variable is unset or empty (${NAME:-DEFAULT}); nil without one.
	Default Word
}

// Literal returns the text of a word that has neither variables nor patterns.
func (w Word) Literal() (text string, ok bool) {
	for _, p := range w {
		if p.Env != "" || p.Glob {
			return "", false
		}
		text += p.Text
	}
	return text, true
}

// String returns the word for messages, as the shell would read it, if without its quotes.
func (w Word) String() string {
	var b strings.Builder
	for _, p := range w {
		switch {
		case p.Env == "":
			b.WriteString(p.Text)
		case strings.HasPrefix(p.Env, FileText):
			b.WriteString("$(" + p.Env + ")")
		case p.Default == nil:
			b.WriteString("$" + p.Env)
		default:
			b.WriteString("${" + p.Env + ":-" + p.Default.String() + "}")
		}
	}
	return b.String()
}

// Loop tries again until its condition holds.
type Loop struct {
	Pos   Pos
	Until Cond
	Pause time.Duration // between two attempts; 0 if it does not sleep
	// Attempts and Timeout are its bounds; 0 without. What happens then is Fails: the script ends with a failure; else it
	// goes on as if the condition held.
	Attempts int
	Timeout  time.Duration
	Fails    bool
	// Aborts says that an attempt that fails ends the script, because of set -e, instead of being followed by another.
	Aborts bool
}

// If runs Then or Else.
type If struct {
	Pos        Pos
	Cond       Cond
	Then, Else []Statement
}

// Cond is a condition: exactly one of its fields is set, but for Not, which negates the others.
type Cond struct {
	Not  bool
	Call *Call  // its status is 0; [ … ] and test are calls, too, with the name test and without the closing bracket
	All  []Cond // &&
	Any  []Cond // ||
	// Match is the output of a command compared with a text: [ "$(curl …)" = 200 ], curl … | grep -q ok.
	Match *Match
}

// Match compares what a command prints. The white space at the end does not count.
type Match struct {
	Call    *Call
	Op      string // = != -eq -ne -gt -ge -lt -le, grep (contains the pattern), grep -F (contains the text), -n, -z
	Pattern Word
}

// Error is what stopped the reading of a script.
type Error struct {
	Pos  Pos
	Word string // the word that was not understood, as it stands in the script
	Why  string // what it is: "a function with arguments", "the value of a command"
}

func (e *Error) Error() string {
	word := e.Word
	if strings.HasSuffix(word, ":") {
		word = `"` + word + `"`
	}
	if e.Pos.Line == 0 {
		return word + ": " + e.Why
	}
	return fmt.Sprintf("line %d: %s: %s", e.Pos.Line, word, e.Why)
}
