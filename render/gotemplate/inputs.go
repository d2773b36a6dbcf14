package gotemplate

import (
	"fmt"
	"os"
	"slices"

	"initbox/render/engine"
)

// Inputs walks the sites of the template, and those of the templates that it includes, with what is known of their dot.
func (t *parsed) Inputs() []engine.Input {
	l := &lister{definitions: map[string][]*site{}, seen: map[string]bool{}}
	for _, p := range t.e.partials {
		l.add(p)
	}
	l.add(t.u)
	if t.u.main != nil {
		l.walk(t.u.main.Name, ref{known: true}, t.e.options.Depth)
	}
	return l.found
}

// lister collects inputs.
type lister struct {
	definitions map[string][]*site
	seen        map[string]bool // templates with their dots
	found       []engine.Input
}

func (l *lister) add(u *unit) {
	for name, body := range u.bodies {
		l.definitions[name] = body
	}
}

func (l *lister) walk(name string, dot ref, depth int) {
	const plenty = 10_000 // of templates that call each other in many ways
	key := fmt.Sprintf("%q %v", name, dot)
	if l.seen[key] || depth < 0 || len(l.seen) > plenty {
		return
	}
	l.seen[key] = true
	for _, s := range l.definitions[name] {
		of := s.ref.in(dot)
		if s.reads {
			l.read(s, of)
		}
		if s.calls != "" {
			l.walk(s.calls, of, depth-1)
		}
	}
}

// read adds the input that the site reads.
func (l *lister) read(s *site, of ref) {
	var names []string
	switch s.function {
	case "":
		names = []string{of.name()}
	case "index":
		names = []string{of.child(s.constant...).name()}
	case "jvmHeap", "memMiB", "cpuCount", "ordinal":
		names = s.constant
	case "env":
		names = []string{environment(s.constant[0])}
	case "expandenv":
		os.Expand(s.constant[0], func(name string) string {
			names = append(names, environment(name))
			return ""
		})
	default:
		names = []string{fmt.Sprintf(".Files.%s %q", s.function, s.constant[0])}
	}
	for _, name := range names {
		switch name {
		case "", ".", ".Values", ".Env", ".Pod", ".Files", ".Template", ".Template.Name", ".Template.BasePath":
			continue
		}
		in := engine.Input{Position: s.position(), Name: name, Optional: s.optional && !s.resort}
		if !slices.Contains(l.found, in) {
			l.found = append(l.found, in)
		}
	}
}

// Unsteady checks the template and, if it includes others, all partials.
func (t *parsed) Unsteady() []string {
	names := slices.Clone(t.u.unsteady)
	if t.u.composes {
		for _, p := range t.e.partials {
			names = append(names, p.unsteady...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
