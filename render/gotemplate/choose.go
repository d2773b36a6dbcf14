package gotemplate

import (
	"reflect"
	"slices"
	"strings"
	"text/template/parse"

	"initbox/render/engine"
)

// In {{ .Values.a | default .Values.b }}, each may be missing, but not both. So default, coalesce and ternary become
// _choose, which gets a gap for each missing argument, and reports the one that nothing replaces.

// choice rewrites the call of such a function, and returns the ref of its result.
func (r *rewriter) choice(cmd *parse.CommandNode, name string, last ref, optional bool) ref {
	if name == "ternary" {
		last = ref{}
	}
	if r.e.strict {
		r.add(site{pos: int(cmd.Args[0].Position()), function: name, ref: last, optional: optional, resorts: r.resorts[cmd]})
		r.replace(cmd, "_choose")
	}
	return last
}

// choose marks the site of a command whose value is the i-th of n arguments of default and the like.
func (r *rewriter) choose(of, argument *parse.CommandNode, i, n int, optional bool) {
	f, ok := of.Args[0].(*parse.IdentifierNode)
	s := r.siteOf(argument)
	if !ok || s == nil {
		return
	}
	last := lastResort(f.Ident, r.e.options.Compat, n)
	if f.Ident == "required" && i == 1 {
		s.isResort()
	}
	if last == nil || f.Ident == "ternary" && i == 2 {
		return
	}
	s.chosen = true
	if !slices.Contains(last, i) {
		return
	}
	r.resorts[of] = append(r.resorts[of], s)
	if !optional {
		s.isResort()
	}
}

// siteOf returns the site of a command that was just rewritten, if its function can do without a value; or nil.
func (r *rewriter) siteOf(cmd *parse.CommandNode) *site {
	if f, ok := cmd.Args[0].(*parse.IdentifierNode); ok && r.e.strict {
		switch f.Ident {
		case "_chain", "_index", "_env", "_expandenv", "_method", "_choose":
			return r.sites[len(r.sites)-1]
		}
	}
	return nil
}

// isResort marks a site, and those that it chooses from.
func (s *site) isResort() {
	s.resort = true
	for _, last := range s.resorts {
		last.isResort()
	}
}

// lastResort returns which of n arguments of a function that chooses one are not replaced by another one, if they are
// missing.
func lastResort(name, compat string, n int) []int {
	switch {
	case name == "default" && compat == dockerize:
		return []int{1}
	case name == "default":
		return []int{0}
	case name == "coalesce" && n > 0:
		return []int{n - 1}
	case name == "ternary":
		return []int{0, 1}
	}
	return nil
}

// choose is the function _choose: default, coalesce and ternary, where what they choose must be there.
func (w *worker) choose(id int64, args ...any) (any, error) {
	s := w.site(id)
	values := slices.Clone(args)
	for i, arg := range args {
		if _, missing := arg.(gap); missing {
			values[i] = nil
		}
	}
	result, err := callFunction(reflect.ValueOf(w.e.functions()[s.function]), values)
	if err != nil {
		return w.instead(&engine.Error{Position: s.position(), Text: s.function + ": " + strings.TrimPrefix(err.Error(), s.function+": ")})
	}
	if result != nil {
		return result, nil
	}
	for _, i := range lastResort(s.function, w.e.options.Compat, len(args)) {
		if s.function == "ternary" && (i == 0) != (args[2] == true) {
			continue
		}
		if g, missing := args[i].(gap); missing {
			if other := w.name(s); s.function == "default" && s.ref.known && g.absence().input.Name != other {
				g.absence().input.Why = "the default of " + other
			}
			return w.absent(s, g)
		}
	}
	return nil, nil
}

// absent returns a missing value for a site that may do without it, or reports it.
func (w *worker) absent(s *site, g gap) (any, error) {
	switch {
	case s.chosen || w.diagnose && s.optional:
		return g, nil
	case s.optional:
		return nil, nil
	case !w.diagnose:
		return nil, &missError{g.absence().input}
	}
	w.use(g)
	return g, nil
}
