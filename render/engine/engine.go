// Package engine defines the interface between render and its template engines: the data that templates see, the limits
// that they have, and their errors. Package gotemplate shows how an engine is used.
package engine

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"initbox/render/format"
)

// Engine parses templates that see the same data. Several goroutines may call its methods,
// AddPartial only before the first Parse.
type Engine interface {
	// AddPartial makes a template available to all others, without output: they can include what it defines, and in
	// Jinja the partial itself, by its name.
	AddPartial(name, text string) error

	// Parse reads a template, called name in errors. The error is an [*Error].
	Parse(name, text string) (Template, error)
}

// A Template is a parsed template. One goroutine at a time may execute it.
type Template interface {
	// Execute writes the template's result to w, and stops at the first error of w, which bounds the output. It fails
	// with an [*Error], with a [*MissingError] that names all missing inputs where possible, or with
	// the cause of ctx's end, wrapped.
	Execute(ctx context.Context, w io.Writer) error

	// Inputs returns what the template and the partials that it includes read of
	// the data, in the order of the text, where they can be found without executing it.
	Inputs() []Input

	// Unsteady returns the names of the functions in use whose results differ from call
	// to call, such as now and randAlphaNum: a file made with them changes at each run.
	Unsteady() []string
}

// Data is what templates see. Nothing in it is changed by a template.
type Data struct {
	Values map[string]any // .Values; in Jinja its keys are top-level names, too
	Tree   *format.Map    // Values with their keys in order and their numbers exact, for Jinja; nil means Values
	Env    map[string]any // .Env: environment variables, all strings
	Pod    map[string]any // .Pod: see podinfo
	Files  fs.FS          // .Files: may be nil

	// Resolve looks up the addresses of a host name, for the function resolve; nil means that templates may not.
	Resolve func(ctx context.Context, host string) ([]string, error)

	// Text is called with each text that becomes a template while another one is executed, as with tpl. May be nil.
	Text func(text string)

	// ResolveSRV looks up SRV records, for the function resolveSRV: maps with host, port, priority and weight, in the
	// order in which clients try them.
	ResolveSRV func(ctx context.Context, name string) ([]any, error)
}

// Field returns where templates find a name that is not a field of the data itself, as in a Go template, or "".
func (d *Data) Field(name string) string {
	_, isValue := d.Values[name]
	_, isVariable := d.Env[name]
	upper := strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == "" && name != ""
	for _, root := range []string{"Values", "Env", "Pod", "Files"} {
		if strings.EqualFold(name, root) {
			return "." + root
		}
	}
	switch {
	case isVariable:
		return ".Env." + name
	case isValue:
		return ".Values." + name
	case upper:
		return ".Env." + name
	}
	return ""
}

// Options says how templates are read, and which limits they have.
type Options struct {
	Limits
	MissingZero bool     // what is missing is empty instead of an error, as in Helm
	Compat      string   // another program whose functions replace those of the same name: "" or "dockerize"
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

// Position is a place in a template. Line and Column count from 1, Column in characters; 0 means unknown.
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

// Error is why a template cannot be parsed or executed. Its text may contain
// values of the data: the caller removes secrets before printing it.
type Error struct {
	Position
	Text     string
	Fix      string // what to do about it; may be empty
	Err      error  // may be nil
	Function string // the name in the template of the function that failed; "" if unknown
}

func (e *Error) Error() string { return e.Position.String() + ": " + e.Text }
func (e *Error) Unwrap() error { return e.Err }
func (e *Error) Hint() string  { return e.Fix }

// MissingError lists the missing inputs.
type MissingError struct {
	Missing []Input // in the order in which they were found, each position once
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
