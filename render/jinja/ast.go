package jinja

import "initbox/render/engine"

// What a template says, as a tree. read.go and readexpr.go make its nodes; eval.go and exec.go evaluate them.

type (
	// An expr is an expression.
	expr interface{ eval(f *frame) any }
	// A stmt is a tag, or the text between two.
	stmt interface{ exec(f *frame) flow }
	// A target is what a value is assigned to.
	target interface{ assign(f *frame, v any) }

	position = engine.Position
)

// Expressions.
type (
	constant struct{ v any }
	variable struct {
		at     position
		id     string
		local  bool   // the template sets it itself
		missed string // what it is called in errors
		called bool   // rather than passed on
		fn     *op    // the function of that name; may be nil
	}
	// operation is an operator, a filter, a test, an attribute, a literal list: a value computed from those of its
	// arguments.
	operation struct {
		op
		args []argument
	}
	junction struct { // and, or
		and         bool
		left, right expr
	}
	negation    struct{ of expr }            // not
	conditional struct{ test, yes, no expr } // no may be nil
	comparison  struct {                     // a < b < c
		first expr
		links []link
	}
	link struct {
		op
		right expr
	}
	invocation struct {
		at             position
		callee         expr
		method, missed string // of the callee, if it is a method: its name, and what that is called in errors
		args           []argument
	}
	// captured is the text of a body, as {% set %} and {% filter %} use it.
	captured struct {
		body []stmt
		own  bool // it is kept even where the output of the template is not
	}
	argument struct {
		kind  int
		name  string // of a named one
		value expr
	}
)

// Statements.
type (
	text   string
	output struct { // {{ }}, {% filter %} and {% call %}
		at  position
		of  expr
		tag bool // one of the tags: never escaped
	}
	loopStmt struct {
		at           position
		target       target
		over, filter expr // filter may be nil
		recursive    bool
		body, orElse []stmt
	}
	ifStmt struct {
		branches []branch // if, elif
		orElse   []stmt
	}
	branch struct {
		test expr
		body []stmt
	}
	withStmt struct {
		assignments []assignment
		body        []stmt
	}
	assignment struct {
		at     position
		value  expr // evaluated, and read, before the target is set
		target target
	}
	doStmt     struct{ of expr }
	autoescape struct {
		enabled expr
		body    []stmt
	}
	block struct {
		at               position
		name             string
		scoped, required bool
		body             []stmt
	}
	extends  struct{ reference }
	include  struct{ reference }
	importAs struct {
		reference
		target target
	}
	importFrom struct {
		reference
		names []imported
	}
	imported struct{ name, as string }
	// reference names a template.
	reference struct {
		at       position
		name     expr
		choice   bool // a list of names is allowed: the first that is there is taken
		optional bool // ignore missing
		context  bool // with context
	}
	macroStmt struct {
		at       position
		name     string // "" of a caller
		params   []string
		defaults []expr // of the last params
		body     []stmt
		uses     map[string]bool // of caller, kwargs and varargs those that the body names
	}
)

// Targets.
type (
	nameTarget      string
	attributeTarget struct { // of a namespace
		at   position
		of   expr
		name string
	}
	tupleTarget struct {
		at    position
		items []target
	}
)

// The kinds of arguments.
const (
	argPositional = iota
	argNamed
	argList    // *list
	argMapping // **mapping
)
