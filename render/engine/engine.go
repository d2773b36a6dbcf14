// Package engine defines the interface between render and its template engines: the data that templates see, the limits
// that they have, and their errors. Package gotemplate shows how an engine is used.
package engine

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Engine parses templates that see the same data. Several goroutines may call its methods,
// AddPartial only before the first Parse.
type Engine interface {
	// AddPartial makes a template known to all others, without output of its
	// own: what it defines can be included, and in Jinja itself by its name.
	AddPartial(name, text string) error

	// Parse reads a template, called name in errors. The error is an [*Error].
	Parse(name, text string) (Template, error)
}

// A Template is one that is parsed. It is executed by one goroutine at a time.
type Template interface {
	// Execute writes the template's result to w, and stops at the first error of w, which bounds the output. It fails
	// with an [*Error], with a [*MissingError] that tells all inputs that are missing as far as can be seen, or with
	// the cause of ctx's end, wrapped.
	Execute(ctx context.Context, w io.Writer) error

	// Inputs returns what the template and the partials that it includes read of
	// the data, in the order of the text, as far as the text tells.
	Inputs() []Input

	// Unsteady names the functions in use whose result is another one each time,
	// such as now and randAlphaNum: a file made with them changes at each run.
	Unsteady() []string
}

// Data is what templates see. Nothing in it is changed by a template.
type Data struct {
	Values map[string]any // .Values; in Jinja its keys are top-level names, too
	Env    map[string]any // .Env: environment variables, all strings
	Pod    map[string]any // .Pod: see podinfo
	Files  fs.FS          // .Files: may be nil

	// Resolve looks up the addresses of a host name, for the function resolve. It
	// is nil unless the user has allowed that.
	Resolve func(ctx context.Context, host string) ([]string, error)
}

// Options says how templates are read, and which limits they have.
type Options struct {
	Limits
	MissingZero bool     // what is missing is empty instead of an error, as in Helm
	Compat      string   // another program whose argument orders to take: "" or "dockerize"
	Delims      []string // of Go templates: left and right; nil means {{ and }}
	Vars        []string // of envsubst: the only variables to substitute; nil means all
}

// Limits bounds one execution of a template.
type Limits struct {
	Bytes int64 // of the output, and of each string built on the way
	Depth int   // of templates that include others
	Steps int64 // of loops and calls
}

// DefaultLimits is above what configuration files need, and far below what hangs a Pod.
var DefaultLimits = Limits{Bytes: 64 << 20, Depth: 100, Steps: 10_000_000}

// Position is a place in a template. Line and Column count from 1, Column in bytes; 0 means unknown.
type Position struct {
	File         string
	Line, Column int
}

func (p Position) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Input is something of the data that a template reads.
type Input struct {
	Position
	Name     string // as in a Go template: .Values.db.host, .Env.HOME, or $VAR for envsubst
	Optional bool   // the template has a default
	Why      string // more about what is missing, such as the message of required; may be empty
}

// Error is why a template cannot be parsed or executed. Its text may hold
// values of the data; who prints it removes the secret ones.
type Error struct {
	Position
	Text string
	Fix  string // what to do about it; may be empty
	Err  error  // may be nil
}

func (e *Error) Error() string { return e.Position.String() + ": " + e.Text }
func (e *Error) Unwrap() error { return e.Err }
func (e *Error) Hint() string  { return e.Fix }

// MissingError lists the missing inputs.
type MissingError struct {
	Missing []Input // in the order in which they were missed, each place once
}

func (e *MissingError) Error() string {
	var b strings.Builder
	for i, m := range e.Missing {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s is missing", m.Position, m.Name)
		if m.Why != "" {
			b.WriteString(": " + m.Why)
		}
	}
	return b.String()
}
